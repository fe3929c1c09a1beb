package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"nexus/turns"
)

type claude struct {
	client anthropic.Client
	model  string
}

func newAnthropic(c Config) *claude {
	o := []option.RequestOption{option.WithAPIKey(c.Key), option.WithMaxRetries(c.Retries)}
	if c.BaseURL != "" {
		o = append(o, option.WithBaseURL(c.BaseURL))
	} else {
		o = append(o, option.WithBaseURL("https://api.anthropic.com/"))
	}
	return &claude{anthropic.NewClient(o...), c.Model}
}

func (m *claude) ask(ctx context.Context, system, user string, maxTokens uint64) (answer, error) {
	r, err := m.client.Messages.New(ctx, anthropic.MessageNewParams{
		Model: anthropic.Model(m.model), MaxTokens: int64(maxTokens),
		System:   []anthropic.TextBlockParam{{Text: system}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(user))},
	})
	if err != nil {
		var x *anthropic.Error
		if errors.As(err, &x) {
			return answer{}, failed(ctx, x.StatusCode, err)
		}
		return answer{}, failed(ctx, 0, err)
	}
	cached := count(r.Usage.CacheReadInputTokens)
	a := answer{usage: turns.Usage{InputTokens: count(r.Usage.InputTokens) + cached + count(r.Usage.CacheCreationInputTokens), OutputTokens: count(r.Usage.OutputTokens), CacheRead: cached}}
	if r.StopReason == "refusal" {
		return a, fmt.Errorf("%w: it refuses", ErrAnswer)
	}
	var b strings.Builder
	for _, block := range r.Content {
		if block.Type == "text" {
			b.WriteString(block.Text)
		}
	}
	a.text, a.cut = b.String(), r.StopReason == "max_tokens"
	return a, nil
}
