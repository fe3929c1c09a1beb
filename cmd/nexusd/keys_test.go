package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/ledger/jetstream/backup"
	"nexus/turns"
	"nexus/turns/seal/sealtest"
)

// nexusd keys puts a lost key back from a file of keys, says what it did, and tells wrong arguments.
func TestKeysPutsALostKeyBack(t *testing.T) {
	dir := t.TempDir()
	d, err := daemon.Open(t.Context(), config.Config{Data: dir, Listen: "127.0.0.1:0", HTTP: "off", MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.New(nc, "default", "main").Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nexus.keys")
	_, err = backup.Run(t.Context(), client.New(nc, "default", api.Operator), backup.Config{File: filepath.Join(t.TempDir(), "nexus.backup"), Keys: file, Now: time.Now})
	nc.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealtest.Forget(t, filepath.Join(dir, "keys"), s.ID)
	var id struct {
		Ledger string `json:"ledger"`
	}
	if b, err := os.ReadFile(filepath.Join(dir, "ledger.json")); err != nil || json.Unmarshal(b, &id) != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.keys")
	if err := backup.WriteKeys(other, backup.Keys{Ledger: "0190b1a2-0000-7000-8000-000000000000", Rows: []backup.KeyRow{{ID: turns.ID{1}, Key: make([]byte, 32)}}}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"keys", "--help"}, 0, "Usage: nexusd keys FROM --data DIR"},
		{[]string{"keys", file}, 2, "--data names"},
		{[]string{"keys", "--data", dir}, 2, "takes one file"},
		{[]string{"keys", filepath.Join(dir, "none"), "--data", dir}, 4, "no such file"},
		{[]string{"keys", other, "--data", dir}, 3, "this is " + id.Ledger},
		{[]string{"keys", file, "--data", dir}, 0, "1 content keys added"},
		{[]string{"keys", "--data", dir, file}, 0, "0 content keys added"},
	} {
		var out, errw bytes.Buffer
		if got := run(t.Context(), x.args, nil, &out, &errw); got != x.exit || !strings.Contains(out.String()+errw.String(), x.want) {
			t.Errorf("%v: exit status %d, want %d and %q\n%s%s", x.args, got, x.exit, x.want, &out, &errw)
		}
	}
}
