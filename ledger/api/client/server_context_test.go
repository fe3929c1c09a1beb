package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/ledger/api"
)

func TestContextIsFoundByEveryNameOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("HOME", dir)
	want := ServerContext{URL: "nats://127.0.0.1:4222", Operator: "/data/users/operator.nk", Agent: "/data/users/agent.nk"}
	if _, err := FindServerContext(want.URL); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is written: %v", err)
	}
	if err := SaveServerContext(want); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"nats://127.0.0.1:4222", "nats://localhost:4222", "localhost", "127.0.0.1:4222", "nats://[::1]:4222", "nats://0.0.0.0:4222", "nats://LOCALHOST:4222,nats://b:1"} {
		if got, err := FindServerContext(url); err != nil || got != want {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	for _, url := range []string{"nats://127.0.0.1:4223", "nats://host:4222", "nats://../../x:4222"} {
		if got, err := FindServerContext(url); err == nil {
			t.Errorf("%s: %+v", url, got)
		}
	}
	if _, err := FindServerContext("nats://u:secret@:x"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad URL: %v", err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if info, e := d.Info(); path != dir && (e != nil || info.Mode().Perm()&0o077 != 0) {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), e)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNATSContextIsReadByName(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	file := filepath.Join(dir, "nats", "context", "nexus.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"description":"x","url":"nats://h:1","nkey":"/a.nk","jetstream_domain":""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := FindNATSContext("nexus"); err != nil || got != (NATSContext{URL: "nats://h:1", NKey: "/a.nk"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(file, []byte(`{"password":"secret",`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]api.Code{"": api.Malformed, "../nexus": api.Malformed, "none": api.NotFound, "nexus": api.Malformed} {
		var e *api.Error
		if _, err := FindNATSContext(name); !errors.As(err, &e) || e.Code != code || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", name, err, code)
		}
	}
}

func TestFileWithoutSeedIsNotQuoted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.nk")
	if err := os.WriteFile(file, []byte("SUsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial("nats://127.0.0.1:1", file); err == nil || strings.Contains(err.Error(), "SUsecret") {
		t.Errorf("%v", err)
	}
	if _, err := Dial("nats://127.0.0.1:1", file+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}
