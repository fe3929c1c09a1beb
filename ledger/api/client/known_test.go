package client

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"nexus/ledger/tlog"
	"nexus/turns"
)

// Of two processes that keep a checkpoint of a ledger at once, the one with the older note does not win, and two notes of one
// size with different trees are told.
func TestTheNewestCheckpointIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	file := filepath.Join(dir, "l")
	k, err := tlog.NewKey(rand.Reader, "nexus/l/c")
	if err != nil {
		t.Fatal(err)
	}
	put := func(size uint64, root byte) error {
		c := tlog.Checkpoint{Origin: "nexus/l/c", Size: size, Root: turns.Hash{root}}
		n, err := k.Sign(c)
		if err != nil {
			t.Fatal(err)
		}
		return keep(dir, file, known{k.Public(), string(n)}, c, func(_ uint64, why string) error { return &RolledBackError{Why: why} })
	}
	has := func() uint64 {
		_, c, err := readKnown(file)
		if err != nil {
			t.Fatal(err)
		}
		return c.Size
	}
	for _, tc := range []struct{ size, want uint64 }{{3, 3}, {9, 9}, {5, 9}, {9, 9}, {10, 10}} {
		if err := put(tc.size, 1); err != nil || has() != tc.want {
			t.Errorf("%d: %v, kept %d, want %d", tc.size, err, has(), tc.want)
		}
	}
	if err := put(10, 2); !errors.Is(err, turns.ErrCorrupt) || has() != 10 {
		t.Error(err)
	}
	var all sync.WaitGroup
	for i := range uint64(64) {
		all.Go(func() {
			if err := put(11+i*7%64, 1); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if has() != 74 {
		t.Errorf("kept %d, want 74", has())
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 { // the checkpoint, and the lock
		t.Errorf("%v, %v", left, err)
	}
}
