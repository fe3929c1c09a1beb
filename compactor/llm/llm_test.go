package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nexus/compactor"
	"nexus/turns"
	"nexus/turns/tokens"
)

const key = "sk-very-secret-key"

func input(n, size int) compactor.Input {
	in := compactor.Input{MaxTokens: 500}
	for i := range n {
		m := turns.TextMessage(turns.User, fmt.Sprintf("said %d %s", i, strings.Repeat("secret-words ", size/13)))
		in.Halves = append(in.Halves, compactor.HalfTurn{Depth: uint64(i + 1), Half: turns.MessagesHalf, Messages: []turns.Message{m}, Tokens: tokens.Approx{}.Message(&m)})
	}
	return in
}

// reply is a good answer of each provider.
func reply(provider, text, stop string) string {
	if provider == "anthropic" {
		return fmt.Sprintf(`{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%q}],"stop_reason":%q,"usage":{"input_tokens":10,"cache_read_input_tokens":4,"output_tokens":3}}`, text, stop)
	}
	return fmt.Sprintf(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":%q,"message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":14,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`, stop, text)
}

func stop(provider string) string {
	if provider == "anthropic" {
		return "end_turn"
	}
	return "stop"
}

// serve is a provider that answers by script, the last entry again and again.
func serve(t *testing.T, provider string, script ...http.HandlerFunc) (*Summarizer, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		b, _ := io.ReadAll(r.Body)
		if got := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key"); !strings.Contains(got, key) {
			t.Errorf("the key did not arrive: %q", got)
		}
		if !strings.Contains(string(b), "said 0") && i == 0 {
			t.Errorf("the content did not arrive: %.300s", b)
		}
		script[min(i, len(script)-1)](w, r)
	}))
	t.Cleanup(server.Close)
	base := server.URL
	if provider == "openai" {
		base += "/v1"
	}
	s, err := New(Config{Provider: provider, BaseURL: base, Model: "m", Key: key, Timeout: 3 * time.Second, Window: 4000})
	if err != nil {
		t.Fatal(err)
	}
	return s, &n
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Scripted faults of both providers: the answer, or an error that says what
// happened and holds neither the key nor what was said.
func TestFaults(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		good := says(200, reply(provider, "TASK: all is well", stop(provider)))
		reset := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"id":`)
			panic(http.ErrAbortHandler)
		}
		drip := func(w http.ResponseWriter, r *http.Request) {
			for range 1000 {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
		for name, tc := range map[string]struct {
			script []http.HandlerFunc
			want   error
			calls  int32
		}{
			"good":             {[]http.HandlerFunc{good}, nil, 1},
			"429, then good":   {[]http.HandlerFunc{says(429, `{"error":{"message":"secret-words"}}`), good}, nil, 2},
			"500, then good":   {[]http.HandlerFunc{says(500, "secret-words"), good}, nil, 2},
			"reset, then good": {[]http.HandlerFunc{reset, good}, nil, 0},
			"always 500":       {[]http.HandlerFunc{says(500, "secret-words "+key)}, ErrProvider, 3},
			"401":              {[]http.HandlerFunc{says(401, `{"error":{"message":"bad key `+key+`"}}`)}, ErrProvider, 1},
			"slow drip":        {[]http.HandlerFunc{drip}, ErrProvider, 0},
			"malformed":        {[]http.HandlerFunc{says(200, `{"choices": secret-words`)}, ErrProvider, 0},
			"not JSON":         {[]http.HandlerFunc{says(200, `<html>secret-words</html>`)}, nil, 0},
			"empty":            {[]http.HandlerFunc{says(200, reply(provider, " \n", stop(provider)))}, ErrAnswer, 1},
			"no answer":        {[]http.HandlerFunc{says(200, `{}`)}, ErrAnswer, 1},
			"cut":              {[]http.HandlerFunc{says(200, reply(provider, "TASK: al", map[string]string{"openai": "length", "anthropic": "max_tokens"}[provider]))}, ErrAnswer, 1},
			"refusal":          {[]http.HandlerFunc{says(200, reply(provider, "no", map[string]string{"openai": "content_filter", "anthropic": "refusal"}[provider]))}, ErrAnswer, 1},
			"longer":           {[]http.HandlerFunc{says(200, reply(provider, strings.Repeat("words ", 5000), stop(provider)))}, ErrAnswer, 1},
		} {
			t.Run(provider+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, calls := serve(t, provider, tc.script...)
				out, err := s.Summarize(t.Context(), input(3, 400))
				if name == "not JSON" { // one library refuses the type, the other reads nothing in it
					if err == nil {
						t.Error("taken as an answer")
					}
				} else if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				if tc.calls > 0 && calls.Load() != tc.calls {
					t.Errorf("%d requests, want %d", calls.Load(), tc.calls)
				}
				if err != nil {
					for _, secret := range []string{key, "secret-words"} {
						if strings.Contains(err.Error(), secret) {
							t.Errorf("the error holds %q: %v", secret, err)
						}
					}
					return
				}
				if out.Text != "TASK: all is well" || out.Usage == nil || *out.Usage != (turns.Usage{InputTokens: 14, OutputTokens: 3, CacheRead: 4}) {
					t.Errorf("%+v, usage %+v", out, out.Usage)
				}
			})
		}
	}
}

// What does not fit the window is asked in stretches, each with the summary of
// those before it; no text is left out, but for the end of one that alone is too
// large.
func TestStretches(t *testing.T) {
	var asked []string
	s, _ := serve(t, "openai", func(w http.ResponseWriter, r *http.Request) {
		says(200, reply("openai", fmt.Sprintf("summary %d", len(asked)), "stop"))(w, r)
	})
	inner := s.model
	s.model = modelFunc(func(ctx context.Context, system, user string, n uint64) (answer, error) {
		asked = append(asked, user)
		return inner.ask(ctx, system, user, n)
	})
	in := input(30, 900)
	in.Halves[12] = input(1, 60_000).Halves[0]
	out, err := s.Summarize(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) < 4 || out.Usage.InputTokens != uint64(14*len(asked)) {
		t.Errorf("%d requests, usage %+v", len(asked), out.Usage)
	}
	all := strings.Join(asked, "\n")
	for i := range 30 {
		if i != 12 && !strings.Contains(all, fmt.Sprintf("said %d ", i)) {
			t.Errorf("half %d was never asked about", i)
		}
	}
	for i, a := range asked[1:] {
		if !strings.HasPrefix(a, fmt.Sprintf("<summary>\nsummary %d\n</summary>", i+1)) {
			t.Errorf("stretch %d begins with %.80q", i+2, a)
		}
	}
	for _, a := range asked {
		if n := (tokens.Approx{}).Text(a); n > 4000 {
			t.Errorf("a request of %d tokens for a window of 4000", n)
		}
	}
}

type modelFunc func(context.Context, string, string, uint64) (answer, error)

func (f modelFunc) ask(ctx context.Context, system, user string, n uint64) (answer, error) {
	return f(ctx, system, user, n)
}

func TestCanceled(t *testing.T) {
	s, _ := serve(t, "openai", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := s.Summarize(ctx, input(1, 100)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{Provider: "openai"}, {Provider: "other", Model: "m"}, {Provider: "openai", Model: "m", BaseURL: "ftp://x"},
		{Provider: "openai", Model: "m", Key: key, BaseURL: "http://example.com/v1"}, {Provider: "openai", Model: "m", BaseURL: "://" + key},
	} {
		if _, err := New(c); !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), key) {
			t.Errorf("%+v: %v, want ErrConfig", c, err)
		}
	}
}
