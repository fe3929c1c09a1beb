package db

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// Snapshot is the rows as they were, whatever is applied meanwhile. Pebble keeps what
// is written over until it is closed.
type Snapshot struct {
	*pebble.Snapshot
	d *DB
}

// Snapshot returns a snapshot of the database.
func (d *DB) Snapshot() (*Snapshot, error) {
	s := &Snapshot{d: d}
	err := d.fault.guard(func() error {
		return s.Use(func() error {
			s.Snapshot = d.NewSnapshot()
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.snapshots == nil {
				d.snapshots = make(map[*pebble.Snapshot]struct{})
			}
			d.snapshots[s.Snapshot] = struct{}{}
			return nil
		})
	})
	return s, err
}

// Err returns why the rows can't be read any more, nil if they can.
func (s *Snapshot) Err() error {
	if s.d.closed.Load() {
		return errReplaced
	}
	return nil
}

// Use runs a short read of the snapshot, during which the database is not closed.
func (s *Snapshot) Use(read func() error) error {
	s.d.using.RLock()
	defer s.d.using.RUnlock()
	if err := s.Err(); err != nil {
		return err
	}
	err := read()
	if err != nil && s.d.closed.Load() { // its files were closed
		return errReplaced
	}
	return err
}

// Close gives the snapshot back, unless the database was closed. Where Pebble could wait for
// ever, it does nothing.
func (s *Snapshot) Close() error {
	if s.d.fault.isParked() {
		return nil
	}
	err := s.d.fault.guard(func() error {
		s.d.using.RLock() // closeDB waits
		defer s.d.using.RUnlock()
		s.d.mu.Lock()
		_, ok := s.d.snapshots[s.Snapshot]
		delete(s.d.snapshots, s.Snapshot)
		s.d.mu.Unlock()
		if !ok {
			return nil
		}
		return s.Snapshot.Close()
	})
	if errors.Is(err, s.d.fault.get()) {
		return nil // whoever runs the store has the fault
	}
	return err
}

// A sweep reads so many rows, or bytes, before it lets the database be closed.
const sweepRows, sweepBytes = 1000, 4 << 20

// Sweep visits all rows, by key. What visit is given is the database's.
func (s *Snapshot) Sweep(ctx context.Context, visit func(k, v []byte) error) error {
	for lo := []byte{0}; lo != nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.Use(func() (err error) { lo, err = s.sweepFrom(lo, visit); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepFrom visits some rows from a key on, and returns where the next ones begin, nil
// if there is none.
func (s *Snapshot) sweepFrom(lo []byte, visit func(k, v []byte) error) (next []byte, err error) {
	it, err := s.NewIter(&pebble.IterOptions{LowerBound: lo})
	if err != nil {
		return nil, readError(err)
	}
	defer func() {
		if cerr := it.Close(); err == nil && cerr != nil {
			err = readError(cerr)
		}
	}()
	rows, size := 0, 0
	for ok := it.First(); ok; ok = it.Next() {
		if rows >= sweepRows || size >= sweepBytes {
			return bytes.Clone(it.Key()), nil
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, readError(err)
		}
		if err := visit(it.Key(), v); err != nil {
			return nil, err
		}
		rows, size = rows+1, size+len(v)
	}
	if err := it.Error(); err != nil {
		return nil, readError(err)
	}
	return nil, nil
}

// Damage returns an error of a read of the snapshot. Damage of the database's files is a
// [*DamagedError].
func (s *Snapshot) Damage(err error) error {
	if damaged := (*DamagedError)(nil); errors.As(s.d.fault.get(), &damaged) {
		return damaged
	}
	if read := (*ReadError)(nil); errors.As(err, &read) && pebble.IsCorruptionError(read.Err) {
		return &DamagedError{Dir: s.d.fault.dir, Why: read.Err.Error()}
	}
	return err
}
