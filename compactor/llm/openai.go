package llm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"nexus/turns"
)

// openAI uses only the library's completion service. The library's client would also
// read keys, headers and a base URL from the environment.
type openAI struct {
	completions openai.ChatCompletionService
	model       string
	newer       atomic.Bool // send max_completion_tokens instead of max_tokens
}

func newOpenAI(c Config) *openAI {
	o := []option.RequestOption{option.WithAPIKey(c.Key), option.WithMaxRetries(c.Retries), option.WithUnsafeAllowHTTP(), option.WithHTTPClient(client())}
	if c.BaseURL != "" {
		o = append(o, option.WithBaseURL(c.BaseURL))
	} else {
		o = append(o, option.WithBaseURL("https://api.openai.com/v1/"))
	}
	m := &openAI{completions: openai.NewChatCompletionService(o...), model: c.Model}
	m.newer.Store(c.BaseURL == "")
	return m
}

func (m *openAI) ask(ctx context.Context, q request) (answer, error) {
	var o []option.RequestOption
	if q.once {
		o = append(o, option.WithMaxRetries(0))
	}
	r, err := m.bounded(ctx, q, m.newer.Load(), o)
	if err != nil {
		return answer{}, err
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
	a.thought = r.Usage.CompletionTokensDetails.ReasoningTokens > 0 || strings.HasPrefix(strings.TrimSpace(a.text), "<think")
	for _, name := range [...]string{"reasoning_content", "reasoning"} { // local servers put the reasoning here
		if f, ok := c.Message.JSON.ExtraFields[name]; ok && len(f.Raw()) > len(`null`) {
			a.thought = true
		}
	}
	return a, nil
}

// bounded sends a request that bounds the answer's length under one of two names.
// OpenAI's models refuse the older one since o1, and most other servers know only
// that. If a server refuses one name, all later requests use the other.
func (m *openAI) bounded(ctx context.Context, q request, newer bool, o []option.RequestOption) (*openai.ChatCompletion, error) {
	for first := true; ; first = false {
		p := openai.ChatCompletionNewParams{Model: m.model, Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(q.system), openai.UserMessage(q.user)}}
		limit, name := openai.Int(int64(q.maxTokens)), "max_tokens"
		if newer {
			p.MaxCompletionTokens, name = limit, "max_completion_tokens"
		} else {
			p.MaxTokens = limit
		}
		r, err := m.completions.New(ctx, p, o...)
		if err == nil {
			return r, nil
		}
		var x *openai.Error
		if !errors.As(err, &x) || x.Response == nil {
			return nil, failed(ctx, 0, nil, "", err)
		}
		body := bodyOf(x.Response)
		if !first || x.StatusCode/100 != 4 || !strings.Contains(body, name) || !notKnown.MatchString(body) {
			return nil, failed(ctx, x.StatusCode, x.Response.Header, body, err)
		}
		newer = !newer
		m.newer.Store(newer)
	}
}

// notKnown matches how servers refuse a parameter.
var notKnown = regexp.MustCompile(`(?i)unsupported|not supported|unrecognized|unknown|unexpected|not permitted|not allowed|extra fields`)

// count returns a provider's count within [0, 2^40].
func count(n int64) uint64 { return uint64(min(max(n, 0), 1<<40)) }
