package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/seal/sealtest"
)

// A daemon without the keys of its ledger does not start: it would acknowledge
// turns under new keys. With the keys back it goes on.
func TestStartWithoutKeysIsRefused(t *testing.T) {
	c := config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off"}
	d, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	agent := client.New(nc, "default", "main")
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
	if _, err := client.New(nc, "default", "main").Session(t.Context(), s.ID); err != nil {
		t.Errorf("with its keys back: %v", err)
	}
}

// An import that ends between the first event of a session and its key leaves an
// opening without a key as the newest event, also as the only one. The next start goes
// on, and the same import completes the session.
func TestStartAfterAnImportThatEndedBeforeItsKey(t *testing.T) {
	ctx := t.Context()
	_, source := startWith(t, config.Config{Data: t.TempDir(), Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	s := must[*api.Session](t)(source.Create(ctx, api.CreateSession{}))
	turn := extend(t, source, s.ID, 1)
	var records []api.ExportRecord
	for r, err := range source.Export(ctx, s.ID) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	opening := slices.IndexFunc(records, func(r api.ExportRecord) bool { return r.Event != nil }) + 1
	for name, before := range map[string]int{"a ledger with sessions": 2, "an empty ledger": 0} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			d, c := start(t, data)
			for range before {
				extend(t, c, must[*api.Session](t)(c.Create(ctx, api.CreateSession{})).ID, 1)
			}
			must[*api.Imported](t)(c.Import(ctx, records[:opening]))
			stop(t, d, c)
			keys := filepath.Join(data, "keys")
			if !slices.Contains(sealtest.IDs(t, keys), s.ID) {
				t.Fatal("the session has no key")
			}
			sealtest.Forget(t, keys, s.ID) // as a crash before Put leaves it
			_, c = start(t, data)
			must[*api.Imported](t)(c.Import(ctx, records))
			if got := must[*api.Turn](t)(c.Turn(ctx, s.ID, turn.ID)); got.Hash != turn.Hash {
				t.Errorf("the imported turn has %v, want %v", got.Hash, turn.Hash)
			}
			verified(t, c)
		})
	}
}
