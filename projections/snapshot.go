package projections

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"nexus/ledger"
)

// snapshot is the rows as they were, whatever is applied meanwhile. Pebble keeps what
// is written over until it is closed.
type snapshot struct {
	*pebble.Snapshot
	d *database
}

// errReplaced says that a database was closed under its snapshots.
var errReplaced = fmt.Errorf("%w: the projections were opened again meanwhile", ledger.ErrUnavailable)

// snapshot returns a snapshot of the database.
func (d *database) snapshot() (*snapshot, error) {
	s := &snapshot{d: d}
	err := d.fault.guard(func() error {
		return s.use(func() error {
			s.Snapshot = d.NewSnapshot()
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.snapshots == nil {
				d.snapshots = make(map[*snapshot]struct{})
			}
			d.snapshots[s] = struct{}{}
			return nil
		})
	})
	return s, err
}

// use runs a short read of the snapshot, during which the database is not closed.
func (s *snapshot) use(read func() error) error {
	s.d.using.RLock()
	defer s.d.using.RUnlock()
	if s.d.closed.Load() {
		return errReplaced
	}
	err := read()
	if err != nil && s.d.closed.Load() { // its files were closed
		return errReplaced
	}
	return err
}

// close gives the snapshot back. Where Pebble could wait for ever, it does nothing.
func (s *snapshot) close() error {
	s.d.mu.Lock()
	_, ok := s.d.snapshots[s]
	delete(s.d.snapshots, s)
	s.d.mu.Unlock()
	if !ok || s.d.fault.isParked() {
		return nil
	}
	err := s.d.fault.guard(s.Snapshot.Close)
	if errors.Is(err, s.d.fault.get()) {
		return nil // whoever runs the store has the fault
	}
	return err
}

// closeDB ends the use of the snapshots and closes the database.
func (d *database) closeDB() error {
	d.using.Lock() // waits for reads that run
	d.closed.Store(true)
	d.using.Unlock()
	d.mu.Lock()
	open := d.snapshots
	d.snapshots = nil
	d.mu.Unlock()
	var errs []error
	for s := range open {
		errs = append(errs, s.Snapshot.Close())
	}
	return errors.Join(append(errs, d.DB.Close())...)
}
