//go:build unix

package localserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A process that has the folder and answers nobody is told from a folder that can't be opened, and from a command that was
// interrupted.
func TestAProcessThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	st := &Starter{Program: program, Version: "v", Data: filepath.Join(dir, "data")}
	runs := func(command string) {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+command+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	child := func(line string) { runs("echo '" + line + "'") }
	child(`{"ready":false,"error":"another process has it","in_use":true}`)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := st.Serving(short); !errors.Is(err, ErrSilent) {
		t.Errorf("it does not answer: %v", err)
	}
	runs("exec sleep 2") // the time is over while a child starts, and not between two
	starts, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := st.Serving(starts); !errors.Is(err, ErrSilent) {
		t.Errorf("a child says nothing: %v", err)
	}
	child(`{"ready":false,"error":"another process has it","in_use":true}`)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := st.Serving(stopped); err == nil || errors.Is(err, ErrSilent) {
		t.Errorf("the command was interrupted: %v", err)
	}
	child(`{"ready":false,"error":"the log is damaged"}`)
	if _, err := st.Serving(t.Context()); err == nil || errors.Is(err, ErrSilent) || err.Error() != "the log is damaged" {
		t.Errorf("it can't be opened: %v", err)
	}
}
