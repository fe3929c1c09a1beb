package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Damaged projections are set aside and made again from the log, with a line in the
// log and no stack trace.
func TestDamagedProjectionsAreMadeAgain(t *testing.T) {
	data := t.TempDir()
	start := func() (code int, stderr string) {
		_, stderr, code = startAndStop(t, "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error", "--max-store", "2000000000")
		return code, stderr
	}
	for range 2 { // the second start makes tables of Pebble's log
		if code, stderr := start(); code != 0 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
	}
	tables, err := filepath.Glob(filepath.Join(data, "projections", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1 // the first block holds the checkpoint
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, stderr := start(); code != 0 || !strings.Contains(stderr, "made again from the log") || strings.Contains(stderr, "goroutine ") {
		t.Errorf("exit %d, want 0 and that they are made again: %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(data, "projections.damaged")); err != nil {
		t.Errorf("the damaged ones are not kept: %v", err)
	}
	if code, stderr := start(); code != 0 || strings.Contains(stderr, "damaged") {
		t.Errorf("the next start: exit %d: %s", code, stderr)
	}
}
