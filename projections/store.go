package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/rows"
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
	config   Config        // without defaults that Open fills in
	cache    *pebble.Cache // of every database in turn
	logger   *slog.Logger
	ledger   turns.ID // see Config.Ledger
	database atomic.Pointer[database]

	read      atomic.Int64 // see EventBytes
	abandoned atomic.Int64 // databases that Reopen left behind

	scratches        atomic.Int64 // comparisons that were begun
	scratchAbandoned atomic.Int64 // databases that these left behind

	mu      sync.Mutex
	applied rows.Checkpoint // guarded by mu
	aside   int             // chains set aside; guarded by mu
	waiting map[*wait]bool  // who waits for a position; guarded by mu
	ended   bool            // Run has ended, and was not started again; guarded by mu
	stopped error           // why it ended, nil if ctx ended; guarded by mu
	held    error           // see Hold; guarded by mu
}

// database is one opening of Pebble.
type database struct {
	*pebble.DB
	fault  *fault
	fs     *faultFS
	recent *recent

	using     sync.RWMutex // held for reading while a snapshot is read
	closed    atomic.Bool  // no snapshot is read any more
	mu        sync.Mutex
	snapshots map[*snapshot]struct{} // guarded by mu
}

// db returns the database that reads use. [Store.Reopen] replaces it.
func (s *Store) db() *database { return s.database.Load() }

// close closes the database, or what it can of one with a parked goroutine.
func (d *database) close() error {
	if d.fault.isParked() {
		return d.abandon()
	}
	err := d.fault.guard(d.closeDB)
	if d.fault.isParked() {
		if aerr := d.abandon(); aerr != nil {
			err = errors.Join(err, aerr)
		}
	}
	return err
}

// abandon takes from a database that can't be closed what it holds of the folder: the
// lock, and the open files. A read that still runs on it fails. What Pebble holds
// in memory stays, at most the memtables, until the process ends.
func (d *database) abandon() error {
	err := d.fs.unlock()
	d.fs.closeAll()
	return err
}

