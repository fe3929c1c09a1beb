package storage

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/collect"
)

// collectShare is how much of the blobs must be collectable before their stream is
// replaced. So what a collection writes again is at most four times what it frees.
const collectShare = 0.2

// collector removes the blobs that no event names. It runs with the embedded server only: no
// other daemon stores blobs there.
type collector struct {
	unreferenced, collectable prometheus.Gauge
	collected                 prometheus.Counter
	ended                     prometheus.Gauge
}

func (s *Storage) newCollector(registry *prometheus.Registry) *collector {
	c := &collector{
		unreferenced: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nexus_blobs_unreferenced_bytes", Help: "Bytes of blobs that no event named when the daemon last looked.",
		}),
		collectable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nexus_blobs_collectable_bytes", Help: "Those of them that were older than collect_after, and stayed: too few to be worth it, or the collection failed.",
		}),
		collected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nexus_blobs_collected_bytes_total", Help: "Bytes of blobs that were collected.",
		}),
		ended: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nexus_blobs_looked_timestamp_seconds", Help: "When the daemon last looked for unreferenced blobs without a fault, Unix time; 0: not since the start.",
		}),
	}
	registry.MustRegister(c.unreferenced, c.collectable, c.collected, c.ended, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nexus_blobs_bytes", Help: "Bytes of all blobs, with what the server stores beside them. A second copy has as many.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, bytes, err := s.Log.Blobs().State(ctx)
		if err != nil {
			return -1
		}
		return float64(bytes)
	}))
	return c
}

// StartCollector begins the collections, unless the configuration says "off". The first one
// begins [jetstream.HoldTime] after the start: a restart forgets what requests relied on.
func (s *Storage) StartCollector() {
	after, err := s.cfg.CollectGrace()
	if s.collector == nil || err != nil || after == 0 {
		return
	}
	s.run(func(ctx context.Context) { s.collectBlobs(ctx, after) })
}

// collectBlobs collects until ctx ends, four times within the grace time, and at most once
// an hour and at least once a day.
func (s *Storage) collectBlobs(ctx context.Context, after time.Duration) {
	interval := min(max(after/4, jetstream.HoldTime), 24*time.Hour)
	wait := jetstream.HoldTime
	for {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		if _, err := s.Collect(ctx, collect.Config{After: after, Share: collectShare, Now: time.Now()}); err != nil && ctx.Err() == nil {
			s.logger.Error("unreferenced blobs were not collected", "err", err)
		}
		wait = interval
	}
}

// Collect looks for blobs that no event names, and collects them as c says.
func (s *Storage) Collect(ctx context.Context, c collect.Config) (collect.Report, error) {
	ctx, stop, err := s.Outage.During(ctx)
	if err != nil {
		return collect.Report{}, err
	}
	defer stop()
	s.collecting.Lock() // no outage ends while a collection runs: both change which stream the mark names
	defer s.collecting.Unlock()
	if damaged := s.scrubber.damaged.Load(); damaged != nil {
		return collect.Report{}, damaged
	}
	began := time.Now()
	c.Data, c.Log, c.Blobs, c.Mark = s.cfg.Data, s.Log, s.Log.Blobs(), s.Mark
	c.Room = func(bytes int64) error { return s.server.CheckRoom(s.cfg.Data, bytes) }
	c.Pace = func(int64) error { return ctx.Err() }
	var out collect.Report
	out, err = collect.Run(ctx, c)
	if out.Collected > 0 {
		s.collector.collected.Add(float64(out.Collected))
		s.logger.Info("collected blobs that no event names", "bytes", out.Collected, "of", out.Bytes, "stream", jetstream.BlobsStream(out.Number), "took", time.Since(began).Round(time.Millisecond))
	}
	if err == nil || out.Collected > 0 {
		s.collector.unreferenced.Set(float64(out.Unreferenced - out.Collected))
		s.collector.collectable.Set(float64(out.Collectable - out.Collected))
		s.collector.ended.SetToCurrentTime()
	}
	if errors.Is(err, collect.ErrSwitch) {
		s.fail(err) // nobody knows which stream the mark names: the next start reads it
	}
	return out, err
}
