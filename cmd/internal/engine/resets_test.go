package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/ledger/api"
	"nexus/turns"
)

// resetClock is a time that a test sets.
type resetClock struct{ ns atomic.Int64 }

func (c *resetClock) now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *resetClock) set(at time.Time)    { c.ns.Store(at.UnixNano()) }
func (c *resetClock) add(d time.Duration) { c.ns.Add(int64(d)) }
func utc(t testing.TB, s string) time.Time {
	t.Helper()
	return enginetest.Must(time.Parse(time.RFC3339, s))(t)
}

// timedDaemons starts n daemons on one ledger, whose clocks are c.
func timedDaemons(t *testing.T, w *enginetest.World, c *resetClock, n int) (out []*engine.Engine) {
	for range n {
		e := w.Engine(t)
		e.Reader.Now = c.now
		out = append(out, e)
	}
	return out
}

// fireAll lets all daemons look at their timers at the same time. A look sees what the
// projections have applied, and another one follows; so the daemons catch up first.
func fireAll(t *testing.T, daemons []*engine.Engine) {
	t.Helper()
	for _, e := range daemons {
		if err := e.Reader.Projections.WaitFor(t.Context(), enginetest.Must(e.Reader.Log.State(t.Context()))(t).Last); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for _, e := range daemons {
		wg.Go(func() {
			if _, err := e.Resets.FireDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// timedSession opens a session with a label and a rule.
func timedSession(t *testing.T, e *engine.Engine, label, rule string) *api.Session {
	t.Helper()
	r := api.CreateSession{}
	r.Label, r.Reset, r.Policy = &label, turns.Raw(rule), &api.Policy{Name: "gsv"}
	return enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
}

// resetsOf returns the resets of a session and its successors, as "cause at due".
func resetsOf(t *testing.T, e *engine.Engine, id turns.ID) (out []string, last *api.Session) {
	t.Helper()
	for {
		s := enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, id, api.Read{}))(t)
		if s.State != "reset" {
			return out, s
		}
		if s.Ended == nil || s.Ended.Due == nil {
			t.Fatalf("session %s was reset: %+v", s.ID, s.Ended)
		}
		out = append(out, fmt.Sprint(s.Ended.Cause, " at ", time.Time(*s.Ended.Due).UTC().Format(time.RFC3339)))
		id = s.Successor
	}
}

// GSV-12: over a month in which the clocks of Berlin go forward, two daemons fire each
// daily reset once, at the hour of the zone, after each day on which there was a turn. They
// are started again now and then.
func TestGSV12DailyResetsOverAMonthHappenOnce(t *testing.T) {
	w, c := enginetest.NewWorld(), new(resetClock)
	c.set(utc(t, "2026-03-01T12:00:00Z"))
	daemons := timedDaemons(t, w, c, 2)
	first := timedSession(t, daemons[0], "daily", `{"mode":"daily","hour":2,"time_zone":"Europe/Berlin"}`)
	var want []string
	for day := range 31 {
		at := time.Date(2026, 3, 1+day, 12, 0, 0, 0, time.UTC)
		c.set(at)
		if day%10 == 7 {
			daemons[day%2] = timedDaemons(t, w, c, 1)[0] // a restart
		}
		if day%5 != 3 { // a day without a turn
			s := enginetest.Must(daemons[day%2].Sessions.Resolve(t.Context(), enginetest.Alice, "daily"))(t)
			enginetest.Add(t, daemons[day%2], s.ID, enginetest.Say("hello", "hello"))
			due := time.Date(2026, 3, 2+day, 1, 0, 0, 0, time.UTC) // 02:00 CET
			if day+2 >= 30 {                                       // CEST
				due = due.Add(-time.Hour)
			}
			want = append(want, "daily at "+due.Format(time.RFC3339)) // on the 29th 02:00 is 03:00 CEST, the same instant
		}
		for range 24 {
			c.add(time.Hour - time.Nanosecond)
			fireAll(t, daemons)
			c.add(time.Nanosecond)
			fireAll(t, daemons)
		}
	}
	got, last := resetsOf(t, daemons[1], first.ID)
	if !slices.Equal(got, want) {
		t.Errorf("resets\n%q\nwant\n%q", got, want)
	}
	if last.Label != "daily" || last.Turns != 0 || last.Depth != 0 || last.Usage != (turns.Usage{}) || last.Policy.Name != "gsv" || string(last.Reset) != `{"mode":"daily","hour":2,"time_zone":"Europe/Berlin"}` {
		t.Errorf("the last successor: %+v", last)
	}
	if v := enginetest.Verified(t, daemons[0]); v.Sessions != uint64(len(want))+1 {
		t.Errorf("%d sessions, want %d", v.Sessions, len(want)+1)
	}
}

// No turn lands in a session whose reset is due, though no timer has run: the request is
// answered closed with the successor, and the label stands for that. A turn that is stored
// is answered all the same.
func TestRequestAfterTheDueInstantMeetsTheSuccessor(t *testing.T) {
	w, c := enginetest.NewWorld(), new(resetClock)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	e := timedDaemons(t, w, c, 1)[0]
	for name, f := range map[string]func(label string, s *api.Session) error{
		"append": func(_ string, s *api.Session) error {
			_, err := e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.Say("new", "day"), nil)
			return err
		},
		"set": func(_ string, s *api.Session) error {
			user := "u"
			_, err := e.Sessions.Set(t.Context(), enginetest.Alice, s.ID, api.SetSession{SessionSettings: api.SessionSettings{User: &user}}, nil)
			return err
		},
		"resolve": func(label string, s *api.Session) error {
			next := enginetest.Must(e.Sessions.Resolve(t.Context(), enginetest.Alice, label))(t)
			if next.ID == s.ID {
				t.Error("the label stands for the old session")
			}
			_, err := e.Sessions.Append(t.Context(), enginetest.Alice, s.ID, enginetest.Say("new", "day"), nil)
			return err
		},
	} {
		c.set(utc(t, "2026-05-01T20:00:00Z"))
		s := timedSession(t, e, name, `{"mode":"daily"}`)
		r := enginetest.Say("old", "day")
		r.ID = enginetest.ID(t)
		stored := enginetest.Add(t, e, s.ID, r)
		c.set(utc(t, "2026-05-02T04:00:00Z").Add(-1))
		enginetest.Add(t, e, s.ID, enginetest.Say("still", "yesterday"))
		c.add(1)
		var closed *api.Error
		if err := f(name, s); !errors.As(err, &closed) || closed.Code != api.Closed {
			t.Errorf("%s: %v, want closed", name, err)
			continue
		}
		next := enginetest.Must(e.Sessions.Resolve(t.Context(), enginetest.Alice, name))(t)
		if closed.Details["successor"] != next.ID.String() {
			t.Errorf("%s: closed names %v, the label %s", name, closed.Details, next.ID)
		}
		if again := enginetest.Add(t, e, s.ID, r); !again.Duplicate || again.Hash != stored.Hash {
			t.Errorf("%s: a retry of a stored turn: %+v", name, again)
		}
		got, _ := resetsOf(t, e, s.ID)
		if !slices.Equal(got, []string{"daily at 2026-05-02T04:00:00Z"}) {
			t.Errorf("%s: %q", name, got)
		}
	}
	enginetest.Verified(t, e)
}

// An idle reset comes so long after the newest turn. A session without a turn is left alone,
// and so is one that is reset by hand only.
func TestIdleResetComesAfterTheNewestTurn(t *testing.T) {
	w, c := enginetest.NewWorld(), new(resetClock)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	daemons := timedDaemons(t, w, c, 2)
	e := daemons[0]
	s, empty, manual := timedSession(t, e, "idle", `{"mode":"idle","idle_minutes":30}`), timedSession(t, e, "empty", `{"mode":"idle","idle_minutes":30}`), timedSession(t, e, "manual", `{"mode":"manual"}`)
	enginetest.Add(t, e, manual.ID, enginetest.Say("a", "b"))
	for range 3 {
		enginetest.Add(t, e, s.ID, enginetest.Say("a", "b"))
		c.add(20 * time.Minute)
		fireAll(t, daemons)
	}
	c.add(10*time.Minute - 1)
	fireAll(t, daemons)
	if got, _ := resetsOf(t, e, s.ID); len(got) != 0 {
		t.Errorf("too early: %q", got)
	}
	c.add(1)
	fireAll(t, daemons)
	if next, err := e.Resets.FireDue(t.Context()); err != nil || !next.IsZero() {
		t.Errorf("next is due at %v, %v", next, err)
	}
	fireAll(t, daemons)
	if got, _ := resetsOf(t, daemons[1], s.ID); !slices.Equal(got, []string{"idle at 2026-05-01T21:10:00Z"}) {
		t.Errorf("%q", got)
	}
	c.add(1000 * time.Hour)
	fireAll(t, daemons)
	for _, id := range []turns.ID{empty.ID, manual.ID} {
		if got, _ := resetsOf(t, e, id); len(got) != 0 {
			t.Errorf("%q", got)
		}
	}
	enginetest.Verified(t, e)
}

// A reset waits for a tool call that runs over the hour, so that its result reaches the
// session that made it; but not for ever.
func TestResetWaitsForOpenCalls(t *testing.T) {
	w, c := enginetest.NewWorld(), new(resetClock)
	daemons := timedDaemons(t, w, c, 2)
	e := daemons[0]
	for name, answered := range map[string]bool{"answered": true, "never answered": false} {
		c.set(utc(t, "2026-05-02T03:50:00Z"))
		s := timedSession(t, e, name, `{"mode":"daily"}`)
		enginetest.Add(t, e, s.ID, enginetest.CallTool("c"))
		c.set(utc(t, "2026-05-02T04:30:00Z"))
		fireAll(t, daemons)
		want := "daily at 2026-05-02T05:00:00Z"
		if answered {
			r := enginetest.AnswerCalls("c")
			done := turns.TextMessage(turns.Assistant, "done")
			r.Response = &done
			enginetest.Add(t, e, s.ID, r)
			want = "daily at 2026-05-02T04:00:00Z"
		} else {
			c.set(utc(t, "2026-05-02T05:00:00Z"))
		}
		fireAll(t, daemons)
		if got, _ := resetsOf(t, e, s.ID); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	enginetest.Verified(t, e)
}

// The rule of a policy holds for a session that has none of its own, and a rule that is no
// rule is refused.
func TestResetRuleIsTheSessionsElseThePolicys(t *testing.T) {
	w, c := enginetest.NewWorld(), new(resetClock)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	e := timedDaemons(t, w, c, 1)[0]
	open := func(rule string) *api.Session {
		r := api.CreateSession{}
		r.Policy = &api.Policy{Name: "gsv", Set: turns.Raw(`{"reset":{"mode":"daily","hour":23}}`)}
		if rule != "" {
			r.Reset = turns.Raw(rule)
		}
		s := enginetest.Must(e.Sessions.Create(t.Context(), enginetest.Alice, r, enginetest.JSON(r)))(t)
		enginetest.Add(t, e, s.ID, enginetest.Say("a", "b"))
		return enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t)
	}
	for rule, want := range map[string]string{"": "2026-05-01T23:00:00Z", `{"mode":"daily"}`: "2026-05-02T04:00:00Z", `{}`: "none", `{"mode":"idle","idle_minutes":1}`: "2026-05-01T20:01:00Z"} {
		got := "none"
		if s := open(rule); s.ResetDue != nil {
			got = time.Time(*s.ResetDue).UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("rule %q: due at %s, want %s", rule, got, want)
		}
	}
	for _, rule := range []string{`{"mode":"weekly"}`, `{"mode":"daily","time_zone":"Mars/Olympus"}`, `{"mode":"daily","time_zone":"Local"}`, `{"mode":"daily","time_zone":"../../etc/passwd"}`, `{"mode":"idle"}`, `[]`, `{"x":1}`} {
		r := api.CreateSession{}
		r.Reset = turns.Raw(rule)
		if _, err := e.Sessions.Create(t.Context(), enginetest.Alice, r, nil); enginetest.Code(err) != api.Malformed {
			t.Errorf("rule %s: %v", rule, err)
		}
	}
}

// A reset by hand wins over one that is due, and a close too.
func TestEndByHandKeepsItsCause(t *testing.T) {
	w, c := enginetest.NewWorld(), new(resetClock)
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	e := timedDaemons(t, w, c, 1)[0]
	s := timedSession(t, e, "x", `{"mode":"daily"}`)
	enginetest.Add(t, e, s.ID, enginetest.Say("a", "b"))
	c.add(24 * time.Hour)
	next := enginetest.Must(e.Sessions.Reset(t.Context(), enginetest.Alice, s.ID, api.ResetSession{Cause: "by hand"}, nil))(t)
	old := enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, s.ID, api.Read{}))(t)
	if old.Ended == nil || old.Ended.Cause != "by hand" || old.Ended.Due != nil || old.Successor != next.ID {
		t.Errorf("%+v", old.Ended)
	}
	if time.Time(old.Ended.Time) != c.now().UTC() {
		t.Errorf("ended at %v", old.Ended.Time)
	}
}

