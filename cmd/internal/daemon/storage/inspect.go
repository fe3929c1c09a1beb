package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"nexus/cmd/internal/daemon/folder"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// inspect compares the files of the streams with the mark of what was acknowledged,
// before the server opens them: the server truncates a file at what it can't read, and
// gives the positions behind it out again. inspect opens the mark.
func (s *Storage) inspect(ctx context.Context) (err error) {
	if err := folder.CheckRestored(s.cfg.Data); err != nil {
		return err
	}
	if s.identity, err = folder.LoadIdentity(s.cfg.Data); err != nil {
		return err
	}
	path := filepath.Join(s.cfg.Data, folder.MarkFile)
	m, torn, err := mark.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.identity.Marked:
		m.Ledger = s.identity.Ledger
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s is missing: without it nobody can tell whether acknowledged turns are gone", turns.ErrCorrupt, path)
	case err != nil:
		return err
	case m.Ledger != s.identity.Ledger:
		return fmt.Errorf("%w: %s is of ledger %s, the data folder of %s", turns.ErrCorrupt, path, m.Ledger, s.identity.Ledger)
	}
	if torn {
		s.logger.Warn("a write of the mark was cut short, the one before it is used", "file", path)
	}
	handOver, err := folder.CheckServer(s.identity, m)
	if err != nil {
		return err
	}
	if handOver {
		s.logger.Info("another version of nats-server wrote the streams, and stopped cleanly: its files are left to this one", "was", folder.WrittenBy(s.identity, m), "now", embed.ServerVersion)
	} else if s.identity.Ready {
		began := time.Now()
		wentDown := m.WentDown()
		found, err := disk.Inspect(ctx, s.cfg.Data, m, wentDown)
		if err != nil {
			return err
		}
		s.logger.Info("inspected the streams", "clean", m.Closed != nil, "bytes", found.Read, "took", time.Since(began).Round(time.Millisecond))
		if err := s.removeUnfinished(found, m, wentDown); err != nil {
			return err
		}
		if m.Closed == nil {
			if err := disk.Rewrite(s.cfg.Data); err != nil { // its last fsync may have failed
				return err
			}
		}
		if claims(m, found.Mark) {
			if err := folder.SyncStreams(s.cfg.Data, m); err != nil {
				return err
			}
		}
		if m.Closed == nil {
			wrong, err := disk.InspectCopy(ctx, s.cfg.Data, m.BlobStream)
			if err != nil {
				return err
			}
			if wrong != "" {
				s.logger.Warn("the second copy of the blobs was damaged; it is made again", "damage", wrong)
			}
		}
		m = found.Mark
		if err := disk.RemoveOthers(s.cfg.Data, m.BlobStream); err != nil {
			return fmt.Errorf("what a collection of blobs left: %w", err)
		}
	}
	s.Mark, err = mark.Open(path, m, s.DiskFailed)
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
func (s *Storage) removeUnfinished(found disk.Found, m mark.Mark, more bool) error {
	for stream, t := range map[string]*blocks.Tail{jetstream.StreamName: found.TornLog, jetstream.BlobsStream(m.BlobStream): found.TornBlobs} {
		if t == nil {
			continue
		}
		s.logger.Warn("the end of a stream is unfinished, and is removed: writes that were not acknowledged; or damage, if they were acknowledged last before the stop",
			"stream", stream, "record", t.Seq, "block", t.Block, "offset", t.Offset, "bytes", t.Bytes, "zeros", t.Zeros, "later_blocks", t.Later)
		if !more {
			continue
		}
		aside, err := disk.Cut(s.cfg.Data, stream, *t)
		if err != nil {
			return err
		}
		s.logger.Warn("what was removed is kept", "stream", stream, "folder", aside)
	}
	if !more {
		return nil
	}
	for _, stream := range folder.Streams(m) {
		if err := disk.DropIndex(s.cfg.Data, stream); err != nil {
			return err
		}
	}
	return nil
}

// closeMark writes the mark of a clean stop. The server has closed its files.
func (s *Storage) closeMark() error {
	if s.Mark == nil {
		return nil
	}
	if s.Outage.Active() != nil {
		return s.Mark.Close(nil)
	}
	sizes, err := disk.Sizes(s.cfg.Data, s.Mark.Mark().BlobStream)
	if err == nil {
		err = folder.SyncStreams(s.cfg.Data, s.Mark.Mark())
	}
	if errors.Is(err, fs.ErrNotExist) && !s.identity.Ready { // a first start that failed before it made the streams
		return s.Mark.Close(nil)
	}
	if err != nil {
		return errors.Join(err, s.Mark.Close(nil))
	}
	return s.Mark.Close(&sizes)
}

// reaches compares what the server opened with the mark, and keeps a copy of the
// streams' configuration. Nothing was appended yet.
func (s *Storage) reaches(ctx context.Context) error {
	st, err := s.Log.State(ctx)
	if err != nil {
		return err
	}
	if want := s.Mark.Mark().Log.Seq; st.Last < want {
		return fmt.Errorf("%w: the log ends at %d, acknowledged was %d", turns.ErrCorrupt, st.Last, want)
	}
	return disk.KeepMeta(s.cfg.Data, s.Mark.Mark().BlobStream)
}
