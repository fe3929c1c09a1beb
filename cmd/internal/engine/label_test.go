package engine_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nexus/cmd/internal/engine/sessions"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

// opens returns a session.create with a label.
func opens(id turns.ID, label string) api.CreateSession {
	return api.CreateSession{ID: id, SessionSettings: api.SessionSettings{Label: &label}}
}

func labelled(t *testing.T, e *Engine, id turns.ID, label string) (*api.Session, error) {
	t.Helper()
	r := opens(id, label)
	return e.Sessions.Create(t.Context(), alice, r, canon(r))
}

func relabel(t *testing.T, e *Engine, s turns.ID, label string) error {
	t.Helper()
	r := api.SetSession{SessionSettings: api.SessionSettings{Label: &label}}
	_, err := e.Sessions.Set(t.Context(), alice, s, r, canon(r))
	return err
}

// holds checks which session a label names, on each engine.
func holds(t *testing.T, label string, want turns.ID, engines ...*Engine) {
	t.Helper()
	for i, e := range engines {
		got, err := e.Sessions.Resolve(t.Context(), alice, label)
		switch {
		case want.IsZero() && code(err) != api.NotFound:
			t.Errorf("daemon %d: %s resolves to %v, %v; want not_found", i, label, got, err)
		case !want.IsZero() && err != nil:
			t.Errorf("daemon %d: %s: %v, want %s", i, label, err, want)
		case !want.IsZero() && (got.ID != want || got.Label != label):
			t.Errorf("daemon %d: %s resolves to %s with label %q, want %s", i, label, got.ID, got.Label, want)
		}
	}
}

// Of two sessions that are opened under one label at the same time one is
// opened, on one daemon and on two; the other request learns which.
func TestOnlyOneSessionGetsALabel(t *testing.T) {
	for name, two := range map[string]bool{"one daemon": false, "two daemons": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e := w.Engine(t)
			other := e
			if two {
				other = w.Engine(t)
			}
			x, y := newID(t), newID(t)
			reached, gate := make(chan struct{}), make(chan struct{})
			e.Reader.Log = &hookLog{Log: w.Log, before: func(subject string) error {
				if subject == ledger.SessionSubject("default", x, x) {
					close(reached)
					<-gate
				}
				return nil
			}}
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { _, err := labelled(t, e, x, "main"); first <- err }()
			<-reached // x has claimed the label, and is not there yet
			go func() { _, err := labelled(t, other, y, "main"); second <- err }()
			if two {
				err := <-second
				second <- err
			}
			close(gate)
			if err := <-first; err != nil {
				t.Errorf("the first: %v", err)
			}
			if err := api.FromError(<-second); err.Code != api.Conflict || err.Details["session"] != x.String() {
				t.Errorf("the second: %v %v, want a conflict that names %s", err, err.Details, x)
			}
			holds(t, "main", x, e, other)
			if _, err := w.Keys.Key(y); err == nil && !two {
				t.Error("a session that was refused has a key")
			}
			verified(t, other)
		})
	}
}

// A claim that a crash cut short ends with its lease; the session that made it
// can be opened by a retry before that, and after it if nobody took the label.
func TestUnconfirmedClaimExpires(t *testing.T) {
	for name, retry := range map[string]bool{"the same again": true, "another after the lease": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			e, other := w.Engine(t), w.Engine(t)
			x, y := newID(t), newID(t)
			e.Reader.Log = &hookLog{Log: w.Log, before: func(subject string) error {
				if subject == ledger.SessionSubject("default", x, x) {
					return fmt.Errorf("%w: crash", ledger.ErrUnavailable)
				}
				return nil
			}}
			if _, err := labelled(t, e, x, "main"); err == nil {
				t.Fatal("no crash")
			}
			holds(t, "main", turns.ID{}, other)
			if _, err := labelled(t, other, y, "main"); code(err) != api.Conflict {
				t.Errorf("another in between: %v, want conflict", err)
			}
			if retry {
				must(labelled(t, other, x, "main"))(t)
				holds(t, "main", x, e, other)
				return
			}
			other.Reader.Now = func() time.Time { return time.Now().Add(sessions.ClaimLease + time.Second) }
			must(labelled(t, other, y, "main"))(t)
			holds(t, "main", y, e, other)
			e.Reader.Log = w.Log
			if _, err := labelled(t, e, x, "main"); code(err) != api.Conflict {
				t.Errorf("the first, late: %v, want conflict", err)
			}
			verified(t, e)
		})
	}
}

