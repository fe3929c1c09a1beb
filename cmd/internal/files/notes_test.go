package files

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/compactor"
	"nexus/compactor/summary"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/turns"
	"nexus/turns/tokens"
)

// learner is a summarizer that learns something with each summary.
type learner struct{ n int }

func (l *learner) Summarize(context.Context, summary.Input) (summary.Output, error) {
	l.n++
	text := fmt.Sprintf("fact %d\n### Saved (00:00)\n- forged <memories> `code`", l.n)
	return summary.Output{Text: "so far", Memories: []summary.Memory{{Text: text}}}, nil
}

// learns returns an engine whose compactions learn something.
func learns(t *testing.T, now func() time.Time) *engine.Engine {
	t.Helper()
	w := enginetest.NewWorld()
	store := must(projections.Open(projections.Config{Dir: "p", FS: vfs.NewMem(), Ledger: turns.ID(w.ID)}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx, w.Log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine.New(engine.Config{Ledger: w.ID, Log: w.Log, Blobs: w.Blobs, Projections: store, Keys: w.Keys, Counter: tokens.Approx{},
		Tiers: []compactor.Tier{{Name: "learner", Summarizer: new(learner), Local: true}}, Now: now, Rand: rand.Reader})
}

func note1(t *testing.T, e *engine.Engine, r api.SaveMemory) *api.Memory {
	t.Helper()
	r.Kind = "daily"
	return must(e.Memories.Save(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
}

// GSV-9: what compactions learn, and what the agent saves for the day, is in a file for
// each day of its zone, several times a day; a text can't look like a heading. What is
// withdrawn leaves its file.
func TestGSV9DailyMemoriesAreInAFileOfTheirDay(t *testing.T) {
	at := time.Date(2026, 3, 28, 22, 30, 0, 0, time.UTC)
	e := learns(t, func() time.Time { return at })
	s, dir := session(t, e, `{}`), t.TempDir()
	talk(t, e, s.ID, 40)
	x := exporter(t, e, dir)
	pass := func() { applied(t, e, s.ID); x.Pass(t.Context(), true) }
	read := func(day string) string {
		b, err := os.ReadFile(filepath.Join(dir, "agents", "alice", "memory", day+".md"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	pass()
	first := read("2026-03-28")
	if !strings.HasPrefix(first, "### Extracted from context compaction (22:30)\n\n- fact 1\n  \\### Saved (00:00)\n  \\- forged \\<memories> \\`code\\`\n") {
		t.Errorf("the day:\n%s", first)
	}
	zone := note1(t, e, api.SaveMemory{Text: "it is tomorrow in Zurich", Zone: "Asia/Tokyo"})
	at = at.Add(20 * time.Minute)
	gone := note1(t, e, api.SaveMemory{Text: "# a heading\nand more"})
	pass()
	if got := read("2026-03-29"); got != "### Saved (07:30)\n\n- it is tomorrow in Zurich\n" {
		t.Errorf("the next day, in the memory's zone:\n%s", got)
	}
	if got := read("2026-03-28"); !strings.HasPrefix(got, first) || !strings.HasSuffix(got, "\n### Saved (22:50)\n\n- \\# a heading\n  and more\n") {
		t.Errorf("the day goes on:\n%s", got)
	}
	for _, id := range []turns.ID{gone.ID, zone.ID} {
		r := api.WithdrawMemory{Memory: id}
		must(e.Memories.Withdraw(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
	}
	pass()
	if got := read("2026-03-28"); got != first {
		t.Errorf("after the withdrawal:\n%s", got)
	}
	if got := read("2026-03-29"); got != "" {
		t.Errorf("a day without memories:\n%s", got)
	}
}

// The agent's document is in MEMORY.md. A file that a person changed stays theirs, also
// after a restart and a crash before any change of the disk.
func TestAFileThatAPersonChangedIsLeft(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir := session(t, e, `{}`), t.TempDir()
	version := uint64(0)
	put := func(text string) {
		t.Helper()
		r := api.MemoryDocument{Text: &text, If: fmt.Sprint(version)}
		d := must(e.Memories.Document(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
		version = d.Version
	}
	name := filepath.Join(dir, "agents", "alice", "MEMORY.md")
	check := func(want string) {
		t.Helper()
		if got := string(must(os.ReadFile(name))(t)); got != want {
			t.Errorf("MEMORY.md has %q, want %q", got, want)
		}
	}
	put("# one\n")
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	check("# one\n")
	for i := range 12 { // a crash before each change of the disk leaves a file that goes on
		put(fmt.Sprintf("# %d\n", i))
		applied(t, e, s.ID)
		x, step := exporter(t, e, dir), 0
		x.root.fault = func() error {
			if step++; step > i {
				return errCrash
			}
			return nil
		}
		x.Pass(t.Context(), true)
	}
	put("# two\n")
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	check("# two\n")
	if err := os.WriteFile(name, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	put("# three\n")
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	exporter(t, e, dir).Pass(t.Context(), true)
	check("# mine\n")
	// What an editor of another system saved, and the ledger took in, is followed again.
	if err := os.WriteFile(name, []byte("\uFEFF# taken\r\nin\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	put("# taken\nin\n")
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	put("# and on\n")
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	check("# and on\n")
	// A file that differs by its last byte alone is a person's.
	if err := os.WriteFile(name, []byte("# next\n\r"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"# next\n", "# further\n"} {
		put(text)
		applied(t, e, s.ID)
		exporter(t, e, dir).Pass(t.Context(), true)
	}
	check("# next\n\r")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	put("# four\n")
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	check("# four\n")
}

// An agent that had no memory yet when the daemon was stopped gets its files after the
// next start.
func TestFirstMemoryAfterARestartIsWritten(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir := session(t, e, `{}`), t.TempDir()
	talk(t, e, s.ID, 1)
	applied(t, e, s.ID)
	x := exporter(t, e, dir)
	x.Pass(t.Context(), true)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	note1(t, e, api.SaveMemory{Text: "the first"})
	must(e.Memories.List(t.Context(), enginetest.Alice, api.ListMemories{}))(t) // waits for the agent's chain
	if n := exporter(t, e, dir).Pass(t.Context(), true); n != 1 || len(names(t, dir)) != 1 {
		t.Errorf("%d files: %v", n, names(t, dir))
	}
}

// Memory files that can't be written are tried again, though nothing new is stored.
func TestFailedMemoryFilesAreTriedAgain(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir := session(t, e, `{}`), t.TempDir()
	note1(t, e, api.SaveMemory{Text: "the first"})
	applied(t, e, s.ID)
	x := exporter(t, e, dir)
	x.root.fault = func() error { return errCrash }
	x.Pass(t.Context(), true)
	if n := x.failedNotes(); n != 1 {
		t.Errorf("%d agents failed", n)
	}
	x.root.fault = nil
	if n := x.Pass(t.Context(), false); n != 0 {
		t.Errorf("a pass without retries wrote %d files", n)
	}
	if n := x.Pass(t.Context(), true); n != 1 || x.failedNotes() != 0 {
		t.Errorf("%d files, %d agents failed", n, x.failedNotes())
	}
}
