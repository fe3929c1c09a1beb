package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/tally"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/quickstart"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/render/strict"
)

// Every real transcript, of every format that is read: it comes in, again
// stores nothing, its contexts pass all providers' rules, and as an export it
// goes into a second ledger with the same hashes.
func TestRealTranscripts(t *testing.T) {
	data := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not beside the project (../shared/data)")
	}
	files, _, err := transcriptfile.Find([]string{data})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	im := transcripts.Importer{Client: c, Format: "auto"} // copies that still grow come first
	formats := map[string]int{}
	sessions := map[turns.ID]bool{}
	var read []string
	for _, f := range files {
		if folder := filepath.Base(filepath.Dir(f.Name)); slices.Contains([]string{"locomo", "model-tables", "provider-errors", "openhands"}, folder) {
			continue // no transcripts of a format that is read
		}
		r, err := im.File(ctx, f.Name)
		if err != nil {
			if unknown := (transcriptfile.UnknownFormat{}); !errors.As(err, &unknown) {
				t.Errorf("%s: %v", f.Name, err)
			}
			continue
		}
		read = append(read, f.Name)
		formats[r.Format]++
		for _, s := range r.Sessions {
			sessions[s] = true
		}
	}
	im.Final = true
	for _, name := range append(read[:len(read):len(read)], read...) {
		r, err := im.File(ctx, name)
		if err != nil {
			t.Errorf("%s, final: %v", name, err)
			continue
		}
		for _, s := range r.Sessions {
			sessions[s] = true
		}
	}
	for _, name := range read {
		r, err := im.File(ctx, name)
		if err != nil || r.Stored > 0 {
			t.Errorf("%s again: %+v, %v", name, r, err)
		}
	}
	to, stop2, err := local.Start(ctx, e.Terminal, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop2()
	views := 0
	for id := range sessions {
		views += checkViews(t, c, id)
		copySession(t, c, to, id)
		a, err := c.Session(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		b, err := to.Session(ctx, id)
		if err != nil || a.Hash != b.Hash {
			t.Errorf("session %s: hash %s, in the second ledger %v, %v", id, a.Hash, b, err)
		}
	}
	for _, c := range []*client.Client{c, to} {
		if v, err := c.As(api.Operator).Verify(ctx); err != nil || !v.OK {
			t.Errorf("verify: %+v, %v", v, err)
		}
	}
	t.Logf("%d files %v, %d sessions, %d contexts", len(read), formats, len(sessions), views)
	for _, f := range []string{"claude-code", "codex", "pi", "gemini-cli", "openai"} {
		if formats[f] == 0 {
			t.Errorf("no file of format %s", f)
		}
	}
}

// checkViews renders a session for all providers.
func checkViews(t *testing.T, c *client.Client, id turns.ID) (n int) {
	t.Helper()
	s, err := c.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if s.Head == nil {
		return 0
	}
	for _, format := range []string{"openai", "anthropic", "gemini"} {
		cx, err := c.As(api.Operator).Context(t.Context(), id, api.GetContext{Format: format, Budget: 5_000_000})
		if err != nil {
			t.Errorf("session %s as %s: %v", id, format, err)
			continue
		}
		ms, err := turns.EncodeJSON(cx.Messages)
		if err != nil {
			t.Fatal(err)
		}
		switch format {
		case "openai":
			err = strict.OpenAI(ms, strict.OpenCalls)
		case "anthropic":
			err = strict.Anthropic(cx.System, ms, strict.OpenCalls)
		default:
			err = strict.Gemini(cx.System, ms, strict.OpenCalls, strict.Thinking)
		}
		if err != nil {
			t.Errorf("session %s (%s) as %s: %v", id, s.Meta, format, err)
		}
		n++
	}
	return n
}

func copySession(t *testing.T, from, to *client.Client, id turns.ID) {
	t.Helper()
	if err := quickstart.CopyInto(t.Context(), to, from.Export(t.Context(), id)); err != nil {
		t.Fatalf("session %s: %v", id, err)
	}
}

// Real transcripts cut in the middle of a line, at several places one after the other,
// and then the whole: every session holds the turns that one import of the whole stores.
func TestImportOfCutRealTranscripts(t *testing.T) {
	data := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		t.Skip("real transcripts are not next to the project (../shared/data)")
	}
	const cuts, maxSize = 12, 160 << 10
	ctx := t.Context()
	e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
	for _, pattern := range []string{"claude-code-*", "codex-*"} {
		files, err := filepath.Glob(filepath.Join(data, pattern, "*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatal("no files of", pattern, err)
		}
		tested := 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > maxSize {
				continue
			}
			tested++
			t.Run(filepath.Base(file), func(t *testing.T) {
				importCopies := func(copies ...[]byte) (*client.Client, *tally.Report) {
					c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(stop)
					name := filepath.Join(t.TempDir(), "s.jsonl")
					var r *tally.Report
					for i, b := range copies {
						if err := os.WriteFile(name, b, 0o600); err != nil {
							t.Fatal(err)
						}
						im := transcripts.Importer{Client: c, Format: "auto", Final: i == len(copies)-1}
						if r, err = im.File(ctx, name); err != nil {
							t.Fatalf("copy %d of %d bytes: %v", i, len(b), err)
						}
					}
					return c, r
				}
				var copies [][]byte
				for i := range cuts {
					copies = append(copies, text[:(i+1)*len(text)/(cuts+1)])
				}
				once, whole := importCopies(text)
				grown, _ := importCopies(append(copies, text)...)
				for _, s := range whole.Sessions {
					if d := cmp.Diff(storedTurns(ctx, t, once, s), storedTurns(ctx, t, grown, s)); d != "" {
						t.Errorf("session %s (-whole +cut): %.2000s", s, d)
					}
				}
			})
		}
		if tested == 0 {
			t.Errorf("no file of %s has at most %d bytes", pattern, maxSize)
		}
	}
}
