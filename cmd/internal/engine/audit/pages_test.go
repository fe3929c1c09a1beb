package audit_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/memlog"
	"nexus/projections/rows"
	"nexus/turns"
	"nexus/turns/seal/keyring"
)

// verifyPages verifies sessions in pages of some events, and calls between before each page but
// the first.
func verifyPages(t *testing.T, e *engine.Engine, limit int, between func(), sessions ...turns.ID) (last *api.Verified, pages int) {
	t.Helper()
	r := api.Verify{Sessions: sessions, Page: api.Page{Limit: limit}}
	for checked := uint64(0); ; checked = last.Events {
		last = enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Operator, r))(t)
		pages++
		if r.After = last.Next; r.After == "" {
			return last, pages
		}
		if last.OK || last.Through == nil || last.Events < checked || last.Events > checked+uint64(limit) {
			t.Fatalf("page %d: %+v", pages, last)
		}
		between()
	}
}

// listed returns all sessions.
func listed(t *testing.T, e *engine.Engine) (out []turns.ID) {
	t.Helper()
	l := enginetest.Must(e.History.List(t.Context(), enginetest.Operator, api.ListSessions{}))(t)
	for i := range l.Sessions {
		out = append(out, l.Sessions[i].ID)
	}
	if len(out) != 6 {
		t.Fatalf("%d sessions", len(out))
	}
	return out
}

// changedLog is a log whose chains are read with changes.
type changedLog struct {
	*memlog.Log
	change func(r ledger.Record) (ledger.Record, error, bool) // false: it is left out
}

func (l *changedLog) Chain(ctx context.Context, subject string, after uint64) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for r, err := range l.Log.Chain(ctx, subject, after) {
			ok := true
			if err == nil {
				r, err, ok = l.change(r)
			}
			if ok && !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Whatever is damaged, and wherever a page ends: pages find what a verification without pages finds.
func TestPagesFindWhatOneVerificationFinds(t *testing.T) {
	w, e := livedIn(t)
	sessions := listed(t, e)
	check := func(t *testing.T, e *engine.Engine, mayBeSound bool) {
		t.Helper()
		whole, err := e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{Sessions: sessions})
		if err != nil { // a session is not found, as its row is damaged
			_, first := e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{Sessions: sessions, Page: api.Page{Limit: 1}})
			if !mayBeSound || first == nil || first.Error() != err.Error() {
				t.Errorf("in pages %v; without %v", first, err)
			}
			return
		}
		if whole.Count < 2 && !mayBeSound { // the record that is no event is one
			t.Errorf("nothing is found: %+v", whole)
		}
		whole.DurationMS = 0
		for _, limit := range []int{1, 7, 10_000} {
			v, pages := verifyPages(t, e, limit, func() {}, sessions...)
			v.DurationMS = 0
			if diff := cmp.Diff(whole, v); diff != "" || pages > 1 && limit == 10_000 {
				t.Errorf("%d pages of %d events find otherwise (-without pages +in pages):\n%s", pages, limit, diff)
			}
		}
	}
	t.Run("nothing", func(t *testing.T) { check(t, e, true) })
	for _, family := range rows.Families() {
		for _, change := range []string{"missing", "differs"} {
			if family == "c" {
				continue
			}
			t.Run("row of "+family+" "+change, func(t *testing.T) {
				check(t, w.EngineOver(changedDatabase(t, w, func(db *pebble.DB) { changeFamily(t, db, family, change) })), true)
			})
		}
	}
	t.Run("all rows of turns", func(t *testing.T) {
		check(t, w.EngineOver(changedDatabase(t, w, func(db *pebble.DB) {
			if err := db.DeleteRange([]byte{'n'}, []byte{'n' + 1}, pebble.Sync); err != nil {
				t.Fatal(err)
			}
		})), false)
	})
	t.Run("keys", func(t *testing.T) {
		lost := *w
		lost.Keys = new(keyring.Memory)
		check(t, lost.EngineOver(e.Reader.Projections), false)
	})
	t.Run("blobs", func(t *testing.T) {
		lost := *w
		lost.Blobs = new(memlog.Blobs)
		check(t, lost.EngineOver(e.Reader.Projections), true)
	})
	last := enginetest.Must(w.Log.State(t.Context()))(t).Last
	for name, change := range map[string]func(r ledger.Record) (ledger.Record, error, bool){
		"other hash": func(r ledger.Record) (ledger.Record, error, bool) {
			r.Hash[0] ^= 1
			return r, nil, true
		},
		"no event": func(r ledger.Record) (ledger.Record, error, bool) {
			r.Payload, r.Hash = []byte("x"), turns.HashEvent([]byte("x"))
			return r, nil, true
		},
		"another index": func(r ledger.Record) (ledger.Record, error, bool) {
			if ev, err := turns.Decode(r.Payload); err == nil && ev.Index > 0 {
				ev.Index += 5
				if r.Payload, err = ev.Encode(); err != nil {
					t.Error(err)
				}
				r.Hash = turns.HashEvent(r.Payload)
			}
			return r, nil, true
		},
		"left out": func(r ledger.Record) (ledger.Record, error, bool) { return r, nil, false },
		"can't be read": func(r ledger.Record) (ledger.Record, error, bool) {
			return r, fmt.Errorf("%w: a block", ledger.ErrCorrupt), true
		},
	} {
		for every := range uint64(5) { // each record is in one of these
			t.Run(fmt.Sprint("records ", name, " ", every), func(t *testing.T) {
				over := w.EngineOver(e.Reader.Projections)
				over.Reader.Log = &changedLog{Log: w.Log, change: func(r ledger.Record) (ledger.Record, error, bool) {
					if r.Seq%5 != every || r.Seq == last {
						return r, nil, true
					}
					return change(r)
				}}
				check(t, over, false)
			})
		}
	}
}

