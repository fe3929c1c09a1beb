package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/turns"
)

// Config says where and how a store is kept.
type Config struct {
	Dir    string       // folder, created if missing
	FS     vfs.FS       // nil: the disk
	Cache  int64        // bytes of block cache; 0: 64 MiB
	Logger *slog.Logger // nil: silent
}

// Store is the projections of one log. Safe for concurrent use: reads at any
// time, [Store.Run] by one goroutine.
type Store struct {
	db     *pebble.DB
	logger *slog.Logger

	read atomic.Int64 // see EventBytes

	mu      sync.Mutex
	applied Checkpoint    // guarded by mu
	aside   int           // chains set aside; guarded by mu
	moved   chan struct{} // closed and replaced when applied moves; guarded by mu
	stopped error         // why Run ended, if it did; guarded by mu
}

// Open opens or creates the store. One written by another schema is emptied:
// Run then rebuilds it.
func Open(c Config) (*Store, error) {
	s, err := open(c)
	if err != nil {
		return nil, err
	}
	cp, err := s.checkpoint()
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	if cp.Schema != Schema {
		if cp.Schema != 0 {
			s.logger.Info("projections have another schema and are rebuilt", "have", cp.Schema, "want", Schema)
		}
		if err := s.Clear(); err != nil {
			return nil, errors.Join(err, s.db.Close())
		}
		cp = Checkpoint{Schema: Schema}
	}
	s.applied = cp
	s.aside, err = s.countAside()
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

func open(c Config) (*Store, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Cache == 0 {
		c.Cache = 64 << 20
	}
	if c.FS == nil {
		c.FS = ownerOnly{vfs.Default}
		if err := c.FS.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("open projections: %w", err)
		}
		if err := os.Chmod(c.Dir, 0o700); err != nil { // one that an earlier version made
			return nil, fmt.Errorf("open projections: %w", err)
		}
	}
	cache := pebble.NewCache(c.Cache)
	defer cache.Unref()
	o := &pebble.Options{
		FS: c.FS, Cache: cache, Logger: quiet{c.Logger},
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       16 << 20,
		WALBytesPerSync:    512 << 10,
		MaxOpenFiles:       500,
	}
	for i := range o.Levels {
		if i < len(o.Levels)-1 {
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
	}
	o.Experimental.ReadSamplingMultiplier = -1
	db, err := pebble.Open(c.Dir, o)
	if err != nil {
		return nil, fmt.Errorf("open projections in %s: %w", c.Dir, err)
	}
	return &Store{db: db, logger: c.Logger, moved: make(chan struct{})}, nil
}

// Close closes the store; the next start goes on from its own log. It does not
// flush: after a write that the disk refused, Pebble ends the process there. Run
// must have ended.
func (s *Store) Close() error { return s.db.Close() }

// EventBytes is how many bytes of events were read since the store was opened.
func (s *Store) EventBytes() int64 { return s.read.Load() }

// Clear empties the store.
func (s *Store) Clear() error {
	b := s.db.NewBatch()
	defer b.Close()
	if err := b.DeleteRange([]byte{0}, []byte{0xff}, nil); err != nil {
		return err
	}
	cp := Checkpoint{Schema: Schema}
	if err := putCheckpoint(b, cp); err != nil {
		return err
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("empty the projections: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied, s.aside = cp, 0
	return nil
}

// Applied is the checkpoint: everything up to its Seq is in the reads.
func (s *Store) Applied() Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// Aside is the number of chains that were set aside because an event on them
// could not be applied; see [Store.WhyAside].
func (s *Store) Aside() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aside
}

// WaitFor returns when the record at seq is in the reads. It returns ctx's
// error, or, wrapping [ledger.ErrUnavailable], why Run ended.
func (s *Store) WaitFor(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		done, moved, stopped := s.applied.Seq >= seq, s.moved, s.stopped
		at := s.applied.Seq
		s.mu.Unlock()
		switch {
		case done:
			return nil
		case stopped != nil:
			return fmt.Errorf("%w: projections stopped at %d: %w", ledger.ErrUnavailable, at, stopped)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: projections are at %d, not yet at %d: %w", ledger.ErrUnavailable, at, seq, ctx.Err())
		}
	}
}

func (s *Store) advance(cp Checkpoint, aside int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = cp
	s.aside += aside
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *Store) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = err
	close(s.moved)
	s.moved = make(chan struct{})
}

func (s *Store) checkpoint() (cp Checkpoint, err error) {
	b, ok, err := get(s.db, []byte{pCheckpoint})
	if err != nil || !ok {
		return cp, err
	}
	if err := cbor.Unmarshal(b, &cp); err != nil {
		return cp, fmt.Errorf("%w: checkpoint of the projections: %v", ledger.ErrCorrupt, err)
	}
	return cp, nil
}

func putCheckpoint(b *pebble.Batch, cp Checkpoint) error {
	v, err := cbor.Marshal(cp)
	if err != nil {
		return err
	}
	return b.Set([]byte{pCheckpoint}, v, nil)
}

func get(r pebble.Reader, k []byte) (v []byte, ok bool, err error) {
	b, closer, err := r.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the projections: %w", err)
	}
	v = append([]byte(nil), b...)
	return v, true, closer.Close()
}

// quiet is Pebble's logger: informational lines are dropped, errors go on, and
// a fatal one panics, so that the daemon ends with its other parts closed and
// not by os.Exit in a library.
type quiet struct{ l *slog.Logger }

func (quiet) Infof(string, ...any)        {}
func (q quiet) Errorf(f string, a ...any) { q.l.Error("pebble", "err", fmt.Sprintf(f, a...)) }
func (q quiet) Fatalf(f string, a ...any) { panic("pebble: " + fmt.Sprintf(f, a...)) }

var _ = turns.Hash{}
