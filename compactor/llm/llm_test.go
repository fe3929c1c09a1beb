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
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

const key = "sk-very-secret-key"

func input(n, size int) summary.Input {
	in := summary.Input{MaxTokens: 500}
	for i := range n {
		m := turns.TextMessage(turns.User, fmt.Sprintf("said %d %s", i, strings.Repeat("secret-words ", size/13)))
		in.Halves = append(in.Halves, summary.HalfTurn{Depth: uint64(i + 1), Half: turns.MessagesHalf, Messages: []turns.Message{m}, Tokens: tokens.Approx{}.Message(&m)})
	}
	return in
}

// reply returns a good answer of each provider.
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

// serve returns a provider that answers by script, the last entry again and again.
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

// echo answers with all that it was sent, header and body.
func echo(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Echo", key)
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"type":%q,"message":%q}}`, key, fmt.Sprint(r.Header, strings.Repeat("secret-words ", 9)))
	}
}

// Scripted faults of both providers: the answer, or an error that says what
// happened and holds neither the key nor the text of a turn.
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
			"key in a header":  {[]http.HandlerFunc{echo(403)}, ErrProvider, 1},
			"all echoed":       {[]http.HandlerFunc{echo(400)}, ErrProvider, 1},
			"all echoed as OK": {[]http.HandlerFunc{echo(200)}, nil, 0},
			"always reset":     {[]http.HandlerFunc{reset}, ErrProvider, 3},
			"half an answer":   {[]http.HandlerFunc{says(200, reply(provider, "TASK: secret-words", stop(provider))[:60])}, ErrProvider, 0},
			"not UTF-8":        {[]http.HandlerFunc{says(200, strings.Replace(reply(provider, "TASK: secret-words", stop(provider)), "TASK", "\xff\xfe", 1))}, nil, 0},
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
				switch name {
				case "not JSON", "all echoed as OK", "not UTF-8": // the libraries differ in where they refuse it
					if err == nil && name != "not UTF-8" {
						t.Error("taken as an answer")
					}
					if err == nil {
						if !utf8.ValidString(out.Text) {
							t.Errorf("%q", out.Text)
						}
						return
					}
				default:
					if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
						t.Errorf("%v, want %v", err, tc.want)
					}
				}
				if tc.calls > 0 && calls.Load() != tc.calls {
					t.Errorf("%d requests, want %d", calls.Load(), tc.calls)
				}
				if err != nil {
					for _, secret := range []string{key, "secret-words"} {
						if strings.Contains(err.Error(), secret) {
							t.Errorf("the error holds %q: %v", secret, err)
						}
						if strings.Contains(fmt.Sprintf("%#v %+v", err, errors.Unwrap(err)), secret) {
							t.Errorf("what the error wraps holds %q", secret)
						}
					}
					reports := errors.Is(err, ErrAnswer) && name != "no answer" && name != "not JSON" && name != "all echoed as OK"
					if reports != (out.Usage != nil) || out.Text != "" {
						t.Errorf("%+v, usage %+v: usage counts on answers that report it, and only there", out, out.Usage)
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
	s.model = modelFunc(func(ctx context.Context, r request) (answer, error) {
		asked = append(asked, r.user)
		return inner.ask(ctx, r)
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

type modelFunc func(context.Context, request) (answer, error)

func (f modelFunc) ask(ctx context.Context, r request) (answer, error) { return f(ctx, r) }

func TestCanceled(t *testing.T) {
	s, _ := serve(t, "openai", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := s.Summarize(ctx, input(1, 100)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

// The caller's deadline is returned as that, not as the provider's fault.
func TestDeadline(t *testing.T) {
	s, _ := serve(t, "openai", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Summarize(ctx, input(1, 100)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

// A redirect is not followed: neither the key nor the content goes elsewhere.
func TestRedirect(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		for _, status := range []int{301, 302, 307, 308} {
			var reached atomic.Int32
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached.Add(1)
				says(200, reply(provider, "TASK: taken over", stop(provider)))(w, r)
			}))
			defer other.Close()
			s, _ := serve(t, provider, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+r.URL.Path, status)
			})
			s.wait = newClock().Wait
			in := input(1, 100)
			in.Style = &summary.Style{Retries: []time.Duration{}}
			out, err := s.Summarize(t.Context(), in)
			if !errors.Is(err, ErrProvider) || out.Text != "" || reached.Load() > 0 || strings.Contains(err.Error(), key) {
				t.Errorf("%s, %d: %+v, %v, the other server was asked %d times", provider, status, out, err, reached.Load())
			}
		}
	}
}

// An answer without end is given up, before it fills the memory.
func TestEndlessAnswer(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		var sent atomic.Int64
		s, _ := serve(t, provider, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			piece := []byte(`{"id":"` + strings.Repeat("x", 1<<20))
			for {
				n, err := w.Write(piece)
				if sent.Add(int64(n)); err != nil || sent.Load() > 20*maxBody {
					return
				}
			}
		})
		s.timeout = time.Minute
		in := input(1, 100)
		in.Style = &summary.Style{Retries: []time.Duration{}}
		if _, err := s.Summarize(t.Context(), in); !errors.Is(err, ErrProvider) || sent.Load() > 4*maxBody {
			t.Errorf("%s: %v after %d MiB", provider, err, sent.Load()>>20)
		}
	}
}

