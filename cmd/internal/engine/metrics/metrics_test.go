package metrics_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/metrics"
	"nexus/turns"
)

// values returns what a registry shows: counters and gauges by name and labels, and of
// a histogram how many observations it has.
func values(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	out := make(map[string]float64)
	for _, f := range enginetest.Must(r.Gather())(t) {
		if f.GetName() == "nexus_goroutines" { // those of the whole process
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := fmt.Sprintf("%s{%s}", strings.TrimPrefix(f.GetName(), "nexus_"), strings.Join(labels, ","))
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// changes returns what differs from before in a registry, and what it does not show.
func changes(before, after map[string]float64) map[string]float64 {
	out := maps.Clone(after)
	maps.DeleteFunc(out, func(name string, v float64) bool { return before[name] == v })
	return out
}

func TestEachMethodCountsItsMetricAlone(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	r := prometheus.NewRegistry()
	m := metrics.New(r, e.Reader.Projections, cache.NewBudget(0))
	for _, tc := range []struct {
		name string
		call func()
		want map[string]float64
	}{
		{"an event", func() { m.Appended(turns.KindTurn) }, map[string]float64{"events_total{kind=turn}": 1}},
		{"a conflict", m.Conflict, map[string]float64{"append_conflicts_total{}": 1}},
		{"an append", func() { m.ObserveAppend(time.Second) }, map[string]float64{"append_seconds{}": 1}},
		{"a compaction", func() { m.Compacted("llm", time.Second) }, map[string]float64{"compaction_seconds{tier=llm}": 1}},
		{"an append that held the compactor", m.HeldByAppend, map[string]float64{"compactor_held_by_append_total{}": 1}},
		{"a summary with a known price", func() { m.Summarized("kept", &turns.Usage{InputTokens: 7, OutputTokens: 5}, 3) }, map[string]float64{
			"summarizer_tokens_total{direction=in,outcome=kept}": 7, "summarizer_tokens_total{direction=out,outcome=kept}": 5, "summarizer_micro_dollars_total{outcome=kept}": 3}},
		{"a summary with a cost alone", func() { m.Summarized("lost", nil, 2) }, map[string]float64{"summarizer_micro_dollars_total{outcome=lost}": 2}},
		{"a summary without a price", func() { m.Summarized("lost", &turns.Usage{InputTokens: 1, OutputTokens: 4}, 0) }, map[string]float64{
			"summarizer_tokens_total{direction=in,outcome=lost}": 1, "summarizer_tokens_total{direction=out,outcome=lost}": 4}},
		{"a summary that says neither", func() { m.Summarized("kept", nil, 0) }, map[string]float64{}},
		{"a request", func() { m.Begin("turn.get")("") }, map[string]float64{"request_seconds{verb=turn.get}": 1}},
		{"a request that failed", func() { m.Begin("turn.list")("busy") }, map[string]float64{"request_seconds{verb=turn.list}": 1, "errors_total{code=busy,verb=turn.list}": 1}},
	} {
		before := values(t, r)
		tc.call()
		if got := changes(before, values(t, r)); !maps.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestSummaryOfNothingMakesNoSeries(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	r := prometheus.NewRegistry()
	metrics.New(r, e.Reader.Projections, cache.NewBudget(0)).Summarized("lost", nil, 0)
	for name := range values(t, r) {
		if strings.Contains(name, "summarizer") {
			t.Errorf("%s is shown", name)
		}
	}
}

func TestRequestIsInFlightUntilItEnds(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	r := prometheus.NewRegistry()
	m := metrics.New(r, e.Reader.Projections, cache.NewBudget(0))
	var got []float64
	inFlight := func() { got = append(got, values(t, r)["requests_in_flight{}"]) }
	inFlight()
	one := m.Begin("turn.get")
	inFlight()
	two := m.Begin("turn.get")
	inFlight()
	one("")
	inFlight()
	two("internal")
	inFlight()
	if want := []float64{0, 1, 2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("requests in flight: %v, want %v", got, want)
	}
}

func TestGaugesReadTheProjectionsAndTheCaches(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
	last := enginetest.Must(w.Log.State(t.Context()))(t).Last
	if err := e.Reader.Projections.WaitFor(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	caches := cache.NewBudget(1000)
	r := prometheus.NewRegistry()
	metrics.New(r, e.Reader.Projections, caches)
	bodies := cache.New[int, int](caches, "bodies")
	bodies.Put(1, 1, 30)
	bodies.Put(2, 2, 12)
	got := values(t, r)
	want := map[string]float64{"projections_position{}": float64(last), "chains_set_aside{}": 0,
		"cache_budget_bytes{}": 1000, "cache_bytes{cache=bodies}": 42}
	for name, v := range want {
		if x, ok := got[name]; !ok || x != v {
			t.Errorf("%s is %v, %v; want %v", name, x, ok, v)
		}
	}
	bodies.Put(1, 1, 0)
	if x := values(t, r)["cache_bytes{cache=bodies}"]; x != 12 {
		t.Errorf("cache_bytes is %v after a value went, want 12", x)
	}
}

// An engine without a registry has a nil Set.
func TestNilSetCountsNothing(t *testing.T) {
	var m *metrics.Set
	m.Appended(turns.KindTurn)
	m.Conflict()
	m.ObserveAppend(time.Second)
	m.Compacted("llm", time.Second)
	m.Summarized("kept", &turns.Usage{InputTokens: 1}, 1)
	m.HeldByAppend()
	m.Begin("turn.get")("busy")
}

// Every metric is an operator's, so no label may hold what a user chose.
func TestLabelsAreOfTheEngine(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	r := prometheus.NewRegistry()
	m := metrics.New(r, e.Reader.Projections, cache.NewBudget(0))
	m.Appended(turns.KindOpened)
	m.Compacted("llm", 0)
	m.Summarized("kept", &turns.Usage{InputTokens: 1}, 1)
	m.Begin("turn.get")("busy")
	known := []string{"kind", "verb", "code", "tier", "outcome", "direction", "cache"}
	for _, f := range enginetest.Must(r.Gather())(t) {
		for _, x := range f.GetMetric() {
			for _, l := range x.GetLabel() {
				if !slices.Contains(known, l.GetName()) {
					t.Errorf("%s has a label %s", f.GetName(), l.GetName())
				}
			}
		}
	}
}
