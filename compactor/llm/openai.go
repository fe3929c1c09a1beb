package llm

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"nexus/turns"
)

type openAI struct {
	client openai.Client
	model  string
}

func newOpenAI(c Config) *openAI {
	o := []option.RequestOption{option.WithAPIKey(c.Key), option.WithMaxRetries(c.Retries), option.WithUnsafeAllowHTTP()}
	if c.BaseURL != "" {
		o = append(o, option.WithBaseURL(c.BaseURL))
	} else {
		o = append(o, option.WithBaseURL("https://api.openai.com/v1/"))
	}
	return &openAI{openai.NewClient(o...), c.Model}
}

func (m *openAI) ask(ctx context.Context, system, user string, maxTokens uint64) (answer, error) {
	r, err := m.client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    m.model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(system), openai.UserMessage(user)},
		// The older name: every server that speaks this knows it.
		MaxTokens: openai.Int(int64(maxTokens)),
	})
	if err != nil {
		var x *openai.Error
		if errors.As(err, &x) {
			return answer{}, failed(ctx, x.StatusCode, err)
		}
		return answer{}, failed(ctx, 0, err)
	}
	a := answer{usage: turns.Usage{InputTokens: count(r.Usage.PromptTokens), OutputTokens: count(r.Usage.CompletionTokens), CacheRead: count(r.Usage.PromptTokensDetails.CachedTokens)}}
	if len(r.Choices) == 0 {
		return a, fmt.Errorf("%w: there is none in the reply", ErrAnswer)
	}
	c := r.Choices[0]
	if c.Message.Refusal != "" || c.FinishReason == "content_filter" {
		return a, fmt.Errorf("%w: it refuses", ErrAnswer)
	}
	a.text, a.cut = c.Message.Content, c.FinishReason == "length"
	return a, nil
}

// count is a count of tokens; a provider's negative is none.
func count(n int64) uint64 { return uint64(max(n, 0)) }
