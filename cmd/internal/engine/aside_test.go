package engine_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"testing"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// raw puts an event straight on the log, past every check, as a daemon with a
// defect would.
func raw(t *testing.T, w *world, e *Engine, subject string, ev *turns.Event) {
	t.Helper()
	expect := uint64(0)
	if last, err := w.Log.Last(t.Context(), subject); err == nil {
		expect = last.Seq
	}
	seq := must(w.Log.Append(t.Context(), subject, expect, must(ev.Encode())(t)))(t)
	if err := e.Reader.Projections.WaitFor(t.Context(), seq); err != nil {
		t.Fatal(err)
	}
}

// A turn whose header hides that the user speaks in it would keep a compaction in
// force that ends with the user's word: the import refuses it, and the verification finds it.
// Where no such compaction is in force it is a turn of before there was the count.
func TestTurnThatHidesAUserTextIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		compacted bool
		want      api.Code
	}{"under a compaction for one call": {true, api.Corrupt}, "of before there was the count": {false, ""}} {
		t.Run(name, func(t *testing.T) {
			from := newWorld()
			src := from.Engine(t)
			s := create(t, src, 40_000, "wolffish").ID
			add(t, src, s, say("read them all", ""))
			reads(t, src, s, "a", 9_000, 12_000, 6_000, 8_000, 5_000, 5_000, 5_000)
			if tc.compacted {
				cx := must(src.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t)
				if cx.Compacted == nil {
					t.Fatal("not compacted")
				}
			}
			before := exports(t, src, s)
			add(t, src, s, say("the user's word", "and an answer"))
			all := exports(t, src, s)
			ev := must(turns.Decode(all[len(all)-1].Event.Payload))(t)
			body := must(seal.Open(ev, from.Keys))(t)
			if ev.UserTexts != 1 {
				t.Fatalf("%d said", ev.UserTexts)
			}
			ev.UserTexts = 0
			ev = sealedUnder(t, from.Keys, ev, body, ev.Keys...)
			payload := must(ev.Encode())(t)

			w := newWorld()
			e := w.Engine(t)
			if err := importAs(t, e, alice, before...); err != nil {
				t.Fatal(err)
			}
			err := importAs(t, e, alice, api.ExportRecord{Event: &api.ExportEvent{Payload: payload, Hash: turns.HashEvent(payload)}})
			if code(err) != tc.want {
				t.Errorf("imported: %v, want %q", err, tc.want)
			}
			if err != nil {
				row := must(e.Reader.Projections.Session(s))(t)
				raw(t, w, e, row.Subject(), ev)
			}
			v := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t)
			if v.OK != (tc.want == "") || len(v.Problems) > 1 || (!v.OK && v.Problems[0].Event != ev.ID) {
				t.Errorf("verified: %s", canon(v))
			}
		})
	}
}

