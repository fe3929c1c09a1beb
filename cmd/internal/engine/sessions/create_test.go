package sessions_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// What a session serves need not be there yet. Reads show it as soon as the agent has it,
// and tell nothing of another agent's sessions.
func TestSpawnedByIsShownWhenTheAgentHasIt(t *testing.T) {
	w := enginetest.NewWorld()
	e, other := w.Engine(t), w.Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	a := enginetest.Add(t, e, s.ID, enginetest.Say("go", "yes")).ID
	f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: a}, []byte("{}")))(t)
	b := enginetest.Add(t, e, s.ID, enginetest.Say("on", "yes")).ID
	foreign := enginetest.Must(e.Sessions.Create(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, api.CreateSession{}, []byte("{}")))(t)
	own, nowhere := enginetest.ID(t), enginetest.ID(t)
	for name, tc := range map[string]struct {
		by, shown api.SpawnedBy
		want      api.Code
	}{
		"a session":                   {api.SpawnedBy{Session: s.ID}, api.SpawnedBy{Session: s.ID}, ""},
		"its turn":                    {api.SpawnedBy{Session: s.ID, Turn: b}, api.SpawnedBy{Session: s.ID, Turn: b}, ""},
		"an inherited turn":           {api.SpawnedBy{Session: f.ID, Turn: a}, api.SpawnedBy{Session: f.ID, Turn: a}, ""},
		"a turn after the fork point": {api.SpawnedBy{Session: f.ID, Turn: b}, api.SpawnedBy{Session: f.ID}, ""},
		"a turn that is nowhere":      {api.SpawnedBy{Session: s.ID, Turn: nowhere}, api.SpawnedBy{Session: s.ID}, ""},
		"a session that is nowhere":   {api.SpawnedBy{Session: nowhere}, api.SpawnedBy{}, ""},
		"another agent's session":     {api.SpawnedBy{Session: foreign.ID}, api.SpawnedBy{}, ""},
		"no session":                  {api.SpawnedBy{Turn: a}, api.SpawnedBy{}, api.Malformed},
		"itself":                      {api.SpawnedBy{Session: own}, api.SpawnedBy{}, api.Malformed},
	} {
		for _, fork := range []bool{false, true} {
			id := enginetest.ID(t)
			if name == "itself" {
				id = own
			}
			var got *api.Session
			var err error
			if fork {
				r := api.CreateFork{ID: id, Turn: b, SpawnedBy: &tc.by}
				got, err = other.Forks.Fork(t.Context(), enginetest.Alice, s.ID, r, enginetest.JSON(r))
			} else {
				r := api.CreateSession{ID: id, SpawnedBy: &tc.by}
				got, err = other.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r))
			}
			if enginetest.Code(err) != tc.want {
				t.Errorf("spawned by %s: %v, want %q", name, err, tc.want)
			}
			if err == nil && shownBy(got) != tc.shown {
				t.Errorf("spawned by %s: shown is %+v", name, got.SpawnedBy)
			}
		}
	}
	enginetest.Verified(t, other)
}

func shownBy(s *api.Session) api.SpawnedBy {
	if s.SpawnedBy == nil {
		return api.SpawnedBy{}
	}
	return *s.SpawnedBy
}

// A session that was opened before what it serves is linked by reads; one that did not know
// it is linked once by session.set.
func TestSpawnedByComesLater(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	parent := enginetest.ID(t)
	r := api.CreateSession{ID: enginetest.ID(t), SpawnedBy: &api.SpawnedBy{Session: parent}}
	early := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
	late := enginetest.Create(t, e, 0, "nexus")
	p := api.CreateSession{ID: parent}
	enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, p, enginetest.JSON(p)))(t)
	if got := enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, early.ID, api.Read{}))(t); shownBy(got).Session != parent {
		t.Errorf("opened before its parent: %+v", got.SpawnedBy)
	}
	set := func(by turns.ID) (*api.Session, error) {
		x := api.SetSession{ID: enginetest.ID(t), SpawnedBy: &api.SpawnedBy{Session: by}}
		return e.Sessions.Set(t.Context(), enginetest.Alice, late.ID, x, enginetest.JSON(x))
	}
	for range 2 {
		if got := enginetest.Must(set(parent))(t); shownBy(got).Session != parent {
			t.Errorf("linked later: %+v", got.SpawnedBy)
		}
	}
	if _, err := set(early.ID); enginetest.Code(err) != api.Malformed {
		t.Errorf("linked to another: %v", err)
	}
	if f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, late.ID, api.CreateFork{Turn: enginetest.Add(t, e, late.ID, enginetest.Say("go", "yes")).ID}, []byte("{}")))(t); f.SpawnedBy != nil {
		t.Errorf("a fork serves what its parent serves: %+v", f.SpawnedBy)
	}
	enginetest.Verified(t, e)
}

// A list leaves out a session that another one supersedes, unless it is asked for.
func TestSupersededSessionIsNotListed(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	old, next := enginetest.Create(t, e, 0, "nexus"), enginetest.Create(t, e, 0, "nexus")
	var set api.SetSession
	set.ID, set.Meta = enginetest.ID(t), turns.Raw(`{"superseded_by":"`+next.ID.String()+`"}`)
	if got := enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, old.ID, set, enginetest.JSON(set)))(t); got.SupersededBy != next.ID {
		t.Errorf("superseded by %s", got.SupersededBy)
	}
	for _, order := range []string{"", "updated"} {
		for all, want := range map[bool]int{false: 1, true: 2} {
			got := enginetest.Must(e.History.List(t.Context(), enginetest.Alice, api.ListSessions{Order: order, Superseded: all}))(t).Sessions
			if len(got) != want {
				t.Errorf("order %q, superseded %t: %d sessions, want %d", order, all, len(got), want)
			}
		}
	}
}

