package keyring

import (
	"errors"
	"os"
)

// disk is what the store asks of a file system. Tests put one in its place
// that fails, tears and forgets.
type disk interface {
	// Read is the content of a file; fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// List is the names in a folder, in any order.
	List(name string) ([]string, error)
	// Write makes b the content of a file, over the blocks it has, and syncs
	// the content. The name of a new file is durable after SyncDir only.
	Write(name string, b []byte) error
	// WriteAt writes b at an offset of a file that is there, and syncs it. After an
	// error nothing is known of these bytes: a read may show what the disk never gets.
	WriteAt(name string, b []byte, at int64) error
	// Truncate cuts a file off, and syncs it.
	Truncate(name string, size int64) error
	Rename(from, to string) error
	Remove(name string) error
	// Mkdir makes a folder and those above it; one that is there is fine.
	Mkdir(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
}

type osDisk struct{}

func (osDisk) Read(name string) ([]byte, error) { return os.ReadFile(name) }

func (osDisk) List(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (osDisk) Write(name string, b []byte) error {
	return withFile(name, os.O_CREATE, func(f *os.File) error {
		if _, err := f.WriteAt(b, 0); err != nil {
			return err
		}
		return f.Truncate(int64(len(b)))
	})
}

func (osDisk) WriteAt(name string, b []byte, at int64) error {
	return withFile(name, 0, func(f *os.File) error {
		_, err := f.WriteAt(b, at)
		return err
	})
}

func (osDisk) Truncate(name string, size int64) error {
	return withFile(name, 0, func(f *os.File) error { return f.Truncate(size) })
}

// withFile changes a file and syncs it.
func withFile(name string, flag int, change func(*os.File) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|flag, 0o600)
	if err != nil {
		return err
	}
	if err = change(f); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Remove(name string) error { return os.Remove(name) }

func (osDisk) Mkdir(name string) error { return os.MkdirAll(name, 0o700) }

func (osDisk) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
