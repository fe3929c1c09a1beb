package db

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/rows"
)

// FS is a disk.
type FS = vfs.FS

// Config says where and how a database is kept.
type Config struct {
	Dir    string       // folder, created if missing
	FS     FS           // nil: the disk
	Cache  int64        // bytes of block cache; 0: 64 MiB
	Logger *slog.Logger // nil: silent
	// ReadOnly opens rows of any schema; nothing is written, nor emptied.
	ReadOnly bool
}

// Folder is a folder that has a database open. Where that fails, another one takes its place.
type Folder struct {
	config Config        // without defaults that In fills in
	cache  *pebble.Cache // of every database in turn
	logger *slog.Logger

	abandoned        atomic.Int64 // databases that Replace left behind
	scratches        atomic.Int64 // scratch databases that were begun
	scratchAbandoned atomic.Int64 // databases that these left behind
}

// Opened is a database with what its rows say.
type Opened struct {
	*DB
	Applied rows.Checkpoint
	Aside   int // chains set aside
}

// Open opens or creates the database of a folder. One written by another schema is emptied.
// Errors: [*DamagedError] if the files do not hold what was written, now or in an earlier run;
// those of the disk.
func Open(c Config) (*Folder, *Opened, error) {
	f := &Folder{config: c, logger: c.Logger}
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	f.cache = pebble.NewCache(cmp.Or(c.Cache, 64<<20))
	d, err := f.open(newFault(c.Dir))
	if err != nil {
		f.cache.Unref()
		return nil, nil, err
	}
	return f, d, nil
}

// maxAbandoned bounds how many databases a process leaves behind: each may hold some
// 48 MiB of memtables.
const maxAbandoned = 16

// ErrAbandoned: the disk failed so often that the process must be started again.
var ErrAbandoned = fmt.Errorf("%w: the projections failed %d times in this process; start it again", ledger.ErrUnavailable, maxAbandoned)

// Replace opens the folder again, in the place of a database that can't go on from its fault.
// Reads go on with the old one until the caller calls its [DB.Replaced].
//
// The failed database leaves its parked goroutines and its memtables behind: at most 16 times,
// then Replace fails for good.
//
// Crash states: those of [Open]. Errors: those of Open, after which the old database still
// serves reads and Replace may be called again; [ErrAbandoned].
func (f *Folder) Replace(old *DB) (*Opened, error) {
	if f.abandoned.Add(1) > maxAbandoned {
		return nil, ErrAbandoned
	}
	if !old.fault.isParked() { // damage: nothing is in the way of closing it
		if err := old.Close(); err != nil && !errors.Is(err, old.fault.get()) {
			return nil, err
		}
	}
	if err := old.fs.unlock(); err != nil {
		return nil, fmt.Errorf("open projections again: %w", err)
	}
	return f.open(newFault(f.config.Dir))
}

// Close closes the database of the folder. If flush is set, it writes what is in memory to
// tables, so that the next start has no log of the database to apply; where that fails, as after
// a kill, the next start continues from that log. Close returns the fault if there is one. Where
// Pebble could wait for ever, it leaves the database open; the process ends.
func (f *Folder) Close(d *DB, flush bool) error {
	err := d.fault.get()
	if err == nil && flush && !f.config.ReadOnly {
		err = d.fault.guard(d.Flush)
	}
	if !d.fault.isParked() {
		err = cmp.Or(err, d.Close())
		f.cache.Unref()
	} else if aerr := d.abandon(); aerr != nil { // a goroutine that never ends may still read the database
		err = errors.Join(err, aerr)
	}
	return err
}

// open opens the folder. A fault meanwhile leaves nothing of it open.
func (f *Folder) open(fault *fault) (*Opened, error) {
	d := &Opened{DB: &DB{fault: fault}}
	err := fault.guard(func() error { return f.openDB(d.DB) })
	if err == nil {
		err = fault.guard(func() error { return f.load(d) })
	}
	switch {
	case err == nil:
		return d, nil
	case fault.isParked(): // the goroutine that is parked may have the database
		if d.fs != nil {
			err = errors.Join(err, d.abandon())
		}
	case d.DB.DB != nil: // it is open; Pebble met damage in the background meanwhile
		err = errors.Join(err, d.DB.DB.Close())
	}
	return nil, err
}

func (f *Folder) openDB(d *DB) error {
	c := f.config
	c.FS = f.disk()
	if f.config.FS == nil && !c.ReadOnly {
		if err := c.FS.MkdirAll(c.Dir, 0o700); err != nil {
			return fmt.Errorf("open projections: %w", err)
		}
		if err := os.Chmod(c.Dir, 0o700); err != nil { // one that an earlier version made
			return fmt.Errorf("open projections: %w", err)
		}
	}
	o := d.options(c.FS, f.cache, f.logger)
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

// load reads the checkpoint, and counts the chains that were set aside. It empties rows of another
// schema.
func (f *Folder) load(d *Opened) (err error) {
	if d.Applied, err = Checkpoint(d.DB); err != nil {
		return err
	}
	if d.Applied.Schema != rows.Schema && !f.config.ReadOnly {
		if d.Applied.Schema != 0 {
			f.logger.Info("projections have another schema and are rebuilt", "have", d.Applied.Schema, "want", rows.Schema)
		}
		d.Applied = rows.Checkpoint{Schema: rows.Schema}
		return d.Empty(d.Applied)
	}
	for _, err := range AllAside(d.DB) {
		if err != nil {
			return err
		}
		d.Aside++
	}
	return nil
}

// disk returns the file system of the folder.
func (f *Folder) disk() vfs.FS {
	switch {
	case f.config.FS != nil:
		return f.config.FS
	case f.config.ReadOnly:
		return vfs.Default
	}
	return ownerOnly{vfs.Default}
}
