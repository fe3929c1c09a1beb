package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/watch"
)

// Files that an import stored are in the ledger for the status of the watch too, until they
// are written to. The watch then stores what is new.
func TestWatchStatusKnowsWhatAnImportStored(t *testing.T) {
	l := newCaseLedger(t, t.TempDir())
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state"), "XDG_CONFIG_HOME": filepath.Join(home, "config"), "CLAUDE_CONFIG_DIR": filepath.Join(home, ".claude"),
		"CODEX_HOME": filepath.Join(home, ".codex"), "PI_CODING_AGENT_DIR": filepath.Join(home, ".pi"), "GEMINI_CLI_HOME": filepath.Join(home, ".gemini")} {
		t.Setenv(name, value)
	}
	file := filepath.Join(home, ".claude", "projects", "-w", "a1234567-89ab-4def-8123-456789abcdef.jsonl")
	write := func(answers ...string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(claudeSession("a1234567-89ab-4def-8123-456789abcdef", exchanges(answers...)...)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	behind := func() (n int) {
		var s watch.Status
		out := l.run(0, "watch", "status", "--json")
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, src := range s.Sources {
			n += src.Behind
		}
		return n
	}
	write("one", "two")
	if n := behind(); n != 1 {
		t.Errorf("before the import %d files are behind, want 1", n)
	}
	l.run(0, "import", filepath.Join(home, ".claude"))
	if n := behind(); n != 0 {
		t.Errorf("after the import %d files are behind, want 0", n)
	}
	l.run(0, "watch", "status")
	write("one", "two", "three", "four")
	if n := behind(); n != 1 {
		t.Errorf("after a write %d files are behind, want 1", n)
	}
	l.run(0, "watch", "--once")
	if n, stored := behind(), turnsInAll(l); n != 0 || stored != 4 {
		t.Errorf("after the watch %d files are behind and %d turns are stored, want 0 and 4", n, stored)
	}
}