// Open opens or creates the store. One written by another schema is emptied:
// Run then rebuilds it. Errors: [*DamagedError] if the files do not hold what was
// written, now or in an earlier run; those of the disk.
func Open(c Config) (*Store, error) {
	s := &Store{ledger: c.Ledger, config: c, logger: c.Logger, waiting: make(map[*wait]bool)}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.cache = pebble.NewCache(cmp.Or(c.Cache, 64<<20))
	d, err := s.open(newFault(c.Dir))
	if err != nil {
		s.cache.Unref()
		return nil, err
	}
	s.use(d)
	if err := s.removeScratches(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Reopen opens the folder again, if the database can't go on from a fault, and
// returns nil with nothing done if it can. Run must have ended. Reads use the failed
// database until the new one is open, and fail if they still run then.
//
// The failed database leaves its parked goroutines and its memtables behind: at most
// [maxAbandoned] times, then Reopen fails for good.
//
// Crash states: those of [Open]. Errors: those of Open, after which the failed
// database still serves reads and Reopen may be called again; [ErrAbandoned]. Waits
// wait again, for the next Run.
func (s *Store) Reopen() error {
	defer s.start()
	old := s.db()
	if old.fault.get() == nil {
		return nil
	}
	if s.abandoned.Add(1) > maxAbandoned {
		return ErrAbandoned
	}
	if !old.fault.isParked() { // damage: nothing is in the way of closing it
		if err := old.close(); err != nil && !errors.Is(err, old.fault.get()) {
			return err
		}
	}
	if err := old.fs.unlock(); err != nil {
		return fmt.Errorf("open projections again: %w", err)
	}
	d, err := s.open(newFault(s.config.Dir))
	if err != nil {
		return err
	}
	s.use(d)
	old.closed.Store(true)
	old.fs.closeAll()
	return nil
}

// maxAbandoned bounds how many databases a process leaves behind: each may hold some
// 48 MiB of memtables.
const maxAbandoned = 16

// ErrAbandoned: the disk failed so often that the process must be started again.
var ErrAbandoned = fmt.Errorf("%w: the projections failed %d times in this process; start it again", ledger.ErrUnavailable, maxAbandoned)

// Fault returns why the database can't go on, nil if it can.
func (s *Store) Fault() error { return s.db().fault.get() }

// opening is a database with what its rows say.
type opening struct {
	*database
	applied rows.Checkpoint
	aside   int
}

// use makes reads use d.
func (s *Store) use(d *opening) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.database.Store(d.database)
	s.applied, s.aside = d.applied, d.aside
}

// open opens the folder. A fault meanwhile leaves nothing of it open.
func (s *Store) open(f *fault) (*opening, error) {
	d := &opening{database: &database{fault: f, recent: newRecent()}}
	err := f.guard(func() error { return s.openDB(d.database) })
	if err == nil {
		err = f.guard(func() error { return s.load(d) })
	}
	switch {
	case err == nil:
		return d, nil
	case f.isParked(): // the goroutine that is parked may have the database
		if d.fs != nil {
			err = errors.Join(err, d.abandon())
		}
	case d.DB != nil: // it is open; Pebble met damage in the background meanwhile
		err = errors.Join(err, d.DB.Close())
	}
	return nil, err
}

// load reads the checkpoint. It empties rows of another schema.
func (s *Store) load(d *opening) (err error) {
	if d.applied, err = checkpoint(d.DB); err != nil {
		return err
	}
	if d.applied.Schema != rows.Schema && !s.config.ReadOnly {
		if d.applied.Schema != 0 {
			s.logger.Info("projections have another schema and are rebuilt", "have", d.applied.Schema, "want", rows.Schema)
		}
		d.applied = rows.Checkpoint{Schema: rows.Schema}
		return empty(d.DB, d.applied)
	}
	for _, err := range allAside(d.DB) {
		if err != nil {
			return err
		}
		d.aside++
	}
	return nil
}

// disk returns the file system of the store.
func (s *Store) disk() vfs.FS {
	switch {
	case s.config.FS != nil:
		return s.config.FS
	case s.config.ReadOnly:
		return vfs.Default
	}
	return ownerOnly{vfs.Default}
}

func (s *Store) openDB(d *database) error {
	c := s.config
	c.FS = s.disk()
	if s.config.FS == nil && !c.ReadOnly {
		if err := c.FS.MkdirAll(c.Dir, 0o700); err != nil {
			return fmt.Errorf("open projections: %w", err)
		}
		if err := os.Chmod(c.Dir, 0o700); err != nil { // one that an earlier version made
			return fmt.Errorf("open projections: %w", err)
		}
	}
	o := d.options(c.FS, s.cache, s.logger)
	o.WALBytesPerSync, o.ReadOnly = 512<<10, c.ReadOnly
	if !c.ReadOnly {
		d.fault.note = note(c.FS, c.Dir)
		if why, err := c.FS.Stat(c.FS.PathJoin(c.Dir, noteFile)); err == nil {
			return &DamagedError{Dir: c.Dir, Why: fmt.Sprintf("%s says so since %s", noteFile, why.ModTime().UTC().Format(time.RFC3339))}
		}
	}
	db, err := pebble.Open(c.Dir, o)
	if err != nil {
		err = fmt.Errorf("open projections in %s: %w", c.Dir, err)
		return cmp.Or(openDamage(c.Dir, err), err)
	}
	d.DB = db
	return nil
}

// options returns the options of a database on a disk. Its writes and its damage are faults.
func (d *database) options(fs vfs.FS, cache *pebble.Cache, logger *slog.Logger) *pebble.Options {
	o := &pebble.Options{
		FS: fs, Cache: cache, Logger: pebbleLog{logger, d.fault},
		EventListener:      &pebble.EventListener{DataCorruption: d.fault.corruption},
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       16 << 20,
		MaxOpenFiles:       500,
	}
	for i := range o.Levels {
		if i < len(o.Levels)-1 {
			o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		}
	}
	o.Experimental.ReadSamplingMultiplier = -1
	o.EnsureDefaults()
	d.fs = newFaultFS(o.FS, d.fault)
	o.FS = d.fs
	return o
}

// Close closes the store. Run must have ended. It writes what is in memory to tables, so
// that the next start has no log of the store to apply; where that fails, as after a kill,
// the next start continues from that log. Close returns a fault that Run has not
// returned. Where Pebble could wait for ever, Close leaves it open; the process ends.
func (s *Store) Close() error {
	d := s.db()
	err := d.fault.get()
	if s.mayFlush(err) {
		err = d.fault.guard(d.Flush)
	}
	if !d.fault.isParked() {
		err = cmp.Or(err, d.close())
		s.cache.Unref()
	} else if aerr := d.abandon(); aerr != nil { // a goroutine that never ends may still read the database
		err = errors.Join(err, aerr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.stopped, err) {
		return nil
	}
	return err
}

// mayFlush reports whether the disk is thought to take writes.
func (s *Store) mayFlush(fault error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fault == nil && s.held == nil && !s.config.ReadOnly
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
	if err := d.fault.guard(func() error { return empty(d.DB, cp) }); err != nil {
		return err
	}
	d.recent.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied, s.aside = cp, 0
	return nil
}

// empty removes all rows and writes cp.
func empty(db *pebble.DB, cp rows.Checkpoint) error {
	b := db.NewBatch()
	defer b.Close()
	if err := b.DeleteRange([]byte{0}, []byte{0xff}, nil); err != nil {
		return err
	}
	if err := putCheckpoint(b, cp); err != nil {
		return err
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("empty the projections: %w", err)
	}
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

func checkpoint(r pebble.Reader) (cp rows.Checkpoint, err error) {
	b, ok, err := get(r, rows.Checkpoints.Key())
	if err != nil || !ok {
		return cp, err
	}
	if err := rows.Decode(b, &cp); err != nil {
		return cp, fmt.Errorf("%w: checkpoint of the projections: %v", ledger.ErrCorrupt, err)
	}
	return cp, nil
}

func putCheckpoint(b *pebble.Batch, cp rows.Checkpoint) error {
	v, err := rows.Encode(cp)
	if err != nil {
		return err
	}
	return b.Set(rows.Checkpoints.Key(), v, nil)
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
