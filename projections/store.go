package projections

import (
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"nexus/ledger"
	"nexus/projections/apply"
	"nexus/projections/compare"
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
	database atomic.Pointer[apply.Database]

	read atomic.Int64 // see EventBytes

	mu      sync.Mutex
	applied rows.Checkpoint // guarded by mu
	aside   int             // chains set aside; guarded by mu
	waiting map[*wait]bool  // who waits for a position; guarded by mu
	ended   bool            // Run has ended, and was not started again; guarded by mu
	stopped error           // why it ended, nil if ctx ended; guarded by mu
	held    error           // see Hold; guarded by mu
}

// db returns the database that reads use. [Store.Reopen] replaces it.
func (s *Store) db() *apply.Database { return s.database.Load() }

func (s *Store) view() apply.View { return s.db().View(s.ledger) }

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
	s.database.Store(apply.NewDatabase(d.DB))
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
// a hash, and what [ledger.Admit] made of it on a subject. When the log has it there, its payload is
// not decoded, since the hash proves the bytes, and Admit is not asked again if the chain is the same. The
// store keeps a copy of e's header, of small events only.
func (s *Store) Expect(subject string, hash turns.Hash, e *turns.Event, a *ledger.Admitted) {
	s.db().Expect(subject, hash, e, a)
}

// Compare begins a comparison of all rows with the log of an identity. The caller calls
// Close. Errors: [db.ErrNoRoom], [ledger.ErrUnavailable], those of the disk; [ledger.ErrCorrupt]
// if the rows do not say how far they go.
func (s *Store) Compare(identity string) (*compare.Pass, error) {
	return compare.All(s.compared(), identity)
}

// CompareSome begins a comparison of the rows of some chains of sessions, of which the caller
// gives it all records, those of ancestors first. It does not find rows that follow from nothing.
func (s *Store) CompareSome() (*compare.Pass, error) { return compare.Some(s.compared()) }

// compared returns what a comparison reads, as it is now.
func (s *Store) compared() compare.Rows {
	s.mu.Lock()
	defer s.mu.Unlock()
	return compare.Rows{Database: s.db(), Applied: s.applied.Seq, Folder: s.folder, Ledger: s.ledger}
}

// EventBytes returns how many bytes of events were read since the store was opened.
func (s *Store) EventBytes() int64 { return s.read.Load() }

// Clear empties the store. Run must have ended.
func (s *Store) Clear() error {
	d, cp := s.db(), rows.Checkpoint{Schema: rows.Schema}
	if err := d.Empty(cp); err != nil {
		return err
	}
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

// advance notes what a batch has applied to d. A batch of a database that was
// replaced meanwhile moves nothing.
func (s *Store) advance(d *apply.Database, cp rows.Checkpoint, aside int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db() != d {
		return
	}
	s.applied = cp
	s.aside += aside
	s.wake(cp.Seq)
}