// What is appended between pages is not looked at, nor what it does to the rows.
func TestPagesEndWhereTheFirstOneBegan(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	var last *api.Appended
	for range 9 {
		last = enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
	}
	fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: last.ID}, []byte("{}")))(t)
	enginetest.Add(t, e, fork.ID, enginetest.Say("question", "answer"))
	v, pages := verifyPages(t, e, 3, func() {
		a := enginetest.Add(t, e, s.ID, enginetest.Say("more", "of it"))
		enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: a.ID}, nil))(t)
		enginetest.Add(t, e, fork.ID, enginetest.Say("more", "of it"))
	}, fork.ID)
	if !v.OK || v.Turns != 10 || v.Events != 12 || pages < 4 {
		t.Errorf("%d pages: %+v", pages, v)
	}
	if v, _ := verifyPages(t, e, 3, func() {}, fork.ID); !v.OK || v.Turns < 15 {
		t.Errorf("afterwards: %+v", v)
	}
}

// An event that is redacted, or erased with its session, before the page that checks it counts as
// erased; one of an earlier page was read.
func TestPagesCountWhatIsErasedMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		do     func(t *testing.T, e *engine.Engine, s turns.ID, all []*api.Appended)
		erased uint64
	}{
		"a turn ahead": {func(t *testing.T, e *engine.Engine, s turns.ID, all []*api.Appended) {
			r := api.RedactTurn{Turn: all[7].ID, Parts: []int{1}}
			enginetest.Must(e.Erasure.Redact(t.Context(), enginetest.Operator, s, r, enginetest.JSON(r)))(t)
		}, 1},
		"a turn behind": {func(t *testing.T, e *engine.Engine, s turns.ID, all []*api.Appended) {
			r := api.RedactTurn{Turn: all[0].ID, Parts: []int{1}}
			enginetest.Must(e.Erasure.Redact(t.Context(), enginetest.Operator, s, r, enginetest.JSON(r)))(t)
		}, 0},
		"the session": {func(t *testing.T, e *engine.Engine, s turns.ID, _ []*api.Appended) {
			enginetest.Must(e.Erasure.Erase(t.Context(), enginetest.Operator, s, api.EraseSession{}))(t)
		}, 6}, // three of ten events and the opening were checked
	} {
		t.Run(name, func(t *testing.T) {
			e := enginetest.NewWorld().Engine(t)
			s := enginetest.Create(t, e, 0, "nexus")
			var all []*api.Appended
			for range 9 {
				all = append(all, enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer")))
			}
			done := false
			v, _ := verifyPages(t, e, 4, func() {
				if !done {
					tc.do(t, e, s.ID, all)
				}
				done = true
			}, s.ID)
			if !v.OK || v.Erased != tc.erased || v.Events != 10 {
				t.Errorf("%+v", v)
			}
			if v, _ := verifyPages(t, e, 4, func() {}, s.ID); !v.OK || v.Erased == 0 {
				t.Errorf("a verification that begins then: %+v", v)
			}
		})
	}
}

