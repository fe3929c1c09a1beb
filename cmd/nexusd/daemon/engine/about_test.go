package engine_test

import (
	"strings"
	"testing"
	"time"

	"nexus/cmd/nexusd/daemon/engine/history"
	"nexus/ledger/api"
	"nexus/turns"
)

// A session is told apart by its title and by when its newest turn was said.
func TestAboutTellsSessionsApart(t *testing.T) {
	e := newWorld().Engine(t)
	said := time.Date(2025, 4, 29, 23, 50, 0, 0, time.UTC)
	at := func(r api.AppendTurn) api.AppendTurn { r.Time = (*api.Time)(&said); return r }
	about := func(id turns.ID) (string, string) {
		t.Helper()
		s := must(e.GetAbout(t.Context(), alice, id, api.GetSession{About: api.About{About: true}}))(t)
		when := ""
		if s.HeadTime != nil {
			when = time.Time(*s.HeadTime).Format(time.DateOnly)
		}
		var listed *api.Session
		for _, l := range must(e.List(t.Context(), alice, api.ListSessions{About: api.About{About: true}}))(t).Sessions {
			if l.ID == id {
				listed = &l
			}
		}
		if listed == nil || listed.Title != s.Title || (listed.HeadTime == nil) != (s.HeadTime == nil) {
			t.Errorf("the list says %+v, get %q", listed, s.Title)
		}
		return s.Title, when
	}
	check := func(what string, id turns.ID, title, when string) {
		t.Helper()
		if got, at := about(id); got != title || at != when {
			t.Errorf("%s: %q, %q; want %q, %q", what, got, at, title, when)
		}
	}
	s := create(t, e, 50_000, "nexus").ID
	check("no turn", s, "", "")
	add(t, e, s, at(say("<environment_context>x</environment_context>", "")))
	check("a program's words only", s, "<environment_context>x</environment_context>", "2025-04-29")
	first := add(t, e, s, at(say("mend  the\nroof", "done")))
	check("a user's words", s, "mend the roof", "2025-04-29")
	add(t, e, s, at(say(strings.Repeat("ä", 500), "done")))
	f := must(e.Fork(t.Context(), alice, s, api.CreateFork{Turn: first.ID}, canon("fork")))(t).ID
	check("a fork without turns", f, "mend the roof", "2025-04-29")
	add(t, e, f, at(say("and the "+strings.Repeat("ä", 500), "done")))
	check("a fork with its own", f, "and the "+strings.Repeat("ä", history.TitleRunes-9)+"…", "2025-04-29")
	set := api.SetSession{SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"title":"The roof","x":1}`)}}
	must(e.Set(t.Context(), alice, s, set, canon(set)))(t)
	check("a title", s, "The roof", "2025-04-29")
	set.Meta = turns.Raw(`{"title":7}`)
	must(e.Set(t.Context(), alice, s, set, canon(set)))(t)
	check("a title that is none", s, "mend the roof", "2025-04-29")
	if got := must(e.Get(t.Context(), alice, s, api.Read{}))(t); got.Title != "" || got.HeadTime != nil {
		t.Errorf("not asked for, and told: %q, %v", got.Title, got.HeadTime)
	}
}
