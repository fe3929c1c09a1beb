package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
)

// RemoveOthers removes the streams of blobs, and the copies of their configuration, that
// are not those with the number that the mark names: a collection that was cut short left
// them. The lock of the folder must be held, no server may have the files open, and the
// stream that stays must be sound.
func RemoveOthers(data string, number uint64) error {
	for _, dir := range []string{filepath.Dir(embed.StreamDir(data, jetstream.StreamName)), filepath.Join(data, "streams")} {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		removed := false
		for _, e := range entries {
			name := strings.TrimPrefix(e.Name(), ".") // what the server is removing begins with a dot
			n, ok := jetstream.BlobStreamNumber(name)
			if !ok || n == number && name == e.Name() {
				continue
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
			removed = true
		}
		if removed {
			if err := mark.SyncDir(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// BlobStream returns the number of the stream of blobs in a folder without a mark, 0 if there
// is none. [ledger.ErrCorrupt]: there are several, and only the mark tells which one
// holds what was acknowledged.
func BlobStream(data string) (number uint64, err error) {
	entries, err := os.ReadDir(filepath.Dir(embed.StreamDir(data, jetstream.StreamName)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	found := false
	for _, e := range entries {
		n, ok := jetstream.BlobStreamNumber(e.Name())
		if !ok {
			continue
		}
		if found && n != number {
			return 0, fmt.Errorf("%w: streams %s and %s are both there, and without the mark nobody can tell which one holds the blobs: restore the mark from a backup",
				ledger.ErrCorrupt, jetstream.BlobsStream(number), jetstream.BlobsStream(n))
		}
		number, found = n, true
	}
	return number, nil
}

// SyncStream makes the folder of a stream durable: its configuration, and the names of its
// files. The server syncs their content. The server may have the files open.
func SyncStream(data, stream string) error {
	dir := embed.StreamDir(data, stream)
	for _, name := range metaFiles {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	for _, name := range []string{filepath.Join(dir, "msgs"), dir, filepath.Dir(dir)} {
		if err := mark.SyncDir(name); err != nil {
			return err
		}
	}
	return nil
}