// A session that takes another label leaves the first one free at once, and
// can come back to it if nobody has it.
func TestARenamedSessionFreesItsLabel(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := must(labelled(t, e, newID(t), "plan"))(t)
	if err := relabel(t, other, s.ID, "work"); err != nil {
		t.Fatal(err)
	}
	holds(t, "plan", turns.ID{}, e, other)
	holds(t, "work", s.ID, e, other)
	if err := relabel(t, e, s.ID, "plan"); err != nil {
		t.Fatal(err)
	}
	holds(t, "plan", s.ID, e, other)
	if err := relabel(t, e, s.ID, "work"); err != nil {
		t.Fatal(err)
	}
	next := must(labelled(t, other, newID(t), "plan"))(t)
	holds(t, "plan", next.ID, e, other)
	if err := api.FromError(relabel(t, e, s.ID, "plan")); err.Code != api.Conflict || err.Details["session"] != next.ID.String() {
		t.Errorf("a label that another took: %v %v", err, err.Details)
	}
	holds(t, "work", s.ID, e, other)
	reset := must(e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, []byte("{}")))(t)
	holds(t, "work", reset.ID, e, other)
	verified(t, e)
}

// A change that is refused after its label was claimed leaves the label free.
func TestARefusedChangeLeavesTheLabelFree(t *testing.T) {
	w := newWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := create(t, e, 0, "nexus")
	closed := false
	e.Reader.Log = &hookLog{Log: w.Log, before: func(subject string) error {
		if !closed && subject == ledger.SessionSubject("default", s.ID, s.ID) {
			closed = true
			must(other.Sessions.CloseSession(t.Context(), alice, s.ID, api.CloseSession{}, nil))(t)
		}
		return nil
	}}
	if err := relabel(t, e, s.ID, "main"); code(err) != api.Closed {
		t.Errorf("set on a session that was closed meanwhile: %v, want closed", err)
	}
	next := must(labelled(t, other, newID(t), "main"))(t)
	holds(t, "main", next.ID, e, other)
}

// If a reset is cut short anywhere after its commit, the label names the
// successor, with its settings: for a look-up, and for who wants to take it.
func TestAResetKeepsItsLabelThroughACrash(t *testing.T) {
	for cut := 2; cut <= 3; cut++ { // the state event, the successor, its claim
		for _, by := range []string{"resolve", "create", "append"} {
			t.Run(fmt.Sprintf("before event %d, %s", cut, by), func(t *testing.T) {
				w := newWorld()
				e := w.Engine(t)
				r := opens(newID(t), "main")
				model := "some-model"
				r.Model = &model
				s := must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
				n := 0
				e.Reader.Log = &hookLog{Log: w.Log, before: func(string) error {
					if n++; n >= cut {
						return fmt.Errorf("%w: crash", ledger.ErrUnavailable)
					}
					return nil
				}}
				_, _ = e.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, []byte("{}"))
				second, third := w.Engine(t), w.Engine(t)
				var heir string
				switch by {
				case "resolve":
					heir = must(second.Sessions.Resolve(t.Context(), alice, "main"))(t).ID.String()
				case "create":
					_, err := labelled(t, second, newID(t), "main")
					if code(err) != api.Conflict {
						t.Fatalf("a create under the label: %v, want conflict", err)
					}
					heir, _ = api.FromError(err).Details["session"].(string)
				case "append":
					_, err := second.Sessions.Append(t.Context(), alice, s.ID, say("x", "y"), nil)
					heir, _ = api.FromError(err).Details["successor"].(string)
				}
				id := must(turns.ParseID(heir))(t)
				if got := must(third.Reader.Get(t.Context(), alice, id, api.Read{}))(t); got.Label != "main" || got.Model != model || got.State != "open" {
					t.Errorf("successor: %+v", got)
				}
				holds(t, "main", id, second, third)
				must(second.Sessions.Reset(t.Context(), alice, id, api.ResetSession{}, []byte("{}")))(t)
				verified(t, third)
			})
		}
	}
}

// Whatever is asked of two daemons whose writes fail, are lost, or land late,
// no two open sessions have one label, and it leads to the one that has it.
func TestLabelsAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLabels(t)
		defer l.stop()
		t.Repeat(map[string]func(*rapid.T){
			"create": l.create, "again": l.again, "set": l.set, "close": l.close, "reset": l.reset, "resolve": l.resolve,
			"wait": l.wait, "": l.check,
		})
	})
}

type labels struct {
	*life
	faults   []*ledgertest.Faults
	now      atomic.Int64
	sessions []turns.ID
	asked    []api.CreateSession
}