// A session of kind main is opened by an agent that the configuration grants it. Its fork
// and its successor keep the kind.
func TestKindMainIsGrantedByTheConfiguration(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	open := func() (*api.Session, error) {
		return e.Sessions.Create(t.Context(), enginetest.Alice, api.CreateSession{Kind: turns.Main}, []byte("{}"))
	}
	if _, err := open(); enginetest.Code(err) != api.Denied {
		t.Errorf("without a grant: %v", err)
	}
	e.Sessions.MayOpenMain = func(tenant, agent string) bool { return tenant == "default" && agent == "bob" }
	if _, err := open(); enginetest.Code(err) != api.Denied {
		t.Errorf("with another agent's grant: %v", err)
	}
	e.Sessions.MayOpenMain = func(tenant, agent string) bool { return tenant == "default" && agent == "alice" }
	s := enginetest.Must(open())(t)
	a := enginetest.Add(t, e, s.ID, enginetest.Say("a", "b"))
	fork := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s.ID, api.CreateFork{Turn: a.ID}, []byte("{}")))(t)
	next := enginetest.Must(e.Sessions.Reset(t.Context(), enginetest.Alice, s.ID, api.ResetSession{}, nil))(t)
	for what, got := range map[string]*api.Session{"session": s, "fork": fork, "successor": next} {
		if got.Kind != turns.Main {
			t.Errorf("the %s is of kind %q", what, got.Kind)
		}
	}
	enginetest.Verified(t, e)
}

