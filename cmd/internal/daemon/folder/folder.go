package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/groupsync"
	"nexus/ledger/jetstream/mark"
	"nexus/turns"
)

// Files and folders of the data folder.
const (
	MarkFile       = "mark"
	ProjectionsDir = "projections"
	SearchDir      = "search"
	// ProbeFile is written and synced to learn whether the disk takes writes.
	ProbeFile = "probe.tmp"
	// RestoringFile is in a folder from the first step of a restore to the last one. No
	// daemon starts there.
	RestoringFile = "restoring"
)

// CheckRestored refuses a folder in which a restore did not end.
func CheckRestored(data string) error {
	if _, err := os.Lstat(filepath.Join(data, RestoringFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("%w: a restore into %s did not end: run nexusd restore again with the same folder, or remove it", turns.ErrCorrupt, data)
}

// Streams are those that a mark speaks of.
func Streams(m mark.Mark) []string {
	return []string{jetstream.StreamName, jetstream.BlobsStream(m.BlobStream)}
}

// SyncStreams makes the files of the streams durable as they are.
func SyncStreams(data string, m mark.Mark) error {
	for _, stream := range Streams(m) {
		if err := groupsync.Tree(embed.StreamDir(data, stream), data); err != nil {
			return err
		}
	}
	return nil
}
