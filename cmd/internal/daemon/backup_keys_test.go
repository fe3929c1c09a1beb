package daemon

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/daemon/folder"
	"nexus/cmd/internal/daemon/mend"
	"nexus/ledger/api"
	"nexus/ledger/jetstream/backup"
	"nexus/turns/seal/sealtest"
)

// The keys of one session are gone, then the daemon runs without keys: no later backup
// replaces what the file of keys has.
func TestALaterBackupKeepsTheKeysOfTheOneBefore(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := start(t, dir)
	a := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, a.ID, 2)
	b := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, b.ID, 2)
	cfg, first := backUp(t, c.As(api.Operator), out)
	want := must[backup.Keys](t)(backup.ReadKeys(cfg.Keys))
	stop(t, d, c)
	keys := filepath.Join(dir, "keys")
	if !slices.Contains(sealtest.IDs(t, keys), a.ID) || first.Keys != len(want.Rows) {
		t.Fatalf("%+v", first)
	}
	sealtest.Forget(t, keys, a.ID)
	d, c = start(t, dir)
	extend(t, c, b.ID, 1)
	backUp(t, c.As(api.Operator), out)
	if got := must[backup.Keys](t)(backup.ReadKeys(cfg.Keys)); !reflect.DeepEqual(got, want) {
		t.Errorf("after a session's keys are gone the file has %d rows, want %d, or they differ", len(got.Rows), len(want.Rows))
	}
	stop(t, d, c)
	d, c = startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Seal: "off"})
	extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 1)
	if _, err := backup.Run(t.Context(), c.As(api.Operator), cfg); codeOf(err) != api.Unsupported || !strings.Contains(err.Error(), "seal off") {
		t.Errorf("a daemon without keys: %v, want unsupported", err)
	}
	if got := must[backup.Keys](t)(backup.ReadKeys(cfg.Keys)); !reflect.DeepEqual(got, want) {
		t.Errorf("a daemon without keys left %d rows, want %d", len(got.Rows), len(want.Rows))
	}
	cfg.Keys = ""
	if got := must[backup.Result](t)(backup.Run(t.Context(), c.As(api.Operator), cfg)); !got.Sealed {
		t.Error("a backup of sealed content by a daemon with seal off says that no keys belong to it")
	}
	stop(t, d, c)
}

// The first run is of a daemon that does not seal, the second one of a daemon that does.
func TestARestoreAsksForTheKeysOfEveryRun(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	d, c := startWith(t, config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30, Seal: "off"})
	s := must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{}))
	extend(t, c, s.ID, 1)
	cfg := backup.Config{File: filepath.Join(out, "nexus.backup"), Keys: filepath.Join(out, "nexus.keys"), Now: time.Now}
	if r := must[backup.Result](t)(backup.Run(t.Context(), c.As(api.Operator), cfg)); r.Sealed {
		t.Fatalf("%+v", r)
	}
	stop(t, d, c)
	d, c = start(t, dir)
	extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 1)
	backUp(t, c.As(api.Operator), out)
	older := filepath.Join(out, "older.keys")
	if err := os.WriteFile(older, must[[]byte](t)(os.ReadFile(cfg.Keys)), 0o600); err != nil {
		t.Fatal(err)
	}
	extend(t, c, must[*api.Session](t)(c.Create(t.Context(), api.CreateSession{})).ID, 1)
	backUp(t, c.As(api.Operator), out)
	stop(t, d, c)

	where := filepath.Join(t.TempDir(), "restored")
	if _, err := mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Data: where}); codeOf(err) != api.Malformed {
		t.Errorf("without keys: %v, want malformed", err)
	}
	if _, err := mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: older, Data: where}); codeOf(err) != api.Conflict || !strings.Contains(err.Error(), "1 key missing") {
		t.Errorf("with older keys: %v, want conflict", err)
	}
	if err := folder.CheckRestored(where); codeOf(err) != api.Corrupt {
		t.Errorf("the folder of a refused restore: %v", err)
	}
	got := must[mend.Restored](t)(mend.Restore(t.Context(), mend.RestoreConfig{File: cfg.File, Keys: older, Data: where, AcceptMissingKeys: true}))
	if got.KeysMissing != 1 || !strings.Contains(got.Text(), "that are missing: 1") {
		t.Errorf("%+v", got)
	}
	restored, _ := restoreTo(t, cfg)
	r, rc := start(t, restored)
	verified(t, rc)
	stop(t, r, rc)
}