// A clock that was ten years ahead for a moment costs a reset too many, and no rule its
// effect: once it is put back, and a turn is stored, resets are due as ever.
func TestAClockThatWasAheadEndsNoDailyReset(t *testing.T) {
	w, c := enginetest.NewWorld(), new(resetClock)
	c.set(utc(t, "2036-05-01T20:00:00Z"))
	daemons := timedDaemons(t, w, c, 2)
	s := timedSession(t, daemons[0], "ahead", `{"mode":"daily","hour":4}`)
	enginetest.Add(t, daemons[0], s.ID, enginetest.Say("hello", "hello"))
	c.set(utc(t, "2026-05-01T20:00:00Z"))
	fireAll(t, daemons)
	enginetest.Add(t, daemons[1], s.ID, enginetest.Say("still", "here"))
	c.set(utc(t, "2026-05-02T03:59:59Z"))
	fireAll(t, daemons)
	if got, _ := resetsOf(t, daemons[0], s.ID); len(got) != 0 {
		t.Errorf("too early: %q", got)
	}
	c.set(utc(t, "2026-05-02T04:00:00Z"))
	fireAll(t, daemons)
	if got, _ := resetsOf(t, daemons[0], s.ID); !slices.Equal(got, []string{"daily at 2026-05-02T04:00:00Z"}) {
		t.Errorf("resets: %q", got)
	}
	if v := enginetest.Verified(t, daemons[0]); v.Sessions != 2 {
		t.Errorf("%d sessions", v.Sessions)
	}
}
