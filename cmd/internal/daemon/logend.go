package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/ledger"
)

// logEnd collects the position of the log's end. It has no value while the log can't
// be read: an old one would hide that the projections fall behind.
type logEnd struct{ log ledger.Log }

var logEndDesc = prometheus.NewDesc("nexus_log_last_position", "Position of the log's newest record; absent while the log can't be read.", nil, nil)

// scrapePatience bounds how long a scrape of the metrics waits for the log.
const scrapePatience = 2 * time.Second

// Describe implements [prometheus.Collector].
func (c *logEnd) Describe(ch chan<- *prometheus.Desc) { ch <- logEndDesc }

// Collect implements [prometheus.Collector].
func (c *logEnd) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	if st, err := c.log.State(ctx); err == nil {
		ch <- prometheus.MustNewConstMetric(logEndDesc, prometheus.GaugeValue, float64(st.Last))
	}
}
