package projections

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
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
// fault. Reads go on from the files that are open. [Store.Reopen] puts another
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
	if e.damage() {
		return []error{ledger.ErrHistory, ledger.ErrCorrupt, e.Err}
	}
	return []error{ledger.ErrHistory, e.Err}
}

// damage reports whether the projections do not hold what was written.
func (e *ReadError) damage() bool {
	return pebble.IsCorruptionError(e.Err) || errors.Is(e.Err, ledger.ErrCorrupt)
}

// badRow returns the error of a row that can't be decoded.
func badRow(format string, args ...any) error {
	return readError(fmt.Errorf("%w: "+format, append([]any{ledger.ErrCorrupt}, args...)...))
}

// readError returns the error of a read of Pebble.
func readError(err error) error { return &ReadError{err} }

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

// park raises an error and never returns, so Pebble runs no code after the error.
// From then on no call of Pebble changes a file. A parked goroutine and the memory
// that it names stay until the process ends; [Store.Reopen] counts them.
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

// faultFS is a file system on which a write that is refused is a fault. Pebble
// never sees it. It knows what Pebble has open, so that a database that can't be
// closed can be abandoned.
type faultFS struct {
	vfs.FS
	f    *fault
	open *openFiles
}

func newFaultFS(fs vfs.FS, f *fault) *faultFS {
	return &faultFS{fs, f, &openFiles{files: make(map[*faultFile]struct{})}}
}

// openFiles is what a database has open.
type openFiles struct {
	mu    sync.Mutex
	files map[*faultFile]struct{} // guarded by mu
	locks []*heldLock             // guarded by mu
}

// heldLock is the lock of the folder.
type heldLock struct {
	io.Closer
	once sync.Once
}

// Close releases the lock, once.
func (l *heldLock) Close() (err error) {
	l.once.Do(func() { err = l.Closer.Close() })
	return err
}

// unlock releases the folder for another database. The fault must have parked a
// goroutine: the fence stands, so this database changes no file any more.
func (w *faultFS) unlock() error {
	w.open.mu.Lock()
	defer w.open.mu.Unlock()
	var errs []error
	for _, l := range w.open.locks {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// closeAll closes the files that are still open. A read that runs meanwhile fails.
func (w *faultFS) closeAll() {
	w.open.mu.Lock()
	files := slices.Collect(maps.Keys(w.open.files))
	w.open.mu.Unlock()
	for _, f := range files {
		f.abandon()
	}
}

func (w *faultFS) must(err error) error {
	if err != nil {
		w.f.park(err)
	}
	return nil
}

// wrap returns f as Pebble sees it.
func (w *faultFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	opened := &faultFile{File: f, fs: w}
	w.open.mu.Lock()
	defer w.open.mu.Unlock()
	w.open.files[opened] = struct{}{}
	return opened, nil
}

// file is wrap of a file that must be there.
func (w *faultFS) file(f vfs.File, err error) (vfs.File, error) {
	return w.wrap(f, w.must(err))
}

func (w *faultFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	w.f.fence()
	return w.file(w.FS.Create(name, c))
}

func (w *faultFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	w.f.fence()
	return w.file(w.FS.ReuseForWrite(from, to, c))
}

func (w *faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	w.f.fence()
	return w.wrap(w.FS.OpenReadWrite(name, c, opts...))
}

func (w *faultFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return w.wrap(w.FS.Open(name, opts...))
}

// OpenDir may fail: the folder may not be there.
func (w *faultFS) OpenDir(name string) (vfs.File, error) { return w.wrap(w.FS.OpenDir(name)) }

func (w *faultFS) Lock(name string) (io.Closer, error) {
	w.f.fence()
	l, err := w.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	held := &heldLock{Closer: l}
	w.open.mu.Lock()
	defer w.open.mu.Unlock()
	w.open.locks = append(w.open.locks, held)
	return held, nil
}

func (w *faultFS) Rename(from, to string) error {
	w.f.fence()
	return w.must(w.FS.Rename(from, to))
}

func (w *faultFS) Remove(name string) error {
	w.f.fence()
	return w.FS.Remove(name)
}

func (w *faultFS) RemoveAll(name string) error {
	w.f.fence()
	return w.FS.RemoveAll(name)
}

func (w *faultFS) Link(from, to string) error {
	w.f.fence()
	return w.FS.Link(from, to)
}

func (w *faultFS) MkdirAll(dir string, perm os.FileMode) error {
	w.f.fence()
	return w.FS.MkdirAll(dir, perm)
}

func (w *faultFS) Unwrap() vfs.FS { return w.FS }

type faultFile struct {
	vfs.File
	fs *faultFS

	changing sync.RWMutex // held for reading by calls that change the file

	mu     sync.RWMutex
	closed bool // guarded by mu
}

// change runs a call that changes the file. A file that was closed under it, as that of an
// abandoned database, fails.
func (w *faultFile) change(f func() error) error {
	w.fs.f.fence()
	w.changing.RLock()
	w.mu.RLock()
	err := error(os.ErrClosed)
	closed := w.closed
	w.mu.RUnlock()
	if !closed {
		err = f()
	}
	w.changing.RUnlock() // before must, which may never return
	return err
}

func (w *faultFile) Write(b []byte) (n int, err error) {
	err = w.change(func() (err error) { n, err = w.File.Write(b); return err })
	return n, w.fs.must(err)
}

func (w *faultFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = w.change(func() (err error) { n, err = w.File.WriteAt(b, at); return err })
	return n, w.fs.must(err)
}

func (w *faultFile) Sync() error     { return w.fs.must(w.change(w.File.Sync)) }
func (w *faultFile) SyncData() error { return w.fs.must(w.change(w.File.SyncData)) }

func (w *faultFile) SyncTo(n int64) (full bool, err error) {
	err = w.change(func() (err error) { full, err = w.File.SyncTo(n); return err })
	return full, w.fs.must(err)
}

func (w *faultFile) Preallocate(offset, length int64) error {
	return w.change(func() error { return w.File.Preallocate(offset, length) })
}

// abandon closes the file, unless a change of it hangs.
func (w *faultFile) abandon() {
	if w.changing.TryLock() {
		defer w.changing.Unlock()
		_ = w.Close() // nothing is written, and what failed before is known
	}
}

func (w *faultFile) ReadAt(b []byte, at int64) (int, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return 0, os.ErrClosed
	}
	return w.File.ReadAt(b, at)
}

// Close waits for the reads that run, and may be called again: an abandoned database
// closes its files, too.
func (w *faultFile) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	w.fs.open.mu.Lock()
	delete(w.fs.open.files, w)
	w.fs.open.mu.Unlock()
	return w.File.Close()
}

func (w *faultFile) Prefetch(offset, length int64) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return os.ErrClosed
	}
	return w.File.Prefetch(offset, length)
}

func (w *faultFile) Stat() (vfs.FileInfo, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return nil, os.ErrClosed
	}
	return w.File.Stat()
}
