package mark

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"nexus/turns"
)

// After a switch both slots name the new stream, so that a damaged one does not bring the old
// stream back; and its places are those of the new stream, though they are lower.
func TestASwitchIsInBothSlots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	if _, _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	k, err := Open(path, Mark{Ledger: "L"}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	k.Acked(Place{Seq: 5, Sum: turns.Hash{5}}, Place{Seq: 100, Sum: turns.Hash{100}})
	want := Place{Seq: 7, Sum: turns.Hash{7}}
	if err := k.SwitchBlobs(1, want); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range slots {
		damaged := append([]byte(nil), file...)
		damaged[slot*slotSize+100] ^= 1
		other := filepath.Join(t.TempDir(), "mark")
		if err := os.WriteFile(other, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if m, torn, err := Load(other); err != nil || !torn || m.BlobStream != 1 || m.Blobs != want || m.Log.Seq != 5 {
			t.Errorf("slot %d is damaged: %+v, %v, %v", slot, m, torn, err)
		}
	}
	k.Acked(Place{}, Place{Seq: 8, Sum: turns.Hash{8}})
	if err := k.Close(nil); err != nil {
		t.Fatal(err)
	}
	if m, _, err := Load(path); err != nil || m.BlobStream != 1 || m.Blobs.Seq != 8 {
		t.Errorf("%+v, %v", m, err)
	}
}
