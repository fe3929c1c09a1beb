package writer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"time"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// closeSession drafts the event that closes a session.
func closeSession(w *writer.Writer, s *ledger.Session) (*writer.Draft, error) {
	ev, done, err := w.BeginEvent(s, writer.Request{Verb: "session.close"}, turns.KindState)
	if done || err != nil {
		return nil, err
	}
	ev.State = turns.Closed
	return &writer.Draft{Event: ev, Body: &turns.StateBody{}}, nil
}

// Another daemon appends between the decision and the append. The writer decides again
// on the longer chain, and nothing of the other daemon is lost.
func TestMutateDecidesAgainAfterALostCompareAndSet(t *testing.T) {
	w := enginetest.NewWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	var tails []uint64
	err := e.Writer.Mutate(t.Context(), enginetest.Alice, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		if tails = append(tails, s.Tail.Index); len(tails) == 1 {
			enginetest.Add(t, other, s.ID, enginetest.Say("question", "answer"))
		}
		return closeSession(e.Writer, s)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tails) != 2 || tails[1] != tails[0]+1 {
		t.Errorf("decided at tails %v, want two, one apart", tails)
	}
	got := enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t)
	if got.State != "closed" || got.Turns != 1 {
		t.Errorf("%s with %d turns, want closed with 1", got.State, got.Turns)
	}
	enginetest.Verified(t, e)
}

// The process is paused between the moment at which the request is young enough and the
// append. Another daemon moves the tail meanwhile, and may have refused the request. The
// writer does not decide on an old request again.
func TestAnOldRequestIsNotDecidedAgain(t *testing.T) {
	w := enginetest.NewWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	asked, decided := 0, 0
	ctx := request.With(t.Context(), func(r *request.Request) {
		r.MayDecide = func() error {
			if asked++; asked > 1 {
				return &api.Error{Code: api.Unavailable, Message: "too old"}
			}
			enginetest.Add(t, other, s.ID, enginetest.Say("question", "answer"))
			return nil
		}
	})
	err := e.Writer.Mutate(ctx, enginetest.Alice, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		decided++
		return closeSession(e.Writer, s)
	})
	if enginetest.Code(err) != api.Unavailable || asked != 2 || decided != 2 {
		t.Errorf("%v after %d decisions, %d times asked; want unavailable after 2 and 2", err, decided, asked)
	}
	got := enginetest.Must(other.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t)
	if got.State != "open" || got.Turns != 1 {
		t.Errorf("%s with %d turns, want open with 1", got.State, got.Turns)
	}
	// A request that is stored is answered, however old it is.
	r := enginetest.Say("another question", "another answer")
	r.ID = enginetest.ID(t)
	ack := enginetest.Must(e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r)))(t)
	again, err := e.Sessions.Append(ctx, enginetest.Alice, s.ID, r, enginetest.JSON(r))
	if err != nil || !again.Duplicate || again.Hash != ack.Hash {
		t.Errorf("a retry of a stored request: %+v, %v", again, err)
	}
}

// emptyLog is a log that finds nothing, as a server whose disk fails.
type emptyLog struct{ ledger.Log }

func (emptyLog) Last(context.Context, string) (ledger.Record, error) {
	return ledger.Record{}, ledger.ErrNotFound
}

// A log that finds no record of a session that the projections have is no proof that
// there is no such session.
func TestAKnownSessionIsNotNotFoundBecauseTheLogIsEmpty(t *testing.T) {
	w := enginetest.NewWorld()
	s := enginetest.Create(t, w.Engine(t), 0, "nexus")
	e := w.Engine(t)
	if err := e.Reader.Projections.WaitFor(t.Context(), enginetest.Must(w.Log.State(t.Context()))(t).Last); err != nil {
		t.Fatal(err)
	}
	e.Reader.Log = emptyLog{w.Log}
	if _, err := e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.Say("question", "answer"), nil); enginetest.Code(err) != api.Unavailable {
		t.Errorf("append: %v, want unavailable", err)
	}
	if _, err := e.Sessions.Append(t.Context(), enginetest.Alice, turns.ID{1}, enginetest.Say("question", "answer"), nil); enginetest.Code(err) != api.NotFound {
		t.Errorf("append to no session: %v, want not_found", err)
	}
}

