package acts_test

import (
	"net/http"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
)

func TestActsChangeTheLedgerOnce(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{Session: x.Session})
	s := x.Session.String()
	act := func(verb, form string) string {
		t.Helper()
		status, h, body := b.Ask(http.MethodPost, "/ui/do/"+verb, form)
		if status != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", verb, status, body)
		}
		return h.Get("Location")
	}
	fork := explorertest.Form("session", s, "turn", x.First.String(), "mode", "as_seen", "label", "third")
	if one, two := act("fork", fork), act("fork", fork); one != two || !strings.HasPrefix(one, "/ui/s/") {
		t.Errorf("a form that is sent twice: %s, %s", one, two)
	}
	if made, err := c.Resolve(t.Context(), "third"); err != nil || made.ForkedFrom.Turn != x.First {
		t.Errorf("%+v, %v", made, err)
	}
	act("label", explorertest.Form("session", s, "label", "renamed"))
	act("rewind", explorertest.Form("session", s, "turn", x.Edit.String(), "head", x.Last.String()))
	if now, err := c.Session(t.Context(), x.Session); err != nil || now.Label != "renamed" || *now.Head != x.Edit {
		t.Errorf("%+v, %v", now, err)
	}
	if status, _, _ := b.Ask(http.MethodPost, "/ui/do/rewind", explorertest.Form("session", s, "turn", x.First.String(), "head", x.Last.String())); status != http.StatusConflict {
		t.Errorf("a rewind of a head that is another by now: %d", status)
	}
	act("rewind", explorertest.Form("session", s, "turn", x.Last.String()))
	act("close", explorertest.Form("session", s))
	if now, err := c.Session(t.Context(), x.Session); err != nil || now.State != "closed" {
		t.Errorf("%+v, %v", now, err)
	}
}
