package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/groupsync"
	"nexus/ledger/jetstream/mark"
	"nexus/projections"
	"nexus/projections/db"
	"nexus/turns"
)

// inspect compares the files of the streams with the mark of what was acknowledged,
// before the server opens them: the server truncates a file at what it can't read, and
// gives the positions behind it out again. inspect opens the mark.
func (d *Daemon) inspect(ctx context.Context) (err error) {
	if err := folder.CheckRestored(d.cfg.Data); err != nil {
		return err
	}
	if d.identity, err = folder.LoadIdentity(d.cfg.Data); err != nil {
		return err
	}
	path := filepath.Join(d.cfg.Data, folder.MarkFile)
	m, torn, err := mark.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !d.identity.Marked:
		m.Ledger = d.identity.Ledger
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is missing: without it nobody can tell whether acknowledged turns are gone", turns.ErrCorrupt, path)
	case err != nil:
		return err
	case m.Ledger != d.identity.Ledger:
		return fmt.Errorf("%w: %s is of ledger %s, the data folder of %s", turns.ErrCorrupt, path, m.Ledger, d.identity.Ledger)
	}
	if torn {
		d.logger.Warn("a write of the mark was cut short, the one before it is used", "file", path)
	}
	handOver, err := folder.CheckServer(d.identity, m)
	if err != nil {
		return err
	}
	if handOver {
		d.logger.Info("another version of nats-server wrote the streams, and stopped cleanly: its files are left to this one", "was", folder.WrittenBy(d.identity, m), "now", embed.ServerVersion)
	} else if d.identity.Ready {
		began := time.Now()
		wentDown := m.WentDown()
		found, err := disk.Inspect(ctx, d.cfg.Data, m, wentDown)
		if err != nil {
			return err
		}
		d.logger.Info("inspected the streams", "clean", m.Closed != nil, "bytes", found.Read, "took", time.Since(began).Round(time.Millisecond))
		if err := d.removeUnfinished(found, m, wentDown); err != nil {
			return err
		}
		if m.Closed == nil {
			if err := disk.Rewrite(d.cfg.Data); err != nil { // its last fsync may have failed
				return err
			}
		}
		if claims(m, found.Mark) {
			if err := folder.SyncStreams(d.cfg.Data, m); err != nil {
				return err
			}
		}
		if m.Closed == nil {
			wrong, err := disk.InspectCopy(ctx, d.cfg.Data, m.BlobStream)
			if err != nil {
				return err
			}
			if wrong != "" {
				d.logger.Warn("the second copy of the blobs was damaged; it is made again", "damage", wrong)
			}
		}
		m = found.Mark
		if err := disk.RemoveOthers(d.cfg.Data, m.BlobStream); err != nil {
			return fmt.Errorf("what a collection of blobs left: %w", err)
		}
	}
	d.mark, err = mark.Open(path, m, d.diskFailed)
	return err
}

// claims reports whether the mark that a start goes on with says of more than m that it is on the
// disk. A clean stop wrote m after the fsync of all files, so that one that was found as
// m says needs no other. groupsync.Open syncs all of them in any case, after the server opened
// them and before anything is served.
func claims(m, found mark.Mark) bool {
	return m.Closed == nil || found.Log != m.Log || found.Blobs != m.Blobs
}

// removeUnfinished warns of what unfinished writes left at the end of the streams. The
// server removes a torn record; where there may be more, all of it is removed here, and
// kept aside.
func (d *Daemon) removeUnfinished(found disk.Found, m mark.Mark, more bool) error {
	for stream, t := range map[string]*blocks.Tail{jetstream.StreamName: found.TornLog, jetstream.BlobsStream(m.BlobStream): found.TornBlobs} {
		if t == nil {
			continue
		}
		d.logger.Warn("the end of a stream is unfinished, and is removed: writes that were not acknowledged; or damage, if they were acknowledged last before the stop",
			"stream", stream, "record", t.Seq, "block", t.Block, "offset", t.Offset, "bytes", t.Bytes, "zeros", t.Zeros, "later_blocks", t.Later)
		if !more {
			continue
		}
		aside, err := disk.Cut(d.cfg.Data, stream, *t)
		if err != nil {
			return err
		}
		d.logger.Warn("what was removed is kept", "stream", stream, "folder", aside)
	}
	if !more {
		return nil
	}
	for _, stream := range folder.Streams(m) {
		if err := disk.DropIndex(d.cfg.Data, stream); err != nil {
			return err
		}
	}
	return nil
}

