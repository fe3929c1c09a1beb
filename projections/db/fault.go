package db

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"nexus/ledger"
)

// fault is an error after which Pebble can't continue. Pebble finds it on any
// goroutine: its own, the one that writes, or one that reads. It answers with a
// call of [pebbleLog.Fatalf], with a panic under a lock that nobody can recover
// from, or with tries without end. So this package looks for it first: a write that the
// file system refuses, and a file that is damaged. Then [DB.Guard] returns the
// fault. Reads go on from the files that are open. [Folder.Replace] puts another
// database in the place of one that failed.
type fault struct {
	dir    string
	note   func(why string) error // notes damage in the folder; nil: it is not noted
	once   sync.Once
	set    chan struct{} // closed when err is set
	err    error         // read after set is closed
	stop   sync.Once
	parked chan struct{} // closed when a goroutine is parked: Pebble may wait for ever
}

func newFault(dir string) *fault {
	return &fault{dir: dir, set: make(chan struct{}), parked: make(chan struct{})}
}

// raise notes the first fault.
func (f *fault) raise(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.set)
	})
}

// get returns the fault, nil if there is none.
func (f *fault) get() error {
	select {
	case <-f.set:
		return f.err
	default:
		return nil
	}
}

// corruption is called by Pebble when a file does not hold what was written.
// The read that found it fails as well. The next Open says so too: Pebble finds
// damage in the part that is read, and may not read that part again for long.
func (f *fault) corruption(i pebble.DataCorruptionInfo) {
	f.damaged(fmt.Sprintf("%s: %v", i.Path, i.Details))
}

// damaged raises that the projections are damaged, and notes it for the next Open.
func (f *fault) damaged(why string) {
	err := &DamagedError{Dir: f.dir, Why: why}
	if f.note != nil {
		if nerr := f.note(err.Why); nerr != nil {
			err.Why += fmt.Sprintf(" (and it could not be noted: %v)", nerr)
		}
	}
	f.raise(err)
}

// park raises an error and never returns, so Pebble runs no code after the error.
// From then on no call of Pebble changes a file. A parked goroutine and the memory
// that it names stay until the process ends; [Folder.Replace] counts them.
func (f *fault) park(err error) {
	f.raise(fmt.Errorf("%w: the projections in %s failed: %w", ledger.ErrUnavailable, f.dir, err))
	f.stop.Do(func() { close(f.parked) })
	select {}
}

// fence parks a goroutine that wants to change a file after one was parked. What
// Pebble would write then follows from a write that did not happen.
func (f *fault) fence() {
	if f.isParked() {
		select {}
	}
}

// isParked reports whether a goroutine is parked.
func (f *fault) isParked() bool {
	select {
	case <-f.parked:
		return true
	default:
		return false
	}
}

// guard returns the fault if there is one, else the error of work. It does
// not wait for work once a goroutine is parked, which may be that of work.
func (f *fault) guard(work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	var err error
	select {
	case err = <-done:
	case <-f.parked:
	}
	if f := f.get(); f != nil {
		return f // it says what to do; err only follows from it
	}
	return err
}

// pebbleLog is Pebble's logger. It drops informational lines and passes errors on.
type pebbleLog struct {
	l *slog.Logger
	f *fault
}

func (pebbleLog) Infof(string, ...any)        {}
func (p pebbleLog) Errorf(f string, a ...any) { p.l.Error("pebble", "err", fmt.Sprintf(f, a...)) }
func (p pebbleLog) Fatalf(f string, a ...any) { p.f.park(fmt.Errorf(f, a...)) }
