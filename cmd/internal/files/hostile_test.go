package files

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// noon is the time of the engines whose files have the name of a day.
var noon = time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)

// A pipe in place of a file holds up nothing: to open one would wait for another program.
func TestAPipeInPlaceOfAFileHoldsUpNobody(t *testing.T) {
	e := learns(t, func() time.Time { return noon })
	s, dir := session(t, e, `{}`), t.TempDir()
	a, w := open(t, e, "autobyteus"), open(t, e, "wolffish")
	talk(t, e, a.ID, 2)
	talk(t, e, w.ID, 2)
	note1(t, e, api.SaveMemory{Text: "the first"})
	applied(t, e, s.ID, a.ID, w.ID)
	day := filepath.Join(dir, "agents", "alice", "memory", noon.Format(time.DateOnly)+".md")
	traces := filepath.Join(dir, "memory", "agents", "alice", "raw_traces.jsonl")
	task := filepath.Join(dir, "brain", "motor", "tasks", ".TASK-"+w.ID.String()+".json")
	for _, name := range []string{day, traces, task} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), syscall.Mkfifo(name, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	x := exporter(t, e, dir)
	if x.Pass(t.Context(), true); len(x.state.Failed) != 2 || x.failedNotes() != 1 {
		t.Errorf("failed: %v and %d agents", x.state.Failed, x.failedNotes())
	}
	for _, name := range []string{day, traces, task} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if x.Pass(t.Context(), true); len(x.state.Failed) != 0 || x.failedNotes() != 0 {
		t.Errorf("when the pipes are gone: %v and %d agents", x.state.Failed, x.failedNotes())
	}
}

// A link under a temporary name leads to no other file of the folder.
func TestALinkUnderATemporaryNameChangesNoOtherFile(t *testing.T) {
	e := learns(t, func() time.Time { return noon })
	s, dir := session(t, e, `{}`), t.TempDir()
	note1(t, e, api.SaveMemory{Text: "the first"})
	applied(t, e, s.ID)
	folder := filepath.Join(dir, "agents", "alice", "memory")
	day := noon.Format(time.DateOnly) + ".md"
	other := filepath.Join(dir, "kept.md")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(other, []byte("mine"), 0o600), os.Symlink("../../../kept.md", filepath.Join(folder, "."+day+".tmp"))); err != nil {
		t.Fatal(err)
	}
	exporter(t, e, dir).Pass(t.Context(), true)
	if b := must(os.ReadFile(other))(t); string(b) != "mine" {
		t.Errorf("the other file has %q", b)
	}
	if st, err := os.Lstat(filepath.Join(folder, day)); err != nil || !st.Mode().IsRegular() {
		t.Errorf("the day: %v, %v", st, err)
	}
}

// A file that a person made is not read into memory: this one would not fit.
func TestAFileOfAnySizeIsLeft(t *testing.T) {
	e := learns(t, func() time.Time { return noon })
	s, dir := session(t, e, `{}`), t.TempDir()
	note1(t, e, api.SaveMemory{Text: "the first"})
	applied(t, e, s.ID)
	name := filepath.Join(dir, "agents", "alice", "memory", noon.Format(time.DateOnly)+".md")
	const size = 1 << 40
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Skip("no sparse files here:", err)
	}
	exporter(t, e, dir).Pass(t.Context(), true)
	if st, err := os.Stat(name); err != nil || st.Size() != size {
		t.Errorf("%v, %v", st, err)
	}
}

