package files

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/archive"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

func must[T any](v T, err error) func(testing.TB) T { return enginetest.Must(v, err) }

// exporter returns an exporter of e's sessions to a folder.
func exporter(t *testing.T, e *engine.Engine, dir string) *Exporter {
	t.Helper()
	return must(Open(Config{Dir: dir, Source: e.Archive}))(t)
}

// session returns a session of Alice under the policy gsv, in a small window.
func session(t *testing.T, e *engine.Engine, set string) *api.Session {
	t.Helper()
	r := api.CreateSession{}
	r.Limits = &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100}
	r.Policy = &api.Policy{Name: "gsv", Set: turns.Raw(set)}
	return must(e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
}

// talk appends n turns and asks for the context before each, so that the policy
// compacts.
func talk(t *testing.T, e *engine.Engine, id turns.ID, n int) {
	t.Helper()
	for i := range n {
		enginetest.Add(t, e, id, enginetest.Say(fmt.Sprintf("question %d <memories> \u202e %s", i, enginetest.Text(900)), enginetest.Text(400)))
		must(e.Contexts.Context(t.Context(), enginetest.Alice, id, api.GetContext{}))(t)
	}
}

// lines returns the lines of an archive.
func lines(t *testing.T, name string) (out []archive.Line) {
	t.Helper()
	z := must(gzip.NewReader(bytes.NewReader(must(os.ReadFile(name))(t))))(t)
	for line := range bytes.Lines(must(io.ReadAll(z))(t)) {
		var l archive.Line
		if err := turns.DecodeJSON(line, &l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if l.Key != nil {
			t.Fatalf("%s holds a content key", name)
		}
		out = append(out, l)
	}
	return out
}

// names returns the files below a folder, but for the state.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !slices.Contains([]string{stateName, lockName, notesStateName}, d.Name()) {
			out = append(out, strings.TrimPrefix(p, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// GSV-8: each compaction has an archive of what it newly covers. Together they hold
// every turn that is covered, as it was said, with the bytes of its event.
func TestGSV8EachCompactionHasAnArchive(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir := session(t, e, `{}`), t.TempDir()
	big := enginetest.Noise(600 << 10) // in a blob
	enginetest.Add(t, e, s.ID, enginetest.Say(big, "seen"))
	talk(t, e, s.ID, 60)
	s = must(e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t)
	if s.Compactions < 2 {
		t.Fatalf("%d compactions", s.Compactions)
	}
	x := exporter(t, e, dir)
	if n := x.Pass(t.Context(), false); n != int(s.Compactions) {
		t.Errorf("%d files of %d compactions: %v", n, s.Compactions, x.state)
	}
	var got []turns.ID
	for i := range int(s.Compactions) {
		all := lines(t, filepath.Join(dir, "agents", "alice", "sessions", fmt.Sprintf("%s.partial-%d.jsonl.gz", s.ID, i+1)))
		if h := all[0].Archive; h == nil || h.Session != s.ID || h.Ledger != x.state.Ledger {
			t.Errorf("header %+v", h)
		}
		for _, l := range all[1:] {
			if turns.HashEvent(l.Event.Payload) != l.Event.Hash || l.Turn.Hash != l.Event.Hash {
				t.Errorf("turn %s: hash %v of other bytes", l.Turn.ID, l.Event.Hash)
			}
			got = append(got, l.Turn.ID)
			if l.Turn.Depth == 1 && l.Turn.Messages[0].Parts[0].Content != big {
				t.Error("the content of a large part is not in its line")
			}
			if l.Turn.Depth > 1 && !strings.HasPrefix(l.Turn.Messages[0].Parts[0].Content, "question ") {
				t.Errorf("turn %s has no text", l.Turn.ID)
			}
		}
	}
	last := must(e.History.ListCompactions(t.Context(), enginetest.Alice, s.ID, api.ListCompactions{}))(t).Turns[0]
	var want []turns.ID
	for _, v := range must(e.Covered.Expand(t.Context(), enginetest.Alice, s.ID, api.ExpandCompaction{ID: last.ID, Levels: turns.Raw(`"all"`)}))(t).Turns {
		want = append(want, v.ID)
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("archives hold %d turns, the compactions cover %d", len(got), len(want))
	}
	if x.Pass(t.Context(), true) != 0 {
		t.Error("a pass without news wrote files")
	}
}

// GSV-12: a session that was reset has one archive of everything. Imported where its
// keys are it gives the same events.
func TestGSV12EndedSessionIsArchivedWhole(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir := session(t, e, `{}`), t.TempDir()
	talk(t, e, s.ID, 40)
	fork := must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: *must(e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t).Head}, []byte("{}")))(t)
	talk(t, e, fork.ID, 2)
	x := exporter(t, e, dir)
	whole := filepath.Join(dir, "agents", "alice", "sessions", fork.ID.String()+".jsonl.gz")
	x.Pass(t.Context(), false)
	if _, err := os.Stat(whole); err == nil {
		t.Fatal("an open session is archived")
	}
	must(e.Sessions.Reset(t.Context(), enginetest.Alice, fork.ID, api.ResetSession{Cause: "daily"}, []byte("{}")))(t)
	applied(t, e, fork.ID)
	x.Pass(t.Context(), false)
	var records []api.ExportRecord
	readable := 0
	for _, l := range lines(t, whole) {
		if records = append(records, l.ExportRecord); l.Turn != nil {
			readable++
		}
	}
	if readable < 22 {
		t.Errorf("%d readable turns", readable)
	}
	got := must(e.Transfer.Import(t.Context(), enginetest.Operator, api.ImportRecords{Records: records}))(t)
	if got.Stored != 0 || got.Existing == 0 {
		t.Errorf("imported where it is: %+v", got)
	}
	// In another ledger it needs the keys, which a backup has.
	other := enginetest.NewWorld().Engine(t)
	var keys []api.ExportRecord
	page := must(e.Transfer.Export(t.Context(), enginetest.Operator, fork.ID, api.ExportSession{}))(t)
	for _, r := range page.Records {
		if r.Key != nil {
			keys = append(keys, r)
		}
	}
	if _, err := other.Transfer.Import(t.Context(), enginetest.Operator, api.ImportRecords{Records: records}); err == nil {
		t.Error("a sealed archive was imported without its keys")
	}
	must(other.Transfer.Import(t.Context(), enginetest.Operator, api.ImportRecords{Records: append(keys, records...)}))(t)
	want := must(e.Reader.Get(t.Context(), enginetest.Alice, fork.ID, api.Read{}))(t)
	if have := must(other.Reader.Get(t.Context(), enginetest.Alice, fork.ID, api.Read{}))(t); *have.Head != *want.Head || have.State != want.State {
		t.Errorf("restored %+v, was %+v", have, want)
	}
	enginetest.Verified(t, other)
}

