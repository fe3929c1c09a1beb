package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/render/strict"
)

func TestAppendAndRead(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	var ids []turns.ID
	for i := range 5 {
		a := add(t, e, s.ID, say(fmt.Sprintf("question %d", i), fmt.Sprintf("answer %d", i)))
		if a.Depth != uint64(i+1) || a.Context.Tokens == 0 {
			t.Errorf("turn %d: %+v", i, a)
		}
		ids = append(ids, a.ID)
	}
	got := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t)
	if *got.Head != ids[4] || got.Depth != 5 || got.Turns != 5 || got.State != "open" {
		t.Errorf("session: %+v", got)
	}
	list := must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Page: api.Page{Limit: 2}, Full: true}))(t)
	if len(list.Turns) != 2 || list.Turns[0].ID != ids[0] || list.Next == "" {
		t.Fatalf("first page: %+v", list)
	}
	list = must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Page: api.Page{After: list.Next}}))(t)
	if len(list.Turns) != 3 || list.Turns[0].ID != ids[2] || list.Next != "" {
		t.Fatalf("second page: %+v", list)
	}
	back := must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Order: "desc", Page: api.Page{Limit: 2}}))(t)
	if len(back.Turns) != 2 || back.Turns[0].ID != ids[4] {
		t.Fatalf("backwards: %+v", back)
	}
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Format: "openai"}))(t)
	if len(cx.Messages) != 10 || len(cx.Sources) != 10 {
		t.Errorf("context: %d messages, %d sources", len(cx.Messages), len(cx.Sources))
	}
	if err := strict.OpenAI(canon(cx.Messages)); err != nil {
		t.Error(err)
	}
	if v := verified(t, e); v.Turns != 5 || v.Sessions != 1 {
		t.Errorf("verified: %+v", v)
	}
	if _, err := e.Reader.Get(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, s.ID, api.Read{}); code(err) != api.NotFound {
		t.Errorf("another agent's session: %v, want not_found", err)
	}
}

// A retry of a stored append stores nothing twice: on the same daemon, on one
// that lags behind, after a head move, and the same id with another request is
// refused.
func TestSameIDIsStoredOnce(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := create(t, e, 0, "nexus")
	r := say("one", "two")
	r.ID = newID(t)
	first := add(t, e, s.ID, r)
	second := add(t, e, s.ID, say("three", "four"))
	for name, d := range map[string]*Engine{"the same daemon": e, "a second daemon": other} {
		again := must(d.Sessions.Append(t.Context(), alice, s.ID, r, canon(r)))(t)
		if again.Hash != first.Hash || !again.Duplicate || again.Position != first.Position {
			t.Errorf("retry on %s: %+v, first was %+v", name, again, first)
		}
	}
	must(other.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{To: &first.ID}, nil))(t)
	for name, d := range map[string]*Engine{"the same daemon": e, "a second daemon": other} {
		again := must(d.Sessions.Append(t.Context(), alice, s.ID, r, canon(r)))(t)
		if again.Hash != first.Hash || !again.Duplicate {
			t.Errorf("retry on %s after a head move: %+v", name, again)
		}
		changed := r
		changed.Model = "another"
		if _, err := d.Sessions.Append(t.Context(), alice, s.ID, changed, canon(changed)); code(err) != api.IDReused {
			t.Errorf("the same id with another request on %s: %v, want id_reused", name, err)
		}
	}
	if st := must(w.Log.State(t.Context()))(t); st.Last != 5 {
		t.Errorf("the log has %d records, want 5: a policy, opened, two turns, one move", st.Last)
	}
	_ = second
	verified(t, e)
}

func TestStaleParentIsConflict(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := create(t, e, 0, "nexus")
	one := add(t, e, s.ID, say("1", "a"))
	two := add(t, other, s.ID, say("2", "b"))
	r := say("3", "c")
	r.Parent = one.ID
	_, err := e.Sessions.Append(t.Context(), alice, s.ID, r, canon(r))
	var x *api.Error
	if !errors.As(err, &x) || x.Code != api.Conflict || x.Details["head"] != two.ID.String() {
		t.Errorf("append after a stale parent: %v, want conflict with head %s", err, two.ID)
	}
	r.Parent = two.ID
	add(t, e, s.ID, r)
}

