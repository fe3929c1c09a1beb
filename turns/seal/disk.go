package seal

import (
	"errors"
	"os"
)

// disk is what the store asks of a file system. Tests put one in its place
// that fails, tears and forgets.
type disk interface {
	// Read is the content of a file; fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// List is the names in a folder; fs.ErrNotExist.
	List(name string) ([]string, error)
	// Write makes b the content of a file, over the blocks it has, and syncs
	// the content. The name of a new file is durable after SyncDir only.
	Write(name string, b []byte) error
	// Append makes b the content of a file that is there from the byte at on, and syncs it.
	Append(name string, at int, b []byte) error
	Rename(from, to string) error
	Remove(name string) error
	// Mkdir makes a folder and those above it; one that is there is fine.
	Mkdir(name string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
}

type osDisk struct{}

func (osDisk) Read(name string) ([]byte, error) { return os.ReadFile(name) }

func (osDisk) List(name string) (names []string, err error) {
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (osDisk) Write(name string, b []byte) error {
	return write(name, os.O_WRONLY|os.O_CREATE, 0, b)
}

func (osDisk) Append(name string, at int, b []byte) error {
	return write(name, os.O_WRONLY, at, b)
}

// write makes b the content of a file from a byte on, and syncs it.
func write(name string, flag, at int, b []byte) error {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, int64(at))
	if err == nil {
		err = f.Truncate(int64(at + len(b)))
	}
	if err == nil {
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
