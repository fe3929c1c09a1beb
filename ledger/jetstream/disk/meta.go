package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
)

// metaFiles hold a stream's configuration and its checksum. Without them the server
// does not open the stream.
var metaFiles = [...]string{"meta.inf", "meta.sum"}

// metaDir is where the copies of a stream's metaFiles are. Its last part is the name of
// the stream, which is the key of the checksum.
func metaDir(data, stream string) string { return filepath.Join(data, "streams", stream) }

// KeepMeta copies the configuration of the log and of the blobs' stream with a number,
// for a repair. The streams must be sound. A copy that is the same already is not written.
func KeepMeta(data string, number uint64) error {
	for _, stream := range []string{jetstream.StreamName, jetstream.BlobsStream(number)} {
		to := metaDir(data, stream)
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		for _, name := range metaFiles {
			want, err := os.ReadFile(filepath.Join(embed.StreamDir(data, stream), name))
			if err != nil {
				return err
			}
			if have, err := os.ReadFile(filepath.Join(to, name)); err == nil && bytes.Equal(have, want) {
				continue
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err := copyFile(filepath.Join(embed.StreamDir(data, stream), name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
		if err := mark.SyncDir(to); err != nil {
			return err
		}
	}
	return nil
}

// checkMeta reports whether the copy of a stream's configuration is sound.
func checkMeta(data, stream string) error {
	_, err := blocks.ReadStream(metaDir(data, stream))
	return err
}

// Ledger returns the UUID of the ledger that the log's configuration, or its copy, names;
// "" if neither can be read.
func Ledger(data string) string {
	for _, dir := range []string{embed.StreamDir(data, jetstream.StreamName), metaDir(data, jetstream.StreamName)} {
		s, err := blocks.ReadStream(dir)
		if err != nil {
			continue
		}
		if id, err := jetstream.LedgerOf(s.Config); err == nil && id != "" {
			return id
		}
	}
	return ""
}
