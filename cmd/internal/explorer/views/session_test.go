package views_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

// The form that goes to a turn lands on it: a browser without script keeps the fragment of where it is sent.
func TestGoLandsOnTheTurn(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.Session.String()
	b.Has(s, `name="turn" inputmode`)
	for asked, want := range map[string]string{"9": s + "?from=5#t9", "1": s + "?from=1#t1", "999": s + "?from=14#t18"} {
		if status, h, _ := b.Ask(http.MethodGet, s+"?turn="+asked, ""); status != http.StatusSeeOther || h.Get("Location") != want {
			t.Errorf("turn %s: %d, %s", asked, status, h.Get("Location"))
		}
	}
	b.Has(s+"?turn=none", "Turns and compactions 1–18 of 18")
}

// The turns of a session are those of its own, without compactions, wherever they are counted; numbers count all on the way to the
// newest turn, and say so.
func TestTurnsAreCountedTheSameOnEachPage(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	for range 2 {
		explorertest.Add(t, c, x.Fork, "And of the fork?", "It goes on.")
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	list := b.Page("/ui/")
	for id, want := range map[turns.ID]string{x.Session: ">17 turns", x.Fork: ">2 turns", x.Other: ">1 turn<"} {
		_, row, _ := strings.Cut(list, `href="/ui/s/`+id.String())
		row, _, _ = strings.Cut(row, "</li>")
		if !strings.Contains(row, want) {
			t.Errorf("the list has no %q: %s", want, row)
		}
	}
	stat := regexp.MustCompile(`<dt>turns</dt><dd[^>]*>(.*?)</dd>`)
	for id, want := range map[turns.ID][]string{
		x.Session: {"17", "Turns and compactions 1–18 of 18", "from 3, 2 turns", "</a> <span class=\"soft\">17 turns"},
		x.Fork:    {"2 <small>from 3</small>", "Turns 1–5 of 5", "from 3, 2 turns", "</a> <span class=\"soft\">17 turns"},
		x.Other:   {"1", "Turns 1–1 of 1"},
	} {
		page := b.Has("/ui/s/"+id.String(), want[1:]...)
		if got := stat.FindStringSubmatch(page); got == nil || got[1] != want[0] {
			t.Errorf("%s counts %q turns, want %s", id, got, want[0])
		}
	}
	b.Has("/ui/diff/"+x.Session.String()+"/"+x.Fork.String(), "since then: turns and compactions 4–18", "since then: turns 4–5")
}
