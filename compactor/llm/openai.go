package llm

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"nexus/turns"
)

// openAI asks through the service alone: the library's client would also take
// keys, headers and a base URL from the environment.
type openAI struct {
	completions openai.ChatCompletionService
	model       string
}

func newOpenAI(c Config) *openAI {
	o := []option.RequestOption{option.WithAPIKey(c.Key), option.WithMaxRetries(c.Retries), option.WithUnsafeAllowHTTP(), option.WithHTTPClient(client())}
	if c.BaseURL != "" {
		o = append(o, option.WithBaseURL(c.BaseURL))
	} else {
		o = append(o, option.WithBaseURL("https://api.openai.com/v1/"))
	}
	return &openAI{openai.NewChatCompletionService(o...), c.Model}
}

func (m *openAI) ask(ctx context.Context, q request) (answer, error) {
	var o []option.RequestOption
	if q.once {
		o = append(o, option.WithMaxRetries(0))
	}
	r, err := m.completions.New(ctx, openai.ChatCompletionNewParams{
		Model:    m.model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(q.system), openai.UserMessage(q.user)},
		// The older name: every server that speaks this knows it.
		MaxTokens: openai.Int(int64(q.maxTokens)),
	}, o...)
	if err != nil {
		var x *openai.Error
		if errors.As(err, &x) && x.Response != nil {
			return answer{}, failed(ctx, x.StatusCode, x.Response.Header, err)
		}
		return answer{}, failed(ctx, 0, nil, err)
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

// count is a count of tokens; a provider's negative is none, and none has more
// than 2^40.
func count(n int64) uint64 { return uint64(min(max(n, 0), 1<<40)) }