func TestToolCallsAcrossAppends(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	call := func(id string) turns.Part {
		return turns.Part{Type: turns.ToolCall, ID: id, Name: "run", Arguments: turns.Raw(`{}`)}
	}
	result := func(id string) turns.Message {
		return turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: id, Response: turns.Raw(`"ok"`)}}}
	}
	r := say("go", "")
	r.Response = &turns.Message{Role: turns.Assistant, Parts: []turns.Part{call("a"), call("b"), call("c")}}
	if a := add(t, e, s.ID, r); len(a.Open) != 3 {
		t.Fatalf("open after the calls: %v", a.Open)
	}
	if a := add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{result("b")}}); len(a.Open) != 2 {
		t.Fatalf("open after one result: %v", a.Open)
	}
	second := w.Engine(t) // has no memory of the open calls
	a := must(second.Sessions.Append(t.Context(), alice, s.ID, say("never mind", "fine"), nil))(t)
	if len(a.Abandoned) != 2 || len(a.Open) != 0 {
		t.Fatalf("after moving on: %+v", a)
	}
	late := add(t, e, s.ID, api.AppendTurn{Messages: []turns.Message{result("a")}})
	if len(late.Late) != 1 {
		t.Errorf("a late result: %+v", late)
	}
	unknown := api.AppendTurn{Messages: []turns.Message{result("nope")}}
	if _, err := e.Sessions.Append(t.Context(), alice, s.ID, unknown, canon(unknown)); code(err) != api.Malformed {
		t.Errorf("a result of no known call: %v, want malformed", err)
	}
	for _, f := range []string{"openai", "anthropic", "gemini"} {
		cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Format: f}))(t)
		var err error
		switch f {
		case "openai":
			err = strict.OpenAI(canon(cx.Messages))
		case "anthropic":
			err = strict.Anthropic(nil, canon(cx.Messages))
		default:
			err = strict.Gemini(nil, canon(cx.Messages), strict.Thinking)
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", f, err, canon(cx.Messages))
		}
	}
	verified(t, e)
}

func TestCompactionIsATurn(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 8000, "nexus")
	for i := range 12 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(800)), fmt.Sprintf("answer %d %s", i, long(800))))
	}
	cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Explain: true}))(t)
	if cx.Compacted != nil {
		t.Fatalf("compacted too early: %d tokens of %d", cx.Tokens, cx.Budget)
	}
	parent := must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Head
	var compacted []turns.ID
	for i := range 30 {
		r := say(fmt.Sprintf("more %d %s", i, long(800)), long(400))
		if len(compacted) == 0 {
			r.Parent = *parent // stays the head, but for compactions between
		}
		a := add(t, e, s.ID, r)
		parent = &a.ID
		cx := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{Format: "anthropic"}))(t)
		if cx.Compacted != nil {
			compacted = append(compacted, *cx.Compacted)
		}
		if cx.Tokens+cx.Overhead > cx.Budget {
			t.Fatalf("turn %d: %d tokens of %d", i, cx.Tokens, cx.Budget)
		}
		if err := strict.Anthropic(canon(cx.System), canon(cx.Messages)); err != nil {
			t.Fatalf("turn %d: %v", i, err)
		}
	}
	if len(compacted) < 2 {
		t.Fatalf("%d compactions, want several", len(compacted))
	}
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: compacted[1]}))(t)
	if k.Type != "compaction" || k.Compaction.Through == nil || k.Compaction.FirstKept == nil || k.Compaction.TokensAfter >= k.Compaction.TokensBefore {
		t.Errorf("second compaction: %+v", k.Compaction)
	}
	if _, err := e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{DryRun: true}, nil); err != nil && code(err) != api.Nothing {
		t.Error(err)
	}
	run := must(e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")))(t)
	if _, err := e.Compactions.Compact(t.Context(), alice, s.ID, api.RunCompaction{}, []byte("{}")); code(err) != api.Nothing {
		t.Errorf("the same plan again: %v, want nothing_to_compact", err)
	}
	one := must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: run.Compaction.ID}))(t)
	all := must(e.Covered.Expand(t.Context(), alice, s.ID, api.ExpandCompaction{ID: run.Compaction.ID, Levels: turns.Raw(`"all"`)}))(t)
	if len(one.Turns) == 0 || len(all.Turns) <= len(one.Turns) || all.Turns[0].Depth != 1 {
		t.Errorf("expand: one level %d turns, all %d", len(one.Turns), len(all.Turns))
	}
	if v := verified(t, e); v.Compactions != uint64(len(compacted)+1) {
		t.Errorf("verified %d compactions, want %d", v.Compactions, len(compacted)+1)
	}
}

