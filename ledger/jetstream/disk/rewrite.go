package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
)

// rewriteFile is where a block is written before it takes its place.
const rewriteFile = "block.tmp"

// Rewrite writes the newest block of each stream into a new file, synced. After a
// failed fsync the kernel shows the bytes of a file that the disk may not have, and
// the next fsync of that file succeeds. Each older block was synced before the newest
// was begun. The lock of the folder must be held, and no server may have the files open.
//
// Crash states: the old block or the new one, which hold the same bytes, and maybe
// the file block.tmp, which the next Rewrite replaces.
func Rewrite(data string) error {
	for _, stream := range []string{jetstream.StreamName, jetstream.BlobsName, jetstream.CopyName} {
		name, err := newestBlock(embed.StreamDir(data, stream))
		if err == nil && name != "" {
			err = rewrite(name, filepath.Join(data, rewriteFile))
		}
		if err != nil {
			return fmt.Errorf("write the newest block of stream %s again: %w", stream, err)
		}
	}
	return nil
}

// newestBlock returns the path of the block with the highest number, "" if there is none.
func newestBlock(stream string) (newest string, err error) {
	entries, err := os.ReadDir(filepath.Join(stream, "msgs"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	most := uint64(0)
	for _, e := range entries {
		number, ok := strings.CutSuffix(e.Name(), ".blk")
		if n, nerr := strconv.ParseUint(number, 10, 32); ok && nerr == nil && n >= most {
			most, newest = n, filepath.Join(stream, "msgs", e.Name())
		}
	}
	return newest, err
}

// rewrite replaces a file by a copy of itself.
func rewrite(name, tmp string) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return cmp.Or(os.Rename(tmp, name), mark.SyncDir(filepath.Dir(name)))
}
