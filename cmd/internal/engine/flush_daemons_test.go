package engine_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/turns"
)

// Of daemons that begin one flush at the same time one does; the others get a
// conflict, and a retry of the one that did gets its answer.
func TestOneDaemonBeginsAFlush(t *testing.T) {
	w := newWorld()
	engines := []*Engine{w.Engine(t), w.Engine(t), w.Engine(t)}
	for range 5 {
		s := flushSession(t, engines[0])
		swell(t, engines[0], s, flushOver)
		var errs [3]error
		var got [3]*api.BegunFlush
		ids := [3]turns.ID{newID(t), newID(t), newID(t)}
		var all sync.WaitGroup
		for i, e := range engines {
			all.Go(func() {
				r := api.BeginFlush{ID: ids[i], Cycle: 1}
				got[i], errs[i] = e.Compactions.BeginFlush(t.Context(), alice, s, r, []byte(`{"cycle":1}`))
			})
		}
		all.Wait()
		won := slices.Index(errs[:], nil)
		if won < 0 {
			t.Fatalf("nobody: %v", errs)
		}
		for i, err := range errs {
			if i != won && code(err) != api.Conflict {
				t.Errorf("daemon %d: %v, want conflict", i, err)
			}
		}
		for _, e := range engines {
			r := api.BeginFlush{ID: ids[won], Cycle: 1}
			again := must(e.Compactions.BeginFlush(t.Context(), alice, s, r, []byte(`{"cycle":1}`)))(t)
			if again.Lease != got[won].Lease || again.Prompt != got[won].Prompt || !again.Duplicate {
				t.Errorf("again: %+v, want %+v", again, got[won])
			}
		}
	}
	verified(t, engines[2])
}

// An agent that dies between begin and done: the flush is due once more when its
// lease ends, and after the second time it is given up, and the compaction says so.
func TestFlushExpiresWithItsLease(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	c := new(clock)
	e.Reader.Now = c.Now
	s := flushSession(t, e)
	swell(t, e, s, compactOver)
	begin(t, e, s, 1)
	c.pass(299 * time.Second)
	if cx := getContext(t, e, s); cx.Flush.Due || cx.Compacted != nil {
		t.Errorf("in the lease: %+v, compacted %v", cx.Flush, cx.Compacted)
	}
	c.pass(2 * time.Second)
	e = w.Engine(t) // and the daemon died with it
	e.Reader.Now = c.Now
	if cx := getContext(t, e, s); !cx.Flush.Due || cx.Compacted != nil {
		t.Errorf("after it: %+v, compacted %v", cx.Flush, cx.Compacted)
	}
	if b := begin(t, e, s, 1); b.Try != 2 {
		t.Errorf("%+v, want the second try", b)
	}
	c.pass(301 * time.Second)
	r := api.BeginFlush{Cycle: 1}
	if _, err := e.Compactions.BeginFlush(t.Context(), alice, s, r, canon(r)); code(err) != api.Conflict {
		t.Errorf("a third time: %v, want conflict", err)
	}
	if cx := viewContext(t, e, s); cx.Flush.Due {
		t.Errorf("due a third time: %+v", cx.Flush)
	}
	if cx := getContext(t, e, s); flushOf(t, e, s, cx.Compacted) != "expired" {
		t.Errorf("the compaction says %q, want expired", flushOf(t, e, s, cx.Compacted))
	}
	verified(t, e)
}

// An end that comes after the lease counts where nobody ended it before.
func TestFlushThatEndsLateCounts(t *testing.T) {
	e := newWorld().Engine(t)
	c := new(clock)
	e.Reader.Now = c.Now
	s := flushSession(t, e)
	swell(t, e, s, compactOver)
	begin(t, e, s, 1)
	c.pass(time.Hour)
	r := api.DoneFlush{ID: newID(t), Cycle: 1, Response: "SILENT"}
	first := endFlush(t, e, s, r)
	if again := endFlush(t, e, s, r); again.ID != first.ID || again.State != "silent" || !again.Duplicate {
		t.Errorf("again: %+v, want %+v", again, first)
	}
	r.ID = newID(t)
	if _, err := e.Compactions.DoneFlush(t.Context(), alice, s, r, canon(r)); code(err) != api.Conflict {
		t.Errorf("a second end: %v, want conflict", err)
	}
	if cx := getContext(t, e, s); flushOf(t, e, s, cx.Compacted) != "silent" {
		t.Errorf("the compaction says %q", flushOf(t, e, s, cx.Compacted))
	}
}

