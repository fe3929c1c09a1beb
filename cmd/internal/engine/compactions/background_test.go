package compactions_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/metrics"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/turns"
)

// blocked is a summarizer that works until it is released.
type blocked struct{ begun, release chan struct{} }

func (b blocked) Summarize(ctx context.Context, in summary.Input) (summary.Output, error) {
	b.begun <- struct{}{}
	select {
	case <-b.release:
	case <-ctx.Done():
		return summary.Output{}, ctx.Err()
	}
	return enginetest.FirstWords{}.Summarize(ctx, in)
}

// working returns an engine with a worker in the background and a model before the
// tier that asks nobody.
func working(t *testing.T) (*engine.Engine, blocked) {
	t.Helper()
	e := enginetest.NewWorld().Engine(t)
	slow := blocked{make(chan struct{}, 10), make(chan struct{})}
	e.Loader.Tiers = append([]compactor.Tier{{Name: "slow", Summarizer: slow}}, e.Loader.Tiers...)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Compactions.Work(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	for n := 0; n == 0; {
		n, _ = e.Compactions.Jobs()
	}
	return e, slow
}

// dueSession returns a session whose compaction is due, and its head.
func dueSession(t *testing.T, e *engine.Engine) (s, head turns.ID) {
	t.Helper()
	r := api.CreateSession{SessionSettings: api.SessionSettings{Limits: &turns.Limits{ContextWindow: 16_000},
		Policy: &api.Policy{Name: "balanced", Set: turns.Raw(`{"mode":"background"}`)}}}
	made, err := e.Sessions.Create(t.Context(), enginetest.Alice, r, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		answer := turns.TextMessage(turns.Assistant, "answer")
		question := turns.TextMessage(turns.User, fmt.Sprintf("question %d %s", i, enginetest.Text(1500)))
		a, err := e.Sessions.Append(t.Context(), enginetest.Alice, made.ID, api.AppendTurn{Messages: []turns.Message{question}, Response: &answer}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.Compaction.State == "due" {
			return made.ID, a.ID
		}
	}
}

// One agent fills its own share of the queue, and no more.
func TestQueueBoundsTheJobsOfOneAgent(t *testing.T) {
	cm := compactions.WithQueue()
	n := 0
	for range compactions.MaxBackground {
		if !cm.Enqueue(t.Context(), enginetest.Alice, enginetest.ID(t)) {
			break
		}
		n++
	}
	if n != compactions.MaxOfAgent {
		t.Errorf("%d of one agent are taken, want %d", n, compactions.MaxOfAgent)
	}
	if !cm.Enqueue(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, enginetest.ID(t)) {
		t.Error("there is no room for another agent")
	}
}

// A compaction that failed is not tried again until one is asked for. A run that
// is asked for clears the failures, also those at another head.
func TestRequestedRunEndsAPause(t *testing.T) {
	e, slow := working(t)
	s, head := dueSession(t, e)
	e.Compactions.Pause(t.Context(), enginetest.Alice, s, head)
	if got := e.Compactions.DueState(s, head); got != "paused" || e.Compactions.Prepare(t.Context(), enginetest.Alice, s, head) {
		t.Fatalf("%s, want paused, and none made", got)
	}
	go func() { <-slow.begun; close(slow.release) }()
	run, err := e.Compactions.Compact(t.Context(), enginetest.Alice, s, api.RunCompaction{WaitMS: 20_000}, nil)
	if err != nil || run.State != "done" {
		t.Fatalf("%+v, %v", run, err)
	}
	if _, err := e.Sessions.Move(t.Context(), enginetest.Alice, s, api.MoveSession{To: &head}, nil); err != nil {
		t.Fatal(err)
	}
	if got := e.Compactions.DueState(s, head); got != "due" {
		t.Errorf("where the head was: %s, want due", got)
	}
	if v, err := e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}); err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// heldByAppends returns the value of the metric.
func heldByAppends(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "nexus_compactor_held_by_append_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("the metric is not exported")
	return 0
}

// The metric counts: an append that takes the queue's lock, a place in the queue or
// a worker, or makes a compaction, is seen.
func TestResourcesHeldByAnAppendAreCounted(t *testing.T) {
	e, slow := working(t)
	close(slow.release)
	registry := prometheus.NewRegistry()
	e.Writer.Metrics = metrics.New(registry, e.Reader.Projections, cache.NewBudget(0))
	s, _ := dueSession(t, e)
	for name, hold := range map[string]func(context.Context){
		"queue":     func(ctx context.Context) { e.Compactions.Enqueue(ctx, enginetest.Alice, enginetest.ID(t)) },
		"prepare":   func(ctx context.Context) { e.Compactions.Prepare(ctx, enginetest.Alice, enginetest.ID(t), turns.ID{}) },
		"pause":     func(ctx context.Context) { e.Compactions.Pause(ctx, enginetest.Alice, s, enginetest.ID(t)) },
		"requested": func(ctx context.Context) { e.Compactions.FindRun(ctx, s, enginetest.ID(t)) },
		"compact": func(ctx context.Context) {
			_, _ = e.Compactions.Run(ctx, enginetest.Alice, s, compactions.Spec{Trigger: turns.Trigger{Kind: "manual"}})
		},
	} {
		was := heldByAppends(t, registry)
		hold(t.Context())
		if n := heldByAppends(t, registry); n != was {
			t.Errorf("%s: counted where no append is", name)
		}
		hold(request.With(t.Context(), func(r *request.Request) { r.Append = true }))
		if n := heldByAppends(t, registry); n <= was {
			t.Errorf("%s: not counted", name)
		}
	}
}