// longSession returns an engine with a session of ten events of alice.
func longSession(t *testing.T) (*engine.Engine, turns.ID) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	for range 9 {
		enginetest.Add(t, e, s.ID, enginetest.Say("question", "answer"))
	}
	return e, s.ID
}

// A cursor is taken from its agent alone, for the page behind the newest one, or for the newest
// one again.
func TestCursorOfNoPageIsRefused(t *testing.T) {
	e, s := longSession(t)
	ask := func(c reader.Caller, after string, sessions ...turns.ID) (*api.Verified, error) {
		return e.Audit.Verify(t.Context(), c, api.Verify{Sessions: sessions, Page: api.Page{After: after, Limit: 3}})
	}
	first := enginetest.Must(ask(enginetest.Alice, "", s))(t)
	name, _, _ := strings.Cut(first.Next, "~")
	bob := reader.Caller{Tenant: "default", Agent: "bob"}
	for _, tc := range []struct {
		c     reader.Caller
		after string
		of    []turns.ID
		want  api.Code
	}{
		{enginetest.Alice, "x", []turns.ID{s}, api.Malformed},
		{enginetest.Alice, name, []turns.ID{s}, api.Malformed},
		{enginetest.Alice, name + "~0", []turns.ID{s}, api.Malformed},
		{enginetest.Alice, name + "~-1", []turns.ID{s}, api.Malformed},
		{enginetest.Alice, name + "~1~1", []turns.ID{s}, api.Malformed},
		{enginetest.Alice, name + "~99999999999999999999", []turns.ID{s}, api.Malformed},
		{enginetest.Alice, "~1", []turns.ID{s}, api.Malformed},
		{enginetest.Alice, first.Next, []turns.ID{s, s}, api.Malformed},
		{enginetest.Alice, first.Next, []turns.ID{enginetest.ID(t)}, api.Malformed},
		{enginetest.Alice, first.Next, nil, api.Malformed},
		{enginetest.Alice, name + "~2", []turns.ID{s}, api.Conflict},
		{enginetest.Alice, "X" + first.Next, []turns.ID{s}, api.Conflict},
		{bob, first.Next, []turns.ID{s}, api.Conflict},
		{enginetest.Operator, first.Next, []turns.ID{s}, api.Conflict},
	} {
		if v, err := ask(tc.c, tc.after, tc.of...); enginetest.Code(err) != tc.want {
			t.Errorf("%s, after %q of %d sessions: %+v, %v; want %s", tc.c.Agent, tc.after, len(tc.of), v, err, tc.want)
		}
	}
	second := enginetest.Must(ask(enginetest.Alice, first.Next, s))(t)
	again := enginetest.Must(ask(enginetest.Alice, first.Next, s))(t)
	if diff := cmp.Diff(second, again); diff != "" || second.Events != 6 {
		t.Errorf("the same page again (-first +again):\n%s", diff)
	}
	rest := enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Alice, api.Verify{Sessions: []turns.ID{s}, Page: api.Page{After: second.Next}}))(t)
	if !rest.OK || rest.Events != 10 || rest.Next != "" {
		t.Errorf("without a limit: %+v", rest)
	}
	if again := enginetest.Must(ask(enginetest.Alice, second.Next, s))(t); !again.OK {
		t.Errorf("the last page again: %+v", again)
	}
	if _, err := ask(enginetest.Alice, first.Next, s); enginetest.Code(err) != api.Conflict {
		t.Errorf("a page before the newest one: %v", err)
	}
	if _, err := ask(enginetest.Alice, name+"~3", s); enginetest.Code(err) != api.Conflict {
		t.Errorf("a page behind the last one: %v", err)
	}
	// One that waits gives way to another one: of its agent, or of whoever finds no place.
	old := enginetest.Must(ask(enginetest.Alice, "", s))(t).Next
	now := enginetest.Must(ask(enginetest.Alice, "", s))(t).Next
	if _, err := ask(enginetest.Alice, old, s); enginetest.Code(err) != api.Conflict {
		t.Errorf("the next of one that gave way: %v", err)
	}
	other := enginetest.Must(ask(enginetest.Operator, "", s))(t).Next // both places are taken
	bobs := enginetest.Must(e.Sessions.Create(t.Context(), bob, api.CreateSession{}, []byte("{}")))(t).ID
	enginetest.Must(ask(bob, "", bobs))(t)
	if _, err := ask(enginetest.Alice, now, s); enginetest.Code(err) != api.Conflict {
		t.Errorf("the next of the one that waited longest: %v", err)
	}
	if v := enginetest.Must(ask(enginetest.Operator, other, s))(t); v.Events == 0 {
		t.Errorf("%+v", v)
	}
	for _, limit := range []int{-1, 10_001} {
		r := api.Verify{Sessions: []turns.ID{s}, Page: api.Page{Limit: limit}}
		if _, err := e.Audit.Verify(t.Context(), enginetest.Alice, r); enginetest.Code(err) != api.Malformed {
			t.Errorf("a limit of %d: %v", limit, err)
		}
	}
	if _, err := e.Audit.Verify(t.Context(), enginetest.Operator, api.Verify{Page: api.Page{Limit: 5}}); enginetest.Code(err) != api.Malformed {
		t.Errorf("the whole ledger in pages: %v", err)
	}
}

