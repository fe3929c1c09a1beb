package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/cost"
	"nexus/cmd/internal/transcripts"
	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// piEntryOf is an entry of a pi session, at a minute after ten on a day.
func piEntryOf(day int, id, parent, role, text string, minute int) string {
	p, rest := "null", ""
	if parent != "" {
		p = `"` + parent + `"`
	}
	if role == "assistant" {
		rest = `,"api":"anthropic-messages","provider":"anthropic","model":"m","responseId":"r-` + id + `","usage":{"input":10,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":11,"cost":{"total":0.5}},"stopReason":"stop"`
	}
	return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%s,"timestamp":"2026-03-%02dT%02d:%02d:00.000Z","message":{"role":%q,"content":[{"type":"text","text":%q}]%s}}`+"\n",
		id, p, day, 10+minute/60, minute%60, role, text, rest)
}

// piForks writes a session with a branch of its own, a fork at the end of that branch, one
// in the middle, and a fork of the first fork. It returns the files by what they are.
func piForks(t *testing.T, dir string) map[string]string {
	const day = 1
	t.Helper()
	name := func(hour, n int) string {
		return fmt.Sprintf("2026-03-%02dT%02d-00-00-000Z_0b54e2c1-8a35-4c12-9c1e-%08d%04d.jsonl", day, hour, day, n)
	}
	names := map[string]string{"parent": name(10, 1), "branch": name(11, 2), "middle": name(12, 3), "second": name(13, 4)}
	header := func(what, parent string, hour int) string {
		_, id, _ := strings.Cut(strings.TrimSuffix(names[what], ".jsonl"), "_")
		up := ""
		if parent != "" {
			up = `,"parentSession":"/home/u/.pi/agent/sessions/--w--/` + names[parent] + `"`
		}
		return fmt.Sprintf(`{"type":"session","version":3,"id":%q,"timestamp":"2026-03-%02dT%02d:00:00.000Z","cwd":"/w"%s}`+"\n", id, day, hour, up)
	}
	e := func(id, parent, role, text string, minute int) string {
		return piEntryOf(day, id, parent, role, text, minute)
	}
	root := e("a1", "", "user", "one", 1) + e("a2", "a1", "assistant", "1", 2)
	branch := e("d1", "a2", "user", "other", 5) + e("d2", "d1", "assistant", "o", 6)
	own := e("f1", "d2", "user", "fork", 61) + e("f2", "f1", "assistant", "f", 62)
	texts := map[string]string{
		"parent": header("parent", "", 10) + root + e("b1", "a2", "user", "two", 3) + e("b2", "b1", "assistant", "2", 4) + branch,
		"branch": header("branch", "parent", 11) + root + branch + own,
		"middle": header("middle", "parent", 12) + root + e("m1", "a2", "user", "mid", 121) + e("m2", "m1", "assistant", "m", 122),
		"second": header("second", "branch", 13) + root + branch + own + e("s1", "f2", "user", "sec", 181) + e("s2", "s1", "assistant", "s", 182),
	}
	for what, text := range texts {
		if err := os.MkdirAll(filepath.Join(dir, what), 0o700); err != nil {
			t.Fatal(err)
		}
		names[what] = filepath.Join(dir, what, names[what])
		if err := os.WriteFile(names[what], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// Forks of pi and what they are forked from are stored once, each call where it was made,
// whichever is imported first: in one import, one after the other, and again.
func TestPiForksInAnyOrder(t *testing.T) {
	var first []string
	for _, order := range [][]string{
		{"parent", "branch", "middle", "second"}, {"second", "branch", "middle", "parent"}, {"branch", "parent", "second", "middle"},
		{"middle", "second", "parent", "branch"}, {"middle", "branch", "second", "parent"},
	} {
		for _, oneByOne := range []bool{false, true} {
			t.Run(fmt.Sprint(strings.Join(order, " "), " ", oneByOne), func(t *testing.T) {
				ctx := t.Context()
				e := newEnv(&terminal.Terminal{Out: io.Discard, Err: io.Discard})
				c, stop, err := local.Start(ctx, e.Terminal, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				names := piForks(t, t.TempDir())
				var files []transcriptfile.File
				for _, what := range order {
					files = append(files, transcriptfile.File{Name: names[what]})
				}
				imports := [][]transcriptfile.File{files, files}
				if oneByOne {
					imports = [][]transcriptfile.File{files[:1], files[1:2], files[2:3], files[3:], files}
				}
				for _, fs := range imports {
					im := transcripts.Importer{Client: c, Format: "auto", Final: true}
					for i, o := range im.Files(ctx, fs) {
						if o.Err != nil {
							t.Fatalf("%s: %v", fs[i].Name, o.Err)
						}
					}
				}
				calls := 0
				_, found := cost.Read(ctx, c, cost.Scope{})
				for _, err := range found {
					if err != nil {
						t.Fatal(err)
					}
					calls++
				}
				if calls != 6 {
					t.Errorf("%d calls, want 6", calls)
				}
				shapes := sessionShapes(t, c)
				if first == nil {
					first = shapes
				}
				if d := cmp.Diff(first, shapes); d != "" {
					t.Errorf("sessions (-parent first +this order):\n%s", d)
				}
			})
		}
	}
	if want := []string{"12", "1m", "1o", "1of", "1ofs"}; !slices.Equal(first, want) {
		t.Errorf("sessions %q, want %q", first, want)
	}
}

// sessionShapes returns the texts on the paths of sessions, sorted. Which of two branches
// a session has and which is its fork depends on what was read first.
func sessionShapes(t *testing.T, c *client.Client) (out []string) {
	t.Helper()
	for s, err := range c.ListSessions(t.Context(), api.ListSessions{}) {
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for x, err := range c.Turns(t.Context(), s.ID, api.ListTurns{Full: true}) {
			if err != nil {
				t.Fatal(err)
			}
			text += x.Response.Parts[0].Content
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}