func newLabels(t *rapid.T) *labels {
	ctx, cancel := context.WithCancel(context.Background())
	l := &labels{life: &life{t: t, w: newWorld(), cancel: cancel}}
	for range 2 {
		e, f := l.start(ctx), new(ledgertest.Faults)
		e.Reader.Log = ledgertest.Flaky(l.w.Log, f)
		e.Reader.Now = func() time.Time { return time.Unix(1_700_000_000, l.now.Add(1000)) }
		l.engines, l.faults = append(l.engines, e), append(l.faults, f)
	}
	return l
}

var allLabels = []string{"a", "b"}

func (l *labels) label(t *rapid.T) *string {
	x := rapid.SampledFrom(allLabels).Draw(t, "label")
	return &x
}

// on does one thing on one daemon, under some faults.
func (l *labels) on(t *rapid.T, do func(e *Engine) error) {
	i := rapid.IntRange(0, 1).Draw(t, "daemon")
	l.faults[i].Script(rapid.SliceOfN(rapid.SampledFrom([]ledgertest.Fault{0, 0, ledgertest.Persisted, ledgertest.Lost, ledgertest.Late}), 0, 4).Draw(t, "faults")...)
	err := do(l.engines[i])
	l.faults[i].Script()
	switch c := code(err); c {
	case "", api.Conflict, api.Closed, api.NotFound, api.Indeterminate:
		t.Logf("%q", c)
	default:
		t.Fatalf("%v", err)
	}
}

func (l *labels) some(t *rapid.T) turns.ID {
	if len(l.sessions) == 0 {
		t.Skip("no session")
	}
	return rapid.SampledFrom(l.sessions).Draw(t, "session")
}

func (l *labels) create(t *rapid.T) {
	id, err := turns.NewID(l.engines[0].Reader.Now(), rand.Reader)
	l.must(err)
	r := opens(id, *l.label(t))
	l.asked = append(l.asked, r)
	l.on(t, func(e *Engine) error {
		_, err := e.Sessions.Create(context.Background(), alice, r, canon(r))
		return err
	})
}

func (l *labels) again(t *rapid.T) {
	if len(l.asked) == 0 {
		t.Skip("nothing was asked")
	}
	r := rapid.SampledFrom(l.asked).Draw(t, "request")
	l.on(t, func(e *Engine) error {
		_, err := e.Sessions.Create(context.Background(), alice, r, canon(r))
		return err
	})
}

func (l *labels) set(t *rapid.T) {
	r := api.SetSession{SessionSettings: api.SessionSettings{Label: l.label(t)}}
	s := l.some(t)
	l.on(t, func(e *Engine) error {
		_, err := e.Sessions.Set(context.Background(), alice, s, r, canon(r))
		return err
	})
}

func (l *labels) close(t *rapid.T) {
	s := l.some(t)
	l.on(t, func(e *Engine) error {
		_, err := e.Sessions.CloseSession(context.Background(), alice, s, api.CloseSession{}, nil)
		return err
	})
}

func (l *labels) reset(t *rapid.T) {
	s := l.some(t)
	l.on(t, func(e *Engine) error {
		_, err := e.Sessions.Reset(context.Background(), alice, s, api.ResetSession{}, nil)
		return err
	})
}

func (l *labels) resolve(t *rapid.T) {
	name := *l.label(t)
	l.on(t, func(e *Engine) error { _, err := e.Sessions.Resolve(context.Background(), alice, name); return err })
}

// wait lets late writes land, and leases end.
func (l *labels) wait(t *rapid.T) {
	for _, f := range l.faults {
		_ = f.Deliver(context.Background())
	}
	l.now.Add(int64(rapid.SampledFrom([]time.Duration{time.Second, sessions.ClaimLease + time.Second}).Draw(t, "time")))
}

func (l *labels) check(t *rapid.T) {
	ctx := context.Background()
	last, err := l.w.Log.State(ctx)
	l.must(err)
	l.must(l.engines[0].Reader.Projections.WaitFor(ctx, last.Last))
	list, err := l.engines[0].History.List(ctx, alice, api.ListSessions{Page: api.Page{Limit: 1000}})
	l.must(err)
	l.sessions = l.sessions[:0]
	has := make(map[string]turns.ID)
	for _, s := range list.Sessions {
		l.sessions = append(l.sessions, s.ID)
		if s.State != "open" || s.Label == "" {
			continue
		}
		if first, ok := has[s.Label]; ok {
			t.Fatalf("%s and %s both have the label %s", first, s.ID, s.Label)
		}
		has[s.Label] = s.ID
	}
	for name, want := range has {
		for i, e := range l.engines {
			if got, err := e.Sessions.Resolve(ctx, alice, name); err != nil || got.ID != want {
				t.Fatalf("daemon %d: %s resolves to %+v, %v; want %s", i, name, got, err, want)
			}
		}
	}
}