// groupSync returns what syncs a stream's files from now on.
func (d *Daemon) groupSync(stream string) (*groupsync.Stream, error) {
	s, err := groupsync.Open(groupsync.Config{Dir: embed.StreamDir(d.cfg.Data, stream), Top: d.cfg.Data, Failed: func(err error) {
		d.diskFailed(fmt.Errorf("%w: %w", embed.ErrDisk, err))
	}})
	if err != nil {
		return nil, err
	}
	d.syncing.Lock()
	defer d.syncing.Unlock()
	if old := d.syncs[stream]; old != nil { // of a collection that failed
		d.fsyncs += old.Syncs()
		err = old.Close()
	}
	d.syncs[stream] = s
	return s, err
}

// closeSyncs ends what waits for a fsync.
func (d *Daemon) closeSyncs(context.Context) error {
	d.syncing.Lock()
	defer d.syncing.Unlock()
	var errs []error
	for _, s := range d.syncs {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// reopenSyncs begins to sync the streams of the mark again, whose files may be others.
func (d *Daemon) reopenSyncs() error {
	d.syncing.Lock()
	defer d.syncing.Unlock()
	for _, stream := range folder.Streams(d.mark.Mark()) {
		if err := d.syncs[stream].Reopen(); err != nil {
			return err
		}
	}
	return nil
}

// Fsyncs counts the fsyncs of the log and the blobs since the start; 0 on an external
// server, which does its own. The mark has up to two a second besides.
func (d *Daemon) Fsyncs() (n uint64) {
	d.syncing.Lock()
	defer d.syncing.Unlock()
	n = d.fsyncs
	for _, s := range d.syncs {
		n += s.Syncs()
	}
	return n
}

// reaches compares what the server opened with the mark, and keeps a copy of the
// streams' configuration. Nothing was appended yet.
func (d *Daemon) reaches(ctx context.Context) error {
	st, err := d.log.State(ctx)
	if err != nil {
		return err
	}
	if want := d.mark.Mark().Log.Seq; st.Last < want {
		return fmt.Errorf("%w: the log ends at %d, acknowledged was %d", turns.ErrCorrupt, st.Last, want)
	}
	return disk.KeepMeta(d.cfg.Data, d.mark.Mark().BlobStream)
}

// openProjections opens the projections. Damaged ones are set aside, in a folder that
// the next damaged ones replace, and made again from the log. Before that the whole log is
// read: where it is damaged too, the projections are its other copy and stay as they are.
func (d *Daemon) openProjections(ctx context.Context) (*projections.Store, error) {
	uid, err := d.ledgerID()
	if err != nil {
		return nil, err
	}
	c := projections.Config{Dir: filepath.Join(d.cfg.Data, folder.ProjectionsDir), Logger: d.logger, Ledger: turns.ID(uid)}
	store, err := projections.Open(c)
	if damaged := (*db.DamagedError)(nil); !errors.As(err, &damaged) {
		return store, err
	}
	if err := d.setAside(ctx, err); err != nil {
		return nil, err
	}
	return projections.Open(c)
}

// setAside moves the damaged projections away. They stay if the log is damaged, too.
func (d *Daemon) setAside(ctx context.Context, damage error) error {
	if d.server != nil {
		broken, err := disk.Scrub(ctx, d.cfg.Data, jetstream.StreamName, d.mark.Mark().Log.Seq, func(int64) error { return ctx.Err() })
		if err != nil {
			return err
		}
		if broken != nil {
			return fmt.Errorf("%w; and %w", broken, damage)
		}
	}
	dir := filepath.Join(d.cfg.Data, folder.ProjectionsDir)
	aside := dir + ".damaged"
	d.logger.Error("the projections are damaged; they are made again from the log", "err", damage, "aside", aside)
	return errors.Join(os.RemoveAll(aside), os.Rename(dir, aside))
}

// closeMark writes the mark of a clean stop. The server has closed its files.
func (d *Daemon) closeMark() error {
	if d.mark == nil {
		return nil
	}
	if d.outage.Active() != nil {
		return d.mark.Close(nil)
	}
	sizes, err := disk.Sizes(d.cfg.Data, d.mark.Mark().BlobStream)
	if err == nil {
		err = folder.SyncStreams(d.cfg.Data, d.mark.Mark())
	}
	if errors.Is(err, fs.ErrNotExist) && !d.identity.Ready { // a first start that failed before it made the streams
		return d.mark.Close(nil)
	}
	if err != nil {
		return errors.Join(err, d.mark.Close(nil))
	}
	return d.mark.Close(&sizes)
}
