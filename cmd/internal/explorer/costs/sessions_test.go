package costs_test

import (
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

// Each call has its own price: by its model, by its size, and by what it writes to the cache. So
// what a session costs is the sum of its turns, on every page, as ledgerctl cost has it; the totals of
// the session give another figure, and none where no model is set for all of it.
func TestTheCostOfASessionIsThatOfItsCalls(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []turns.ID
	for _, x := range []struct {
		model string
		usage turns.Usage
		meta  string
	}{ // above 200,000 tokens of input this model costs twice as much
		{"claude-sonnet-4-5", turns.Usage{InputTokens: 100_000, OutputTokens: 1000}, "{}"},
		{"claude-sonnet-4-5", turns.Usage{InputTokens: 100_000, OutputTokens: 1000}, "{}"},
		{"claude-opus-4-5", turns.Usage{InputTokens: 100_000, CacheCreation: 100_000, OutputTokens: 2000}, `{"usage":{"cache_creation_1h_input_tokens":100000}}`},
	} {
		m := explorertest.Say(turns.Assistant, "Yes.")
		a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{explorertest.Say(turns.User, "Is it?")}, Response: &m, Model: x.model, Usage: &x.usage, Meta: turns.Raw(x.meta)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	session := "/ui/s/" + s.ID.String()
	b.Shows("/ui/", "≈ $1.68")
	b.Has("/ui/", "≈ $1.68") // what was added up is kept
	b.Has(session, "≈ $1.68", "≈ $0.32", "≈ $1.05")
	b.Shows("/ui/cost?by=session", "≈ $1.68", "The dearest calls", session+"/t/"+ids[2].String(), "<b>missed</b>")
	b.Has("/ui/cost?by=month", "≈ $1.68")
	// The figure of a session leads to its calls, the dearest first, each with what its kinds of tokens cost.
	one := "/ui/cost?session=" + s.ID.String()
	b.Has(session, `href="`+one+`"`)
	b.Has("/ui/cost?by=session", `href="`+one+`"`)
	other, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	away := explorertest.Add(t, c, other.ID, "Elsewhere?", "Elsewhere.")
	page := b.Shows(one, "≈ $1.68", "<b>missed</b>", "$1.00", "$0.05", "$0.30", "$0.02", `href="`+session+`"`)
	if a, z := strings.Index(page, "/t/"+ids[2].String()), strings.Index(page, "/t/"+ids[0].String()); a < 0 || z < a {
		t.Errorf("the dearest call does not come first: %d, %d", a, z)
	}
	if strings.Contains(page, away.ID.String()) {
		t.Error("a call of another session is among them")
	}
	for path, want := range map[string]int{"/ui/cost?session=x": 404, "/ui/cost?session=" + api.NewID().String(): 404} {
		if status, _, _ := b.Ask("GET", path, ""); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	b.Has(session+"/t/"+ids[2].String(), "≈ $1.05")
	explorertest.Add(t, c, s.ID, "And?", "So.") // 0.00345: the sum is that of the session as it is now
	b.Shows(session, "≈ $1.68", "&lt; $0.01")
}

// A page waits for the cost of no long session, and says that it is being added up.
func TestAPageDoesNotWaitForTheCostOfALongSession(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	long, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for range 1001 {
		explorertest.Add(t, c, long.ID, "Is it?", "It is.") // 0.00295: without what the cache has, 300 tokens at 5, 900 at 0.5, 40 at 25 a million
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	session := "/ui/s/" + long.ID.String()
	first := b.Page(session)
	if !strings.Contains(first, "<dt>cost</dt><dd><small>being added up</small>") || strings.Contains(first, "≈ $2.95") {
		t.Error("the first page waited, or does not say why it has no cost")
	}
	b.Shows(session, "≈ $2.95")
	if page := b.Page(session); strings.Contains(page, "being added up") {
		t.Error("a page that has the cost says that it is being added up")
	}
}
