package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Damaged projections end nexusd with an error that says what to do, and no stack
// trace. It starts again without the folder.
func TestDamagedProjectionsEndTheDaemon(t *testing.T) {
	data := t.TempDir()
	// start runs nexusd until it can serve, stops it, and returns how it ended.
	start := func() (code int, stderr string) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r, w := io.Pipe()
		var said bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			code := run(ctx, []string{"--data", data, "--listen", "127.0.0.1:0", "--http", "off", "--log-level", "error", "--max-store", "2000000000"}, nil, w, &said)
			_ = w.Close() // of a pipe: never fails
			ended <- code
		}()
		_, _ = bufio.NewReader(r).ReadString('\n') // ready, or ended
		stop()
		return <-ended, said.String()
	}
	for range 2 { // the second start makes tables of Pebble's log
		if code, said := start(); code != 0 {
			t.Fatalf("exit %d: %s", code, said)
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
	code, said := start()
	if code != 6 || !strings.Contains(said, "delete that folder") || strings.Contains(said, "goroutine ") {
		t.Errorf("exit %d, want 6 and what to delete: %s", code, said)
	}
	if err := os.RemoveAll(filepath.Join(data, "projections")); err != nil {
		t.Fatal(err)
	}
	if code, said := start(); code != 0 {
		t.Errorf("without the folder: exit %d: %s", code, said)
	}
}
