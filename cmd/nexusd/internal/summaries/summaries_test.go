package summaries

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/provider"
	"nexus/compactor/llm"
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

// clock is a time that passes only while something waits for it.
type clock struct {
	now    time.Time
	waited []time.Duration
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) Wait(ctx context.Context, d time.Duration) error {
	c.waited = append(c.waited, d)
	c.now = c.now.Add(d)
	return ctx.Err()
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
func serve(t *testing.T, provider string, script ...http.HandlerFunc) (*llm.Summarizer, *atomic.Int32) {
	t.Helper()
	return serveAs(t, provider, llm.Config{Timeout: 3 * time.Second, Window: 4000}, script...)
}

func serveAs(t *testing.T, provider string, c llm.Config, script ...http.HandlerFunc) (*llm.Summarizer, *atomic.Int32) {
	t.Helper()
	n := new(atomic.Int32)
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
	c.Asks, c.Model = asks(t, provider, server.URL, "m"), "m"
	s, err := llm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s, n
}

// asks returns a model of a server.
func asks(t *testing.T, kind, url, model string) Asker {
	t.Helper()
	set, err := provider.New([]provider.Row{{Name: "p", Kind: kind, URL: url + "/v1", KeyEnv: "KEY", Models: []any{"*"}}}, provider.Options{Getenv: func(string) string { return key }})
	if err != nil {
		t.Fatal(err)
	}
	client, upstream, ok := set.In("p", model)
	if !ok {
		t.Fatal("no model")
	}
	return Asker{client, upstream}
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
	for _, provider := range []string{"openai-chat", "anthropic"} {
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
			"always 500":       {[]http.HandlerFunc{says(500, "secret-words "+key)}, llm.ErrProvider, 3},
			"401":              {[]http.HandlerFunc{says(401, `{"error":{"message":"bad key `+key+`"}}`)}, llm.ErrProvider, 1},
			"key in a header":  {[]http.HandlerFunc{echo(403)}, llm.ErrProvider, 1},
			"all echoed":       {[]http.HandlerFunc{echo(400)}, llm.ErrProvider, 1},
			"all echoed as OK": {[]http.HandlerFunc{echo(200)}, nil, 0},
			"always reset":     {[]http.HandlerFunc{reset}, llm.ErrProvider, 3},
			"half an answer":   {[]http.HandlerFunc{says(200, reply(provider, "TASK: secret-words", stop(provider))[:60])}, llm.ErrProvider, 0},
			"not UTF-8":        {[]http.HandlerFunc{says(200, strings.Replace(reply(provider, "TASK: secret-words", stop(provider)), "TASK", "\xff\xfe", 1))}, nil, 0},
			"slow drip":        {[]http.HandlerFunc{drip}, llm.ErrProvider, 0},
			"malformed":        {[]http.HandlerFunc{says(200, `{"choices": secret-words`)}, llm.ErrProvider, 0},
			"not JSON":         {[]http.HandlerFunc{says(200, `<html>secret-words</html>`)}, nil, 0},
			"empty":            {[]http.HandlerFunc{says(200, reply(provider, " \n", stop(provider)))}, llm.ErrAnswer, 1},
			"no answer":        {[]http.HandlerFunc{says(200, `{}`)}, nil, 0},
			"cut":              {[]http.HandlerFunc{says(200, reply(provider, "TASK: al", map[string]string{"openai-chat": "length", "anthropic": "max_tokens"}[provider]))}, llm.ErrAnswer, 1},
			"refusal":          {[]http.HandlerFunc{says(200, reply(provider, "no", map[string]string{"openai-chat": "content_filter", "anthropic": "refusal"}[provider]))}, llm.ErrAnswer, 1},
			"longer":           {[]http.HandlerFunc{says(200, reply(provider, strings.Repeat("words ", 5000), stop(provider)))}, llm.ErrAnswer, 1},
		} {
			t.Run(provider+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, calls := serve(t, provider, tc.script...)
				out, err := s.Summarize(t.Context(), input(3, 400))
				switch name {
				case "not JSON", "all echoed as OK", "not UTF-8", "no answer": // the dialects differ in where they refuse it
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
					reports := errors.Is(err, llm.ErrAnswer) && name != "no answer" && name != "not JSON" && name != "all echoed as OK"
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

func TestCanceled(t *testing.T) {
	s, _ := serve(t, "openai-chat", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := s.Summarize(ctx, input(1, 100)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

// The caller's deadline is returned as that, not as the provider's fault.
func TestDeadline(t *testing.T) {
	s, _ := serve(t, "openai-chat", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Summarize(ctx, input(1, 100)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

// A redirect is not followed: neither the key nor the content goes elsewhere.
func TestRedirect(t *testing.T) {
	for _, provider := range []string{"openai-chat", "anthropic"} {
		for _, status := range []int{301, 302, 307, 308} {
			var reached atomic.Int32
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached.Add(1)
				says(200, reply(provider, "TASK: taken over", stop(provider)))(w, r)
			}))
			defer other.Close()
			s, _ := serveAs(t, provider, llm.Config{Wait: newClock().Wait}, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, other.URL+r.URL.Path, status)
			})
			in := input(1, 100)
			in.Style = &summary.Style{Retries: []time.Duration{}}
			out, err := s.Summarize(t.Context(), in)
			if !errors.Is(err, llm.ErrProvider) || out.Text != "" || reached.Load() > 0 || strings.Contains(err.Error(), key) {
				t.Errorf("%s, %d: %+v, %v, the other server was asked %d times", provider, status, out, err, reached.Load())
			}
		}
	}
}

// An answer without end is given up, before it fills the memory.
func TestEndlessAnswer(t *testing.T) {
	for _, provider := range []string{"openai-chat", "anthropic"} {
		var sent atomic.Int64
		s, _ := serveAs(t, provider, llm.Config{Timeout: time.Minute}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			piece := []byte(`{"id":"` + strings.Repeat("x", 1<<20))
			for {
				n, err := w.Write(piece)
				if sent.Add(int64(n)); err != nil || sent.Load() > 20*(16<<20) {
					return
				}
			}
		})
		in := input(1, 100)
		in.Style = &summary.Style{Retries: []time.Duration{}}
		if _, err := s.Summarize(t.Context(), in); !errors.Is(err, llm.ErrProvider) || sent.Load() > 4*(16<<20) {
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
	for _, provider := range []string{"openai-chat", "anthropic"} {
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
	s, err := llm.New(llm.Config{Asks: asks(t, "anthropic", server.URL, haiku), Model: haiku})
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

// GSV-5: Both blocks of GSV's answer come through both dialects.
func TestBothBlocksComeThroughBothDialects(t *testing.T) {
	for _, provider := range []string{"openai-chat", "anthropic"} {
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

// WOL-9: tries after 1, 2, 4, 8 and 16 s, and no more; the client's own are off.
func TestRetriesWaitAsTheDesignSays(t *testing.T) {
	for _, provider := range []string{"openai-chat", "anthropic"} {
		good := says(200, reply(provider, "TASK: all is well", stop(provider)))
		answers := func(h http.Header, status int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range h {
					w.Header()[k] = v
				}
				w.WriteHeader(status)
			}
		}
		seconds := func(s ...int) (out []time.Duration) {
			for _, n := range s {
				out = append(out, time.Duration(n)*time.Second)
			}
			return out
		}
		for name, tc := range map[string]struct {
			script []http.HandlerFunc
			waited []time.Duration
			want   error
			calls  int32
		}{
			"at once":                 {[]http.HandlerFunc{good}, nil, nil, 1},
			"third time":              {[]http.HandlerFunc{answers(nil, 500), answers(nil, 429), good}, seconds(1, 2), nil, 3},
			"never":                   {[]http.HandlerFunc{answers(nil, 503)}, seconds(1, 2, 4, 8, 16), llm.ErrProvider, 6},
			"connection":              {[]http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, good}, seconds(1), nil, 2},
			"malformed":               {[]http.HandlerFunc{says(200, `{"choices": secret-words`), good}, seconds(1), nil, 2},
			"bad request":             {[]http.HandlerFunc{answers(nil, 400)}, nil, llm.ErrProvider, 1},
			"Retry-After":             {[]http.HandlerFunc{answers(http.Header{"Retry-After": {"7"}}, 429), good}, seconds(7), nil, 2},
			"a shorter one":           {[]http.HandlerFunc{answers(http.Header{"Retry-After": {"0"}}, 429), good}, seconds(1), nil, 2},
			"a date that is too late": {[]http.HandlerFunc{answers(http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}, 429), good}, nil, llm.ErrProvider, 1},
			"too long":                {[]http.HandlerFunc{answers(http.Header{"Retry-After": {"3600"}}, 429), good}, nil, llm.ErrProvider, 1},
			"should not retry":        {[]http.HandlerFunc{answers(http.Header{"X-Should-Retry": {"false"}}, 500), good}, nil, llm.ErrProvider, 1},
			"should retry":            {[]http.HandlerFunc{answers(http.Header{"X-Should-Retry": {"true"}}, 400), good}, seconds(1), nil, 2},
			"no summary":              {[]http.HandlerFunc{says(200, reply(provider, "", stop(provider)))}, nil, llm.ErrAnswer, 1},
		} {
			t.Run(provider+"/"+name, func(t *testing.T) {
				c := newClock()
				s, calls := serveAs(t, provider, llm.Config{Now: c.Now, Wait: c.Wait, Timeout: 2 * time.Minute, Window: 4000}, tc.script...)
				in := input(1, 100)
				in.Template = "wolffish"
				out, err := s.Summarize(t.Context(), in)
				if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				if calls.Load() != tc.calls || !slices.Equal(c.waited, tc.waited) {
					t.Errorf("%d requests after %v, want %d after %v", calls.Load(), c.waited, tc.calls, tc.waited)
				}
				if err == nil && (out.Text != "TASK: all is well" || out.Usage.OutputTokens != 3) {
					t.Errorf("%+v", out)
				}
			})
		}
	}
}

// A context that ends while a try is waited for ends the summary.
// asked is what of a request to chat completions these tests look at.
type asked struct {
	MaxTokens           uint64 `json:"max_tokens"`
	MaxCompletionTokens uint64 `json:"max_completion_tokens"`

	size uint64 // of the body, in tokens
}

// server returns an OpenAI-like server that answers each request by f.
func server(t *testing.T, c llm.Config, f func(asked) http.HandlerFunc) (*llm.Summarizer, *[]asked) {
	t.Helper()
	var all []asked
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var q asked
		if err != nil || json.Unmarshal(b, &q) != nil {
			t.Errorf("a request can't be read: %.200s", b)
		}
		q.size = tokens.Approx{}.Text(string(b))
		all = append(all, q)
		f(q)(w, r)
	}))
	t.Cleanup(hs.Close)
	c.Asks, c.Model = asks(t, "openai-chat", hs.URL, "m"), "m"
	s, err := llm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s, &all
}

// A server that refuses the name under which an answer's length is bounded is
// asked under the other one, once, and from then on at once.
func TestMaxTokensByEitherName(t *testing.T) {
	good := says(200, reply("openai-chat", "TASK: all is well", "stop"))
	s, all := server(t, llm.Config{}, func(q asked) http.HandlerFunc {
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
		s, all := server(t, llm.Config{Retries: -1}, func(asked) http.HandlerFunc { return says(400, body) })
		if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, llm.ErrProvider) || len(*all) != calls {
			t.Errorf("%s: %v after %d requests, want %d", body, err, len(*all), calls)
		}
	}
}

// A model whose answers may be shorter than a summary is asked for a shorter one.
func TestSmallerAnswerIsLearned(t *testing.T) {
	s, all := server(t, llm.Config{Window: 128_000}, func(q asked) http.HandlerFunc {
		if q.MaxTokens > 4096 {
			return says(400, fmt.Sprintf(`{"error":{"message":"max_tokens is too large: %d. This model supports at most 4096 completion tokens."}}`, q.MaxTokens))
		}
		return says(200, reply("openai-chat", "<summary>all is well</summary><memories>\n</memories>", "stop"))
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
