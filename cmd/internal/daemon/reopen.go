package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"nexus/cmd/internal/daemon/outage"
	"nexus/ledger/jetstream/disk"
	"nexus/projections"
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

// probeFile is written and synced to learn whether the disk takes writes.
const probeFile = "probe.tmp"

// startWatch watches the disk from now on. A failure before it ends the start.
func (d *Daemon) startWatch() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	d.watched.Store(true)
	go func() { d.watch(ctx); close(done) }()
	d.opened(func(context.Context) error {
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
func (d *Daemon) watch(ctx context.Context) {
	t := time.NewTicker(stallTime / 4)
	defer t.Stop()
	p := prober{dir: d.cfg.Data}
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.outage.Began():
		case <-t.C:
			if d.outage.Active() == nil && d.outage.Hangs(stallTime) {
				if answered, err := p.probe(ctx, probeTime); !answered && ctx.Err() == nil {
					d.outage.Stall(fmt.Errorf("a write takes more than %v", stallTime))
				} else if outage.IsDiskError(err) {
					d.outage.Fail(err)
				}
			}
		}
		if lost := d.outage.Halted(); lost != nil { // for good
			d.store.Hold(lost)
			return
		}
		if why := d.outage.Active(); why != nil {
			d.logger.Error("appends are refused until the disk takes writes again; reads go on, and may be stale", "err", d.outage.Reason())
			d.store.Hold(why)
			d.endure(ctx, &p)
			d.store.Hold(nil)
		}
	}
}

// endure looks at the disk until it takes writes again and everything is open, or ctx ends.
func (d *Daemon) endure(ctx context.Context, p *prober) {
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
		if d.outage.Halted() != nil {
			return
		}
		ended := false
		failed, failures := d.outage.State()
		switch {
		case outage.IsDiskError(err):
			d.outage.Fail(err)
			continue
		case err == nil && failed:
			began := time.Now()
			ended, err = d.reopen(ctx, failures)
			pause = max(pause, time.Since(began)) // it reads the streams: at most half of the time
		case err == nil:
			ended = d.outage.End(failures)
		}
		if ended {
			return
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if errors.Is(err, db.ErrAbandoned) {
			d.fail(err)
			return
		}
		if err.Error() != said { // not a line for each try
			d.logger.Error("the disk takes writes, but the ledger can't be opened again; it is tried again", "err", err)
			said = err.Error()
		}
		if damaged := (*disk.DamagedError)(nil); errors.As(err, &damaged) {
			d.logger.Error("appends stay refused: stop nexusd, and run nexusd repair")
			<-ctx.Done()
			return
		}
	}
}

// reopen opens what is open on a disk that failed again, as a start does: the streams
// are closed, looked at and opened, then the projections. The server's connections and
// clients stay. Then it ends the outage, unless a write failed since there were that many
// failures.
//
// Crash states: those of a start. If it did not end the outage, reopen can be called again. Until
// then the log is paused and the projections follow nothing, as before the first call.
func (d *Daemon) reopen(ctx context.Context, failures uint64) (ended bool, err error) {
	defer func() {
		if ended {
			return
		}
		why := d.outage.Active()
		d.store.Hold(why)
		d.stopRun()
		d.log.Pause(why)
	}()
	d.stopRun()
	if d.server != nil {
		if err := d.reopenStreams(ctx); err != nil {
			return false, err
		}
	}
	if d.server == nil {
		d.log.Resume()
	}
	if err := d.reopenProjections(ctx); err != nil {
		return false, err
	}
	st, err := d.log.State(ctx)
	if err != nil {
		return false, err
	}
	d.store.Hold(nil)
	d.startRun(ctx)
	if err := d.store.WaitFor(ctx, st.Last); err != nil {
		return false, err
	}
	d.engine.Writer.Forget()
	return d.outage.End(failures), nil
}

// reopenStreams closes the streams, compares their files with what was acknowledged, and
// opens them.
func (d *Daemon) reopenStreams(ctx context.Context) error {
	d.collecting.Lock()
	defer d.collecting.Unlock()
	if err := errors.Join(d.closeSyncs(ctx), d.server.StopStreams()); err != nil {
		return err
	}
	if err := disk.Rewrite(d.cfg.Data); err != nil {
		return err
	}
	m := d.mark.Mark()
	m.Closed = nil
	// What the failed fsync covered is gone or torn, above the mark of this process, which is
	// exact: nothing of it was acknowledged.
	found, err := disk.Inspect(ctx, d.cfg.Data, m, true)
	if err != nil {
		return err
	}
	if err := d.removeUnfinished(found, m, true); err != nil {
		return err
	}
	wrong, err := disk.InspectCopy(ctx, d.cfg.Data, m.BlobStream)
	if err != nil {
		return err
	}
	if wrong != "" {
		d.logger.Warn("the second copy of the blobs was damaged; it is made again", "damage", wrong)
	}
	d.mark.Acked(found.Mark.Log, found.Mark.Blobs) // it is durable now, whoever was answered
	if err := d.mark.Restore(ctx); err != nil {
		return err
	}
	d.log.Resume() // nothing is acknowledged before reopenSyncs
	if err := d.server.StartStreams(); err != nil {
		return err
	}
	if err := d.reopenSyncs(); err != nil {
		return err
	}
	return d.reaches(ctx)
}

// reopenProjections opens the projections, if they failed. What is damaged is set aside, and
// what has applied records that the log has lost is emptied: they were never
// acknowledged. Both are made again from the log; reads are refused until then.
func (d *Daemon) reopenProjections(ctx context.Context) error {
	err := d.store.Reopen()
	if damaged := (*db.DamagedError)(nil); errors.As(err, &damaged) {
		d.outage.CloseReads(fmt.Errorf("%w: the projections are made again from the log", outage.ErrStale))
		if err = d.setAside(ctx, err); err == nil {
			err = d.store.Reopen()
		}
	}
	if err != nil {
		return err
	}
	err = d.store.Check(ctx, d.log)
	if diverged := (*projections.DivergedError)(nil); errors.As(err, &diverged) && d.server != nil && diverged.Log.Identity == diverged.Have.Identity {
		d.outage.CloseReads(fmt.Errorf("%w: the projections are made again from the log", outage.ErrStale))
		d.logger.Warn("the projections have applied records that were not acknowledged and are gone; they are made again from the log", "err", err)
		err = d.store.Clear()
	}
	return err
}

// startRun makes the projections follow the log.
func (d *Daemon) startRun(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	d.stopRun = func() { stop(); <-ended }
	go func() {
		defer close(ended)
		err := d.store.Run(running, d.log)
		damaged := (*db.DamagedError)(nil)
		switch {
		case err == nil:
		case d.log.Lost() != nil: // the daemon is halted, or its start ends
		case d.watched.Load() && (d.store.Fault() != nil || d.outage.Active() != nil) && !errors.As(err, &damaged):
			d.outage.Fail(err) // its own, or the log failed under it: reopen starts it again
		default:
			d.logger.Error("projections stopped", "err", err)
			d.fail(err)
		}
	}()
}

// diskFailed begins an outage. Before the daemon serves it ends the start.
func (d *Daemon) diskFailed(err error) {
	d.outage.Fail(err)
	if !d.watched.Load() {
		d.fail(fmt.Errorf("%w; what was acknowledged is stored: make room, and start again", err))
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
		go func(done chan error) { done <- writeProbe(filepath.Join(p.dir, probeFile)) }(p.running)
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
