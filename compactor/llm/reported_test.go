package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// asked is what of a request to chat completions these tests look at.
type asked struct {
	MaxTokens           uint64 `json:"max_tokens"`
	MaxCompletionTokens uint64 `json:"max_completion_tokens"`

	size uint64 // of the body, in tokens
}

// provider returns an OpenAI-like server that answers each request by f.
func provider(t *testing.T, c Config, f func(asked) http.HandlerFunc) (*Summarizer, *[]asked) {
	t.Helper()
	var all []asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var q asked
		if err != nil || json.Unmarshal(b, &q) != nil {
			t.Errorf("a request can't be read: %.200s", b)
		}
		q.size = tokens.Approx{}.Text(string(b))
		all = append(all, q)
		f(q)(w, r)
	}))
	t.Cleanup(server.Close)
	c.Provider, c.BaseURL, c.Model = "openai", server.URL+"/v1", "m"
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s, &all
}

// A server that refuses the name under which an answer's length is bounded is
// asked under the other one, once, and from then on at once.
func TestMaxTokensByEitherName(t *testing.T) {
	good := says(200, reply("openai", "TASK: all is well", "stop"))
	s, all := provider(t, Config{}, func(q asked) http.HandlerFunc {
		if q.MaxTokens > 0 { // as o1, o3, o4-mini and gpt-5 say it
			return says(400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`)
		}
		return good
	})
	for range 2 {
		if out, err := s.Summarize(t.Context(), input(1, 100)); err != nil || out.Text != "TASK: all is well" {
			t.Errorf("%+v, %v", out, err)
		}
	}
	sizes := func(all []asked) (out [][2]uint64) {
		for _, q := range all {
			out = append(out, [2]uint64{q.MaxTokens, q.MaxCompletionTokens})
		}
		return out
	}
	if d := cmp.Diff([][2]uint64{{500, 0}, {0, 500}, {0, 500}}, sizes(*all)); d != "" {
		t.Error(d)
	}

	// One that refuses both is asked no third time; another fault is none of the name's.
	for body, calls := range map[string]int{
		`{"error":{"message":"max_tokens and max_completion_tokens are not supported"}}`:                       2,
		`{"error":{"message":"max_tokens must be positive"}}`:                                                  1,
		`{"error":{"message":"Unsupported parameter: 'messages' is not supported with this model."}}`:          1,
		`{"detail":[{"loc":["body","max_tokens"],"msg":"Extra inputs are not permitted","type":"forbidden"}]}`: 2,
	} {
		s, all := provider(t, Config{Retries: -1}, func(asked) http.HandlerFunc { return says(400, body) })
		if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrProvider) || len(*all) != calls {
			t.Errorf("%s: %v after %d requests, want %d", body, err, len(*all), calls)
		}
	}

	// OpenAI's own server takes the newer name.
	session, err := New(Config{Provider: "openai", Model: "gpt-5", Key: key})
	if err != nil || !session.model.(*openAI).newer.Load() {
		t.Errorf("asks api.openai.com under the older name: %v", err)
	}
}

// A model that thinks needs more than its answer: OpenAI's gets it, and so does
// any whose thoughts took all there was.
func TestRoomForThoughts(t *testing.T) {
	session, err := New(Config{Provider: "openai", Model: "gpt-5", Key: key, Window: 40_000})
	if err != nil {
		t.Fatal(err)
	}
	if j, err := session.job(input(1, 100)); err != nil || j.limit != 500+5000 {
		t.Errorf("an answer of gpt-5 may have %d tokens, %v", j.limit, err)
	}

	for name, thoughts := range map[string]string{
		"counted":   `{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":7,"completion_tokens":500,"completion_tokens_details":{"reasoning_tokens":500}}}`,
		"apart":     `{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":"","reasoning_content":"well, hm"}}],"usage":{"prompt_tokens":7,"completion_tokens":500}}`,
		"in a word": `{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":"<think>hm"}}],"usage":{"prompt_tokens":7,"completion_tokens":500}}`,
	} {
		s, all := provider(t, Config{Window: 40_000}, func(q asked) http.HandlerFunc {
			if q.MaxTokens < 4000 {
				return says(200, thoughts)
			}
			return says(200, reply("openai", "TASK: all is well", "stop"))
		})
		for i, want := range []turns.Usage{{InputTokens: 7 + 14, OutputTokens: 503, CacheRead: 4}, {InputTokens: 14, OutputTokens: 3, CacheRead: 4}} {
			out, err := s.Summarize(t.Context(), input(1, 100))
			if err != nil || out.Text != "TASK: all is well" || out.Usage == nil || *out.Usage != want || len(*all) != i+2 {
				t.Errorf("%s: %+v of %v, %v after %d requests", name, out, out.Usage, err, len(*all))
			}
		}
	}

	// What never ends is asked for twice, and no more.
	s, all := provider(t, Config{}, func(asked) http.HandlerFunc {
		return says(200, `{"choices":[{"finish_reason":"length","message":{"content":"<think>hm"}}]}`)
	})
	if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrAnswer) || len(*all) != 2 {
		t.Errorf("%v after %d requests", err, len(*all))
	}
}

// A server with a smaller window than configured is asked in smaller parts, now
// and from then on, and the log tells the operator.
func TestSmallerWindowIsLearned(t *testing.T) {
	for name, body := range map[string]string{
		"llama.cpp": `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":40000,"n_ctx":16384}}`,
		"no number": `{"error":{"message":"secret-words: prompt is too long"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var logs strings.Builder
			s, all := provider(t, Config{Window: 128_000, Logger: slog.New(slog.NewTextHandler(&logs, nil))}, func(q asked) http.HandlerFunc {
				if q.size > 16_384 {
					return says(400, body)
				}
				return says(200, reply("openai", "TASK: all is well", "stop"))
			})
			in := input(40, 8000)
			if out, err := s.Summarize(t.Context(), in); err != nil || out.Text != "TASK: all is well" {
				t.Fatalf("%+v, %v", out, err)
			}
			refused := slices.IndexFunc(*all, func(q asked) bool { return q.size <= 16_384 })
			if window, _, _ := s.reportedLimits.now(); refused < 1 || window > 16_384 || window < 8000 {
				t.Errorf("%d refused, then a window of %d", refused, window)
			}
			if !strings.Contains(logs.String(), "--summarizer-window") || strings.Contains(logs.String(), "secret-words") {
				t.Errorf("logs %q", logs.String())
			}
			first := len(*all)
			if _, err := s.Partial().Summarize(t.Context(), gsvInput(in)); err != nil && !errors.Is(err, ErrAnswer) {
				t.Error(err)
			}
			for _, q := range (*all)[first:] {
				if q.size > 16_384 {
					t.Errorf("%d tokens are sent again", q.size)
				}
			}
		})
	}

	// One that takes nothing is not asked for ever.
	s, all := provider(t, Config{Window: 128_000}, func(asked) http.HandlerFunc { return says(400, `{"error":{"message":"prompt is too long"}}`) })
	if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrProvider) || len(*all) != 6 {
		t.Errorf("%v after %d requests", err, len(*all))
	}
}

// A model whose answers may be shorter than a summary is asked for a shorter one.
func TestSmallerAnswerIsLearned(t *testing.T) {
	s, all := provider(t, Config{Window: 128_000}, func(q asked) http.HandlerFunc {
		if q.MaxTokens > 4096 {
			return says(400, fmt.Sprintf(`{"error":{"message":"max_tokens is too large: %d. This model supports at most 4096 completion tokens."}}`, q.MaxTokens))
		}
		return says(200, reply("openai", "<summary>all is well</summary><memories>\n</memories>", "stop"))
	})
	in := gsvInput(input(2, 8000))
	in.MaxTokens = 8000
	for i, calls := range []int{3, 4} {
		if out, err := s.Summarize(t.Context(), in); err != nil || out.Text != "all is well" || len(*all) != calls {
			t.Errorf("%d: %+v, %v after %d requests", i, out, err, len(*all))
		}
	}
}

func gsvInput(in summary.Input) summary.Input {
	in.Template = "gsv"
	return in
}
