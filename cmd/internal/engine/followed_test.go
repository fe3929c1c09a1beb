package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"nexus/cmd/internal/engine/contexts"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// A context at a turn that a fork inherits costs what the call there had, however
// long the fork's own history is.
func TestTheCallAtAnInheritedTurnIsFoundWithoutTheHistory(t *testing.T) {
	e := newWorld().Engine(t)
	s := create(t, e, 0, "nexus")
	var ids []turns.ID
	for i := range 4 {
		ids = append(ids, add(t, e, s.ID, say(fmt.Sprintf("question %d", i), "answer")).ID)
	}
	r := api.CreateFork{Turn: ids[3]}
	f := must(e.Forks.Fork(t.Context(), alice, s.ID, r, canon(r)))(t).ID
	read := func() int64 {
		before := e.Reader.Projections.EventBytes()
		must(e.Contexts.Context(t.Context(), alice, f, api.GetContext{At: ids[1]}))(t)
		return e.Reader.Projections.EventBytes() - before
	}
	add(t, e, f, say("own", "yes"))
	few := read()
	for i := range 300 {
		add(t, e, f, say(fmt.Sprintf("own %d", i), "yes"))
	}
	if many := read(); many > few+few/2 {
		t.Errorf("behind 301 turns of its own %d bytes of events were read, behind one %d", many, few)
	}
}

// What is set after a turn, moved to and from it and compacted behind it tells which
// settings the call there had: found by an index as by reading the whole chain.
func TestNextCallAfterAgreesWithReadingTheWholeChain(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 4 {
		e := newWorld().Engine(t)
		s := create(t, e, 16_000, "nexus").ID
		var ids []turns.ID
		sessions := []turns.ID{s}
		for range 60 {
			s := sessions[rng.IntN(len(sessions))]
			switch k := rng.IntN(12); {
			case k == 0 && len(ids) > 0 && len(sessions) < 3:
				r := api.CreateFork{Turn: ids[rng.IntN(len(ids))]}
				if f, err := e.Forks.Fork(t.Context(), alice, s, r, canon(r)); err == nil {
					sessions = append(sessions, f.ID)
				}
			case k < 4 && len(ids) > 0:
				to := ids[rng.IntN(len(ids))] // of another branch, it is refused
				_, _ = e.Sessions.Move(t.Context(), alice, s, api.MoveSession{To: &to}, nil)
			case k < 6:
				model := fmt.Sprint("m", rng.IntN(1000))
				r := api.SetSession{SessionSettings: api.SessionSettings{Model: &model}}
				must(e.Sessions.Set(t.Context(), alice, s, r, canon(r)))(t)
			case k == 6:
				_, _ = e.Compactions.Compact(t.Context(), alice, s, api.RunCompaction{}, []byte("{}"))
			default:
				r := say("question "+long(1500), "answer")
				if rng.IntN(2) == 0 {
					r = with(r, must(e.Contexts.Context(t.Context(), alice, s, api.GetContext{}))(t))
				}
				ids = append(ids, add(t, e, s, r).ID)
			}
		}
		checked := 0
		for _, id := range sessions {
			s := must(e.Reader.FindSession(t.Context(), alice, id, true))(t)
			for _, turn := range ids {
				n, err := e.Reader.FindTurn(s, turn)
				if err != nil {
					continue
				}
				got := must(e.Contexts.NextCallAfter(t.Context(), s, n))(t)
				want := wholeChain(t, e, s, n)
				if checked++; string(canon(followedView(got))) != string(canon(followedView(want))) {
					t.Errorf("at %s of session %s: %s, the whole chain says %s", turn, id, canon(followedView(got)), canon(followedView(want)))
				}
			}
		}
		if checked == 0 {
			t.Error("nothing was compared")
		}
	}
}

func followedView(f contexts.NextCall) []any {
	return []any{f.Settings, f.Ended, int64(f.Idle), f.Recipe}
}

// wholeChain is the slow twin of [contexts.Contexts.NextCallAfter]: it reads every event behind the turn.
func wholeChain(t *testing.T, e *Engine, s *ledger.Session, n lineage.Node) contexts.NextCall {
	t.Helper()
	return must(readChain(e, s, n))(t)
}

func readChain(e *Engine, s *ledger.Session, n lineage.Node) (f contexts.NextCall, err error) {
	t, err := e.Reader.Projections.Turn(n.Ref)
	if err != nil {
		return f, err
	}
	end := func(recorded int64) contexts.NextCall {
		f.Ended, f.Idle = true, max(0, time.Duration(recorded-t.Recorded))
		return f
	}
	there := n.Ref.Session == s.ID || n.Ref == s.ForkOf.At // the head is at the turn
	if n.Ref.Session == s.ID {
		f.Settings = t.Index
	}
	known, through := there, false // it was; and only compactions came since
	var beyond *contexts.NextCall  // the call after those
	for payload, err := range e.Reader.Projections.Events(s.ID, f.Settings+1) {
		if err != nil {
			return f, err
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return f, err
		}
		switch ev.Kind {
		case turns.KindTurn:
			if there || through {
				f.Recipe, err = e.Contexts.StoredRecipe(s, n, ev)
			}
			if there || f.Recipe != nil || err != nil {
				return end(ev.Recorded), err
			}
			if through && beyond == nil {
				was := end(ev.Recorded)
				f.Ended, f.Idle, beyond = false, 0, &was
			}
			through = false
		case turns.KindCompaction:
			there, through = false, there || through
		case turns.KindMoved:
			if there {
				return end(ev.Recorded), nil
			}
			there, through = ev.To == n.Ref, false
			known = known || there
		case turns.KindState:
			if there {
				return end(ev.Recorded), nil
			}
		}
		f.Settings = ev.Index
	}
	switch {
	case beyond != nil && !there:
		return *beyond, nil
	case !known: // it never was
		f.Settings = 0
		end(s.Recorded)
	}
	return f, nil
}