func TestFlushRefusalsAreTyped(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	empty := flushSession(t, e)
	add(t, e, s, say("one", "two"))
	for _, tc := range []struct {
		name string
		c    reader.Caller
		s    turns.ID
		r    api.BeginFlush
		want api.Code
	}{
		{"no cycle", alice, s, api.BeginFlush{}, api.Malformed},
		{"a cycle to come", alice, s, api.BeginFlush{Cycle: 2}, api.Conflict},
		{"before the first turn", alice, empty, api.BeginFlush{Cycle: 1}, api.Unprocessable},
		{"another agent", bob, s, api.BeginFlush{Cycle: 1}, api.NotFound},
		{"the operator", operator, s, api.BeginFlush{Cycle: 1}, api.Denied},
	} {
		if _, err := e.Compactions.BeginFlush(t.Context(), tc.c, tc.s, tc.r, canon(tc.r)); code(err) != tc.want {
			t.Errorf("begin, %s: %v, want %s", tc.name, err, tc.want)
		}
	}
	for _, tc := range []struct {
		name string
		c    reader.Caller
		r    api.DoneFlush
		want api.Code
	}{
		{"no cycle", alice, api.DoneFlush{}, api.Malformed},
		{"not begun", alice, api.DoneFlush{Cycle: 1}, api.Conflict},
		{"a huge count", alice, api.DoneFlush{Cycle: 1, Saved: 1 << 60}, api.Malformed},
		{"a huge reply", alice, api.DoneFlush{Cycle: 1, Response: long(2 << 20)}, api.TooLarge},
		{"another agent", bob, api.DoneFlush{Cycle: 1}, api.NotFound},
	} {
		if _, err := e.Compactions.DoneFlush(t.Context(), tc.c, s, tc.r, canon(tc.r)); code(err) != tc.want {
			t.Errorf("done, %s: %v, want %s", tc.name, err, tc.want)
		}
	}
	begin(t, e, s, 1) // before it is due: an agent may, for a compaction that it asks for
	must(e.Sessions.CloseSession(t.Context(), alice, s, api.CloseSession{}, nil))(t)
	r := api.DoneFlush{Cycle: 1}
	if _, err := e.Compactions.DoneFlush(t.Context(), alice, s, r, canon(r)); code(err) != api.Closed {
		t.Errorf("done in a closed session: %v, want closed", err)
	}
}

// A compaction that covers nothing ends no cycle, and says nothing of a flush.
func TestElisionEndsNoFlushCycle(t *testing.T) {
	e := newWorld().Engine(t)
	r := api.CreateSession{}
	r.Limits = &flushLimits
	r.Policy = &api.Policy{Name: "autobyteus", Set: turns.Raw(`{"large_output_chars":2000,"reserve_tokens":4000,` +
		`"flush":{"threshold":500,"prompt":"save it","silent_token":"SILENT","lease_seconds":60}}`)}
	s := must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t).ID
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c1", Name: "run", Arguments: turns.Raw(`{}`)}}}
	add(t, e, s, api.AppendTurn{Messages: say("run it", "").Messages, Response: &call})
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Response: turns.Raw(`"` + long(6000) + `"`)}}}
	add(t, e, s, api.AppendTurn{Messages: []turns.Message{result}})
	cx := getContext(t, e, s)
	if cx.Compacted == nil || flushOf(t, e, s, cx.Compacted) != "" || cx.Flush.Cycle != 1 {
		t.Errorf("compacted %v, flush %q, %+v", cx.Compacted, flushOf(t, e, s, cx.Compacted), cx.Flush)
	}
	swell(t, e, s, flushOver+700)
	if b := begin(t, e, s, 1); b.Prompt != "save it" {
		t.Errorf("%+v", b)
	}
	endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "ok"})
	run := must(e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, nil))(t)
	if run.Compaction.Compaction.Flush != "done" {
		t.Errorf("a manual compaction says %q, want done", run.Compaction.Compaction.Flush)
	}
	verified(t, e)
}

