package llm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// clock is a time that passes only while something waits for it.
type clock struct {
	now    time.Time
	waited []time.Duration
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) Wait(ctx context.Context, d time.Duration) error {
	c.waited = append(c.waited, d)
	c.now = c.now.Add(d)
	return ctx.Err()
}

// WOL-9: tries after 1, 2, 4, 8 and 16 s, and no more; the library's own are off.
func TestRetriesWaitAsTheDesignSays(t *testing.T) {
	for _, provider := range []string{"openai", "anthropic"} {
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
			"at once":          {[]http.HandlerFunc{good}, nil, nil, 1},
			"third time":       {[]http.HandlerFunc{answers(nil, 500), answers(nil, 429), good}, seconds(1, 2), nil, 3},
			"never":            {[]http.HandlerFunc{answers(nil, 503)}, seconds(1, 2, 4, 8, 16), ErrProvider, 6},
			"connection":       {[]http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, good}, seconds(1), nil, 2},
			"malformed":        {[]http.HandlerFunc{says(200, `{"choices": secret-words`), good}, seconds(1), nil, 2},
			"bad request":      {[]http.HandlerFunc{answers(nil, 400)}, nil, ErrProvider, 1},
			"Retry-After":      {[]http.HandlerFunc{answers(http.Header{"Retry-After": {"7"}}, 429), good}, seconds(7), nil, 2},
			"a shorter one":    {[]http.HandlerFunc{answers(http.Header{"Retry-After": {"0"}}, 429), good}, seconds(1), nil, 2},
			"a date":           {[]http.HandlerFunc{answers(http.Header{"Retry-After": {"Sat, 21 Nov 2026 23:59:09 GMT"}}, 429), good}, seconds(9), nil, 2},
			"too long":         {[]http.HandlerFunc{answers(http.Header{"Retry-After": {"3600"}}, 429), good}, nil, ErrProvider, 1},
			"should not retry": {[]http.HandlerFunc{answers(http.Header{"X-Should-Retry": {"false"}}, 500), good}, nil, ErrProvider, 1},
			"should retry":     {[]http.HandlerFunc{answers(http.Header{"X-Should-Retry": {"true"}}, 400), good}, seconds(1), nil, 2},
			"no summary":       {[]http.HandlerFunc{says(200, reply(provider, "", stop(provider)))}, nil, ErrAnswer, 1},
		} {
			t.Run(provider+"/"+name, func(t *testing.T) {
				s, calls := serve(t, provider, tc.script...)
				c := newClock()
				s.now, s.wait, s.timeout = c.Now, c.Wait, 2*time.Minute
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
func TestRetryCanceled(t *testing.T) {
	s, _ := scripted(t, Config{}, func(int, request) (answer, error) {
		return answer{}, failed(t.Context(), 500, nil, "", nil)
	})
	ctx, cancel := context.WithCancel(t.Context())
	s.wait = func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }
	in := input(1, 100)
	in.Template = "wolffish"
	if _, err := s.Summarize(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

func TestWait(t *testing.T) {
	if err := wait(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := newClock().now
	for v, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-1": 0, "NaN": 0, "2": 2 * time.Second, "0.5": time.Second / 2, "1e300": math.MaxInt32 * time.Second, "Inf": math.MaxInt32 * time.Second,
		"Sat, 21 Nov 2026 23:58:00 GMT": 0, "Saturday, 21-Nov-26 23:59:30 GMT": 30 * time.Second,
	} {
		if got := retryAfter(v, now); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
}

// Over the day's limit nothing is asked; the next day begins at nothing. The
// partial tier spends from the same limit.
func TestSpendLimit(t *testing.T) {
	c := newClock()
	price := tokens.Price{Input: 1_000_000, Output: 1_000_000}
	s, asked := scripted(t, Config{Price: price, SpendLimit: 20, Now: c.Now}, blocks) // 11 micro-dollars a request
	in := input(1, 100)
	in.Template = "gsv"
	ask := func(s *Summarizer, want error) {
		t.Helper()
		before := len(*asked)
		out, err := s.Summarize(t.Context(), in)
		if !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v, want %v", err, want)
		}
		if n := len(*asked) - before; out.CostMicros != uint64(11*n) || (n == 1) != (err == nil) {
			t.Errorf("%d requests, cost %d", n, out.CostMicros)
		}
	}
	ask(s, nil)
	ask(s.Partial(), nil)
	ask(s, ErrSpend)
	ask(s.Partial(), ErrSpend)
	c.now = c.now.Add(2 * time.Minute)
	ask(s, nil)

	if _, err := New(Config{Provider: "openai", Model: "m", SpendLimit: 1}); !errors.Is(err, ErrConfig) {
		t.Errorf("a limit without a price: %v", err)
	}
}

// Other models of one place have their own name and price, and spend from the same
// limit. A summary says which of them wrote it, and under which name of the place.
func TestOtherModelsOfOnePlace(t *testing.T) {
	var models []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model string `json:"model"`
		}
		b, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(b, &q)
		models = append(models, q.Model+" "+r.Header.Get("X-Api-Key"))
		says(200, `{"type":"message","role":"assistant","content":[{"type":"text","text":"short"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":0}}`)(w, r)
	}))
	defer server.Close()
	large, err := New(Config{Name: "side", Provider: "anthropic", BaseURL: server.URL, Key: "k", Model: "large", Price: tokens.Price{Input: 3_000_000}, SpendLimit: 40})
	if err != nil {
		t.Fatal(err)
	}
	small, err := large.For("small", 9000, tokens.Price{Input: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := large.For("", 0, tokens.Price{}); !errors.Is(err, ErrConfig) || small.Model() != "small" || large.Model() != "large" {
		t.Errorf("without a name: %v; models %s, %s", err, small.Model(), large.Model())
	}
	type made struct {
		tier, model string
		cost        uint64
	}
	var got []made
	for _, s := range []*Summarizer{large, small} {
		out, err := s.Summarize(t.Context(), input(1, 100))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, made{out.Tier, out.Model, out.CostMicros})
	}
	if want := []made{{"side", "large", 30}, {"side", "small", 10}}; !slices.Equal(got, want) || !slices.Equal(models, []string{"large k", "small k"}) {
		t.Errorf("%+v, asked %v", got, models)
	}
	if p := small.Partial(); p.tier != "side-partial" || p.Model() != "small" {
		t.Errorf("partial: %s of %s", p.tier, p.Model())
	}
	for _, s := range []*Summarizer{small, large} { // 40 are spent
		if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrSpend) {
			t.Errorf("%s over the limit: %v", s.Model(), err)
		}
	}
}