func TestHeadMovesBackAndForward(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	var ids []turns.ID
	for i := range 4 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprint("q", i), fmt.Sprint("a", i))).ID)
	}
	move := func(to *turns.ID) {
		must(e.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{To: to}, nil))(t)
	}
	move(&ids[1])
	side := add(t, e, s.ID, say("other way", "ok"))
	if side.Depth != 3 || *side.Parent != ids[1] {
		t.Errorf("after the move: %+v", side)
	}
	move(&ids[3])
	add(t, e, s.ID, say("forward again", "ok"))
	move(nil)
	if a := add(t, e, s.ID, say("from the start", "ok")); a.Depth != 1 || a.Parent != nil {
		t.Errorf("after the move to the start: %+v", a)
	}
	bogus := newID(t)
	if _, err := e.Sessions.Move(t.Context(), alice, s.ID, api.MoveSession{To: &bogus}, nil); code(err) != api.NotFound {
		t.Errorf("a move to nowhere: %v, want not_found", err)
	}
	verified(t, e)
}

func TestLabelNamesItsLastClaimant(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	label := "telegram/42"
	open := func(c reader.Caller) (*api.Session, error) {
		r := api.CreateSession{ID: newID(t)}
		r.Label = &label
		return e.Sessions.Create(t.Context(), c, r, canon(r))
	}
	s := must(open(alice))(t)
	if got := must(e.Sessions.Resolve(t.Context(), alice, label))(t); got.ID != s.ID || got.Label != label {
		t.Errorf("resolve: %+v", got)
	}
	if _, err := open(alice); code(err) != api.Conflict {
		t.Errorf("a second session with the label: %v, want conflict", err)
	}
	must(open(reader.Caller{Tenant: "default", Agent: "bob"}))(t) // another agent's labels are its own
	must(e.Sessions.CloseSession(t.Context(), alice, s.ID, api.CloseSession{}, nil))(t)
	if _, err := e.Sessions.Append(t.Context(), alice, s.ID, say("x", "y"), nil); code(err) != api.Closed {
		t.Errorf("append to a closed session: %v, want closed", err)
	}
	s2 := must(open(alice))(t)
	if got := must(e.Sessions.Resolve(t.Context(), alice, label))(t); got.ID != s2.ID {
		t.Errorf("resolve after the close: %s, want %s", got.ID, s2.ID)
	}
	verified(t, e)
}

func TestResetOpensASuccessor(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	label := "plan"
	r := api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, System: &api.System{{Content: "be terse"}}}}
	s := must(e.Sessions.Create(t.Context(), alice, r, []byte("{}")))(t)
	add(t, e, s.ID, say("one", "1"))
	id := newID(t)
	next := must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{ID: id}, []byte("{}")))(t)
	if next.ID == s.ID || next.Label != label || next.Depth != 0 || next.Overhead != must(e.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Overhead {
		t.Errorf("successor: %+v", next)
	}
	if got := must(e.Sessions.Resolve(t.Context(), alice, label))(t).ID; got != next.ID {
		t.Errorf("the label resolves to %s, want %s", got, next.ID)
	}
	again := must(w.Engine(t).Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{ID: id}, []byte("{}")))(t)
	if again.ID != next.ID {
		t.Errorf("the same reset again, on a second daemon: successor %s, want %s", again.ID, next.ID)
	}
	_, err := e.Sessions.Append(t.Context(), alice, s.ID, say("two", "2"), nil)
	if x := api.FromError(err); x.Code != api.Closed || x.Details["successor"] != next.ID.String() {
		t.Errorf("append to the old session: %v %v", err, x)
	}
	verified(t, e)
}

