package engine

import (
	"context"
	"iter"
	"testing"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// readLog counts the records that are read from a log.
type readLog struct {
	ledger.Log
	n int
}

func (l *readLog) Next(ctx context.Context, subject string, after uint64) (ledger.Record, error) {
	l.n++
	return l.Log.Next(ctx, subject, after)
}

func (l *readLog) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range l.Log.Read(ctx, from, follow) {
			if l.n++; !yield(r, err) {
				return
			}
		}
	}
}

// Who verifies sessions of its own reads their chains, and those that they
// inherit from, and nothing of anybody else's.
func TestVerifyOfSessionsReadsTheirChains(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	other := create(t, e, 0, "nexus")
	for range 500 {
		add(t, e, other.ID, say("theirs", "x"))
	}
	bob := Caller{"default", "bob"}
	own := must(e.Create(t.Context(), bob, api.CreateSession{}, []byte("{}")))(t)
	var last *api.Appended
	for range 3 {
		last = must(e.Append(t.Context(), bob, own.ID, say("1", "2"), nil))(t)
	}
	fork := must(e.Fork(t.Context(), bob, own.ID, api.CreateFork{Turn: last.ID}, []byte("{}")))(t)
	must(e.Append(t.Context(), bob, fork.ID, say("3", "4"), nil))(t)
	log := &readLog{Log: w.log}
	e.Log = log
	for _, named := range [][]turns.ID{{fork.ID}, {fork.ID, own.ID}, {own.ID, fork.ID}} {
		log.n = 0
		v := must(e.Verify(t.Context(), bob, api.Verify{Sessions: named}))(t)
		if !v.OK || v.Events != 6 || v.Turns != 4 || v.Sessions != 2 {
			t.Errorf("verified: %+v", v)
		}
		if log.n > 6+2 {
			t.Errorf("%d records were read for 6", log.n)
		}
	}
	if v := verified(t, e); v.Turns != 504 {
		t.Errorf("the operator verified %d turns", v.Turns)
	}
}

func TestFewVerificationsAtATime(t *testing.T) {
	e := newWorld().engine(t)
	s := create(t, e, 0, "nexus")
	var leave []func()
	for range maxVerifySome {
		leave = append(leave, must(e.enterVerify(true))(t))
	}
	if _, err := e.Verify(t.Context(), alice, api.Verify{Sessions: []turns.ID{s.ID}}); code(err) != api.Busy {
		t.Errorf("one verification too many: %v", err)
	}
	verified(t, e) // the operator's has a place of its own
	for _, f := range leave {
		f()
	}
	must(e.Verify(t.Context(), alice, api.Verify{Sessions: []turns.ID{s.ID}}))(t)
}
