package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/internal/engine/cache"
	"nexus/projections"
	"nexus/turns"
)

// Set holds the engine's metrics. A nil Set counts nothing. Safe for concurrent use.
type Set struct {
	events       *prometheus.CounterVec
	conflicts    prometheus.Counter
	appends      prometheus.Histogram
	requests     *prometheus.HistogramVec
	errors       *prometheus.CounterVec
	inFlight     prometheus.Gauge
	accepted     prometheus.Gauge
	acceptedSize prometheus.Gauge
	refused      *prometheus.CounterVec
	compactions  *prometheus.HistogramVec
	heldByAppend prometheus.Counter
	summaries    *prometheus.CounterVec
	cost         *prometheus.CounterVec
	extractions  *prometheus.CounterVec
}

// New registers the metrics with r, those of the projections and the caches
// included.
func New(r prometheus.Registerer, store *projections.Store, caches *cache.Budget) *Set {
	buckets := prometheus.ExponentialBuckets(0.0001, 2, 18)
	m := &Set{
		events:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nexus_events_total", Help: "Events stored by this daemon, by kind."}, []string{"kind"}),
		conflicts:    prometheus.NewCounter(prometheus.CounterOpts{Name: "nexus_append_conflicts_total", Help: "Compare-and-set appends that another writer was faster for; each is decided again."}),
		appends:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "nexus_append_seconds", Help: "Time of turn.append from decode to durable ack.", Buckets: buckets}),
		requests:     prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "nexus_request_seconds", Help: "Time of a request, by verb.", Buckets: buckets}, []string{"verb"}),
		errors:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nexus_errors_total", Help: "Requests answered with an error, by verb and code."}, []string{"verb", "code"}),
		inFlight:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "nexus_requests_in_flight", Help: "Requests being worked on."}),
		compactions:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "nexus_compaction_seconds", Help: "Time of a compaction, by summarizer tier.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"tier"}),
		heldByAppend: prometheus.NewCounter(prometheus.CounterOpts{Name: "nexus_compactor_held_by_append_total", Help: "Times that a turn.append took the compactor's lock, a place in its queue, or made a compaction: 0, or it is a defect."}),
	}
	m.accepted = prometheus.NewGauge(prometheus.GaugeOpts{Name: "nexus_requests_accepted", Help: "Requests that run or wait for their turn."})
	m.acceptedSize = prometheus.NewGauge(prometheus.GaugeOpts{Name: "nexus_requests_accepted_bytes", Help: "Bytes of the requests that run or wait for their turn."})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nexus_requests_refused_total", Help: "Requests answered busy on arrival, by the bound that they were over."}, []string{"bound"})
	m.summaries = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nexus_summarizer_tokens_total", Help: "Tokens that models used for summaries, by whether a compaction holds them (kept) or not (lost), and by direction."}, []string{"outcome", "direction"})
	m.cost = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nexus_summarizer_micro_dollars_total", Help: "What that cost, in millionths of a dollar, where the model's price is known."}, []string{"outcome"})
	m.extractions = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "nexus_memory_extractions_total", Help: "Tries to extract memories from a session that was reset, by outcome: done or failed."}, []string{"outcome"})
	r.MustRegister(m.extractions, m.events, m.conflicts, m.appends, m.requests, m.errors, m.inFlight, m.accepted, m.acceptedSize, m.refused, m.compactions, m.heldByAppend, m.summaries, m.cost,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_projections_position", Help: "Log position that the projections have applied."},
			func() float64 { return float64(store.Applied().Seq) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_chains_set_aside", Help: "Chains that are read-only because an event on them could not be applied."},
			func() float64 { return float64(store.SetAside()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_cache_budget_bytes", Help: "The most bytes that all caches keep together."},
			func() float64 { return float64(caches.Max()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_goroutines", Help: "Goroutines of the process."},
			func() float64 { return float64(runtime.NumGoroutine()) }),
		newCacheSizes(caches))
	return m
}

// Appended counts an event that this daemon stored.
func (m *Set) Appended(k turns.Kind) {
	if m != nil {
		m.events.WithLabelValues(k.String()).Inc()
	}
}

// Conflict counts an append that lost a compare-and-set.
func (m *Set) Conflict() {
	if m != nil {
		m.conflicts.Inc()
	}
}

// ObserveAppend records the time of a turn.append.
func (m *Set) ObserveAppend(d time.Duration) {
	if m != nil {
		m.appends.Observe(d.Seconds())
	}
}

// Compacted records the time of a compaction and the tier that made it.
func (m *Set) Compacted(tier string, d time.Duration) {
	if m != nil {
		m.compactions.WithLabelValues(tier).Observe(d.Seconds())
	}
}

// Summarized counts the tokens and the cost, in millionths of a dollar, of
// summaries. outcome is "kept" or "lost". A nil u counts no tokens.
func (m *Set) Summarized(outcome string, u *turns.Usage, micros uint64) {
	if m == nil || u == nil && micros == 0 {
		return
	}
	if u != nil {
		m.summaries.WithLabelValues(outcome, "in").Add(float64(u.InputTokens))
		m.summaries.WithLabelValues(outcome, "out").Add(float64(u.OutputTokens))
	}
	m.cost.WithLabelValues(outcome).Add(float64(micros))
}

// Extracted counts a try to extract memories at a reset. outcome is "done" or "failed".
func (m *Set) Extracted(outcome string) {
	if m != nil {
		m.extractions.WithLabelValues(outcome).Inc()
	}
}

// HeldByAppend counts a turn.append that took a resource of the compactor.
func (m *Set) HeldByAppend() {
	if m != nil {
		m.heldByAppend.Inc()
	}
}

// Begin counts a request as in flight. The caller calls the returned function once,
// with the error code, or "" if the request succeeded.
func (m *Set) Begin(verb string) func(code string) {
	if m == nil {
		return func(string) {}
	}
	began := time.Now()
	m.inFlight.Inc()
	return func(code string) {
		m.inFlight.Dec()
		m.requests.WithLabelValues(verb).Observe(time.Since(began).Seconds())
		if code != "" {
			m.errors.WithLabelValues(verb, code).Inc()
		}
	}
}

// Accepted records the requests that run or wait, and their bytes.
func (m *Set) Accepted(requests, bytes int) {
	if m != nil {
		m.accepted.Set(float64(requests))
		m.acceptedSize.Set(float64(bytes))
	}
}

// Refused counts a request that was answered busy on its arrival.
func (m *Set) Refused(verb, bound string) {
	if m != nil {
		m.refused.WithLabelValues(bound).Inc()
		m.errors.WithLabelValues(verb, "busy").Inc()
	}
}

// cacheSizes collects the bytes that each cache keeps.
type cacheSizes struct {
	*prometheus.GaugeVec
	budget *cache.Budget
}

// newCacheSizes returns the collector of a budget.
func newCacheSizes(b *cache.Budget) cacheSizes {
	return cacheSizes{prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "nexus_cache_bytes", Help: "Bytes that a cache keeps, by cache."}, []string{"cache"}), b}
}

// Collect implements [prometheus.Collector].
func (c cacheSizes) Collect(ch chan<- prometheus.Metric) {
	for name, n := range c.budget.Sizes() {
		c.WithLabelValues(name).Set(float64(n))
	}
	c.GaugeVec.Collect(ch)
}
