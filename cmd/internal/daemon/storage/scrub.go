package storage

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/mark"
)

// scrubber reads everything that is stored, over and over, each time within an
// interval, and reports what is damaged or missing. The server reads a record when
// somebody asks for it, which may be years later, and truncates what it can't read.
type scrubber struct {
	read    prometheus.Counter
	ended   prometheus.Gauge
	damaged atomic.Pointer[disk.DamagedError] // the first that was found; nil: none
	doubts  chan struct{}                     // somebody read a damaged record
}

func newScrubber(registry *prometheus.Registry) *scrubber {
	s := &scrubber{
		doubts: make(chan struct{}, 1),
		read: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nexus_scrub_bytes_total", Help: "Bytes of stored records that were read again and compared with their checksums.",
		}),
		ended: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nexus_scrub_completed_timestamp_seconds", Help: "When everything stored was last read without a fault, Unix time; 0: not since the start.",
		}),
	}
	registry.MustRegister(s.read, s.ended, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nexus_damaged", Help: "1 if a stored record is damaged or missing, else 0. Appends are refused from then on.",
	}, func() float64 {
		if s.damaged.Load() != nil {
			return 1
		}
		return 0
	}))
	return s
}

// StartScrub begins the scrub, unless the configuration says "off", and what [Storage.Doubt] asks for.
func (s *Storage) StartScrub() {
	if s.scrubber == nil {
		return
	}
	s.run(s.scrubInDoubt)
	if interval, err := s.cfg.ScrubInterval(); err == nil && interval > 0 {
		s.run(func(ctx context.Context) { s.scrub(ctx, interval) })
	}
}

// Doubt has the streams read through at once, because somebody read a record that is damaged. In a
// cluster, whose files are elsewhere, it does nothing.
func (s *Storage) Doubt() {
	if s.scrubber == nil {
		return
	}
	select {
	case s.scrubber.doubts <- struct{}{}:
	default: // it is asked for already
	}
}

func (s *Storage) scrubInDoubt(ctx context.Context) {
	for {
		select {
		case <-s.scrubber.doubts:
		case <-ctx.Done():
			return
		}
		const atOnce = time.Nanosecond
		if err := s.Scrub(ctx, s.Mark.Mark(), atOnce); err != nil && ctx.Err() == nil {
			s.logger.Error("the streams could not be read through", "err", err)
		}
	}
}

// scrub runs until ctx ends. Damage stops appends, is logged, and makes the daemon not
// ready; reads go on.
func (s *Storage) scrub(ctx context.Context, interval time.Duration) {
	for ctx.Err() == nil {
		began := time.Now()
		err := s.Scrub(ctx, s.Mark.Mark(), interval)
		switch {
		case err == nil:
			s.scrubber.ended.SetToCurrentTime()
		case ctx.Err() == nil:
			s.logger.Error("the streams could not be read through", "err", err)
		}
		wait := time.NewTimer(max(time.Minute, interval-time.Since(began)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
}

// Scrub reads both streams up to a mark, at a pace that takes half of the interval.
func (s *Storage) Scrub(ctx context.Context, m mark.Mark, interval time.Duration) error {
	sizes, err := disk.Sizes(s.cfg.Data, m.BlobStream)
	if err != nil {
		return err
	}
	pace := newPace(ctx, max(float64(sizes.Log+sizes.Blobs)/(interval.Seconds()/2), minScrub))
	blobs := jetstream.BlobsStream(m.BlobStream)
	for stream, last := range map[string]uint64{jetstream.StreamName: m.Log.Seq, blobs: m.Blobs.Seq} {
		damaged, err := disk.Scrub(ctx, s.cfg.Data, stream, last, func(bytes int64) error {
			s.scrubber.read.Add(float64(bytes))
			return pace.wait(bytes)
		})
		if stream == blobs && s.Mark.Mark().BlobStream != m.BlobStream {
			continue // a collection replaced and removed it meanwhile; it read all that it kept
		}
		if err != nil {
			return err
		}
		if damaged != nil {
			s.scrubber.damaged.CompareAndSwap(nil, damaged)
			s.Log.Refuse(damaged)
			return fmt.Errorf("%w; appends are refused from now on, reads go on: stop nexusd, and run nexusd repair", damaged)
		}
	}
	return nil
}

// minScrub is the slowest pace of a scrub, in bytes a second.
const minScrub = 1 << 20

// pace holds a loop to a rate.
type pace struct {
	ctx   context.Context
	rate  float64 // bytes a second
	began time.Time
	bytes float64
}

func newPace(ctx context.Context, rate float64) *pace {
	return &pace{ctx: ctx, rate: rate, began: time.Now()}
}

// wait counts bytes and returns when they are due, or with an error when ctx ends.
func (p *pace) wait(bytes int64) error {
	p.bytes += float64(bytes)
	ahead := time.Duration(p.bytes/p.rate*float64(time.Second)) - time.Since(p.began)
	if ahead < 100*time.Millisecond {
		return p.ctx.Err()
	}
	t := time.NewTimer(ahead)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}
