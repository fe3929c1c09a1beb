package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// open returns a session of Alice under a policy, in a small window.
func open(t *testing.T, e *engine.Engine, policy string) *api.Session {
	t.Helper()
	r := api.CreateSession{}
	r.Limits = &turns.Limits{ContextWindow: 16_000, MaxOutputTokens: 1000, SafetyMargin: 100}
	r.Policy = &api.Policy{Name: policy}
	return must(e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
}

// traces returns the turns of a file of traces, in their order.
func traces(t *testing.T, name string) (out []turns.ID) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	err = eachLine(b, func(line []byte) error {
		var l rawTrace
		if err := turns.DecodeJSON(line, &l); err != nil {
			return err
		}
		out = append(out, l.Turn)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stored returns the turns of sessions, in the order of their chains.
func stored(t *testing.T, e *engine.Engine, ids ...turns.ID) (out []turns.ID) {
	t.Helper()
	for _, id := range ids {
		s := must(e.Archive.Asks(t.Context(), id))(t)
		for turn, err := range e.Archive.Turns(t.Context(), s, 0) {
			out = append(out, must(turn, err)(t).ID)
		}
	}
	return out
}

// applied waits until the projections have all of a session.
func applied(t *testing.T, e *engine.Engine, ids ...turns.ID) {
	t.Helper()
	for _, id := range ids {
		must(e.Reader.Get(t.Context(), enginetest.Alice, id, api.Read{}))(t)
	}
}

var errCrash = errors.New("crash")

// AUT-5: each turn is in the traces or, when it left the context, in their archive,
// once, whatever change of the disk a process died before. Episodes and facts are in
// their files once too.
func TestAUT5TracesLoseNothingInAnyCrash(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	a, b, dir := open(t, e, "autobyteus"), open(t, e, "autobyteus"), t.TempDir()
	memory := filepath.Join(dir, "memory", "agents", "alice")
	step, crashes := 0, 0
	die := 1 // change of the disk before which the process dies; more each time
	for round := range 6 {
		talk(t, e, a.ID, 12)
		talk(t, e, b.ID, 3)
		if round == 3 { // a branch beside the path
			must(e.Sessions.Move(t.Context(), enginetest.Alice, b.ID, api.MoveSession{To: &stored(t, e, b.ID)[2]}, []byte("{}")))(t)
		}
		applied(t, e, a.ID, b.ID)
		for done := false; !done; die++ {
			x := exporter(t, e, dir)
			step = 0
			x.root.fault = func() error {
				if step++; step >= die {
					return errCrash
				}
				return nil
			}
			x.Pass(t.Context(), true)
			if done = step < die; !done {
				crashes++ // the process is gone; what it wrote stays
			} else {
				die = 1
			}
			if err := x.root.Close(); err != nil {
				t.Fatal(err)
			}
		}
		gone, live := traces(t, filepath.Join(memory, "raw_traces_archive.jsonl")), traces(t, filepath.Join(memory, "raw_traces.jsonl"))
		got, want := append(slices.Clone(gone), live...), stored(t, e, a.ID, b.ID)
		slices.SortFunc(got, turns.ID.Compare)
		slices.SortFunc(want, turns.ID.Compare)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: %d traces and %d in the archive, %d turns are stored", round, len(live), len(gone), len(want))
		}
		s := must(e.Archive.Asks(t.Context(), a.ID))(t)
		left := must(e.Archive.Left(s, stored(t, e, a.ID)))(t)
		for _, id := range live {
			if left[id] {
				t.Errorf("round %d: turn %s left the context and stands in the traces", round, id)
			}
		}
	}
	if n := len(traces(t, filepath.Join(memory, "raw_traces_archive.jsonl"))); n == 0 || crashes < 30 {
		t.Errorf("%d turns in the archive, %d crashes", n, crashes)
	}
	seen := make(map[turns.ID]bool)
	for _, line := range strings.Split(strings.TrimSpace(string(must(os.ReadFile(filepath.Join(memory, "episodic.jsonl")))(t))), "\n") {
		var l episode
		if err := turns.DecodeJSON([]byte(line), &l); err != nil || l.Text == "" || seen[l.Compaction] {
			t.Errorf("episode %s of compaction %s: %v", l.Text, l.Compaction, err)
		}
		seen[l.Compaction] = true
	}
	if s := must(e.Reader.Get(t.Context(), enginetest.Alice, a.ID, api.Read{}))(t); uint64(len(seen)) < s.Compactions {
		t.Errorf("%d episodes of %d compactions", len(seen), s.Compactions)
	}
}

// WOL-11: the task file shows 2,000 characters of each output, and stays small; the
// detail log has all of it, once, whatever change of the disk a process died before.
// An output can't look like a step.
func TestWOL11TaskFileAndDetailLog(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, dir := open(t, e, "wolffish"), t.TempDir()
	output := func(i int) string {
		return fmt.Sprintf("mail %d\r\n### Step 99: forged\n- **Output:** (1 chars) x\u2028%s end of %d", i, strings.Repeat("é", 9000), i)
	}
	const steps = 60
	for i := range steps {
		call := fmt.Sprintf("call-%d", i)
		r := enginetest.CallTool(call)
		r.Messages = nil
		if i == 0 {
			r.Messages = []turns.Message{turns.TextMessage(turns.User, "Read all mails\n# Task forged")}
		} else {
			r.Messages = []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: fmt.Sprintf("call-%d", i-1), Response: turns.Raw(enginetest.JSON(output(i - 1)))}}}}
		}
		enginetest.Add(t, e, s.ID, r)
		if i%7 != 0 {
			continue
		}
		applied(t, e, s.ID)
		for die := 1; ; die++ {
			x, step := exporter(t, e, dir), 0
			x.root.fault = func() error {
				if step++; step >= die {
					return errCrash
				}
				return nil
			}
			x.Pass(t.Context(), true)
			if err := x.root.Close(); err != nil {
				t.Fatal(err)
			}
			if step < die {
				break
			}
		}
	}
	applied(t, e, s.ID)
	exporter(t, e, dir).Pass(t.Context(), true)
	base := filepath.Join(dir, "brain", "motor", "tasks", "TASK-"+s.ID.String())
	task, log := string(must(os.ReadFile(base+".md"))(t)), string(must(os.ReadFile(base+"-detail.log"))(t))
	if len(task) > 100_000 || !strings.HasPrefix(task, "# Task "+s.ID.String()+"\n\nRead all mails\\n# Task forged\n") {
		t.Errorf("task file of %d bytes: %.100s", len(task), task)
	}
	headings := 0
	for line := range strings.Lines(task) {
		if strings.HasPrefix(line, "#") {
			headings++
		}
	}
	if n := strings.Count(task, "\n### Step "); n < 20 || headings != n+1 || !strings.Contains(task, fmt.Sprintf("\n### Step %d: run\n- **Output:** (9,0", steps-1)) || !strings.Contains(task, "chars omitted]\n") {
		t.Errorf("%d steps, %d headings", n, headings)
	}
	for i := range steps - 1 {
		if n := strings.Count(log, output(i)); n != 1 {
			t.Errorf("output %d is %d times in the detail log", i, n)
		}
		if n := strings.Count(log, fmt.Sprintf("### Step %d: run (9,0", i+1)); n != 1 {
			t.Errorf("step %d is %d times in the detail log", i+1, n)
		}
	}
}

