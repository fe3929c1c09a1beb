package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/internal/terminal"
)

// TestAFirstCallSaysWhatThereIs: a person who has no ledger is told what to type, and nothing is made.
func TestAFirstCallSaysWhatThereIs(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"XDG_DATA_HOME", "NEXUS_DATA", "NEXUS_URL", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	call := func() string {
		var out bytes.Buffer
		e := newEnv(&terminal.Terminal{Out: &out, Err: &out})
		e.program, e.Server = os.Args[0], "nats://127.0.0.1:1" // nobody answers
		if err := e.mayServe(&cobra.Command{}); err != nil {
			t.Fatal(err)
		}
		if !e.welcome() {
			return ""
		}
		return out.String()
	}
	if got := call(); got != "" {
		t.Errorf("without transcripts: %s", got)
	}
	for _, name := range []string{".claude/projects/a/1.jsonl", ".claude/projects/b/2.jsonl", ".claude/projects/b/note.txt", ".codex/sessions/2026/rollout-1.jsonl"} {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := call()
	for _, want := range []string{"2 of claude", "1 of codex", "ledgerctl import " + home + "/.claude/projects " + home + "/.codex/sessions"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".local")); !os.IsNotExist(err) {
		t.Errorf("a folder was made: %v", err)
	}
}