// Nothing that the environment says goes into a request: the configuration is all.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "from-the-environment")
	}
	for _, name := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
		t.Setenv(name, "http://127.0.0.1:1/from-the-environment")
	}
	for _, name := range []string{"ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS"} {
		t.Setenv(name, "X-Other: from-the-environment")
	}
	for _, provider := range []string{"openai", "anthropic"} {
		s, calls := serve(t, provider, func(w http.ResponseWriter, r *http.Request) {
			if got := fmt.Sprint(r.Header, r.URL); strings.Contains(got, "from-the-environment") {
				t.Errorf("%s: %s", provider, got)
			}
			says(200, reply(provider, "TASK: all is well", stop(provider)))(w, r)
		})
		if _, err := s.Summarize(t.Context(), input(1, 100)); err != nil || calls.Load() != 1 {
			t.Errorf("%s: %v, %d requests", provider, err, calls.Load())
		}
	}
}

// S8-18: the request names the configured model and nothing else; what the
// session's own model is, a summarizer never learns. The request names the length of
// the answer too.
func TestCompactUsesHaikuModel(t *testing.T) {
	const haiku = "claude-haiku-4-5-20251001"
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		says(200, reply("anthropic", "- decided", "end_turn"))(w, r)
	}))
	defer server.Close()
	s, err := New(Config{Provider: "anthropic", BaseURL: server.URL, Model: haiku})
	if err != nil {
		t.Fatal(err)
	}
	in := input(2, 100)
	in.Template = "spec-008"
	out, err := s.Summarize(t.Context(), in)
	if err != nil || out.Text != "- decided" {
		t.Fatalf("%+v, %v", out, err)
	}
	if strings.Count(body, `"model":`) != 1 || !strings.Contains(body, `"model":"`+haiku+`"`) || !strings.Contains(body, `"max_tokens":500`) {
		t.Errorf("%s", body)
	}

	// An answer of any length may be asked for in one piece.
	in.MaxTokens = 60_000
	if _, err := s.Summarize(t.Context(), in); err != nil {
		t.Errorf("a long summary: %v", err)
	}
}

// GSV-5: Both blocks of GSV's answer come through both libraries.
func TestBothBlocksComeThroughBothLibraries(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
		s, _ := serve(t, provider, says(200, reply(provider, "<summary>It went on.</summary>\n<memories>\n- Uses pnpm.\n</memories>", stop(provider))))
		in := input(1, 100)
		in.Template = "gsv"
		out, err := s.Summarize(t.Context(), in)
		if err != nil || out.Text != "It went on." || len(out.Memories) != 1 || out.Memories[0].Text != "Uses pnpm." {
			t.Errorf("%s: %+v, %v", provider, out, err)
		}
		s, calls := serve(t, provider, says(200, reply(provider, "<summary>secret-words</summary><summary>obey</summary><memories></memories>", stop(provider))))
		if out, err = s.Summarize(t.Context(), in); !errors.Is(err, summary.ErrRefused) || strings.Contains(err.Error(), "secret") || out.Usage == nil || calls.Load() != 1 {
			t.Errorf("%s: %+v, %v", provider, out, err)
		}
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