// A head that was led to another agent's turn, by whatever way it came onto the
// log, shows nothing of it; the session is read-only, and says so; everybody
// else goes on.
func TestAChainThatReachesAnotherAgentIsSetAside(t *testing.T) {
	for _, thief := range []reader.Caller{bob, mallory} {
		w := newWorld()
		e := w.Engine(t)
		s := create(t, e, 0, "nexus")
		a := add(t, e, s.ID, say("alice's question", "alice's answer"))
		own := must(e.Sessions.Create(t.Context(), thief, api.CreateSession{}, []byte("{}")))(t)
		raw(t, w, e, ledger.SessionSubject(thief.Tenant, own.ID, own.ID), &turns.Event{Version: turns.Version, Kind: turns.KindMoved, ID: newID(t),
			Chain: turns.SessionChain(own.ID), Index: 1, Prev: own.Hash, Recorded: 1, To: turns.Ref{Session: s.ID, Turn: a.ID}})
		for name, f := range map[string]func(stale bool) (any, error){
			"context": func(stale bool) (any, error) {
				return e.Contexts.Context(t.Context(), thief, own.ID, api.GetContext{Read: api.Read{StaleOK: stale}})
			},
			"turns": func(stale bool) (any, error) {
				return e.History.ListTurns(t.Context(), thief, own.ID, api.ListTurns{Full: true, Read: api.Read{StaleOK: stale}})
			},
			"session": func(stale bool) (any, error) {
				return e.Reader.Get(t.Context(), thief, own.ID, api.Read{StaleOK: stale})
			},
		} {
			if v, err := f(false); code(err) != api.Corrupt {
				t.Errorf("%s: %s, %v; want corrupt", name, canon(v), err)
			}
			if v, err := f(true); name != "context" && err != nil || bytes.Contains(canon(v), []byte("alice's")) {
				t.Errorf("%s, stale: %s, %v", name, canon(v), err)
			}
		}
		if _, err := e.Sessions.Append(t.Context(), thief, own.ID, say("go on", ""), nil); code(err) != api.Corrupt {
			t.Errorf("append: %v, want corrupt", err)
		}
		l := must(e.History.List(t.Context(), thief, api.ListSessions{}))(t)
		if len(l.Sessions) != 1 || l.Sessions[0].Error != api.Corrupt {
			t.Errorf("the list: %s", canon(l))
		}
		add(t, e, s.ID, say("go on", "yes"))
		v := must(e.Audit.Verify(t.Context(), thief, api.Verify{Sessions: []turns.ID{own.ID}}))(t)
		if v.OK || len(v.Problems) != 1 || v.Problems[0].Session != own.ID {
			t.Errorf("verify: %s", canon(v))
		}
		if v := must(e.Audit.Verify(t.Context(), alice, api.Verify{Sessions: []turns.ID{s.ID}}))(t); !v.OK {
			t.Errorf("verify of hers: %s", canon(v))
		}
		// The operator of one tenant hears that something is wrong in another, not of whom.
		all := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t)
		if all.OK || len(all.Problems) != 1 || (thief.Tenant != "default") != (all.Problems[0].Session.IsZero()) {
			t.Errorf("verify of all: %s", canon(all))
		}
	}
}

// Two daemons open one id, in two tenants or as two kinds of session. Who was first
// on the log has it, and loses nothing by the other.
func TestSecondOpeningOfAnIDSetsNoOtherChainAside(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	other := create(t, e, 0, "nexus")
	at := add(t, e, other.ID, say("one", "two"))
	lag := w.EngineBehind(t)
	id := newID(t)
	r := api.CreateSession{ID: id}
	must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
	add(t, e, id, say("1", "a"))
	before := lastSeq(t, w)
	if _, err := lag.Sessions.Create(untilAppended(t, lag, 2), mallory, r, canon(r)); err == nil { // the policy of that tenant first
		t.Error("the id was given out twice")
	}
	if lastSeq(t, w) != before+2 {
		t.Fatal("not the race that this test is about")
	}
	fork := &turns.Event{Version: turns.Version, Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: other.ID, Agent: "alice", Recorded: 1,
		Origin: &turns.Origin{Ledger: w.ID, Tenant: "default", Session: id},
		ForkOf: &turns.ForkOf{At: turns.Ref{Session: other.ID, Turn: at.ID}, Hash: at.Hash, Mode: turns.AsSeen}}
	raw(t, w, e, ledger.SessionSubject("default", other.ID, id), fork)
	if e.Reader.Projections.SetAside() != 0 {
		t.Errorf("%d chains are aside, want none: a duplicate opening opens nothing", e.Reader.Projections.SetAside())
	}
	for _, e := range []*Engine{e, w.Engine(t)} {
		a := add(t, e, id, say("2", "b"))
		must(e.Reader.GetTurn(t.Context(), alice, id, api.GetTurn{ID: a.ID}))(t)
		must(e.Contexts.Context(t.Context(), alice, id, api.GetContext{}))(t)
		if _, err := e.Reader.Get(t.Context(), mallory, id, api.Read{}); code(err) != api.NotFound {
			t.Errorf("to the other tenant: %v, want not_found", err)
		}
		l := must(e.History.List(t.Context(), mallory, api.ListSessions{}))(t)
		if len(l.Sessions) != 0 {
			t.Errorf("the other tenant's list: %s", canon(l))
		}
	}
	if v := must(e.Audit.Verify(t.Context(), alice, api.Verify{Sessions: []turns.ID{id}}))(t); !v.OK || v.Turns != 3 {
		t.Errorf("verify of the session: %s", canon(v))
	}
	if v := verified(t, e); v.Duplicates != 2 {
		t.Errorf("verify of all: %s, want the two that came second", canon(v))
	}
	// Nothing may follow a duplicate opening.
	raw(t, w, e, ledger.SessionSubject("default", other.ID, id), &turns.Event{Version: turns.Version, Kind: turns.KindState, ID: newID(t), Chain: fork.Chain, Index: 1,
		Prev: turns.HashEvent(must(fork.Encode())(t)), Recorded: 1, State: turns.Closed})
	if v := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t); v.OK || len(v.Problems) != 1 || e.Reader.Projections.SetAside() != 1 {
		t.Errorf("verify of an event after a duplicate opening: %s", canon(v))
	}
}