// The limit holds within one summary too, and what was spent by then is reported.
func TestSpendLimitWithinASummary(t *testing.T) {
	s, asked := scripted(t, Config{Price: tokens.Price{Input: 1_000_000}, SpendLimit: 20, Window: 4000}, plain)
	out, err := s.Summarize(t.Context(), input(30, 900))
	if !errors.Is(err, ErrSpend) || len(*asked) != 2 || out.CostMicros != 20 || out.Usage.InputTokens != 20 || out.Text != "" {
		t.Errorf("%+v, %v after %d requests", out, err, len(*asked))
	}
}

// An answer without usage costs what the counter estimates, and reports none.
func TestCostWithoutUsage(t *testing.T) {
	s, asked := scripted(t, Config{Price: tokens.Price{Input: 1_000_000}}, func(int, request) (answer, error) { return answer{text: "short"}, nil })
	out, err := s.Summarize(t.Context(), input(1, 100))
	r := (*asked)[0]
	if want := s.counter.Text(r.system) + s.counter.Text(r.user); err != nil || out.Usage != nil || out.CostMicros != want {
		t.Errorf("%+v, %v, want a cost of %d", out, err, want)
	}
}

// An answer that is none has its price too.
func TestCostOfNoSummary(t *testing.T) {
	s, _ := scripted(t, Config{Price: tokens.Price{Input: 1_000_000}}, func(int, request) (answer, error) {
		return answer{usage: turns.Usage{InputTokens: 5}}, ErrAnswer
	})
	if out, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrAnswer) || out.CostMicros != 5 || out.Usage.InputTokens != 5 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestStyleIsChecked(t *testing.T) {
	_, err := New(Config{Provider: "openai", Model: "m", Style: summary.Style{ChunkRatio: 2}})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "of 2:") {
		t.Errorf("%v", err)
	}
}
