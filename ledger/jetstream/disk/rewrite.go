package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
)

// rewriteFile is where a block is written before it takes its place.
const rewriteFile = "block.tmp"

// rewriteTime is how far back blocks are written again. A fsync that takes longer begins an
// outage, in which nothing is written.
const rewriteTime = time.Minute

// Rewrite writes the blocks of each stream that were written in the last minute before the
// newest one into new files, synced. After a failed fsync the kernel shows the bytes of a file
// that the disk may not have, and the next fsync of that file succeeds. The lock of the
// folder must be held, and no server may have the files open.
//
// Crash states: the old block or the new one, which hold the same bytes, and maybe
// the file block.tmp, which the next Rewrite replaces.
func Rewrite(data string) error {
	names, err := filepath.Glob(embed.StreamDir(data, "NEXUS_*"))
	for _, dir := range names {
		stream := filepath.Base(dir)
		if _, blobs := jetstream.BlobStreamNumber(stream); !blobs && stream != jetstream.StreamName {
			continue
		}
		var newest []string
		if newest, err = newestBlocks(dir); err != nil {
			return fmt.Errorf("blocks of stream %s: %w", stream, err)
		}
		for _, name := range newest {
			if err := rewrite(name, filepath.Join(data, rewriteFile)); err != nil {
				return fmt.Errorf("write %s again: %w", name, err)
			}
		}
	}
	return err
}

// newestBlocks returns the paths of the blocks that were written last.
func newestBlocks(stream string) (newest []string, err error) {
	names, err := filepath.Glob(filepath.Join(stream, "msgs", "*.blk"))
	written := make(map[string]time.Time, len(names))
	var last time.Time
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if written[name] = info.ModTime(); info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	for _, name := range names {
		if written[name].After(last.Add(-rewriteTime)) {
			newest = append(newest, name)
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
