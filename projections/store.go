package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"nexus/ledger"
	"nexus/ledger/tlog"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Config says where and how a store is kept.
type Config struct {
	Dir    string       // folder, created if missing
	FS     db.FS        // nil: the disk
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
	folder   *db.Folder
	logger   *slog.Logger
	ledger   turns.ID // see Config.Ledger
	database atomic.Pointer[database]

	read atomic.Int64 // see EventBytes

	mu      sync.Mutex
	applied rows.Checkpoint // guarded by mu
	aside   int             // chains set aside; guarded by mu
	waiting map[*wait]bool  // who waits for a position; guarded by mu
	ended   bool            // Run has ended, and was not started again; guarded by mu
	stopped error           // why it ended, nil if ctx ended; guarded by mu
	held    error           // see Hold; guarded by mu
}

// database is one opening of the database, with what is held in memory of it.
type database struct {
	*db.DB
	recent *recent
	tree   tlog.Frontier // of the last batch that was committed; of the applier alone
}

func newDatabase(d *db.DB) *database { return &database{DB: d, recent: newRecent()} }

// db returns the database that reads use. [Store.Reopen] replaces it.
func (s *Store) db() *database { return s.database.Load() }

func (s *Store) view() view {
	d := s.db()
	return view{r: d.DB, side: d.DB, ledger: s.ledger, recent: d.recent}
}

// History returns the store as [ledger.Admit] reads it. It follows the
// store as that advances, until [Store.Reopen]: take a new one for each request.
func (s *Store) History() ledger.History { return s.view() }

// Open opens or creates the store. One written by another schema is emptied:
// Run then rebuilds it. Errors: [*db.DamagedError] if the files do not hold what was
// written, now or in an earlier run; those of the disk.
func Open(c Config) (*Store, error) {
	s := &Store{ledger: c.Ledger, logger: c.Logger, waiting: make(map[*wait]bool)}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	folder, d, err := db.Open(db.Config{Dir: c.Dir, FS: c.FS, Cache: c.Cache, Logger: s.logger, ReadOnly: c.ReadOnly})
	if err != nil {
		return nil, err
	}
	s.folder = folder
	s.use(d)
	if err := folder.RemoveScratches(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Reopen opens the folder again, if the database can't go on from a fault, and
// returns nil with nothing done if it can. Run must have ended. Reads use the failed
// database until the new one is open, and fail if they still run then.
//
// Crash states: those of [Open]. Errors: those of [db.Folder.Replace]. Waits
// wait again, for the next Run.
func (s *Store) Reopen() error {
	defer s.start()
	old := s.db()
	if old.Fault() == nil {
		return nil
	}
	d, err := s.folder.Replace(old.DB)
	if err != nil {
		return err
	}
	s.use(d)
	old.Replaced()
	return nil
}

// Fault returns why the database can't go on, nil if it can.
func (s *Store) Fault() error { return s.db().Fault() }

// use makes reads use d.
func (s *Store) use(d *db.Opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.database.Store(newDatabase(d.DB))
	s.applied, s.aside = d.Applied, d.Aside
}

// Close closes the store. Run must have ended. It writes what is in memory to tables, unless
// the disk is thought to take no writes; see [db.Folder.Close]. It returns a fault that Run has
// not returned.
func (s *Store) Close() error {
	s.mu.Lock()
	flush := s.held == nil
	s.mu.Unlock()
	err := s.folder.Close(s.db().DB, flush)
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.stopped, err) {
		return nil
	}
	return err
}

// Expect gives the store an event whose payload, made by [turns.Event.Encode] from e, has
// a hash. When the log has it, its payload is not decoded: the hash proves the bytes. The
// store keeps a copy of e's header, of small events only.
func (s *Store) Expect(hash turns.Hash, e *turns.Event) {
	if e.Kind != turns.KindTurn || len(e.Blobs) > 0 {
		return
	}
	h := *e
	h.Body = nil
	if e.Usage != nil {
		u := *e.Usage
		h.Usage = &u
	}
	h.Keys = slices.Clone(e.Keys)
	r := s.db().recent
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events.add(hash, &h)
}

// EventBytes returns how many bytes of events were read since the store was opened.
func (s *Store) EventBytes() int64 { return s.read.Load() }

// Clear empties the store. Run must have ended.
func (s *Store) Clear() error {
	d, cp := s.db(), rows.Checkpoint{Schema: rows.Schema}
	if err := d.Guard(func() error { return d.Empty(cp) }); err != nil {
		return err
	}
	d.recent.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied, s.aside = cp, 0
	return nil
}

// Applied returns the checkpoint. Reads see everything up to its Seq.
func (s *Store) Applied() rows.Checkpoint {
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
// not asked to end, while [Store.Hold] is in force, and when ctx ends. WaitFor waits before Run is started.
func (s *Store) WaitFor(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		at, ended, stopped := s.applied.Seq, s.ended, cmp.Or(s.held, s.stopped)
		w := &wait{seq: seq, over: make(chan struct{})}
		if at < seq && stopped == nil && !ended {
			s.waiting[w] = true
		}
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
		case <-w.over:
		case <-ctx.Done():
			s.mu.Lock()
			delete(s.waiting, w)
			s.mu.Unlock()
			return fmt.Errorf("%w: projections are at %d, not yet at %d: %w", ledger.ErrUnavailable, at, seq, ctx.Err())
		}
	}
}

// wait is one turn of a WaitFor.
type wait struct {
	seq  uint64
	over chan struct{} // closed when it is to look again
}

// wake ends the waits for positions up to seq: those of others have nothing to look for. mu is
// held.
func (s *Store) wake(seq uint64) {
	for w := range s.waiting {
		if w.seq <= seq {
			close(w.over)
			delete(s.waiting, w)
		}
	}
}

// Hold makes every wait for what is not applied end with why, until Hold(nil). The
// caller knows that nothing will be applied soon.
func (s *Store) Hold(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = why
	s.wake(math.MaxUint64)
}

// advance notes what a batch has applied to d. A batch of a database that was
// replaced meanwhile moves nothing.
func (s *Store) advance(d *database, cp rows.Checkpoint, aside int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db() != d {
		return
	}
	s.applied = cp
	s.aside += aside
	s.wake(cp.Seq)
}

// start makes waits wait for Run.
func (s *Store) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.stopped = false, nil
}

func (s *Store) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.stopped = true, err
	s.wake(math.MaxUint64)
}
