package projections

import (
	"fmt"
	"log/slog"
	"sync"

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
// The read that found it fails as well.
func (f *fault) corruption(i pebble.DataCorruptionInfo) {
	f.raise(fmt.Errorf("%w: the projections in %s are damaged: %s: %v; delete that folder, and the next start makes it again from the log",
		ledger.ErrCorrupt, f.dir, i.Path, i.Details))
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