// A verification gives its place back when it waited too long, when the log was found to have lost
// records, when a page fails, and when the daemon ends.
func TestPagesGiveTheirPlaceBack(t *testing.T) {
	for name, end := range map[string]func(e *engine.Engine, next func() (*api.Verified, error)){
		"waited": func(e *engine.Engine, next func() (*api.Verified, error)) {
			e.Audit.EndWaits()
			if _, err := next(); enginetest.Code(err) != api.Conflict {
				t.Errorf("after its time: %v", err)
			}
		},
		"lost": func(e *engine.Engine, next func() (*api.Verified, error)) {
			e.Reader.Access = func() reader.Access { return reader.Access{Lost: []reader.Problem{{}}} }
			if v, err := next(); err != nil || v.Next != "" || v.OK || v.Count != 1 {
				t.Errorf("of a log that lost records: %+v, %v", v, err)
			}
			e.Reader.Access = nil
		},
		"failed": func(e *engine.Engine, next func() (*api.Verified, error)) {
			log := e.Reader.Log
			e.Reader.Log = &changedLog{Log: log.(*memlog.Log), change: func(r ledger.Record) (ledger.Record, error, bool) { return r, ledger.ErrUnavailable, true }}
			if _, err := next(); enginetest.Code(err) != api.Unavailable {
				t.Errorf("of a log that can't be read: %v", err)
			}
			e.Reader.Log = log
			if _, err := next(); enginetest.Code(err) != api.Conflict {
				t.Errorf("after a page that failed: %v", err)
			}
		},
		"panicked": func(e *engine.Engine, next func() (*api.Verified, error)) {
			e.Reader.Access = func() reader.Access { panic("a defect") }
			func() {
				defer func() { _ = recover() }()
				_, _ = next()
			}()
			e.Reader.Access = nil
		},
		"closed": func(e *engine.Engine, next func() (*api.Verified, error)) {
			if err := e.Audit.Close(); err != nil {
				t.Error(err)
			}
			if _, err := next(); enginetest.Code(err) != api.Conflict {
				t.Errorf("after the end: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, s := longSession(t)
			r := api.Verify{Sessions: []turns.ID{s}, Page: api.Page{Limit: 3}}
			r.After = enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Alice, r))(t).Next
			end(e, func() (*api.Verified, error) { return e.Audit.Verify(t.Context(), enginetest.Alice, r) })
			r.Limit, r.After = 0, ""
			if v, err := e.Audit.Verify(t.Context(), enginetest.Alice, r); err != nil || !v.OK {
				t.Errorf("the next verification: %+v, %v", v, err)
			}
			r.Limit = 3
			_, err := e.Audit.Verify(t.Context(), enginetest.Alice, r)
			if want := map[bool]api.Code{true: api.Unavailable}[name == "closed"]; enginetest.Code(err) != want {
				t.Errorf("the next one in pages: %v", err)
			}
		})
	}
}

// A page that two ask for at the same time is made once.
func TestPageThatIsBeingMadeIsBusy(t *testing.T) {
	e, s := longSession(t)
	r := api.Verify{Sessions: []turns.ID{s}, Page: api.Page{Limit: 3}}
	r.After = enginetest.Must(e.Audit.Verify(t.Context(), enginetest.Alice, r))(t).Next
	log := &blockedLog{Log: e.Reader.Log, reading: make(chan struct{}), release: make(chan struct{})}
	e.Reader.Log = log
	done := make(chan error, 1)
	go func() { _, err := e.Audit.Verify(t.Context(), enginetest.Alice, r); done <- err }()
	<-log.reading
	if _, err := e.Audit.Verify(t.Context(), enginetest.Alice, r); enginetest.Code(err) != api.Busy {
		t.Errorf("the page that is being made: %v", err)
	}
	close(log.release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
