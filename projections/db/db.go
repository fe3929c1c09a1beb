package db

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/rows"
)

// DB is one opening of Pebble. Safe for concurrent use. Once it has a fault, it writes nothing
// any more, and what waits for it returns.
type DB struct {
	*pebble.DB
	fault *fault
	fs    *faultFS

	using     sync.RWMutex // held for reading while a snapshot is read
	closed    atomic.Bool  // no snapshot is read any more
	mu        sync.Mutex
	snapshots map[*pebble.Snapshot]struct{} // guarded by mu
}

// options returns the options of a database on a disk. Its writes and its damage are faults.
func (d *DB) options(fs vfs.FS, cache *pebble.Cache, logger *slog.Logger) *pebble.Options {
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

// Fault returns why the database can't go on, nil if it can.
func (d *DB) Fault() error { return d.fault.get() }

// Failed returns a channel that is closed when there is a fault.
func (d *DB) Failed() <-chan struct{} { return d.fault.set }

// Guard returns the fault if there is one, else the error of work. It does
// not wait for work once Pebble could wait for ever.
func (d *DB) Guard(work func() error) error { return d.fault.guard(work) }

// Damaged makes damage that Pebble does not know of a fault, which the next opening has too,
// and returns the fault.
func (d *DB) Damaged(why string) error {
	d.fault.damaged(why)
	return d.fault.get()
}

// Close closes the database, or what it can of one with a parked goroutine. Snapshots end.
func (d *DB) Close() error {
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
func (d *DB) abandon() error {
	err := d.fs.unlock()
	d.fs.closeAll()
	return err
}

// Replaced closes the files of a database that another one has replaced; see [Folder.Replace].
// A read that still runs on it fails.
func (d *DB) Replaced() {
	d.closed.Store(true)
	d.fs.closeAll()
}

// errReplaced says that a database was closed under its snapshots.
var errReplaced = fmt.Errorf("%w: the projections were opened again meanwhile", ledger.ErrUnavailable)

// closeDB ends the use of the snapshots and closes the database.
func (d *DB) closeDB() error {
	d.using.Lock() // waits for reads that run
	d.closed.Store(true)
	d.using.Unlock()
	d.mu.Lock()
	open := d.snapshots
	d.snapshots = nil
	d.mu.Unlock()
	var errs []error
	for s := range open {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, d.DB.Close())...)
}

// NewBatch returns an empty batch, which can't be read.
func (d *DB) NewBatch() Batch { return Batch{d.DB.NewBatch()} }

// NewIndexedBatch returns an empty batch; reads of it see its rows and those of the database.
func (d *DB) NewIndexedBatch() Batch { return Batch{d.DB.NewIndexedBatch()} }

// Empty removes all rows and writes a checkpoint.
func (d *DB) Empty(cp rows.Checkpoint) error {
	b := d.NewBatch()
	defer b.Close()
	if err := b.DeleteRange([]byte{0}, []byte{0xff}, nil); err != nil {
		return err
	}
	if err := b.PutCheckpoint(cp); err != nil {
		return err
	}
	if err := b.Batch.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("empty the projections: %w", err)
	}
	return nil
}
