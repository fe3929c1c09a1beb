package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
)

// The agent that docs/API.md begins with runs as it is written, with nats-py where
// that is installed, and in any case with a stand-in for the part of it that the
// agent uses.
func TestAgentOfTheAPIPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "API.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, ok := strings.Cut(string(page), "\n```python\n")
	program, _, ended := strings.Cut(program, "\n```\n")
	if !ok || !ended {
		t.Fatal("docs/API.md has no agent")
	}
	lines := 0
	for line := range strings.Lines(program) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > 22 {
		t.Errorf("the agent has %d lines, the page says 20", lines)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: the agent of docs/API.md was not run, python3 is not here")
	}
	standIn, err := filepath.Abs(filepath.Join("testdata", "python"))
	if err != nil {
		t.Fatal(err)
	}
	d, c := startDaemon(t, config.Config{Auth: "off"})
	for _, library := range []struct{ name, path string }{{"nats-py", ""}, {"stand-in", standIn}} {
		t.Run(library.name, func(t *testing.T) {
			if library.path == "" {
				if out, err := exec.Command(python, "-c", "import nats").CombinedOutput(); err != nil {
					t.Skipf("SKIPPED: the agent of docs/API.md runs with the stand-in alone, nats-py is not here: %s", bytes.TrimSpace(out))
				}
			}
			cmd := exec.Command(python, "-B", "-c", program)
			cmd.Env = append(os.Environ(), "NEXUS_URL="+d.ClientURL(), "PYTHONPATH="+library.path)
			var out, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s%s", err, &out, &stderr)
			}
			session, messages, _ := strings.Cut(out.String(), " ")
			if want := "[{'role': 'system', 'content': 'You are terse.'}, {'role': 'user', 'content': 'What is a ledger?'}]\n"; messages != want {
				t.Errorf("messages %q, want %q", messages, want)
			}
			var stored []string
			for s, err := range c.Sessions(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if s.ID.String() != session {
					continue
				}
				for x, err := range c.Turns(t.Context(), s.ID, api.ListTurns{Full: true}) {
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range x.Messages {
						stored = append(stored, m.Parts[0].Content)
					}
					if x.Response != nil {
						stored = append(stored, x.Response.Parts[0].Content)
					}
				}
			}
			if got := strings.Join(stored, "|"); got != "What is a ledger?|You sent 2 messages." {
				t.Errorf("stored: %q", got)
			}
		})
	}
}