// A session that seems to be what a request asks for is looked at again on the end of
// the log: another daemon may have changed it since.
func TestMutateTakesNothingForUnchangedOnAnOldFold(t *testing.T) {
	w := enginetest.NewWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer")) // e knows the chain's end
	enginetest.Add(t, other, s.ID, enginetest.Say("question", "answer"))
	decided, turns := 0, uint64(0)
	err := e.Writer.Mutate(t.Context(), enginetest.Alice, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		decided, turns = decided+1, s.Turns
		return nil, writer.ErrUnchanged
	})
	if err != nil {
		t.Fatal(err)
	}
	if decided != 2 || turns != 2 {
		t.Errorf("decided %d times, at last with %d turns; want twice, with both turns", decided, turns)
	}
}

// What decide does to its fold does not reach the rule that admits the draft.
func TestMutateAdmitsOnTheStoredFold(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	err := e.Writer.Mutate(t.Context(), enginetest.Alice, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		d, err := closeSession(e.Writer, s)
		s.State, s.Tail = turns.Closed, ledger.Tail{}
		return d, err
	})
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Verified(t, e)
}

func TestMutateOfTheOperatorIsDenied(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	err := e.Writer.Mutate(t.Context(), enginetest.Operator, s.ID, func(*writer.Chain, *ledger.Session) (*writer.Draft, error) {
		t.Error("the writer decides for the operator")
		return nil, nil
	})
	if enginetest.Code(err) != api.Denied {
		t.Errorf("%v, want denied", err)
	}
}

// The queue of a chain is bounded. Leaving it makes room again.
func TestHoldOfAFullQueueIsBusy(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	_, release, err := e.Writer.Hold(t.Context(), "chain")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 200 {
		waiting.Go(func() {
			for ctx.Err() == nil { // again after busy: the test's own Hold may take a place for a moment
				if _, release, err := e.Writer.Hold(ctx, "chain"); err == nil {
					release()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	over, end := context.WithCancel(t.Context())
	end()
	for { // until the others wait
		_, _, err := e.Writer.Hold(over, "chain")
		if enginetest.Code(err) == api.Busy {
			break
		}
		if !errors.Is(err, ledger.ErrUnavailable) {
			t.Fatalf("Hold of a request that is over: %v", err)
		}
	}
	if _, free, err := e.Writer.Hold(t.Context(), "other chain"); err != nil {
		t.Errorf("another chain: %v", err)
	} else {
		free()
	}
	cancel()
	waiting.Wait()
	release()
	if _, release, err = e.Writer.Hold(t.Context(), "chain"); err != nil {
		t.Fatalf("after all have left: %v", err)
	}
	release()
}

func TestAfterCommitNeverSaysThatNothingIsWritten(t *testing.T) {
	for _, c := range []struct {
		err  error
		want api.Code
	}{
		{nil, ""},
		{fmt.Errorf("read: %w", ledger.ErrUnavailable), api.Indeterminate},
		{&api.Error{Code: api.Busy, Message: "full"}, api.Indeterminate},
		{fmt.Errorf("read a key: %w", &fs.PathError{Op: "read", Path: "x", Err: syscall.EIO}), api.Indeterminate},
		{&api.Error{Code: api.Indeterminate, Message: "unknown"}, api.Indeterminate},
		{&api.Error{Code: api.Conflict, Message: "moved"}, api.Conflict},
	} {
		if got := enginetest.Code(writer.AfterCommit(c.err)); got != c.want {
			t.Errorf("AfterCommit(%v) is %q, want %q", c.err, got, c.want)
		}
	}
}
