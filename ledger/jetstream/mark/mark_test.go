package mark

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"nexus/turns"
)

func place(n uint64) Place { return Place{Seq: n, Sum: turns.Hash{byte(n), 1}} }

func load(t *testing.T, path string) Mark {
	t.Helper()
	m, torn, err := Load(path)
	if err != nil || torn {
		t.Fatalf("load: torn %v, %v", torn, err)
	}
	return m
}

func open(t *testing.T, path string, m Mark) *Keeper {
	t.Helper()
	k, err := Open(path, m, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// waitFor waits until the file marks p and is whole. It waits for the file, not for a
// time. A read beside a write can meet half of a slot: a mark must be found then too.
func waitFor(t *testing.T, path string, p Place) {
	t.Helper()
	for {
		m, torn, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if m.Log == p && !torn {
			return
		}
		runtime.Gosched()
	}
}

func TestACleanCloseMarksTheLastAcknowledgement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	if _, _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no file: %v", err)
	}
	k := open(t, path, Mark{Ledger: "l"})
	for n := range uint64(1000) {
		k.Acked(place(n+1), Place{})
		k.Acked(Place{}, place(2*n+1))
	}
	k.Acked(place(3), place(5)) // late: the mark never goes back
	if err := k.Close(&Sizes{Log: 7, Blobs: 8}); err != nil {
		t.Fatal(err)
	}
	m := load(t, path)
	if m.Ledger != "l" || m.Log != place(1000) || m.Blobs != place(1999) || m.Closed == nil || *m.Closed != (Sizes{Log: 7, Blobs: 8}) {
		t.Errorf("%+v", m)
	}
	k = open(t, path, m)
	if got := load(t, path); got.Closed != nil || got.Log != m.Log || got.Generation <= m.Generation {
		t.Errorf("opened again: %+v, want the same places and no clean stop", got)
	}
	if err := k.Close(nil); err != nil {
		t.Fatal(err)
	}
	if load(t, path).Closed != nil {
		t.Error("a stop that was not clean is marked as clean")
	}
}

// An acknowledgement reaches the disk without a close.
func TestAnAcknowledgementReachesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	k := open(t, path, Mark{})
	defer k.Close(nil)
	for n := range uint64(3) {
		k.Acked(place(n+1), Place{})
		waitFor(t, path, place(n+1))
	}
}

// Every byte of the newest slot is flipped, and every write is cut short: the older
// mark is found, and the damage told. No flip gives another mark.
func TestADamagedSlotLeavesTheOlderMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	k := open(t, path, Mark{Ledger: "l"})
	for n := range uint64(2) {
		k.Acked(place(n+1), Place{})
		waitFor(t, path, place(n+1))
	}
	m := load(t, path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := int(m.Generation%slots) * slotSize
	for i := 0; i < slotSize; i += 1 + i/300*97 {
		for name, change := range map[string]func(b []byte){
			"flip": func(b []byte) { b[i] ^= 1 },
			"cut":  func(b []byte) { clear(b[i:]) },
		} {
			b := append([]byte(nil), whole...)
			change(b[at : at+slotSize])
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			got, torn, err := Load(path)
			same := string(b) == string(whole)
			if err != nil || !same && got != m && got.Log != place(1) {
				t.Fatalf("%s at %d: %+v, %v", name, i, got, err)
			}
			if !same && !torn && got != m && i > 0 {
				t.Errorf("%s at %d: an older mark, and nothing is said", name, i)
			}
		}
	}
	b := make([]byte, len(whole))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(path); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("two empty slots: %v", err)
	}
	if err := k.Close(nil); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedWriteIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	failed := make(chan error, 1)
	k, err := Open(path, Mark{}, func(err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := k.file.Close(); err != nil {
		t.Fatal(err)
	}
	k.Acked(place(1), Place{})
	if err := <-failed; !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if err := k.Close(&Sizes{}); err == nil {
		t.Error("Close after a failed write is silent")
	}
}

// After a failed write nothing is marked until Restore, which marks all that was
// acknowledged meanwhile.
func TestRestoreMarksWhatWasAcknowledgedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mark")
	failed := make(chan error, 1)
	k, err := Open(path, Mark{}, func(err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := k.file.Close(); err != nil {
		t.Fatal(err)
	}
	k.Acked(place(1), Place{})
	<-failed
	k.Acked(place(2), Place{})
	if err := k.Restore(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Restore on the bad disk: %v, want its error", err)
	}
	if k.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	if err := k.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := load(t, path).Log; got != place(2) {
		t.Errorf("marked is %+v, want %+v", got, place(2))
	}
	k.Acked(place(3), Place{})
	waitFor(t, path, place(3))
	if err := k.Close(nil); err != nil {
		t.Fatal(err)
	}
	if err := k.Restore(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Restore after Close: %v", err)
	}
}
