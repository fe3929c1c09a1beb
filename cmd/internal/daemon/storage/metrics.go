package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/ledger"
	"nexus/ledger/jetstream"
)

// Register makes the metrics of what is stored.
func (s *Storage) Register(registry *prometheus.Registry) {
	registry.MustRegister(&logEnd{s.Log})
	s.Outage.Register(registry)
	if s.server == nil {
		registry.MustRegister(&clusterServers{s.Log})
		return
	}
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "nexus_fsyncs_total", Help: "Fsyncs of the log and the blobs; appends that come together share one."},
		func() float64 { return float64(s.Fsyncs()) }))
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "nexus_sessions_without_key", Help: "Sessions that can't be read, since their content key was missing or damaged at the start."},
		func() float64 { return float64(s.unkeyed.Load()) }))
	s.scrubber = newScrubber(registry)
	s.collector = s.newCollector(registry)
}

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

// clusterServers collects how far each server that holds the log is behind.
type clusterServers struct{ log *jetstream.Log }

var behindDesc = prometheus.NewDesc("nexus_cluster_server_behind", "Records of the log that a server of the cluster lacks, as the leader knows; -1: it is offline.", []string{"server"}, nil)

// Describe implements [prometheus.Collector].
func (c *clusterServers) Describe(ch chan<- *prometheus.Desc) { ch <- behindDesc }

// Collect implements [prometheus.Collector].
func (c *clusterServers) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	all, _ := c.log.Servers(ctx)
	for _, s := range all {
		behind := float64(s.Behind)
		if !s.Online {
			behind = -1
		}
		ch <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, behind, s.Name)
	}
}

// Notes are what an operator should know: how many sessions lack their key; on a cluster, which servers are
// away or behind. ledgerctl doctor knows each by how it begins or goes on.
func (s *Storage) Notes() (out []string) {
	if s.server != nil {
		switch n := s.unkeyed.Load(); n {
		case 0:
		case 1:
			out = append(out, "1 session can't be read: its key is missing or damaged")
		default:
			out = append(out, fmt.Sprintf("%d sessions can't be read: their keys are missing or damaged", n))
		}
		return out
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	all, err := s.Log.Servers(ctx)
	if err != nil {
		return nil
	}
	for _, at := range all {
		switch {
		case !at.Online:
			out = append(out, fmt.Sprintf("server %s is offline: the log has one copy less", at.Name))
		case at.Behind > 0:
			out = append(out, fmt.Sprintf("server %s is behind by %d records", at.Name, at.Behind))
		}
	}
	return out
}
