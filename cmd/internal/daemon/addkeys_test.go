package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/embed"
	"nexus/turns"
	"nexus/turns/seal/keyring"
	"nexus/turns/seal/sealtest"
)

// Keys that a ledger lacks come back from a file of keys or a copy of the folder; what is there stays.
func TestLostKeysArePutBack(t *testing.T) {
	for name, folder := range map[string]bool{"from a file of keys": false, "from a copy of the folder": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, c := start(t, dir)
			a := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
			extend(t, c, a.ID, 2)
			extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 1)
			cfg, _ := backUp(t, c.As(api.Operator), t.TempDir())
			from := cfg.Keys
			if _, err := mend.AddKeys(dir, from); !errors.Is(err, embed.ErrLocked) {
				t.Errorf("while a daemon runs: %v", err)
			}
			stop(t, d, c)
			keys := filepath.Join(dir, "keys")
			if folder {
				from = filepath.Join(t.TempDir(), "copy")
				if err := os.CopyFS(from, os.DirFS(keys)); err != nil {
					t.Fatal(err)
				}
			}
			all := len(sealtest.IDs(t, keys))
			sealtest.Forget(t, keys, a.ID)
			d, c = start(t, dir)
			if _, err := c.Context(t.Context(), a.ID, api.GetContext{}); codeOf(err) != api.Corrupt || !strings.Contains(err.Error(), "nexusd keys") {
				t.Errorf("without its key: %v, want corrupt, and what to do", err)
			}
			stop(t, d, c)
			if out, err := mend.AddKeys(dir, from); err != nil || out.Added != 1 || out.Known != all-1 || len(out.Refused) > 0 {
				t.Errorf("%+v, %v; want 1 added of %d", out, err, all)
			}
			_, c = start(t, dir)
			must[*api.Context](t)(c.Context(t.Context(), a.ID, api.GetContext{}))
			verified(t, c)
		})
	}
}

// A key that was destroyed elsewhere stays where it is, and the operator hears of it; where it is missing it is marked.
func TestAKeyThatWasDestroyedElsewhere(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	a, b := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})), must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	stop(t, d, c)
	keys, from := filepath.Join(dir, "keys"), filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(from, os.DirFS(keys)); err != nil {
		t.Fatal(err)
	}
	store, err := keyring.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Destroy(a.ID, b.ID), store.Close()); err != nil {
		t.Fatal(err)
	}
	sealtest.Forget(t, keys, b.ID)
	out, err := mend.AddKeys(dir, from)
	if err != nil || out.Erased != 1 || len(out.Refused) != 1 || !strings.Contains(out.Refused[0], a.ID.String()) {
		t.Errorf("%+v, %v", out, err)
	}
	if store, err = keyring.Open(keys); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Key(a.ID); err != nil {
		t.Errorf("the key that was there: %v", err)
	}
	if _, err := store.Key(b.ID); !errors.Is(err, turns.ErrErased) {
		t.Errorf("the key that was missing: %v", err)
	}
}

// A key from which an event was taken stays so: an older whole key is refused, and a file of keys has what is left
// of it.
func TestAKeyFromWhichAnEventWasTakenStaysSo(t *testing.T) {
	dir := t.TempDir()
	d, c := start(t, dir)
	a := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, a.ID, 3)
	old, _ := backUp(t, c.As(api.Operator), t.TempDir())
	stop(t, d, c)
	keys := filepath.Join(dir, "keys")
	store, err := keyring.Open(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Puncture(a.ID, 4, 2), store.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := mend.AddKeys(dir, old.Keys); err != nil || out.Added != 0 || len(out.Refused) != 1 || !strings.Contains(out.Refused[0], a.ID.String()) {
		t.Errorf("an older whole key: %+v, %v", out, err)
	}
	d, c = start(t, dir)
	extend(t, c, a.ID, 1) // its body is sealed under a key that is left
	now, _ := backUp(t, c.As(api.Operator), t.TempDir())
	stop(t, d, c)
	sealtest.Forget(t, keys, a.ID)
	for _, added := range []int{1, 0} {
		if out, err := mend.AddKeys(dir, now.Keys); err != nil || out.Added != added || len(out.Refused) > 0 {
			t.Errorf("what is left of the key: %+v, %v", out, err)
		}
	}
	if store, err = keyring.Open(keys); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if left, err := store.Content(a.ID); err != nil || left.Remains() == nil {
		t.Errorf("the key: %v", err)
	}
}

func TestKeysOfAnotherLedgerAreNotAdded(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	d, c := start(t, other)
	extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 1)
	cfg, _ := backUp(t, c.As(api.Operator), t.TempDir())
	stop(t, d, c)
	d, c = start(t, dir)
	stop(t, d, c)
	if _, err := mend.AddKeys(dir, cfg.Keys); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("keys of another ledger: %v", err)
	}
	for name, from := range map[string]string{"nothing": filepath.Join(dir, "none"), "another folder": t.TempDir()} {
		if _, err := mend.AddKeys(dir, from); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("from %s: %v", name, err)
		}
	}
	if _, err := mend.AddKeys(filepath.Join(dir, "none"), cfg.Keys); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("into no ledger: %v", err)
	}
	if err := os.WriteFile(cfg.Keys, []byte("no keys"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mend.AddKeys(dir, cfg.Keys); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("from a damaged file: %v", err)
	}
}