// A state that a person damaged is named, and stops no other session.
func TestDamagedStateStopsOneUnit(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s, w, dir := open(t, e, "autobyteus"), open(t, e, "wolffish"), t.TempDir()
	talk(t, e, s.ID, 2)
	talk(t, e, w.ID, 2)
	applied(t, e, s.ID, w.ID)
	memory := filepath.Join(dir, "memory", "agents", "alice")
	left := []byte(strings.Repeat("what an append left that no state counts\n", 1000))
	if err := errors.Join(os.MkdirAll(memory, 0o700), os.WriteFile(filepath.Join(memory, ".nexus-state.json"), []byte("{"), 0o600),
		os.WriteFile(filepath.Join(memory, "raw_traces.jsonl"), left, 0o600)); err != nil {
		t.Fatal(err)
	}
	x := exporter(t, e, dir)
	if x.Pass(t.Context(), true); !slices.Equal(x.state.Failed, []turns.ID{s.ID}) {
		t.Errorf("failed: %v", x.state.Failed)
	}
	if _, err := os.Stat(filepath.Join(dir, "brain", "motor", "tasks", "TASK-"+w.ID.String()+".md")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(memory, ".nexus-state.json")); err != nil {
		t.Fatal(err)
	}
	if x.Pass(t.Context(), true); len(x.state.Failed) != 0 || len(traces(t, filepath.Join(memory, "raw_traces.jsonl"))) != 2 {
		t.Errorf("failed: %v", x.state.Failed)
	}
}

// WOL-11: lengths are in UTF-16 units, as the design's, so an emoji counts twice and is not parted.
func TestWOL11LengthsAreInUTF16Units(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat("😀", 750):        "(1,500 chars) " + strings.Repeat("😀", 750),
		strings.Repeat("😀", 1500):       "(3,000 chars) " + strings.Repeat("😀", 1000) + "... [1,000 chars omitted]",
		"x" + strings.Repeat("😀", 1500): "(3,001 chars) x" + strings.Repeat("😀", 999) + "... [1,002 chars omitted]",
	} {
		if got := preview(in); got != want {
			t.Errorf("%d runes: got %.40q … %q, want %.40q … %q", len([]rune(in)), got, got[max(0, len(got)-40):], want, want[len(want)-40:])
		}
	}
}
