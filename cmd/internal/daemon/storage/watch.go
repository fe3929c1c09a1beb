package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/outage"
	"nexus/ledger/jetstream/disk"
	"nexus/projections/db"
)

const (
	// stallTime is how long all writes may hang before the disk is asked.
	stallTime = 2 * time.Second
	// probeTime is how long it may take to answer.
	probeTime = time.Second
	// probeFirst and probeLongest are the pauses between the looks in an outage.
	probeFirst, probeLongest = time.Second, 5 * time.Second
	// watchGrace is how long Close waits for the watch, which the disk may hold.
	watchGrace = 5 * time.Second
)

// StartWatch watches the disk from now on. A failure before it ends the start. forget is called
// after an outage: what the caller knows of the ends of chains may be of records that are gone.
func (s *Storage) StartWatch(forget func()) {
	s.forget = forget
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.watched.Store(true)
	go func() { s.watch(ctx); close(done) }()
	s.opened(func(context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-time.After(watchGrace):
			return errors.New("the disk does not answer, and holds what was to be closed")
		}
	})
}

// watch begins an outage where writes hang, and ends each when the disk takes writes
// again, until ctx ends.
func (s *Storage) watch(ctx context.Context) {
	t := time.NewTicker(stallTime / 4)
	defer t.Stop()
	p := prober{dir: s.cfg.Data}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.Outage.Began():
		case <-t.C:
			if s.Outage.Active() == nil && s.Outage.Hangs(stallTime) {
				if answered, err := p.probe(ctx, probeTime); !answered && ctx.Err() == nil {
					s.Outage.Stall(fmt.Errorf("a write takes more than %v", stallTime))
				} else if outage.IsDiskError(err) {
					s.Outage.Fail(err)
				}
			}
		}
		if lost := s.Outage.Halted(); lost != nil { // for good
			s.Projections.Hold(lost)
			return
		}
		if why := s.Outage.Active(); why != nil {
			s.logger.Error("appends are refused until the disk takes writes again; reads go on, and may be stale", "err", s.Outage.Reason())
			s.Projections.Hold(why)
			s.endure(ctx, &p)
			s.Projections.Hold(nil)
		}
	}
}

// endure looks at the disk until it takes writes again and everything is open, or ctx ends.
func (s *Storage) endure(ctx context.Context, p *prober) {
	said := ""
	for pause := probeFirst; ; pause = max(pause, min(2*pause, probeLongest)) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		answered, err := p.probe(ctx, probeLongest)
		if !answered {
			continue
		}
		if s.Outage.Halted() != nil {
			return
		}
		ended := false
		failed, failures := s.Outage.State()
		switch {
		case outage.IsDiskError(err):
			s.Outage.Fail(err)
			continue
		case err == nil && failed:
			began := time.Now()
			ended, err = s.Reopen(ctx, failures)
			pause = max(pause, time.Since(began)) // it reads the streams: at most half of the time
		case err == nil:
			ended = s.Outage.End(failures)
		}
		if ended {
			return
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if errors.Is(err, db.ErrAbandoned) {
			s.fail(err)
			return
		}
		if err.Error() != said { // not a line for each try
			s.logger.Error("the disk takes writes, but the ledger can't be opened again; it is tried again", "err", err)
			said = err.Error()
		}
		if damaged := (*disk.DamagedError)(nil); errors.As(err, &damaged) {
			s.logger.Error("appends stay refused: stop nexusd, and run nexusd repair")
			<-ctx.Done()
			return
		}
	}
}

// DiskFailed begins an outage. Before the daemon serves it ends the start.
func (s *Storage) DiskFailed(err error) {
	s.Outage.Fail(err)
	if !s.watched.Load() {
		s.fail(fmt.Errorf("%w; what was acknowledged is stored: make room, and start again", err))
	}
}

// prober asks a disk whether it takes writes, with one write at a time.
type prober struct {
	dir     string
	running chan error // nil: none
}

// probe writes and syncs a small file. answered is false if the disk did not answer
// within patience; then the next probe waits for the same write.
func (p *prober) probe(ctx context.Context, patience time.Duration) (answered bool, err error) {
	if p.running == nil {
		p.running = make(chan error, 1)
		go func(done chan error) { done <- writeProbe(filepath.Join(p.dir, folder.ProbeFile)) }(p.running)
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case err := <-p.running:
		p.running = nil
		return true, err
	case <-t.C:
	case <-ctx.Done():
	}
	return false, nil
}

// probeBytes is more than a streams' record and a block of a file system need.
const probeBytes = 1 << 20

func writeProbe(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(name))
}
