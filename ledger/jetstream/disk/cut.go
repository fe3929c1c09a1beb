package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
)

// Cut removes what writes that no fsync covered left of a stream: from torn on to the end of
// its block, and the later blocks. It copies them first into a folder of its own under the data folder, which it returns and
// nobody removes. It
// removes the server's index too, which may list what is gone. The lock of the folder must
// be held, and no server may have the files open.
//
// Crash states: before the first file is changed, nothing; after it, a stream whose end is
// still torn, which the next look finds and cuts again.
func Cut(data, stream string, torn blocks.Tail) (aside string, err error) {
	dir := embed.StreamDir(data, stream)
	msgs := filepath.Join(dir, "msgs")
	numbers, err := blocks.Numbers(dir)
	if err != nil {
		return "", fmt.Errorf("cut stream %s: %w", stream, err)
	}
	// The newest first: a crash in between leaves no gap.
	slices.Reverse(numbers)
	later := numbers[:max(0, slices.IndexFunc(numbers, func(n uint32) bool { return n <= torn.Block }))]
	aside = filepath.Join(data, "unsynced-"+time.Now().UTC().Format("20060102T150405.000Z"), stream)
	err = os.MkdirAll(filepath.Join(aside, "msgs"), 0o700)
	for _, n := range append([]uint32{torn.Block}, later...) {
		if err == nil {
			err = copyFile(filepath.Join(dir, blocks.Path(n)), filepath.Join(aside, blocks.Path(n)))
		}
	}
	if err == nil {
		err = errors.Join(mark.SyncDir(filepath.Join(aside, "msgs")), mark.SyncDir(aside), mark.SyncDir(filepath.Dir(aside)), mark.SyncDir(data))
	}
	if err == nil {
		err = DropIndex(data, stream)
	}
	for _, n := range later {
		if err == nil {
			err = os.Remove(filepath.Join(dir, blocks.Path(n)))
		}
	}
	if err == nil {
		err = truncate(filepath.Join(dir, blocks.Path(torn.Block)), torn.Offset)
	}
	if err == nil {
		err = mark.SyncDir(msgs)
	}
	if err != nil {
		return aside, fmt.Errorf("cut stream %s: %w", stream, err)
	}
	return aside, nil
}

// DropIndex removes the server's index of a stream, so that the server reads all blocks. The
// index is written without a fsync, and may be newer than the blocks after a power cut.
func DropIndex(data, stream string) error {
	err := os.Remove(filepath.Join(embed.StreamDir(data, stream), "msgs", "index.db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// truncate makes a file shorter; one of no bytes goes.
func truncate(name string, size int64) error {
	if size == 0 {
		return os.Remove(name)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}