// A session is listed as long as its agent has nothing in its place, whatever its meta names.
func TestSessionWithoutItsSuccessorIsListed(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	s := enginetest.Create(t, e, 0, "nexus")
	foreign := enginetest.Must(e.Sessions.Create(t.Context(), reader.Caller{Tenant: "default", Agent: "bob"}, api.CreateSession{}, []byte("{}")))(t)
	for what, by := range map[string]turns.ID{"nowhere": enginetest.ID(t), "itself": s.ID, "of another agent": foreign.ID} {
		var set api.SetSession
		set.ID, set.Meta = enginetest.ID(t), turns.Raw(`{"superseded_by":"`+by.String()+`"}`)
		if got := enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s.ID, set, enginetest.JSON(set)))(t); !got.SupersededBy.IsZero() {
			t.Errorf("%s: superseded by %s", what, got.SupersededBy)
		}
		if got := enginetest.Must(e.History.List(t.Context(), enginetest.Alice, api.ListSessions{}))(t).Sessions; len(got) != 1 {
			t.Errorf("%s: %d sessions listed", what, len(got))
		}
	}
}

// Where it is known what was acknowledged, nobody asks the log whether a new session is there.
func TestANewSessionAsksNoLogWhereItsEndIsKnown(t *testing.T) {
	w := enginetest.NewWorld()
	e := w.Engine(t)
	enginetest.Create(t, e, 0, "balanced") // its policy is stored
	s := enginetest.Create(t, e, 0, "nexus")
	at := enginetest.Add(t, e, s.ID, enginetest.Say("one", "two")).ID
	e.Reader.Log = &lastLog{Log: w.Log, last: func() error { return ledger.ErrUnavailable }}
	e.Reader.Acknowledged = func(string) (uint64, bool) { return 0, true }
	for _, known := range []bool{true, false} {
		e.Reader.AllAcknowledged = func() (uint64, bool) { return enginetest.Must(w.Log.State(t.Context()))(t).Last, known }
		want := api.Code("")
		if !known {
			want = api.Unavailable
		}
		r := api.CreateSession{ID: enginetest.ID(t)}
		for range 2 { // the second is a retry
			if got, err := e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)); enginetest.Code(err) != want || err == nil && got.ID != r.ID {
				t.Errorf("known %t: create: %v, want %q", known, err, want)
			}
		}
		f := api.CreateFork{ID: enginetest.ID(t), Turn: at}
		for range 2 {
			if got, err := e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, f, enginetest.JSON(f)); enginetest.Code(err) != want || err == nil && got.ID != f.ID {
				t.Errorf("known %t: fork: %v, want %q", known, err, want)
			}
		}
	}
	if _, err := e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{ID: s.ID}, []byte(`{"x":1}`)); err == nil {
		t.Error("the id of a session was given to another request")
	}
	enginetest.Verified(t, e)
}

// A session that is stored, was not acknowledged and is not applied is found by a retry: where it would be stored once
// more, and where the retry would be refused by now.
func TestARetryFindsASessionThatNobodyAcknowledged(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused %t", refused), func(t *testing.T) {
			w := enginetest.NewWorld()
			first := w.Engine(t)
			enginetest.Create(t, first, 0, "balanced")
			late := w.EngineBehind(t)
			label := "inbox"
			r := api.CreateSession{ID: enginetest.ID(t)}
			r.Label = &label
			enginetest.Must(first.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
			if refused {
				free, other := api.SetSession{ID: enginetest.ID(t)}, api.CreateSession{ID: enginetest.ID(t)}
				done := "done"
				free.Label, other.Label = &done, &label
				enginetest.Must(first.Sessions.Set(t.Context(), enginetest.Alice, r.ID, free, enginetest.JSON(free)))(t)
				enginetest.Must(first.Sessions.Create(t.Context(), enginetest.Alice, other, enginetest.JSON(other)))(t)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			run := sync.OnceFunc(func() {
				go func() { done <- late.Reader.Projections.Run(ctx, w.Log) }()
				for last := enginetest.Must(w.Log.State(t.Context()))(t).Last; late.Reader.Projections.WaitFor(t.Context(), last) != nil; {
					runtime.Gosched() // Run has not begun
				}
			})
			defer func() { run(); cancel(); <-done }()
			late.Reader.Log = &lastLog{Log: w.Log, last: func() error { run(); return nil }}
			late.Reader.AllAcknowledged = func() (uint64, bool) { return 0, true }
			got, err := late.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r))
			if err != nil || got.ID != r.ID {
				t.Errorf("%+v, %v", got, err)
			}
			other := r
			other.Kind = turns.Task
			if _, err := late.Sessions.Create(t.Context(), enginetest.Alice, other, enginetest.JSON(other)); enginetest.Code(err) != api.IDReused {
				t.Errorf("another request with the id: %v", err)
			}
			enginetest.Verified(t, first)
		})
	}
}

// lastLog is a log that calls last before it says where a chain ends.
type lastLog struct {
	ledger.Log
	last func() error
}

func (l *lastLog) Last(ctx context.Context, subject string) (ledger.Record, error) {
	if err := l.last(); err != nil {
		return ledger.Record{}, err
	}
	return l.Log.Last(ctx, subject)
}