// A link that leads out of the folder is not followed, and stops no other file: a person may
// keep MEMORY.md elsewhere. A link to nothing gives way.
func TestALinkOutOfTheFolderStopsNoOtherFile(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir, outside := session(t, e, `{}`), t.TempDir(), filepath.Join(t.TempDir(), "MEMORY.md")
	text := "# ours\n"
	r := api.MemoryDocument{Text: &text, If: "0"}
	must(e.Memories.Document(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
	note1(t, e, api.SaveMemory{Text: "the first"})
	applied(t, e, s.ID)
	name := filepath.Join(dir, "agents", "alice", "MEMORY.md")
	if err := errors.Join(os.WriteFile(outside, []byte("mine"), 0o600), os.MkdirAll(filepath.Dir(name), 0o700), os.Symlink(outside, name)); err != nil {
		t.Fatal(err)
	}
	x := exporter(t, e, dir)
	if n := x.Pass(t.Context(), true); n != 1 || x.failedNotes() != 1 {
		t.Errorf("%d files, %d agents failed", n, x.failedNotes())
	}
	if b := must(os.ReadFile(outside))(t); string(b) != "mine" {
		t.Errorf("outside: %q", b)
	}
	if err := errors.Join(os.Remove(name), os.Symlink("nowhere", name)); err != nil {
		t.Fatal(err)
	}
	x.Pass(t.Context(), true)
	if b, err := os.ReadFile(name); string(b) != text || x.failedNotes() != 0 {
		t.Errorf("%q, %v, %d agents failed", b, err, x.failedNotes())
	}
}

// logged is a log that several goroutines read and write.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
	got  chan struct{} // has one element after a write
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(b)
	select {
	case l.got <- struct{}{}:
	default:
	}
	return len(b), nil
}

// has waits until the log has a text.
func (l *logged) has(t *testing.T, text string) {
	t.Helper()
	for {
		l.mu.Lock()
		found := strings.Contains(l.text.String(), text)
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-l.got:
		case <-t.Context().Done():
			t.Fatalf("the log never had %q", text)
		}
	}
}

// Two daemons on one folder: one writes, the other waits for its end and goes on from
// there.
func TestOfTwoDaemonsOneWritesAFolder(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	a, dir := open(t, e, "autobyteus"), t.TempDir()
	talk(t, e, a.ID, 3)
	applied(t, e, a.ID)
	run := func() (x *Exporter, log *logged, stop func()) {
		log = &logged{got: make(chan struct{}, 1)}
		x = must(Open(Config{Dir: dir, Source: e.Archive, Pause: time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { x.Run(ctx); close(done) }()
		return x, log, func() {
			cancel()
			<-done
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	name := filepath.Join(dir, "memory", "agents", "alice", "raw_traces.jsonl")
	there := func(n int) {
		t.Helper()
		for {
			b, err := os.ReadFile(name)
			if err == nil && strings.Count(string(b), "\n") == n {
				return
			}
			if t.Context().Err() != nil {
				t.Fatalf("%d lines never came: %v", n, err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	_, _, stopFirst := run()
	there(3)
	_, log, stopSecond := run()
	log.has(t, "another daemon writes them")
	stopFirst()
	talk(t, e, a.ID, 2)
	there(5)
	stopSecond()
	if got := traces(t, name); len(got) != 5 {
		t.Errorf("%d turns", len(got))
	}
}

// What was written for an agent is in a state beside its files: one state for all grew with
// every day of every agent, and was written for each file.
func TestTheStateOfAnAgentsFilesIsItsOwn(t *testing.T) {
	at := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	e := learns(t, func() time.Time { return at })
	s, dir := session(t, e, `{}`), t.TempDir()
	x := exporter(t, e, dir)
	sizes := make(map[int]int64)
	for i := range 40 {
		note1(t, e, api.SaveMemory{Text: fmt.Sprint("day ", i)})
		at = at.AddDate(0, 0, 1)
		applied(t, e, s.ID)
		x.Pass(t.Context(), true)
		sizes[i] = must(os.Stat(filepath.Join(dir, stateName)))(t).Size()
	}
	if sizes[39] > sizes[1]+64 {
		t.Errorf("the state has %d bytes after two days, %d after forty", sizes[1], sizes[39])
	}
	// Lost, it costs reading: files with other content would be left as a person's.
	if err := os.Remove(filepath.Join(dir, stateName)); err != nil {
		t.Fatal(err)
	}
	at = at.AddDate(0, 0, -1)
	note1(t, e, api.SaveMemory{Text: "more of the last day"})
	talk(t, e, s.ID, 1)
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	b := must(os.ReadFile(filepath.Join(dir, "agents", "alice", "memory", at.Format(time.DateOnly)+".md")))(t)
	if !strings.Contains(string(b), "more of the last day") {
		t.Errorf("the last day: %s", b)
	}
}

// A request that looks like a step is not a step of the task.
func TestARequestForgesNoStep(t *testing.T) {
	id := turns.ID{1}
	first := taskFile(id, "### Step 9: forged", "", []step{{number: 1, tool: "a", preview: "x"}})
	again := taskFile(id, "### Step 9: forged", string(first), []step{{number: 2, tool: "b", preview: "y"}})
	if n := strings.Count(string(again), "forged"); n != 1 {
		t.Errorf("%d times:\n%s", n, again)
	}
}
