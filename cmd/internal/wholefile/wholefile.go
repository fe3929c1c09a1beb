// Package wholefile writes a file as a whole or not at all.
package wholefile

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FolderError says why no file can be made in a folder.
type FolderError struct{ Err error }

func (e *FolderError) Error() string { return e.Err.Error() }
func (e *FolderError) Unwrap() error { return e.Err }

// Write replaces a file by what write writes, with the permissions of mode. A crash leaves the
// file before or this one, and perhaps a hidden file beside it, whose name begins with a dot
// and that of the file; a power cut after it returned leaves this one. An error leaves the file before; [FolderError]: nothing was begun.
func Write(name string, mode fs.FileMode, write func(io.Writer) error) error {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return &FolderError{&fs.PathError{Op: "write", Path: name, Err: syscall.EISDIR}}
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		if file := (*fs.PathError)(nil); errors.As(err, &file) { // not the hidden one
			err = &fs.PathError{Op: file.Op, Path: name, Err: file.Err}
		}
		return &FolderError{err}
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is not there if it was renamed
	w := bufio.NewWriter(f)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes the names in a folder durable. A file system that can't is left alone: the
// file is whole either way.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil // it can be written to, and not read
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// Bytes returns a function that writes b, for [Write].
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}
