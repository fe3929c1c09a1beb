package files

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"syscall"

	"nexus/cmd/internal/engine/archive"
	"nexus/turns"
)

// folder is the folder that all files are in. No name leads out of it, not even
// through a symbolic link.
type folder struct {
	*os.Root
	fault func() error // called before each change of the disk; nil but in tests
}

// may returns why a change of the disk fails, in a test.
func (f folder) may() error {
	if f.fault == nil {
		return nil
	}
	return f.fault()
}

// rename gives a file its name.
func (f folder) rename(from, to string) error {
	if err := f.may(); err != nil {
		return err
	}
	return f.Rename(from, to)
}

// exists reports whether there is a file of this name.
func (f folder) exists(name string) (bool, error) {
	_, err := f.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// writeArchive writes lines as gzipped JSON lines under a name, and reads them back
// before the name is given.
//
// Crash states: before the rename there is at most a temporary file, which the next
// try overwrites. After it the file is whole; its content was synced before.
func (f folder) writeArchive(name string, lines iter.Seq2[archive.Line, error]) error {
	want := sha256.New()
	return f.replace(name, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		out := io.MultiWriter(z, want)
		for line, err := range lines {
			if err != nil {
				return err
			}
			b, err := turns.EncodeJSON(line)
			if err != nil {
				return err
			}
			if _, err := out.Write(append(b, '\n')); err != nil {
				return err
			}
		}
		return z.Close()
	}, func(r io.Reader) error { return checkArchive(r, want) })
}

// checkArchive compares the content of an archive with the hash of what was written.
func checkArchive(r io.Reader, want hash.Hash) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	got := sha256.New()
	if _, err := io.Copy(got, z); err != nil {
		return err
	}
	if string(got.Sum(nil)) != string(want.Sum(nil)) {
		return errors.New("it was read back with other content than was written")
	}
	return nil
}

// replace writes a file under a temporary name, syncs it, has check read it back, and
// gives it its name. The folder is synced after that.
func (f folder) replace(name string, write func(io.Writer) error, check func(io.Reader) error) error {
	dir := path.Dir(name)
	if err := f.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp := path.Join(dir, "."+path.Base(name)+".tmp")
	err := f.writeFile(tmp, write)
	if err == nil && check != nil {
		err = f.readFile(tmp, check)
	}
	if err == nil {
		err = f.rename(tmp, name)
	}
	if err != nil {
		err = fmt.Errorf("write %s: %w", name, err)
		if f.may() == nil { // a crash removes nothing
			err = errors.Join(err, ignoreMissing(f.Remove(tmp)))
		}
		return err
	}
	return f.syncDir(dir)
}

// writeFile writes and syncs a file. The permissions are the owner's alone: the
// content is plain text.
func (f folder) writeFile(name string, write func(io.Writer) error) (err error) {
	if err := f.may(); err != nil {
		return err
	}
	// What has the temporary name goes: a link would lead to another file.
	if err := ignoreMissing(f.Remove(name)); err != nil {
		return err
	}
	out, err := f.openRegular(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriterSize(out, 64<<10)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.may(); err != nil {
		return err
	}
	return out.Sync()
}

// openRegular opens a file, and nothing else: a pipe that somebody put there would hold the
// exporter, and the end of the daemon, until another program opens it too.
func (f folder) openRegular(name string, flag int) (*os.File, error) {
	file, err := f.OpenFile(name, flag|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (f folder) readFile(name string, read func(io.Reader) error) error {
	in, err := f.openRegular(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	return errors.Join(read(bufio.NewReaderSize(in, 64<<10)), in.Close())
}

// syncDir makes the names in a folder durable.
func (f folder) syncDir(name string) error {
	if err := f.may(); err != nil {
		return err
	}
	d, err := f.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
