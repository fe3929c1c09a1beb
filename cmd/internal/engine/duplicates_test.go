package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// openingLog is a log in which a rival acts just before the first opening of a session
// with an id is appended.
type openingLog struct {
	ledger.Log
	id    turns.ID
	once  sync.Once
	rival func()
}

func (l *openingLog) Append(ctx context.Context, subject string, expect uint64, payload []byte) (uint64, error) {
	if _, chain, err := ledger.ParseSubject(subject); err == nil && chain == turns.SessionChain(l.id) && expect == 0 {
		l.once.Do(l.rival)
	}
	return l.Log.Append(ctx, subject, expect, payload)
}

// opener opens a session of a caller under an id.
type opener struct {
	c    reader.Caller
	open func(e *Engine, id turns.ID) error
}

// openers are the ways to open a session under id: each on another subject.
func openers(t *testing.T, w *world, e *Engine, id turns.ID) map[string]opener {
	t.Helper()
	creates := func(c reader.Caller) opener {
		return opener{c, func(e *Engine, id turns.ID) error {
			label := "mine"
			r := api.CreateSession{ID: id, SessionSettings: api.SessionSettings{Label: &label}}
			_, err := e.Sessions.Create(t.Context(), c, r, canon(r))
			return err
		}}
	}
	used := []string{ledger.SessionSubject(alice.Tenant, id, id)} // sessions share few shards
	forks := func(c reader.Caller) opener {
		var s *api.Session
		for s == nil || slices.Contains(used, ledger.SessionSubject(c.Tenant, s.ID, id)) {
			s = must(e.Sessions.Create(t.Context(), c, api.CreateSession{}, []byte("{}")))(t)
		}
		used = append(used, ledger.SessionSubject(c.Tenant, s.ID, id))
		a := must(e.Sessions.Append(t.Context(), c, s.ID, say("one", "two"), nil))(t)
		return opener{c, func(e *Engine, id turns.ID) error {
			r := api.CreateFork{ID: id, Turn: a.ID}
			_, err := e.Forks.Fork(t.Context(), c, s.ID, r, canon(r))
			return err
		}}
	}
	from := newWorld()
	src := from.Engine(t)
	r := api.CreateSession{ID: id}
	must(src.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
	records := slices.DeleteFunc(exports(t, src, id), func(r api.ExportRecord) bool { return r.Policy != nil })
	return map[string]opener{
		"create":                   creates(alice),
		"create in another tenant": creates(mallory),
		"fork":                     forks(alice),
		"fork of another agent":    forks(bob),
		"import": {alice, func(e *Engine, _ turns.ID) error {
			return importAs(t, e, alice, records...)
		}},
	}
}

// Two daemons open one id on two subjects, where no compare-and-set meets. The opening
// that is first on the log has the id. The other request is answered id_reused, at once
// and for ever; its opening is no problem of the ledger, and no chain's.
func TestOfTwoOpeningsOfAnIDTheLaterIsIDReused(t *testing.T) {
	for ours := range openers(t, newWorld(), newWorld().Engine(t), newID(t)) {
		for rival := range openers(t, newWorld(), newWorld().Engine(t), newID(t)) {
			if rival == "import" || subjectOf(ours) == subjectOf(rival) {
				continue // the key that ours made refuses the import; on one subject the compare-and-set meets
			}
			t.Run(ours+", rival "+rival, func(t *testing.T) {
				w := newWorld()
				setup, slow, fast := w.Engine(t), w.Engine(t), w.Engine(t)
				id := newID(t)
				all := openers(t, w, setup, id)
				for _, e := range []*Engine{slow, fast} {
					if err := e.Reader.Projections.WaitFor(t.Context(), lastSeq(t, w)); err != nil {
						t.Fatal(err)
					}
				}
				slow.Reader.Log = &openingLog{Log: w.Log, id: id, rival: func() {
					if err := all[rival].open(fast, id); err != nil {
						t.Errorf("the rival: %v", err)
					}
				}}
				before := countOpenings(t, w, id)
				if err := all[ours].open(slow, id); code(err) != api.IDReused || !errors.Is(err, ledger.ErrIDReused) {
					t.Errorf("%v, want id_reused", err)
				}
				if n := countOpenings(t, w, id) - before; n != 2 {
					t.Fatalf("%d openings are stored, this is not the race that the test is about", n)
				}
				owner, loser := all[rival].c, all[ours].c
				last := w.Engine(t)
				for _, e := range []*Engine{slow, fast, last} {
					if err := all[ours].open(e, id); code(err) != api.IDReused && !(code(err) == api.Conflict && ours == "import" && owner == loser) {
						t.Errorf("again: %v, want id_reused", err)
					}
					must(e.Sessions.Append(t.Context(), owner, id, say("three", "four"), nil))(t)
					must(e.Contexts.Context(t.Context(), owner, id, api.GetContext{}))(t)
					if loser == owner {
						continue
					}
					if _, err := e.Reader.Get(t.Context(), loser, id, api.Read{}); code(err) != api.NotFound {
						t.Errorf("the later one reads: %v, want not_found", err)
					}
					if _, err := e.Sessions.Append(t.Context(), loser, id, say("five", "six"), nil); code(err) != api.NotFound {
						t.Errorf("the later one appends: %v, want not_found", err)
					}
					list := must(e.History.List(t.Context(), loser, api.ListSessions{}))(t)
					if slices.ContainsFunc(list.Sessions, func(s api.Session) bool { return s.ID == id }) {
						t.Error("the later one lists it")
					}
				}
				if n := last.Reader.Projections.SetAside(); n != 0 {
					t.Errorf("%d chains are aside", n)
				}
				if v := verified(t, last); v.Duplicates != 1 {
					t.Errorf("verify: %s, want one duplicate opening", canon(v))
				}
				v := must(last.Audit.Verify(t.Context(), owner, api.Verify{Sessions: []turns.ID{id}}))(t)
				if !v.OK || v.Duplicates != 0 {
					t.Errorf("verify of the session: %s", canon(v))
				}
			})
		}
	}
}

// subjectOf names the subject on which an opener opens a session.
func subjectOf(opener string) string {
	if opener == "import" {
		return "create"
	}
	return opener
}

// countOpenings returns the number of openings under an id.
func countOpenings(t *testing.T, w *world, id turns.ID) (n int) {
	t.Helper()
	for r, err := range w.Log.Read(t.Context(), 1, false) {
		if err != nil {
			t.Fatal(err)
		}
		if ev := must(turns.Decode(r.Payload))(t); ev.Kind == turns.KindOpened && ev.Chain == turns.SessionChain(id) {
			n++
		}
	}
	return n
}

// Inside one daemon the requests that open one id wait for each other, whatever their
// tenants: only one is stored.
func TestOneDaemonStoresOneOpeningOfAnID(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	for range 25 {
		id := newID(t)
		var errs [4]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i, tenant := range []string{"default", "other", "third", "fourth"} {
			wg.Add(1)
			go func() {
				defer wg.Done()
				<-start
				r := api.CreateSession{ID: id}
				_, errs[i] = e.Sessions.Create(t.Context(), reader.Caller{Tenant: tenant, Agent: "main"}, r, canon(r))
			}()
		}
		close(start)
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch code(err) {
			case "":
				won++
			case api.IDReused:
			default:
				t.Errorf("%v, want id_reused", err)
			}
		}
		if n := countOpenings(t, w, id); won != 1 || n != 1 {
			t.Errorf("%d requests opened the session, %d openings are stored", won, n)
		}
	}
	if v := verified(t, e); v.Duplicates != 0 {
		t.Errorf("verify: %s", canon(v))
	}
}

// The rival's opening can be known between the first look at the id and the append. Then
// nothing of the request is stored, and the answer is the same.
func TestAnIDThatIsTakenBeforeTheAppendIsIDReused(t *testing.T) {
	w := newWorld()
	slow, fast := w.Engine(t), w.Engine(t)
	r := api.CreateSession{ID: newID(t)}
	slow.Reader.Log = &rivalLog{Log: w.Log, rival: func() { // after the first look, and before the policy is stored
		must(fast.Sessions.Create(t.Context(), mallory, r, canon(r)))(t)
		if err := slow.Reader.Projections.WaitFor(t.Context(), lastSeq(t, w)); err != nil {
			t.Error(err)
		}
	}}
	if _, err := slow.Sessions.Create(t.Context(), alice, r, canon(r)); code(err) != api.IDReused {
		t.Errorf("%v, want id_reused", err)
	}
	if n := countOpenings(t, w, r.ID); n != 1 {
		t.Errorf("%d openings are stored, want the rival's", n)
	}
	verified(t, slow)
}
