package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
)

// An import that a signal stops says what is stored, and its status names the signal. The same
// command goes on from there. The file is a named pipe, whose writer writes when it is asked.
func TestImportThatASignalStopsGoesOn(t *testing.T) {
	l := newCaseLedger(t, t.TempDir())
	text := claudeSession("91234567-89ab-4def-8123-456789abcdef", exchanges(strings.Repeat("one ", 20_000), "two", "three", "four")...) // the format is told from 64 KiB
	part := strings.Join(strings.SplitAfter(text, "\n")[:5], "")                                                                        // the answer to the third is not there
	pipe := filepath.Join(l.dir, "pipe.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--server", l.url, "--creds", l.creds, "import", "--final", pipe}
	cmd := exec.Command("ledgerctl", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(part); err != nil {
		t.Fatal(err)
	}
	for turnsInAll(l) < 2 {
		select {
		case err := <-ended:
			t.Fatalf("the import ended: %v: %s", err, &stderr)
		default:
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = <-ended
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 143 {
		t.Errorf("the import ends with %v, want status 143: %s", err, &stderr)
	}
	for _, want := range []string{"stopped after 0 of 1 file", "of 1 session are stored", "the same command goes on from here"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q: %s", want, &stderr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(pipe, []byte(text), 0o600) }()
	l.run(0, args[4:]...)
	if err := <-written; err != nil {
		t.Error(err)
	}
	if n := turnsInAll(l); n != 4 {
		t.Errorf("%d turns are stored, want 4", n)
	}
	l.run(0, "verify")
}

// turnsInAll returns how many turns the sessions of a ledger have.
func turnsInAll(l *caseLedger) (n uint64) {
	for line := range splitLines(l.run(0, "sessions", "--json")) {
		var s api.Session
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			l.t.Fatal(err)
		}
		n += s.Turns
	}
	return n
}
