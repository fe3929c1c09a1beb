package db

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

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