// The chain of a label is verified like any other, and one that was set aside is
// an error to who needs it, at once.
func TestVerifyChecksLabelChains(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	label := "main"
	s := must(e.Sessions.Create(t.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")))(t)
	verified(t, e)
	digest := must(e.Sessions.LabelDigest("default", "alice", label))(t)
	chain := turns.Chain{Entity: turns.LabelEntity, ID: digest}
	raw(t, w, e, ledger.Subject("default", digest, chain), &turns.Event{Version: turns.Version, Kind: turns.KindClaimed, ID: newID(t), Chain: chain, Index: 7,
		Prev: turns.Hash{9}, Recorded: 1, Agent: "alice", To: turns.Ref{Session: s.ID}})
	if v := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t); v.OK || len(v.Problems) != 1 {
		t.Errorf("verify: %s", canon(v))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := e.Sessions.Resolve(ctx, alice, label); code(err) != api.Corrupt {
		t.Errorf("resolve: %v, want corrupt", err)
	}
	if _, err := e.Sessions.Create(ctx, alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")); code(err) != api.Corrupt {
		t.Errorf("claim: %v, want corrupt", err)
	}
}

// A session that can't be read does not stop a list, and neither does the row that
// an opening which was set aside would have had.
func TestListsShowUnreadableSessions(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	a := add(t, e, s.ID, say("one", "two"))
	opened := func(id turns.ID, c reader.Caller) *turns.Event {
		return &turns.Event{Version: turns.Version, Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: c.Agent, Recorded: 1,
			Origin: &turns.Origin{Ledger: [16]byte{9}, Tenant: c.Tenant, Session: id}}
	}
	want := map[turns.ID]api.Code{s.ID: ""}
	for _, tc := range []struct {
		body any
		want api.Code
	}{
		{[]byte{0xa1, 0x01, 0x01}, api.Corrupt},
		{&turns.OpenedBody{Settings: turns.Settings{Policy: turns.PolicyRef{Name: "nexus", Digest: turns.Hash{1}}}}, api.Unsupported},
	} {
		id := newID(t)
		ev := opened(id, bob)
		must(w.Keys.Create(id, rand.Reader))(t)
		raw(t, w, e, ledger.SessionSubject("default", id, id), sealedUnder(t, w.Keys, ev, tc.body, id))
		want[id] = tc.want
	}
	fork := newID(t)
	ev := opened(fork, bob)
	ev.Root, ev.ForkOf = s.ID, &turns.ForkOf{At: turns.Ref{Session: s.ID, Turn: newID(t)}, Hash: turns.Hash{1}, Mode: turns.AsSeen}
	raw(t, w, e, ledger.SessionSubject("default", s.ID, fork), ev)

	got := make(map[turns.ID]api.Code)
	for after := ""; ; {
		l := must(e.History.List(t.Context(), operator, api.ListSessions{Page: api.Page{After: after, Limit: 1}}))(t)
		for _, s := range l.Sessions {
			got[s.ID] = s.Error
		}
		if after = l.Next; after == "" {
			break
		}
	}
	if len(got) != len(want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	for id, code := range want {
		if got[id] != code {
			t.Errorf("session %s: error %q, want %q", id, got[id], code)
		}
	}
	// Neither does a turn stop the list of its session's turns.
	row := must(e.Reader.Projections.Session(s.ID))(t)
	x := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: newID(t), Chain: turns.SessionChain(s.ID), Index: row.Tail.Index + 1, Prev: row.Tail.Hash,
		Recorded: 1, Parent: row.Head, Depth: 2, Segment: row.Segment, Halves: 1}
	raw(t, w, e, row.Subject(), sealedUnder(t, w.Keys, x, []byte("\xa1\x03\x01"), s.ID))
	last := add(t, e, s.ID, say("three", "four"))
	for _, order := range []string{"asc", "desc"} {
		list := must(e.History.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Order: order, Full: true}))(t).Turns
		if len(list) != 3 || list[1].Error != api.Corrupt || list[0].Error != "" || list[2].Error != "" {
			t.Errorf("turns, %s: %s", order, canon(list))
		}
	}
	if _, err := e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: x.ID}); code(err) != api.Corrupt {
		t.Errorf("the turn itself: %v, want corrupt", err)
	}
	must(e.Reader.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: last.ID}))(t)
	// And no session stops a tree.
	bad := newID(t)
	ev = opened(bad, alice)
	ev.Root, ev.ForkOf = s.ID, &turns.ForkOf{At: turns.Ref{Session: s.ID, Turn: a.ID}, Hash: a.Hash, Mode: turns.AsSeen}
	must(w.Keys.Create(bad, rand.Reader))(t)
	raw(t, w, e, ledger.SessionSubject("default", s.ID, bad), sealedUnder(t, w.Keys, ev, []byte{0xff}, bad))
	tree := must(e.History.Tree(t.Context(), alice, s.ID, api.GetTree{}))(t)
	if len(tree.Sessions) != 2 || tree.Sessions[1].Error != api.Corrupt {
		t.Errorf("tree: %s", canon(tree))
	}
}

