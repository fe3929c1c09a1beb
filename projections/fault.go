package projections

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
)

// fault is an error after which Pebble can't continue. Pebble finds it on any
// goroutine: its own, the one that writes, or one that reads. It answers with a
// call of [pebbleLog.Fatalf], with a panic under a lock that nobody can recover
// from, or with tries without end. So the store looks for it first: a write that the
// file system refuses, and a file that is damaged. Then [Store.Run] returns the
// fault, and the owner ends the process.
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
	err := &DamagedError{Dir: f.dir, Why: fmt.Sprintf("%s: %v", i.Path, i.Details)}
	if f.note != nil {
		if nerr := f.note(err.Why); nerr != nil {
			err.Why += fmt.Sprintf(" (and it could not be noted: %v)", nerr)
		}
	}
	f.raise(err)
}

// DamagedError says that the projections do not hold what was written. They can be
// made again from the log. Unwrap gives [ledger.ErrCorrupt].
type DamagedError struct{ Dir, Why string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the projections in %s are damaged: %s; the next start makes them again from the log", e.Dir, e.Why)
}

// Unwrap gives ErrCorrupt.
func (e *DamagedError) Unwrap() error { return ledger.ErrCorrupt }

// readError returns the error of a read of Pebble.
func readError(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: read the projections: %w", ledger.ErrCorrupt, err)
	}
	return fmt.Errorf("read the projections: %w", err)
}

// noteFile exists in the folder of projections that are known to be damaged.
const noteFile = "DAMAGED"

// note returns a function that makes [noteFile].
func note(fs vfs.FS, dir string) func(why string) error {
	return func(why string) error {
		w, err := fs.Create(fs.PathJoin(dir, noteFile), vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = w.Write([]byte(why + "\n"))
		return errors.Join(err, w.Sync(), w.Close())
	}
}

// openDamage returns the damage that a failed open means: nil if the disk or a lock is
// why it failed, so that another try may not fail.
func openDamage(dir string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != syscall.ENOENT || strings.Contains(err.Error(), "lock held by") {
		return nil
	}
	return &DamagedError{Dir: dir, Why: err.Error()}
}

// park raises an error and never returns, so Pebble runs no code after the error;
// the process is about to end.
func (f *fault) park(err error) {
	f.raise(fmt.Errorf("%w: the projections in %s failed: %w", ledger.ErrUnavailable, f.dir, err))
	f.stop.Do(func() { close(f.parked) })
	select {}
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

// faultFS is a file system on which a write that is refused is a fault. Pebble
// never sees it.
type faultFS struct {
	vfs.FS
	f *fault
}

func (w faultFS) must(err error) error {
	if err != nil {
		w.f.park(err)
	}
	return nil
}

func (w faultFS) file(f vfs.File, err error) (vfs.File, error) {
	return faultFile{f, w}, w.must(err)
}

func (w faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(w.FS.Create(name, c))
}

func (w faultFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return w.file(w.FS.ReuseForWrite(from, to, c))
}

func (w faultFS) OpenDir(name string) (vfs.File, error) {
	f, err := w.FS.OpenDir(name)
	if err != nil {
		return nil, err // it may not be there
	}
	return faultFile{f, w}, nil
}

func (w faultFS) Rename(from, to string) error { return w.must(w.FS.Rename(from, to)) }
func (w faultFS) Unwrap() vfs.FS               { return w.FS }

type faultFile struct {
	vfs.File
	fs faultFS
}

func (w faultFile) Write(b []byte) (int, error) {
	n, err := w.File.Write(b)
	return n, w.fs.must(err)
}

func (w faultFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := w.File.WriteAt(b, at)
	return n, w.fs.must(err)
}

func (w faultFile) Sync() error     { return w.fs.must(w.File.Sync()) }
func (w faultFile) SyncData() error { return w.fs.must(w.File.SyncData()) }
func (w faultFile) SyncTo(n int64) (bool, error) {
	full, err := w.File.SyncTo(n)
	return full, w.fs.must(err)
}
