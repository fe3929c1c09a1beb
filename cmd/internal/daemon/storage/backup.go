package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/backup"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
)

// Source reads the records of the streams from their files, up to what was
// acknowledged: a server that is asked for a record that it can't read truncates the file
// there. It implements the Source of the engine's room backup. Safe for concurrent use.
//
// A read goes on where the one before ended, so a backup reads each block once. Two
// backups at a time take turns, and read the beginnings of blocks again.
type Source struct {
	storage *Storage

	mu   sync.Mutex
	at   place                               // of the record that next returns
	held *blocks.Record                      // the record at at, if it was read and did not fit a page
	next func() (blocks.Record, error, bool) // nil: no file is open
	stop func()
	idle *time.Timer
}

// Backup returns what a backup reads. Its files are closed at the end.
func (s *Storage) Backup() *Source {
	b := &Source{storage: s}
	s.opened(b.close)
	return b
}

// place is a position of a stream.
type place struct {
	stream string
	seq    uint64
}

// backupIdle is how long the files stay open for the next page.
const backupIdle = 10 * time.Second

// State implements the engine's Source. The mark says at one moment what was acknowledged
// of both streams: a blob is acknowledged before the event that names it.
func (b *Source) State(ctx context.Context) (*api.BackupState, error) {
	st, err := b.storage.Log.State(ctx)
	if err != nil {
		return nil, err
	}
	m := b.storage.Mark.Mark()
	out := &api.BackupState{Ledger: m.Ledger, Created: api.Time(st.Created), BlobStream: m.BlobStream,
		Log: api.BackupEnd{Seq: m.Log.Seq, Hash: m.Log.Sum}, Blobs: api.BackupEnd{Seq: m.Blobs.Seq, Hash: m.Blobs.Sum}}
	if r := b.storage.identity.Restored; r != nil {
		out.Restored = &api.Restored{Digest: r.Digest, Seq: r.Seq, Time: api.Time(r.Time)}
	}
	return out, nil
}

// Read implements the engine's Source.
func (b *Source) Read(ctx context.Context, r api.ReadBackup, bytes int) (frames []byte, next uint64, err error) {
	m := b.storage.Mark.Mark()
	s, name, last := backup.Stream{}, jetstream.StreamName, m.Log.Seq
	if r.Stream == "blobs" {
		if s, name, last = (backup.Stream{Blobs: true, Number: r.Number}), jetstream.BlobsStream(r.Number), m.Blobs.Seq; r.Number != m.BlobStream {
			return nil, 0, replaced(r.Number, m.BlobStream)
		}
	}
	if r.Last > last {
		return nil, 0, api.FieldErrorf("/last", "stream %s was acknowledged through %d", name, last)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	next = r.First
	for ctx.Err() == nil {
		var rec blocks.Record
		if rec, err = b.record(place{name, next}); err != nil {
			break
		}
		if len(frames) > 0 && len(frames)+int(rec.Bytes)+64 > bytes {
			b.at, b.held = place{name, next}, &rec
			break
		}
		if frames, err = backup.AppendRecord(frames, s, rec); err != nil {
			break
		}
		if next++; next > r.Last || len(frames) >= bytes || r.Offset > 0 {
			break
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if now := b.storage.Mark.Mark().BlobStream; s.Blobs && now != r.Number { // its files may be gone
		b.shut()
		return nil, 0, replaced(r.Number, now)
	}
	if err != nil {
		b.shut()
		return nil, 0, err
	}
	return frames, next, nil
}

func replaced(was, now uint64) error {
	return &api.Error{Code: api.Conflict, Message: fmt.Sprintf("stream %s was replaced by %s: read the state again", jetstream.BlobsStream(was), jetstream.BlobsStream(now))}
}

// record returns the record at a place, from where the one before was read if that is
// there. It shares memory that the next one takes.
func (b *Source) record(at place) (blocks.Record, error) {
	for {
		fresh := b.next == nil || b.at != at
		if held := b.held; held != nil && !fresh {
			b.at, b.held = place{at.stream, at.seq + 1}, nil
			return *held, nil
		}
		if fresh {
			ctx, cancel := context.WithCancel(context.Background())
			b.shut()
			next, stop := iter.Pull2(blocks.Records(ctx, embed.StreamDir(b.storage.cfg.Data, at.stream), at.seq))
			b.next, b.stop = next, func() { stop(); cancel() }
			b.idle = time.AfterFunc(backupIdle, func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.shut()
			})
		}
		rec, err, ok := b.next()
		if !fresh && (!ok || err != nil) { // the end of the files as they were when they were opened
			b.shut()
			continue
		}
		if !ok || err == nil && rec.Seq != at.seq {
			err = fmt.Errorf("%w: stream %s: record %d is missing", ledger.ErrCorrupt, at.stream, at.seq)
		}
		if damage := (*blocks.Damage)(nil); errors.As(err, &damage) {
			err = fmt.Errorf("%w: stream %s: %w", ledger.ErrCorrupt, at.stream, err)
		}
		if err != nil {
			b.shut()
			return rec, err
		}
		b.at = place{at.stream, at.seq + 1}
		b.idle.Reset(backupIdle)
		return rec, nil
	}
}

// shut closes the files. The caller holds mu.
func (b *Source) shut() {
	if b.stop != nil {
		b.stop()
		b.idle.Stop()
	}
	b.held, b.next, b.stop = nil, nil, nil
}

// close closes the files.
func (b *Source) close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut()
	return nil
}
