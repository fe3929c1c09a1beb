package llm

import (
	"context"
	"errors"
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

func TestRetryCanceled(t *testing.T) {
	s, _ := scripted(t, Config{}, func(int, Request) (Answer, error) {
		return Answer{}, &Fault{Text: "status 500", Retry: true}
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

// Over the day's limit nothing is asked; the next day begins at nothing. The
// partial tier spends from the same limit.
func TestSpendLimit(t *testing.T) {
	c := newClock()
	price := tokens.Price{Input: 1_000_000, Output: 1_000_000}
	s, asked := scripted(t, Config{Price: price, Spend: NewSpend(20), Now: c.Now}, blocks) // 11 micro-dollars a request
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

	if _, err := New(Config{Asks: modelFunc(nil), Model: "m", Spend: NewSpend(1)}); !errors.Is(err, ErrConfig) {
		t.Errorf("a limit without a price: %v", err)
	}
}

// Models that share a limit spend from it together, each at its own price.
func TestModelsShareALimit(t *testing.T) {
	spend := NewSpend(40)
	large, asked := scripted(t, Config{Model: "large", Price: tokens.Price{Input: 3_000_000}, Spend: spend}, plain)
	small, _ := scripted(t, Config{Model: "small", Price: tokens.Price{Input: 1_000_000}, Spend: spend}, plain)
	for _, tc := range []struct {
		s    *Summarizer
		cost uint64
	}{{large, 30}, {small, 10}} {
		out, err := tc.s.Summarize(t.Context(), input(1, 100))
		if err != nil || out.Tier != Tier || out.Model != tc.s.Model() || out.CostMicros != tc.cost {
			t.Errorf("%+v, %v; want a cost of %d", out, err, tc.cost)
		}
	}
	for _, s := range []*Summarizer{large, small} {
		if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrSpend) {
			t.Errorf("%s over the limit: %v", s.Model(), err)
		}
	}
	if len(*asked) != 1 {
		t.Errorf("%d requests", len(*asked))
	}
}

// Where no style says when, a fault that may pass is tried again after half a second and a second.
func TestRetriesWithoutAStyle(t *testing.T) {
	for retries, want := range map[int][]time.Duration{0: {time.Second / 2, time.Second}, -1: nil, 1: {time.Second / 2}} {
		c := newClock()
		s, asked := scripted(t, Config{Retries: retries, Now: c.Now, Wait: c.Wait}, func(int, Request) (Answer, error) { return Answer{}, &Fault{Text: "status 500", Retry: true} })
		if _, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrProvider) || !slices.Equal(c.waited, want) || len(*asked) != len(want)+1 {
			t.Errorf("%d: %v after %v and %d requests, want %v", retries, err, c.waited, len(*asked), want)
		}
	}
}

// The limit holds within one summary too, and what was spent by then is reported.
func TestSpendLimitWithinASummary(t *testing.T) {
	s, asked := scripted(t, Config{Price: tokens.Price{Input: 1_000_000}, Spend: NewSpend(20), Window: 4000}, plain)
	out, err := s.Summarize(t.Context(), input(30, 900))
	if !errors.Is(err, ErrSpend) || len(*asked) != 2 || out.CostMicros != 20 || out.Usage.InputTokens != 20 || out.Text != "" {
		t.Errorf("%+v, %v after %d requests", out, err, len(*asked))
	}
}

// An answer without usage costs what the counter estimates, and reports none.
func TestCostWithoutUsage(t *testing.T) {
	s, asked := scripted(t, Config{Price: tokens.Price{Input: 1_000_000}}, func(int, Request) (Answer, error) { return Answer{Text: "short"}, nil })
	out, err := s.Summarize(t.Context(), input(1, 100))
	r := (*asked)[0]
	if want := s.counter.Text(r.System) + s.counter.Text(r.User); err != nil || out.Usage != nil || out.CostMicros != want {
		t.Errorf("%+v, %v, want a cost of %d", out, err, want)
	}
}

// An answer that is none has its price too.
func TestCostOfNoSummary(t *testing.T) {
	s, _ := scripted(t, Config{Price: tokens.Price{Input: 1_000_000}}, func(int, Request) (Answer, error) {
		return Answer{Usage: turns.Usage{InputTokens: 5}}, ErrAnswer
	})
	if out, err := s.Summarize(t.Context(), input(1, 100)); !errors.Is(err, ErrAnswer) || out.CostMicros != 5 || out.Usage.InputTokens != 5 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestStyleIsChecked(t *testing.T) {
	_, err := New(Config{Asks: modelFunc(nil), Model: "m", Style: summary.Style{ChunkRatio: 2}})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "of 2:") {
		t.Errorf("%v", err)
	}
}