// A daemon that dies between the two events of a reset leaves a session without
// a successor; the next look-up of the label, or the next refused append, opens it.
func TestNextRequestFinishesAReset(t *testing.T) {
	for name, finish := range map[string]func(*testing.T, *Engine, turns.ID, string){
		"resolve": func(t *testing.T, e *Engine, _ turns.ID, label string) {
			must(e.Sessions.Resolve(t.Context(), alice, label))(t)
		},
		"append": func(t *testing.T, e *Engine, s turns.ID, _ string) {
			if _, err := e.Sessions.Append(t.Context(), alice, s, say("x", "y"), nil); code(err) != api.Closed {
				t.Errorf("append: %v, want closed", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			label := "plan"
			s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")))(t)
			successor := must(e.Sessions.NewSuccessorID(s.ID))(t)
			err := e.Writer.Mutate(t.Context(), alice, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
				ev, _, err := e.Writer.BeginEvent(s, writer.Request{ID: newID(t), Verb: "session.reset"}, turns.KindState)
				if err != nil {
					return nil, err
				}
				ev.State, ev.Successor = turns.Reset, successor
				return &writer.Draft{Event: ev, Body: &turns.StateBody{}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			second := w.Engine(t)
			finish(t, second, s.ID, label)
			if got := must(second.Reader.Get(t.Context(), alice, successor, api.Read{}))(t); got.Label != label || got.State != "open" {
				t.Errorf("successor: %+v", got)
			}
			if got := must(e.Sessions.Resolve(t.Context(), alice, label))(t).ID; got != successor {
				t.Errorf("the label resolves to %s, want %s", got, successor)
			}
			verified(t, second)
		})
	}
}

func TestOverflowReturnsAShorterContext(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 200_000, "balanced")
	for i := range 30 {
		add(t, e, s.ID, say(fmt.Sprintf("question %d %s", i, long(2000)), fmt.Sprintf("answer %d %s", i, long(2000))))
	}
	before := must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	for _, tc := range []struct {
		status     int
		text, kind string
	}{
		{429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 342389", "rate_limit"},
		{500, "overloaded", "other"},
	} {
		_, err := e.Contexts.Overflow(t.Context(), alice, s.ID, api.Overflow{Error: tc.text, Status: tc.status}, nil)
		if x := api.FromError(err); x.Code != api.Unprocessable || x.Details["kind"] != tc.kind {
			t.Errorf("%s: %v, want unprocessable, %s", tc.text, err, tc.kind)
		}
	}
	// The provider counts twice what we count, against a window of 25,000.
	refusal := fmt.Sprintf("prompt is too long: %d tokens > 25000 maximum", 2*before.Tokens)
	r := api.Overflow{ID: newID(t), Error: refusal, Status: 400, Format: "anthropic"}
	cx := must(e.Contexts.Overflow(t.Context(), alice, s.ID, r, []byte("{}")))(t)
	if cx.Compacted == nil || 2*cx.Tokens > 25_000 {
		t.Errorf("compacted %v to %d tokens, want at most half of 25000", cx.Compacted, cx.Tokens)
	}
	if err := strict.Anthropic(canon(cx.System), canon(cx.Messages)); err != nil {
		t.Error(err)
	}
	again := must(e.Contexts.Overflow(t.Context(), alice, s.ID, r, []byte("{}")))(t)
	if *again.Compacted != *cx.Compacted || again.Fingerprint != cx.Fingerprint {
		t.Errorf("the same request again: %+v", again)
	}
	k := must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: *cx.Compacted}))(t)
	if k.Compaction.Trigger.Kind != "overflow" || !bytes.Contains(k.Compaction.Trigger.Detail, []byte(`"window":25000`)) {
		t.Errorf("trigger %+v", k.Compaction.Trigger)
	}
	// Until nothing is left to shorten, each one makes it shorter.
	last := cx.Tokens
	for i := 0; ; i++ {
		cx, err := e.Contexts.Overflow(t.Context(), alice, s.ID, api.Overflow{Error: "context_length_exceeded", Status: 400}, nil)
		if err != nil {
			if x := api.FromError(err); x.Code != api.Unprocessable || x.Details["protected"] == nil {
				t.Errorf("at the end: %v", err)
			}
			break
		}
		if cx.Tokens >= last || i > 20 {
			t.Fatalf("overflow %d: %d tokens after %d", i, cx.Tokens, last)
		}
		last = cx.Tokens
	}
	verified(t, e)
}
