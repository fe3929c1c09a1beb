package engine_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nexus/ledger/api"
)

// A program in another language, which knows docs/FORMAT.md alone, reads what an export wrote: with a fork, a
// compaction over two sessions and a moved head, sealed and not.
func TestASecondReaderReadsAnExport(t *testing.T) {
	python := ""
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import cryptography, zstandard").Run() == nil {
			python = p
			break
		}
	}
	if python == "" {
		t.Skip("no Python with cryptography and zstandard (Debian: python3-cryptography, python3-zstandard)")
	}
	for name, sealed := range map[string]bool{"sealed": true, "in the clear": false} {
		t.Run(name, func(t *testing.T) {
			e := newWorld().Engine(t)
			if !sealed {
				e.Store.Keys = nil
			}
			s := create(t, e, 8000, "nexus")
			last := add(t, e, s.ID, say("a large question: "+long(900_000), "answer")).ID
			for range 8 {
				last = add(t, e, s.ID, say("question "+long(2000), "answer")).ID
			}
			f := must(e.Forks.Fork(t.Context(), alice, s.ID, api.CreateFork{Turn: last}, []byte("1")))(t)
			must(e.Compactions.Compact(t.Context(), alice, f.ID, api.RunCompaction{}, []byte("{}")))(t)
			file := filepath.Join(t.TempDir(), "export.jsonl")
			write := func(change func(*api.ExportRecord)) {
				var lines []byte
				for _, r := range exports(t, e, f.ID) {
					change(&r)
					b, err := json.Marshal(r)
					if err != nil {
						t.Fatal(err)
					}
					lines = append(append(lines, b...), '\n')
				}
				if err := os.WriteFile(file, lines, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write(func(*api.ExportRecord) {})
			out, err := exec.Command(python, "../../../docs/examples/python/read_export.py", file).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "events of 2 chains") || sealed && !strings.Contains(string(out), ", 1 blobs") {
				t.Fatalf("%v\n%s", err, out)
			}
			write(func(r *api.ExportRecord) {
				if r.Event != nil {
					r.Event.Payload[len(r.Event.Payload)/2] ^= 1
				}
			})
			if out, err := exec.Command(python, "../../../docs/examples/python/read_export.py", file).CombinedOutput(); err == nil || !strings.Contains(string(out), "refused") {
				t.Errorf("changed bytes are read: %v\n%s", err, out)
			}
			if !sealed {
				return
			}
			redact(t, e, s.ID, api.RedactTurn{Text: "a large question"})
			redact(t, e, s.ID, api.RedactTurn{Turn: last, Parts: []int{1}})
			redact(t, e, s.ID, api.RedactTurn{Turn: last, Parts: []int{2}})
			write(func(*api.ExportRecord) {})
			out, err = exec.Command(python, "../../../docs/examples/python/read_export.py", file).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "; 2 redacted") {
				t.Fatalf("redacted: %v\n%s", err, out)
			}
		})
	}
}