// A daemon that reads the ledger from its start, and a ledger that imports the
// session, know the same of its flushes.
func TestFlushesAreReplayedAndExported(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := flushSession(t, e)
	swell(t, e, s, flushOver)
	begin(t, e, s, 1)
	endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "kept", Saved: 1, Usage: &turns.Usage{InputTokens: 5}})
	swell(t, e, s, compactOver)
	compacted := getContext(t, e, s).Compacted
	swell(t, e, s, flushOver)
	begin(t, e, s, 2)
	verified(t, e)

	abroad := newWorld().Engine(t)
	var records []api.ExportRecord
	for page := (api.ExportSession{}); ; {
		x := must(e.Transfer.Export(t.Context(), alice, s, page))(t)
		records = append(records, x.Records...)
		if page.After = x.Next; page.After == "" {
			break
		}
	}
	if err := importAs(t, abroad, alice, records...); err != nil {
		t.Fatal(err)
	}
	want := must(e.Reader.Projections.Session(s))(t)
	for name, d := range map[string]*Engine{"read from the start": w.Engine(t), "imported": abroad} {
		must(d.Reader.Get(t.Context(), alice, s, api.Read{}))(t)
		got := must(d.Reader.Projections.Session(s))(t)
		if got.Flushes != want.Flushes || got.Usage != want.Usage || got.Tail.Hash != want.Tail.Hash {
			t.Errorf("%s: %+v, want %+v", name, got.Flushes, want.Flushes)
		}
		if flushOf(t, d, s, compacted) != "done" {
			t.Errorf("%s: the compaction says %q", name, flushOf(t, d, s, compacted))
		}
		if cx := viewContext(t, d, s); cx.Flush != (api.FlushState{Cycle: 2}) {
			t.Errorf("%s: %+v, want begun in cycle 2", name, cx.Flush)
		}
		verified(t, d)
	}
	endFlush(t, abroad, s, api.DoneFlush{Cycle: 2, Response: "SILENT"}) // it goes on there
	verified(t, abroad)
}

// Flush events that nobody decided on are not imported.
func TestNoForgedFlushIsImported(t *testing.T) {
	e := newWorld().Engine(t)
	for name, f := range map[string]turns.Flush{
		"of a cycle to come":       {State: turns.FlushBegun, Cycle: 2, After: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{2}}, Try: 1, Lease: 1},
		"ended before it is begun": {State: turns.FlushDone, Cycle: 1, Try: 1},
		"begun a second time":      {State: turns.FlushBegun, Cycle: 1, Try: 2, Lease: 1},
	} {
		x := newAbroad(t, bob)
		if err := importAs(t, e, bob, x.records(t)...); err != nil {
			t.Fatal(err)
		}
		ev := x.forge(t, &turns.Event{Kind: turns.KindFlush, Flush: &f}, &turns.FlushBody{})
		if err := importAs(t, e, bob, eventRecord(t, ev)); code(err) != api.Corrupt {
			t.Errorf("%s: %v, want corrupt", name, err)
		}
	}
}

// A fork is a session of its own: it is in the cycle of its path, and its flush
// is its own.
func TestForkHasItsOwnFlushCycle(t *testing.T) {
	e := newWorld().Engine(t)
	s := flushSession(t, e)
	swell(t, e, s, flushOver)
	begin(t, e, s, 1)
	endFlush(t, e, s, api.DoneFlush{Cycle: 1, Response: "SILENT"})
	swell(t, e, s, compactOver)
	getContext(t, e, s)
	last := swell(t, e, s, flushOver)
	for mode, want := range map[string]api.FlushState{"as_seen": {Due: true, Cycle: 2}, "full": {Due: true, Cycle: 1}} {
		r := api.CreateFork{Turn: last.ID, Mode: mode}
		f := must(e.Forks.Fork(t.Context(), alice, s, r, canon(r)))(t)
		if cx := viewContext(t, e, f.ID); cx.Flush != want {
			t.Errorf("%s: %+v, want %+v", mode, cx.Flush, want)
		}
		if b := begin(t, e, f.ID, want.Cycle); b.Try != 1 {
			t.Errorf("%s: %+v", mode, b)
		}
	}
	verified(t, e)
}
