package db

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"nexus/ledger"
)

// DamagedError says that the projections do not hold what was written. They can be
// made again from the log. Unwrap gives [ledger.ErrCorrupt].
type DamagedError struct{ Dir, Why string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the projections in %s are damaged: %s; the next start makes them again from the log", e.Dir, e.Why)
}

// Unwrap gives ErrCorrupt.
func (e *DamagedError) Unwrap() error { return ledger.ErrCorrupt }

// ReadError says that the projections could not be read. What was asked for may be sound:
// damaged projections are made again from the log. Damage is [ledger.ErrCorrupt] too.
type ReadError struct{ Err error }

func (e *ReadError) Error() string {
	if pebble.IsCorruptionError(e.Err) {
		return fmt.Sprintf("%v: read the projections: %v", ledger.ErrCorrupt, e.Err)
	}
	return fmt.Sprintf("read the projections: %v", e.Err)
}

// Unwrap gives the error, [ledger.ErrHistory], and ErrCorrupt if that is damage. So no event is
// refused because the rows that decide on it are damaged.
func (e *ReadError) Unwrap() []error {
	if e.Damage() {
		return []error{ledger.ErrHistory, ledger.ErrCorrupt, e.Err}
	}
	return []error{ledger.ErrHistory, e.Err}
}

// Damage reports whether the projections do not hold what was written.
func (e *ReadError) Damage() bool {
	return pebble.IsCorruptionError(e.Err) || errors.Is(e.Err, ledger.ErrCorrupt)
}

// readError returns the error of a read of Pebble.
func readError(err error) error { return &ReadError{err} }

// openDamage returns the damage that a failed open means: nil if the disk or a lock is
// why it failed, so that another try may not fail.
func openDamage(dir string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != syscall.ENOENT || strings.Contains(err.Error(), "lock held by") {
		return nil
	}
	return &DamagedError{Dir: dir, Why: err.Error()}
}
