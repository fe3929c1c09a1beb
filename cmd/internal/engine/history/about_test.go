package history_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/enginetest"
	"nexus/cmd/internal/engine/history"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// A list shows the title of a session and the time of its newest turn.
func TestAboutShowsTitleAndTime(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	claimed := time.Date(2025, 4, 29, 23, 50, 0, 0, time.UTC)
	at := func(r api.AppendTurn) api.AppendTurn { r.Time = (*api.Time)(&claimed); return r }
	about := func(id turns.ID) (string, string) {
		t.Helper()
		s := enginetest.Must(e.History.GetAbout(t.Context(), enginetest.Alice, id, api.GetSession{About: api.About{About: true}}))(t)
		date := ""
		if s.HeadTime != nil {
			date = time.Time(*s.HeadTime).Format(time.DateOnly)
		}
		var listed *api.Session
		for _, l := range enginetest.Must(e.History.List(t.Context(), enginetest.Alice, api.ListSessions{About: api.About{About: true}}))(t).Sessions {
			if l.ID == id {
				listed = &l
			}
		}
		if listed == nil || listed.Title != s.Title || (listed.HeadTime == nil) != (s.HeadTime == nil) {
			t.Errorf("the list says %+v, get %q", listed, s.Title)
		}
		return s.Title, date
	}
	check := func(what string, id turns.ID, title, date string) {
		t.Helper()
		if got, at := about(id); got != title || at != date {
			t.Errorf("%s: %q, %q; want %q, %q", what, got, at, title, date)
		}
	}
	s := enginetest.Create(t, e, 50_000, "nexus").ID
	check("no turn", s, "", "")
	enginetest.Add(t, e, s, at(enginetest.Say("<environment_context>x</environment_context>", "")))
	check("a program's words only", s, "", "2025-04-29")
	skill := at(enginetest.Say("Read SKILL.md first.", ""))
	skill.Meta = turns.Raw(`{"program_messages":[0]}`)
	enginetest.Add(t, e, s, skill)
	check("words that the importer says a program wrote", s, "", "2025-04-29")
	given := at(enginetest.Say("what the parent said", "counted"))
	given.Messages = append(given.Messages, turns.TextMessage(turns.User, "count the  nails"))
	given.Messages[1].Parts[0].Ext = turns.Raw(`{"openai":{"agent_message":{"author":"/root","recipient":"/root/ira"}}}`)
	given.Meta = turns.Raw(`{"program_messages":[0,1]}`)
	child := enginetest.Create(t, e, 50_000, "nexus").ID
	enginetest.Add(t, e, child, given)
	check("an agent's task after what it was given", child, "count the nails", "2025-04-29")
	first := enginetest.Add(t, e, s, at(enginetest.Say("mend  the\nroof", "done")))
	check("a user's words", s, "mend the roof", "2025-04-29")
	enginetest.Add(t, e, s, at(enginetest.Say(strings.Repeat("ä", 500), "done")))
	f := enginetest.Must(e.Forks.Fork(t.Context(), enginetest.Alice, s, api.CreateFork{Turn: first.ID}, enginetest.JSON("fork")))(t).ID
	check("a fork without turns", f, "mend the roof", "2025-04-29")
	enginetest.Add(t, e, f, at(enginetest.Say("and the "+strings.Repeat("ä", 500), "done")))
	check("a fork with its own", f, "and the "+strings.Repeat("ä", history.TitleRunes-9)+"…", "2025-04-29")
	set := api.SetSession{SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"title":"The roof","x":1}`)}}
	enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, set, enginetest.JSON(set)))(t)
	check("a title", s, "The roof", "2025-04-29")
	secret := "gh" + "p_" + strings.Repeat("Ab3dE7gH", 5)
	set.Meta = turns.Raw(`{"title":"use ` + secret + `"}`)
	enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, set, enginetest.JSON(set)))(t)
	check("a title with a credential", s, "use "+strings.Repeat("*", len(secret)), "2025-04-29")
	j := enginetest.Create(t, e, 50_000, "nexus").ID
	enginetest.Add(t, e, j, at(enginetest.Say("<system-reminder>be kind</system-reminder>\n<div> is broken", "")))
	check("a program's words before a person's", j, "<div> is broken", "2025-04-29")
	k := enginetest.Create(t, e, 50_000, "nexus").ID
	enginetest.Add(t, e, k, at(enginetest.Say(strings.Repeat("x", history.TitleRunes-10)+" "+secret, "")))
	check("words with a credential at the cut", k, strings.Repeat("x", history.TitleRunes-10)+" "+strings.Repeat("*", 8)+"…", "2025-04-29")
	set.Meta = turns.Raw(`{"title":7}`)
	enginetest.Must(e.Sessions.Set(t.Context(), enginetest.Alice, s, set, enginetest.JSON(set)))(t)
	check("a title that is none", s, "mend the roof", "2025-04-29")
	if got := enginetest.Must(e.Reader.Get(t.Context(), enginetest.Alice, s, api.Read{}))(t); got.Title != "" || got.HeadTime != nil {
		t.Errorf("not asked for, and told: %q, %v", got.Title, got.HeadTime)
	}
}

// askedKeys counts the keys that are asked for; broken ones can't be read.
type askedKeys struct {
	content.Keys
	asked  int
	broken bool
}

func (k *askedKeys) Content(id turns.ID) (seal.Content, error) {
	if k.asked++; k.broken {
		return seal.Content{}, errors.New("a broken disk")
	}
	return k.Keys.Content(id)
}

// A list opens the bodies of a session once: a title and a time stay until the chain goes on, and go with
// the key. What could not be read is read again.
func TestAListReadsATitleOnce(t *testing.T) {
	e := enginetest.NewWorld().Engine(t)
	keys := &askedKeys{Keys: e.Store.Keys}
	e.Store.Keys = keys
	s := enginetest.Create(t, e, 50_000, "nexus").ID
	first := enginetest.Add(t, e, s, enginetest.Say("mend the roof", "done"))
	titles := func() (n int) { return e.Caches.Sizes()["titles"] }
	listed := func() string {
		t.Helper()
		list := enginetest.Must(e.History.List(t.Context(), enginetest.Operator, api.ListSessions{About: api.About{About: true}}))(t).Sessions
		if len(list) != 1 || list[0].HeadTime == nil {
			t.Fatalf("%+v", list)
		}
		return list[0].Title
	}
	keys.broken = true
	if got := listed(); got != "" || titles() != 0 {
		t.Errorf("what can't be read is kept: %q, %d bytes", got, titles())
	}
	keys.broken = false
	if got := listed(); got != "mend the roof" || titles() == 0 {
		t.Errorf("%q, %d bytes", got, titles())
	}
	asked := keys.asked
	for range 3 {
		if got := listed(); got != "mend the roof" || keys.asked != asked {
			t.Errorf("%q: %d keys were asked for", got, keys.asked-asked)
		}
	}
	redact := api.RedactTurn{ID: api.NewID(), Turn: first.ID}
	enginetest.Must(e.Erasure.Redact(t.Context(), enginetest.Operator, s, redact, enginetest.JSON(redact)))(t)
	if got := listed(); strings.Contains(got, "roof") {
		t.Errorf("what was taken out is listed: %q", got)
	}
	enginetest.Add(t, e, s, enginetest.Say("mend the door", "done"))
	if got := listed(); got != "[redacted]" && got != "mend the door" {
		t.Errorf("the next turn: %q", got)
	}
	enginetest.Must(e.Erasure.Erase(t.Context(), enginetest.Operator, s, api.EraseSession{}))(t)
	if got := listed(); got != "" || titles() != 0 {
		t.Errorf("an erased session: %q, %d bytes", got, titles())
	}
}
