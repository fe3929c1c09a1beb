package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

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
	// Ledger is the ledger's own id, which no session may have. Zero: not known, and
	// no id is refused.
	Ledger turns.ID
	// ReadOnly opens projections of any schema, for [Store.Record]: nothing is
	// written, nor emptied. Run must not be called.
	ReadOnly bool
}

// Store holds the projections of one log. Safe for concurrent use: reads at any
// time, [Store.Run] by one goroutine.
type Store struct {
	db     *pebble.DB
	logger *slog.Logger
	ledger turns.ID // see Config.Ledger
	fault  *fault

	read atomic.Int64 // see EventBytes

	mu      sync.Mutex
	applied Checkpoint    // guarded by mu
	aside   int           // chains set aside; guarded by mu
	moved   chan struct{} // closed and replaced when applied moves, and when Run ends; guarded by mu
	ended   bool          // Run has ended, and was not started again; guarded by mu
	stopped error         // why it ended, nil if ctx ended; guarded by mu
}

// Open opens or creates the store. One written by another schema is emptied:
// Run then rebuilds it. Errors: [*DamagedError] if the files do not hold what was
// written, now or in an earlier run; those of the disk.
func Open(c Config) (*Store, error) {
	s := &Store{ledger: c.Ledger, moved: make(chan struct{}), fault: newFault(c.Dir)}
	if err := s.openGuarded(c); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) openGuarded(c Config) error {
	if err := s.fault.guard(func() error { return s.open(c) }); err != nil {
		if s.fault.isParked() {
			return err // the goroutine that is parked may have the database
		}
		if s.db != nil { // it is open; Pebble met damage in the background meanwhile
			err = errors.Join(err, s.db.Close())
		}
		return err
	}
	return nil
}

func (s *Store) open(c Config) (err error) {
	if err := s.openDB(c); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.db.Close())
			s.db = nil
		}
	}()
	cp, err := s.checkpoint()
	if err != nil {
		return err
	}
	if cp.Schema != Schema && !c.ReadOnly {
		if cp.Schema != 0 {
			s.logger.Info("projections have another schema and are rebuilt", "have", cp.Schema, "want", Schema)
		}
		return s.clear()
	}
	s.applied = cp
	s.aside, err = s.countAside()
	return err
}

func (s *Store) openDB(c Config) error {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Cache == 0 {
		c.Cache = 64 << 20
	}
	if c.FS == nil && c.ReadOnly {
		c.FS = vfs.Default
	}
	if c.FS == nil {
		c.FS = ownerOnly{vfs.Default}
		if err := c.FS.MkdirAll(c.Dir, 0o700); err != nil {
			return fmt.Errorf("open projections: %w", err)
		}
		if err := os.Chmod(c.Dir, 0o700); err != nil { // one that an earlier version made
			return fmt.Errorf("open projections: %w", err)
		}
	}
	cache := pebble.NewCache(c.Cache)
	defer cache.Unref()
	o := &pebble.Options{
		FS: c.FS, Cache: cache, Logger: pebbleLog{c.Logger, s.fault},
		EventListener:      &pebble.EventListener{DataCorruption: s.fault.corruption},
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       16 << 20,
		WALBytesPerSync:    512 << 10,
		MaxOpenFiles:       500,
		ReadOnly:           c.ReadOnly,
	}
	for i := range o.Levels {
		if i < len(o.Levels)-1 {
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
	}
	o.Experimental.ReadSamplingMultiplier = -1
	o.EnsureDefaults()
	o.FS = faultFS{o.FS, s.fault}
	if !c.ReadOnly {
		s.fault.note = note(c.FS, c.Dir)
		if why, err := c.FS.Stat(c.FS.PathJoin(c.Dir, noteFile)); err == nil {
			return &DamagedError{Dir: c.Dir, Why: fmt.Sprintf("%s says so since %s", noteFile, why.ModTime().UTC().Format(time.RFC3339))}
		}
	}
	db, err := pebble.Open(c.Dir, o)
	if err != nil {
		err = fmt.Errorf("open projections in %s: %w", c.Dir, err)
		return cmp.Or(openDamage(c.Dir, err), err)
	}
	s.db, s.logger = db, c.Logger
	return nil
}

// Close closes the store. It does not flush: the next start continues from the
// store's own log. Run must have ended. Close returns a fault that Run has not
// returned. Where Pebble could wait for ever, Close leaves it open; the process ends.
func (s *Store) Close() error {
	err := s.fault.get()
	if !s.fault.isParked() {
		err = s.fault.guard(s.db.Close)
	} // else a goroutine that never ends may still read the database
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.stopped, err) {
		return nil
	}
	return err
}

// EventBytes returns how many bytes of events were read since the store was opened.
func (s *Store) EventBytes() int64 { return s.read.Load() }

// Clear empties the store. Run must have ended.
func (s *Store) Clear() error { return s.fault.guard(s.clear) }

func (s *Store) clear() error {
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

// Applied returns the checkpoint. Reads see everything up to its Seq.
func (s *Store) Applied() Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// SetAside returns the number of chains that were set aside because an event on them
// could not be applied; see [Store.WhyAside].
func (s *Store) SetAside() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aside
}

// WaitFor returns when reads see the record at seq. Errors:
// [ledger.ErrUnavailable] at once when Run has ended, with the reason if it was
// not asked to end, and when ctx ends. WaitFor waits before Run is started.
func (s *Store) WaitFor(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		at, moved, ended, stopped := s.applied.Seq, s.moved, s.ended, s.stopped
		s.mu.Unlock()
		switch {
		case at >= seq:
			return nil
		case stopped != nil:
			return fmt.Errorf("%w: projections stopped at %d: %w", ledger.ErrUnavailable, at, stopped)
		case ended:
			return fmt.Errorf("%w: projections stopped at %d", ledger.ErrUnavailable, at)
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

func (s *Store) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.stopped = false, nil
}

func (s *Store) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.stopped = true, err
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
		return nil, false, readError(err)
	}
	v = append([]byte(nil), b...)
	return v, true, closer.Close()
}
