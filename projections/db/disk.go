package db

import (
	"errors"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ownerOnly is the disk with files and folders that only their owner can read:
// the projections hold what the data folder's mode protects, and a copy of the
// folder keeps the modes of its files.
type ownerOnly struct{ vfs.FS }

func (o ownerOnly) MkdirAll(dir string, _ os.FileMode) error { return o.FS.MkdirAll(dir, 0o700) }

func (o ownerOnly) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return restrict[vfs.File](name)(o.FS.Create(name, category))
}

func (o ownerOnly) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return restrict[vfs.File](name)(o.FS.OpenReadWrite(name, category, opts...))
}

func (o ownerOnly) Lock(name string) (io.Closer, error) {
	return restrict[io.Closer](name)(o.FS.Lock(name))
}

// Unwrap returns the file system below.
func (o ownerOnly) Unwrap() vfs.FS { return o.FS }

// restrict removes the rights of group and others from an opened file.
func restrict[F io.Closer](name string) func(F, error) (F, error) {
	return func(f F, err error) (F, error) {
		if err == nil {
			if err = os.Chmod(name, 0o600); err != nil {
				err = errors.Join(err, f.Close())
			}
		}
		return f, err
	}
}

// unsynced is a disk whose files are not synced: nobody reads them after a crash.
type unsynced struct{ vfs.FS }

// Create implements [vfs.FS].
func (u unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

// Unwrap returns the file system below.
func (u unsynced) Unwrap() vfs.FS { return u.FS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }

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
