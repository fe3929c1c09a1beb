package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"nexus/cmd/nexusd/daemon/engine/cache"
)

// cacheSizes collects what the caches keep.
type cacheSizes struct {
	*prometheus.GaugeVec
	budget *cache.Budget
}

func newCacheSizes(b *cache.Budget) cacheSizes {
	return cacheSizes{prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "nexus_cache_bytes", Help: "Bytes that a cache keeps, by cache."}, []string{"cache"}), b}
}

func (c cacheSizes) Collect(ch chan<- prometheus.Metric) {
	for name, n := range c.budget.Sizes() {
		c.WithLabelValues(name).Set(float64(n))
	}
	c.GaugeVec.Collect(ch)
}
