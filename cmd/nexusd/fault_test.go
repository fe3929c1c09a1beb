package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Damaged projections end nexusd with an error that says what to do, and no stack
// trace. It starts again without the folder.
func TestDamagedProjectionsEndTheDaemon(t *testing.T) {
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
	code, stderr := start()
	if code != 6 || !strings.Contains(stderr, "delete that folder") || strings.Contains(stderr, "goroutine ") {
		t.Errorf("exit %d, want 6 and what to delete: %s", code, stderr)
	}
	if err := os.RemoveAll(filepath.Join(data, "projections")); err != nil {
		t.Fatal(err)
	}
	if code, stderr := start(); code != 0 {
		t.Errorf("without the folder: exit %d: %s", code, stderr)
	}
}