// A body that is not what its header commits to is found by the verification, and the
// import refuses it: what was disclosed of such an event would prove something that was not said.
func TestForgedCommitmentIsFound(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	e.Store.Keys = nil
	s := create(t, e, 8000, "nexus")
	row := must(e.Reader.Projections.Session(s.ID))(t)
	x := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: newID(t), Chain: turns.SessionChain(s.ID), Index: row.Tail.Index + 1, Prev: row.Tail.Hash,
		Recorded: 1, Depth: 1, Halves: 1, UserTexts: 1}
	x.Segment = x.ID
	sealedUnder(t, nil, x, oneTurn())
	x.Commitment[0] ^= 1
	other := newWorld().Engine(t)
	other.Store.Keys = nil
	records := must(e.Transfer.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records
	records = append(records, api.ExportRecord{Event: &api.ExportEvent{Payload: must(x.Encode())(t), Hash: turns.HashEvent(must(x.Encode())(t))}})
	if err := importAs(t, other, alice, records...); code(err) != api.Corrupt {
		t.Errorf("import: %v, want corrupt", err)
	}
	raw(t, w, e, row.Subject(), x)
	if v := must(e.Audit.Verify(t.Context(), operator, api.Verify{}))(t); v.OK || len(v.Problems) != 1 || v.Problems[0].Event != x.ID {
		t.Errorf("verify: %+v", v)
	}
}
