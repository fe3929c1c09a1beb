package audit_test

import (
	"context"
	"iter"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// readLog counts the records that are read from a log.
type readLog struct {
	ledger.Log
	n int
}

func (l *readLog) Chain(ctx context.Context, subject string, after uint64) iter.Seq2[ledger.Record, error] {
	return l.count(l.Log.Chain(ctx, subject, after))
}

func (l *readLog) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return l.count(l.Log.Read(ctx, from, follow))
}

func (l *readLog) count(records iter.Seq2[ledger.Record, error]) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range records {
			if l.n++; !yield(r, err) {
				return
			}
		}
	}
}

// Who verifies sessions of its own reads their chains, and those that they
// inherit from, and nothing of anybody else's.
func TestVerifyOfSessionsReadsTheirChains(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	other := enginetest.Create(t, e, 0, "nexus")
	for range 500 {
		enginetest.Add(t, e, other.ID, enginetest.Say("theirs", "x"))
	}
	bob := reader.Caller{Tenant: "default", Agent: "bob"}
	own := enginetest.Must(e.Sessions.Create(t.Context(), bob, api.CreateSession{}, []byte("{}")))(t)
	var last *api.Appended
	for range 3 {
		last = enginetest.Must(e.Sessions.Append(t.Context(), bob, own.ID, enginetest.Say("1", "2"), nil))(t)
	}
	fork := enginetest.Must(e.Forks.Fork(t.Context(), bob, own.ID, api.CreateFork{Turn: last.ID}, []byte("{}")))(t)
	enginetest.Must(e.Sessions.Append(t.Context(), bob, fork.ID, enginetest.Say("3", "4"), nil))(t)
	log := &readLog{Log: w.Log}
	e.Reader.Log = log
	for _, named := range [][]turns.ID{{fork.ID}, {fork.ID, own.ID}, {own.ID, fork.ID}} {
		log.n = 0
		v := enginetest.Must(e.Audit.Verify(t.Context(), bob, api.Verify{Sessions: named}))(t)
		if !v.OK || v.Events != 6 || v.Turns != 4 || v.Sessions != 2 {
			t.Errorf("verified: %+v", v)
		}
		if log.n != 6 {
			t.Errorf("%d records were read for 6", log.n)
		}
	}
	if v := enginetest.Verified(t, e); v.Turns != 504 {
		t.Errorf("the operator verified %d turns", v.Turns)
	}
}

// blockedLog blocks reads of chains until the test releases them.
type blockedLog struct {
	ledger.Log
	reading chan struct{} // one for each read that waits
	release chan struct{}
}

func (l *blockedLog) Chain(ctx context.Context, subject string, after uint64) iter.Seq2[ledger.Record, error] {
	select {
	case l.reading <- struct{}{}:
	case <-l.release:
	}
	<-l.release
	return l.Log.Chain(ctx, subject, after)
}

// An agent that verifies takes no place from another; more than there are places
// for wait their turn, and the operator's is its own.
func TestVerificationsOfOneAgentAreBounded(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	agents := map[string]reader.Caller{}
	sessions := map[string]turns.ID{}
	for _, name := range []string{"alice", "bob", "carol"} {
		agents[name] = reader.Caller{Tenant: "default", Agent: name}
		sessions[name] = enginetest.Must(e.Sessions.Create(t.Context(), agents[name], api.CreateSession{}, []byte("{}")))(t).ID
	}
	verify := func(name string) error {
		_, err := e.Audit.Verify(t.Context(), agents[name], api.Verify{Sessions: []turns.ID{sessions[name]}})
		return err
	}
	log := &blockedLog{Log: e.Reader.Log, reading: make(chan struct{}), release: make(chan struct{})}
	e.Reader.Log = log
	done := make(chan error, 2)
	go func() { done <- verify("alice") }()
	<-log.reading
	over := make(chan error)
	go func() { over <- verify("alice") }()
	select {
	case err := <-over:
		if enginetest.Code(err) != api.Busy {
			t.Errorf("a second verification of one agent: %v", err)
		}
	case <-log.reading:
		t.Error("an agent has every place")
		defer func() { <-over }()
	}
	if !t.Failed() {
		go func() { done <- verify("bob") }()
		<-log.reading
		if err := verify("carol"); enginetest.Code(err) != api.Busy {
			t.Errorf("one verification too many: %v", err)
		}
		enginetest.Verified(t, e) // the operator's has a place of its own
	}
	close(log.release)
	for range cap(done) {
		if t.Failed() {
			break
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := verify("carol"); err != nil {
		t.Errorf("when there is a place again: %v", err)
	}
}

// A compaction is checked at its place on the path: many forks deep in a history cost what
// their own events do, not a walk of their whole paths each.
func TestVerifyCostGrowsWithTheEvents(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	var last *api.Appended
	for range 1000 {
		last = enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
	}
	before := enginetest.Allocated(func() { enginetest.Verified(t, e) })
	for range 40 {
		f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: last.ID}, nil))(t)
		k := api.RecordCompaction{FirstKept: last.ID, Replacement: []turns.Message{turns.TextMessage(turns.User, "before")}}
		enginetest.Must(e.Compactions.Record(t.Context(), enginetest.Alice, f.ID, k, nil))(t)
	}
	if after := enginetest.Allocated(func() { enginetest.Verified(t, e) }); after > before+before/2 {
		t.Errorf("80 events more took verification from %d to %d MiB", before, after)
	}
}

// damagedLog is a log whose every record differs from its hash.
type damagedLog struct{ ledger.Log }

func (l damagedLog) Read(ctx context.Context, from uint64, follow bool) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range l.Log.Read(ctx, from, follow) {
			r.Hash[0] ^= 1
			if !yield(r, err) {
				return
			}
		}
	}
}

// A verification that finds more than a reply lists says how many it found.
func TestVerifyCountsTheProblemsThatItDoesNotList(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	for range 8 {
		enginetest.Add(t, e, s.ID, enginetest.Say("1", "2"))
	}
	e.Reader.Log, e.Limits.MaxPayload = damagedLog{w.Log}, 8<<10
	v := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{}))(t)
	if v.OK || v.Events != 10 || v.Count != 10 || len(v.Problems) == 0 || len(v.Problems) >= 10 {
		t.Errorf("of 10 damaged events %d are counted, %d listed", v.Count, len(v.Problems))
	}
}