// A policy that asks for no files gets none.
func TestNoFilesUnlessThePolicyAsks(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	dir := t.TempDir()
	s := session(t, e, `{"files":{"layout":"","archive":false}}`)
	talk(t, e, s.ID, 40)
	must(e.Sessions.Reset(t.Context(), enginetest.Alice, s.ID, api.ResetSession{}, []byte("{}")))(t)
	applied(t, e, s.ID)
	x := exporter(t, e, dir)
	if n := x.Pass(t.Context(), true); n != 0 || len(names(t, dir)) != 0 {
		t.Errorf("%d files: %v", n, names(t, dir))
	}
}

// failing fails after some lines, as a source whose disk or key is gone.
type failing struct {
	Source
	after int // lines until an error; -1: none
}

func (f *failing) Covered(ctx context.Context, s *archive.Session, n node) iter.Seq2[archive.Line, error] {
	return func(yield func(archive.Line, error) bool) {
		i := 0
		for l, err := range f.Source.Covered(ctx, s, n) {
			if i == f.after {
				yield(l, errors.New("cut short"))
				return
			}
			if i++; !yield(l, err) {
				return
			}
		}
	}
}

// Whatever a try left, the next one gives every file, whole. A start does not write
// again what is there.
func TestFilesAreWholeAfterAnyCrash(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir := session(t, e, `{}`), t.TempDir()
	talk(t, e, s.ID, 40)
	for after := range 5 {
		x := must(Open(Config{Dir: dir, Source: &failing{e.Archive, after}}))(t)
		x.Pass(t.Context(), true)
		if got := names(t, dir); len(got) != 0 {
			t.Fatalf("a try that failed left %v", got)
		}
		if len(x.state.Failed) != 1 {
			t.Errorf("failed: %v", x.state.Failed)
		}
		if after%2 == 0 { // a clean stop; else a crash, with a file that was never renamed
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		left := filepath.Join(dir, "agents", "alice", "sessions", "."+s.ID.String()+".partial-1.jsonl.gz.tmp")
		if err := os.WriteFile(left, []byte("half a file"), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(left)
	}
	x := exporter(t, e, dir)
	n := x.Pass(t.Context(), true)
	if want := int(must(e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t).Compactions); n != want || len(names(t, dir)) != want {
		t.Errorf("%d files of %d: %v", n, want, names(t, dir))
	}
	for _, name := range names(t, dir) {
		lines(t, filepath.Join(dir, name))
		if info := must(os.Stat(filepath.Join(dir, name)))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v", name, info.Mode())
		}
	}
	if err := os.Remove(filepath.Join(dir, stateName)); err != nil {
		t.Fatal(err)
	}
	if n := exporter(t, e, dir).Pass(t.Context(), true); n != 0 {
		t.Errorf("without its state a start wrote %d files again", n)
	}
}

// A symbolic link leads no file out of the folder.
func TestFilesStayInTheirFolder(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir, outside := session(t, e, `{}`), t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "agents")); err != nil {
		t.Fatal(err)
	}
	talk(t, e, s.ID, 40)
	x := exporter(t, e, dir)
	if x.Pass(t.Context(), true); len(names(t, outside)) != 0 || !slices.Equal(x.state.Failed, []turns.ID{s.ID}) {
		t.Errorf("outside: %v, failed: %v", names(t, outside), x.state.Failed)
	}
	if err := os.Remove(filepath.Join(dir, "agents")); err != nil {
		t.Fatal(err)
	}
	if n := x.Pass(t.Context(), true); n == 0 || len(x.state.Failed) != 0 {
		t.Errorf("%d files when the link was gone", n)
	}
}

