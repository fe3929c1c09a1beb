package embed_test

import (
	"strings"
	"testing"

	"nexus/ledger/jetstream/embed"
)

func TestCheckRoomLeavesTheStoreAndTheDiskRoom(t *testing.T) {
	dir := t.TempDir()
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.CheckRoom(dir, 900<<10); err != nil {
		t.Error(err)
	}
	if err := s.CheckRoom(dir, 1<<20); err == nil || !strings.Contains(err.Error(), "max_store") {
		t.Errorf("as many as the store takes: %v", err)
	}
	huge, err := embed.Start(embed.Config{DataDir: t.TempDir(), MaxStore: 1 << 60})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := huge.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := huge.CheckRoom(dir, 1<<55); err == nil || !strings.Contains(err.Error(), "disk") {
		t.Errorf("more than the disk has: %v", err)
	}
}
