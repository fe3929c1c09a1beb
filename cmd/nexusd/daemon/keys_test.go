package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/ledger/api"
	"nexus/turns"
)

// A daemon without the keys of its ledger does not start: it would acknowledge
// turns under new keys. With the keys back it goes on.
func TestStartWithoutKeysIsRefused(t *testing.T) {
	c := Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off"}
	d, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	agent := api.NewClient(nc, "default", "main")
	s, err := agent.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, away := filepath.Join(c.Data, "keys"), filepath.Join(t.TempDir(), "keys")
	if err := os.Rename(keys, away); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(t.Context(), c); !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "keys/") {
		if err == nil {
			_ = d.Close(t.Context())
		}
		t.Errorf("without keys/: %v, want corrupt, and what to do", err)
	}
	if err := os.RemoveAll(keys); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, keys); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	defer d.Close(t.Context())
	if nc, err = d.Connect(); err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := api.NewClient(nc, "default", "main").Session(t.Context(), s.ID); err != nil {
		t.Errorf("with its keys back: %v", err)
	}
}
