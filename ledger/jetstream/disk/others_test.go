package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
)

func TestRemoveOthersKeepsTheMarkedStreamAndEverythingElse(t *testing.T) {
	dir := t.TempDir()
	streams := filepath.Dir(embed.StreamDir(dir, jetstream.StreamName))
	all := []string{"NEXUS_BLOBS", "NEXUS_BLOBS_COPY", "NEXUS_BLOBS_2", "NEXUS_BLOBS_2_COPY", "NEXUS_BLOBS_3", ".NEXUS_BLOBS_2", ".NEXUS_LEDGER",
		"NEXUS_LEDGER", "NEXUS_BLOBS_02", "NEXUS_BLOBS_x", "NEXUS_BLOBS_", "OTHER"}
	for _, name := range all {
		if err := os.MkdirAll(filepath.Join(streams, name, "msgs"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := disk.BlobStream(dir); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("several streams, and no mark: %d, %v; want corrupt", n, err)
	}
	if err := disk.RemoveOthers(dir, 2); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(streams)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".NEXUS_LEDGER", "NEXUS_BLOBS_", "NEXUS_BLOBS_02", "NEXUS_BLOBS_2", "NEXUS_BLOBS_2_COPY", "NEXUS_BLOBS_x", "NEXUS_LEDGER", "OTHER"}
	if !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
	if n, err := disk.BlobStream(dir); n != 2 || err != nil {
		t.Errorf("%d, %v; want 2", n, err)
	}
}
