package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/transcripts/transcriptfile"
	"nexus/cmd/ledgerctl/internal/local"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// A fork of a fork, its parent and the parent of that are the same sessions with the same
// turns and the same calls, in whatever order the files are imported and with whatever
// others. So are the copies that a resume without forkedFrom left. A refresh changes nothing.
func TestClaudeCodeLineageInAnyOrderAndGrouping(t *testing.T) {
	written := claudeForks(t, t.TempDir())
	text := func(what string) string {
		b, err := os.ReadFile(written[what])
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	firstLines := func(s string, n int) string { return strings.Join(strings.SplitAfter(s, "\n")[:n], "") }
	lastLines := func(s string, n int) string {
		lines := strings.SplitAfter(s, "\n") // the last is empty
		return strings.Join(lines[len(lines)-1-n:], "")
	}
	bare := func(s string) string { // without forkedFrom
		var out strings.Builder
		for line := range strings.Lines(s) {
			if i := strings.Index(line, `,"forkedFrom"`); i >= 0 {
				line = line[:i] + "}\n"
			}
			out.WriteString(line)
		}
		return out.String()
	}
	a, b, c := text("session"), text("end"), text("second")
	for name, x := range map[string]struct {
		files []string
		paths []string
		calls int
		twice bool // turns may be stored twice, as a session can't become a fork
	}{
		"each names the one before": {[]string{a, b, c}, []string{"one other", "one other fork", "one other fork sec"}, 4, false},
		// Lines keep the session that wrote them.
		"each names its writer": {[]string{a, b, firstLines(strings.ReplaceAll(c, `"forkedFrom":{"sessionId":"`+endFork, `"forkedFrom":{"sessionId":"`+forkedSession), 4) + lastLines(c, 4)},
			[]string{"one other", "one other fork", "one other fork sec"}, 4, false},
		// The last forks the second before the first turn of the second's own.
		"the copy ends before the fork":  {[]string{a, b, firstLines(c, 2) + strings.ReplaceAll(lastLines(c, 2), "000000000014", "000000000011")}, []string{"one other", "one other fork", "one sec"}, 4, true},
		"copies of a resume":             {[]string{a, bare(b), bare(c)}, []string{"one other", "one other fork", "one other fork sec"}, 4, false},
		"resumes, the first goes on too": {[]string{a + strings.ReplaceAll(strings.ReplaceAll(lastLines(text("middle"), 2), middleFork, forkedSession), "000000000011", "000000000013"), bare(b), bare(c)}, []string{"one other fork", "one other fork sec", "one other mid"}, 5, false},
		"two that name each other": {[]string{
			strings.NewReplacer(endFork, forkedSession, forkedSession, endFork).Replace(firstLines(b, 4)) + strings.ReplaceAll(strings.ReplaceAll(lastLines(text("middle"), 2), middleFork, forkedSession), "000000000011", "000000000013"), b, c},
			[]string{"one other fork", "one other fork sec", "one other mid"}, 5, false},
	} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			for _, sizes := range [][]int{{3}, {1, 1, 1}, {2, 1}, {1, 2}} {
				t.Run(fmt.Sprint(name, order, sizes), func(t *testing.T) {
					t.Parallel() // each waits for its disk
					var out bytes.Buffer
					e := newEnv(&terminal.Terminal{Out: &out, Err: io.Discard})
					l, stop, err := local.Start(t.Context(), e.Terminal, t.TempDir())
					if err != nil {
						t.Fatal(err)
					}
					defer stop()
					dir := t.TempDir()
					var files []transcriptfile.File
					for _, i := range order {
						f := filepath.Join(dir, fmt.Sprintf("%d.jsonl", i))
						if err := os.WriteFile(f, []byte(x.files[i]), 0o600); err != nil {
							t.Fatal(err)
						}
						files = append(files, transcriptfile.File{Name: f})
					}
					rest := files
					for _, n := range sizes {
						importAll(t, l, rest[:n], false)
						rest = rest[n:]
					}
					for _, refresh := range []bool{false, true, false} {
						if n := importAll(t, l, files, refresh); n > 0 {
							t.Errorf("again (refresh %v): stored %d", refresh, n)
						}
					}
					if d := cmp.Diff(x.paths, promptPaths(t, l, x.twice)); d != "" {
						t.Errorf("sessions (-want +got):\n%s", d)
					}
					if v, err := l.As(api.Operator).Verify(t.Context()); err != nil || !v.OK {
						t.Errorf("verify: %+v, %v", v, err)
					}
					if n := countCalls(t, l); n != x.calls {
						t.Errorf("%d calls, want %d", n, x.calls)
					}
				})
			}
		}
	}
}

// promptPaths returns the first prompts of the turns on the paths of sessions, sorted, and
// checks that each session is one of claudeForks, and that a turn has the same parent on each
// path and, unless twice, is stored once.
func promptPaths(t *testing.T, c *client.Client, twice bool) (out []string) {
	t.Helper()
	ids := map[string]bool{}
	for _, s := range []string{forkedSession, endFork, secondFork} {
		ids[turns.DeriveID(time.UnixMilli(0), "claude-code", s, "session", "").String()] = true
	}
	owner, above := make(map[turns.ID]turns.ID), make(map[turns.ID]turns.ID)
	for s, err := range c.ListSessions(t.Context(), api.ListSessions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !ids[s.ID.String()] {
			t.Errorf("session %s is none of the files'", s.ID)
		}
		var path []string
		var last turns.ID
		for x, err := range c.Turns(t.Context(), s.ID, api.ListTurns{Full: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if was, ok := owner[x.ID]; ok && was != x.Session && !twice || ok && above[x.ID] != last {
				t.Errorf("turn %s is stored in %s after %s and in %s after %s", x.ID, was, above[x.ID], x.Session, last)
			}
			owner[x.ID], above[x.ID], last = x.Session, last, x.ID
			path = append(path, x.Messages[0].Parts[0].Content)
		}
		out = append(out, strings.Join(path, " "))
	}
	slices.Sort(out)
	return out
}