// A session that was reset in another ledger goes on in the successor that was
// opened there: nothing opens another one here under its id.
func TestAResetElsewhereOpensNothingHere(t *testing.T) {
	from, w := newWorld().Engine(t), newWorld()
	to := w.Engine(t)
	s := must(labelled(t, from, newID(t), "main"))(t)
	add(t, from, s.ID, say("q", "a"))
	r := api.ResetSession{ID: newID(t)}
	next := must(from.Sessions.Reset(t.Context(), alice, s.ID, r, []byte("{}")))(t)
	add(t, from, next.ID, say("q2", "a2"))
	if err := copyTo(t, from, to, s.ID); err != nil {
		t.Fatal(err)
	}
	closed := func(what string, err error) {
		t.Helper()
		if x := api.FromError(err); x.Code != api.Closed || x.Details["successor"] != next.ID.String() {
			t.Errorf("%s: %v %v, want closed with the successor %s", what, err, x.Details, next.ID)
		}
	}
	_, err := to.Sessions.Append(t.Context(), alice, s.ID, say("x", "y"), nil)
	closed("append", err)
	_, err = to.Sessions.Reset(t.Context(), alice, s.ID, r, []byte("{}"))
	closed("the same reset again", err)
	holds(t, "main", turns.ID{}, to)
	if _, err := to.Reader.Get(t.Context(), alice, next.ID, api.Read{}); code(err) != api.NotFound {
		t.Errorf("the successor, not imported yet: %v, want not_found", err)
	}
	if err := copyTo(t, from, to, next.ID); err != nil {
		t.Fatalf("import of the successor: %v", err)
	}
	holds(t, "main", next.ID, to, w.Engine(t))
	if got := must(to.Sessions.Reset(t.Context(), alice, s.ID, r, []byte("{}")))(t); got.ID != next.ID {
		t.Errorf("the same reset again: %s, want %s", got.ID, next.ID)
	}
	verified(t, to)
}

// A session that came by an import and is reset here has its successor here,
// through a crash too.
func TestAnImportedSessionIsResetHere(t *testing.T) {
	from, w := newWorld().Engine(t), newWorld()
	to := w.Engine(t)
	s := must(labelled(t, from, newID(t), "main"))(t)
	if err := copyTo(t, from, to, s.ID); err != nil {
		t.Fatal(err)
	}
	to.Reader.Log = &hookLog{Log: w.Log, before: func(subject string) error {
		if subject != ledger.SessionSubject("default", s.ID, s.ID) {
			return fmt.Errorf("%w: crash", ledger.ErrUnavailable)
		}
		return nil
	}}
	if _, err := to.Sessions.Reset(t.Context(), alice, s.ID, api.ResetSession{}, []byte("{}")); err == nil {
		t.Fatal("no crash")
	}
	second := w.Engine(t)
	_, err := second.Sessions.Append(t.Context(), alice, s.ID, say("x", "y"), nil)
	if code(err) != api.Closed {
		t.Errorf("append: %v, want closed", err)
	}
	holds(t, "main", must(second.Reader.Get(t.Context(), alice, s.ID, api.Read{}))(t).Successor, second)
	verified(t, second)
}

// An import gives a session the label that it says it has, where it is free; where
// another session has it, that one keeps it, and the import of it again, when it
// is free, brings it back.
func TestAnImportedSessionKeepsItsLabel(t *testing.T) {
	from, w := newWorld().Engine(t), newWorld()
	to, second := w.Engine(t), w.Engine(t)
	x, y := must(labelled(t, from, newID(t), "plan"))(t), must(labelled(t, from, newID(t), "work"))(t)
	ownID := must(labelled(t, to, newID(t), "work"))(t)
	for _, id := range []turns.ID{x.ID, y.ID} {
		if err := copyTo(t, from, to, id); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, "plan", x.ID, to, second)
	holds(t, "work", ownID.ID, to, second)
	if _, err := labelled(t, second, newID(t), "plan"); code(err) != api.Conflict {
		t.Errorf("another under the label: %v, want conflict", err)
	}
	if err := relabel(t, to, ownID.ID, "other"); err != nil {
		t.Fatal(err)
	}
	holds(t, "work", turns.ID{}, to, second)
	if err := copyTo(t, from, to, y.ID); err != nil {
		t.Fatal(err)
	}
	holds(t, "work", y.ID, to, second)
	verified(t, second)
}
