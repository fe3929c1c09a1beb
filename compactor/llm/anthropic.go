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

// claude uses only the library's message service. The library's client would also
// read keys, headers and a base URL from the environment and from profiles.
type claude struct {
	messages anthropic.MessageService
	model    string
}

func newAnthropic(c Config) *claude {
	o := []option.RequestOption{option.WithAPIKey(c.Key), option.WithMaxRetries(c.Retries), option.WithHTTPClient(client()),
		option.WithRequestTimeout(c.Timeout)} // without a timeout, the library refuses long answers that are not streamed
	if c.BaseURL != "" {
		o = append(o, option.WithBaseURL(c.BaseURL))
	} else {
		o = append(o, option.WithBaseURL("https://api.anthropic.com/"))
	}
	return &claude{anthropic.NewMessageService(o...), c.Model}
}

func (m *claude) ask(ctx context.Context, q request) (answer, error) {
	var o []option.RequestOption
	if q.once {
		o = append(o, option.WithMaxRetries(0))
	}
	r, err := m.messages.New(ctx, anthropic.MessageNewParams{
		Model: anthropic.Model(m.model), MaxTokens: int64(q.maxTokens),
		System:   []anthropic.TextBlockParam{{Text: q.system}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(q.user))},
	}, o...)
	if err != nil {
		var x *anthropic.Error
		if errors.As(err, &x) && x.Response != nil {
			return answer{}, failed(ctx, x.StatusCode, x.Response.Header, bodyOf(x.Response), err)
		}
		return answer{}, failed(ctx, 0, nil, "", err)
	}
	cached, written := count(r.Usage.CacheReadInputTokens), count(r.Usage.CacheCreationInputTokens)
	a := answer{usage: turns.Usage{InputTokens: count(r.Usage.InputTokens) + cached + written, OutputTokens: count(r.Usage.OutputTokens),
		CacheRead: cached, CacheCreation: written}}
	if r.StopReason == "refusal" {
		return a, fmt.Errorf("%w: it refuses", ErrAnswer)
	}
	var b strings.Builder
	for _, block := range r.Content {
		switch block.Type {
		case "text":
			b.WriteString(block.Text)
		case "thinking", "redacted_thinking":
			a.thought = true
		}
	}
	a.text, a.cut = b.String(), r.StopReason == "max_tokens"
	return a, nil
}
