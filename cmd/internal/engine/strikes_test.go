package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/metrics"
	"nexus/compactor"
	"nexus/compactor/extractive"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
)

// asks is a summarizer that asks a model.
type asks func(context.Context, summary.Input) (summary.Output, error)

func (f asks) Summarize(ctx context.Context, in summary.Input) (summary.Output, error) {
	return f(ctx, in)
}

func asked(f asks) compactor.Tier { return compactor.Tier{Name: "llm", Summarizer: f} }

// untilDue appends to a session until its compaction is due.
func untilDue(t *testing.T, e *Engine, s turns.ID, chars int) {
	t.Helper()
	for i := range 1000 {
		a := add(t, e, s, say(fmt.Sprintf("question %d %s", i, long(chars)), "answer"))
		if a.Compaction.State == "due" {
			return
		}
	}
	t.Fatal("never due")
}

// idle waits until nothing of a session is queued or being made.
func idle(e *Engine, s turns.ID) {
	for e.Compactions.IsPreparing(s) {
		runtime.Gosched()
	}
}

// A model that is down is asked as often in a row as the policy says, at one head
// or at many, and then after a wait, twice as long each time; the agent learns it. What
// succeeds ends that.
func TestFailedCompactionsBackOff(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	now := time.Unix(1_800_000_000, 0)
	var clock atomic.Int64
	e.Reader.Now = func() time.Time { return now.Add(time.Duration(clock.Load())) }
	var calls atomic.Int64
	var up atomic.Bool
	e.Loader.Tiers = []compactor.Tier{asked(func(ctx context.Context, in summary.Input) (summary.Output, error) {
		calls.Add(1)
		if up.Load() {
			return firstWords{}.Summarize(ctx, in)
		}
		return summary.Output{}, errors.New("down")
	})}
	works(t, e)
	s := opened(t, e, alice, "balanced", `{"on_failure":"fail","max_strikes":3}`, turns.Limits{ContextWindow: 64_000})
	untilDue(t, e, s.ID, 900)
	ask := func(n int) {
		t.Helper()
		for range n {
			look(t, e, s.ID)
			idle(e, s.ID)
		}
	}
	ask(20)
	if n := calls.Load(); n != 3 {
		t.Errorf("at one head it is asked %d times, want 3", n)
	}
	for i := range 3 {
		a := add(t, e, s.ID, say(fmt.Sprint("moved on ", i), "yes"))
		if a.Compaction.State != "paused" {
			t.Errorf("the state is %s", a.Compaction.State)
		}
		ask(2)
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("at moved heads it is asked %d times more", n-3)
	}
	for i, wait := range []time.Duration{compactions.MinBackoff, 2 * compactions.MinBackoff, 4 * compactions.MinBackoff} {
		clock.Add(int64(wait - time.Second))
		if ask(2); calls.Load() != int64(3+i) {
			t.Errorf("before %v are over it is asked", wait)
		}
		clock.Add(int64(time.Second))
		if ask(3); calls.Load() != int64(4+i) {
			t.Errorf("after %v it is asked %d times, want once", wait, calls.Load()-int64(3+i))
		}
	}
	up.Store(true)
	clock.Add(int64(compactions.MaxBackoff))
	ask(2)
	if cx := look(t, e, s.ID); cx.Compaction.State != "idle" {
		t.Errorf("it is up: the state is %s after %d tries", cx.Compaction.State, calls.Load())
	}
	if e.Compactions.IsBackedOff(s.ID, s.ID) {
		t.Error("strikes are left")
	}
}

// What a model was paid for a summary that came too late, or that nobody could
// use, is reported and counted; where another try made the compaction, it holds it.
func TestLostSummariesAreCounted(t *testing.T) {
	e := newWorld().Engine(t)
	registry := prometheus.NewRegistry()
	e.Writer.Metrics = metrics.New(registry, e.Reader.Projections, cache.NewBudget(0))
	began, release := make(chan struct{}, 10), make(chan struct{})
	used := turns.Usage{InputTokens: 100_000, OutputTokens: 900}
	e.Loader.Tiers = []compactor.Tier{asked(func(ctx context.Context, in summary.Input) (summary.Output, error) {
		began <- struct{}{}
		<-release
		out, err := firstWords{}.Summarize(ctx, in)
		out.Usage, out.CostMicros = &used, 300_000
		return out, err
	}), {Name: "extractive", Summarizer: extractive.New(extractive.Config{}), Local: true}}
	var mu sync.Mutex
	announced := false
	e.Writer.Notify = func(_, _ string, n api.Notification) {
		mu.Lock()
		defer mu.Unlock()
		announced = announced || n.Kind == "compaction.failed" && strings.Contains(string(n.Detail), `"cost_micros":300000`)
	}
	works(t, e)
	s := opened(t, e, alice, "balanced", `{}`, turns.Limits{ContextWindow: 16_000})
	untilDue(t, e, s.ID, 1500)
	look(t, e, s.ID)
	<-began
	for i := range 40 { // until it does not fit: the extract takes its place
		add(t, e, s.ID, say(fmt.Sprintf("more %d %s", i, long(1500)), "answer"))
		if look(t, e, s.ID).Compacted != nil {
			break
		}
	}
	close(release)
	idle(e, s.ID)
	if n := sumOf(t, registry, "nexus_summarizer_tokens_total"); n != 100_900 {
		t.Errorf("%v tokens are counted, 100,900 were paid for", n)
	}
	if n := sumOf(t, registry, "nexus_summarizer_micro_dollars_total"); n != 300_000 {
		t.Errorf("%v micro-dollars are counted, 300,000 were spent", n)
	}
	kept := false
	for _, k := range must(e.History.ListCompactions(t.Context(), alice, s.ID, api.ListCompactions{}))(t).Turns {
		kept = kept || k.Compaction.CostMicros == 300_000
	}
	mu.Lock()
	defer mu.Unlock()
	if announced == kept {
		t.Errorf("it is told in compaction.failed: %v; it is in a compaction: %v; want one of both", announced, kept)
	}
}

// sumOf returns the sum of a counter over all its labels.
func sumOf(t *testing.T, r *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	for _, f := range must(r.Gather())(t) {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
