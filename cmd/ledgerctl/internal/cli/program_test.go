package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/terminal"
)

func TestProgramOfGoRunIsTransient(t *testing.T) {
	for path, want := range map[string]bool{
		"/tmp/go-build2938475/b001/exe/ledgerctl": true,
		"/home/me/go-build/ledgerctl":             false,
		"/home/me/go-builds1/ledgerctl":           false,
		"/usr/local/bin/ledgerctl":                false,
		"/tmp/x/go-build1/ledgerctl":              true,
	} {
		if got := isTransient(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestGoneProgram(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ledgerctl")
	if s := GoneProgram(file); !strings.Contains(s, "is gone") {
		t.Error(s)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := GoneProgram(file); !strings.Contains(s, "no program") {
		t.Error(s)
	}
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if s := GoneProgram(file); s != "" {
		t.Error(s)
	}
}

// What stands in settings and units has no secret in it.
func TestNoSecretIsWrittenIntoFiles(t *testing.T) {
	for _, c := range []struct {
		server, creds, context string
		refused                bool
	}{
		{"nats://me:hunter2@host:4222", "", "", true},
		{"nats://t0ken@host:4222", "", "", true},
		{"tls://a:1,tls://me:hunter2@b:2", "", "", true},
		{"me:hunter2@host", "", "", true},
		{"nats://me:hunter2@host:4222", "x.creds", "", false},
		{"nats://me:hunter2@host:4222", "", "team", false},
		{"nats://host:4222", "", "", false},
	} {
		e := New(&terminal.Terminal{})
		e.Server, e.ServerNamed, e.Creds, e.NATSContext, e.Tenant = c.server, true, c.creds, c.context, "default"
		flags, err := e.ConnectionFlags()
		if fault.IsUsage(err) != c.refused || err != nil != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		if s := strings.Join(flags, " "); strings.Contains(s, "hunter2") || strings.Contains(s, "t0ken") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %s, %v", c, s, err)
		}
	}
}