// The files of another ledger are not mixed with these. The error names the file that says whose
// they are: a wrong bit in it gives the same error, and then the file can be deleted.
func TestFolderBelongsToOneLedger(t *testing.T) {
	dir := t.TempDir()
	x := exporter(t, enginetest.NewWorld().Engine(t), dir)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir, Source: enginetest.NewWorld().Engine(t).Archive}); err == nil || !strings.Contains(err.Error(), "--files") || !strings.Contains(err.Error(), filepath.Join(dir, stateName)) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(dir, stateName)); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Config{Dir: dir, Source: enginetest.NewWorld().Engine(t).Archive})
	if err != nil {
		t.Fatalf("without that file: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

type node = lineage.Node

// unreadable is a source whose projections can't be read.
type unreadable struct{ Source }

func (unreadable) Touched(uint64, uint64) iter.Seq2[turns.ID, error] {
	return func(yield func(turns.ID, error) bool) {
		yield(turns.ID{}, fmt.Errorf("%w: a row", ledger.ErrCorrupt))
	}
}

// Where the projections can't be read, no file is written, and the log says so once at the
// level of errors: else nobody notices that there are no archives.
func TestUnreadableProjectionsAreReportedOnce(t *testing.T) {
	e, dir := enginetest.NewWorld().Engine(t), t.TempDir()
	talk(t, e, session(t, e, `{}`).ID, 1)
	var log strings.Builder
	x := must(Open(Config{Dir: dir, Source: unreadable{e.Archive}, Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	for range 3 {
		if n := x.Pass(t.Context(), true); n != 0 {
			t.Errorf("%d files", n)
		}
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors in the log:\n%s", n, log.String())
	}
}
