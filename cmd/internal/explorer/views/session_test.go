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
	page := b.Has(s, `name="turn" inputmode="numeric"`, `placeholder="1–18"`)
	field, _, _ := strings.Cut(page[strings.Index(page, `name="turn"`):], ">")
	if strings.Contains(field, "value=") || !strings.Contains(field, "required") { // what is typed is the number
		t.Errorf("the field has %s", field)
	}
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
		x.Session: {"17", "Turns and compactions 1–18 of 18", "(17 turns and 1 compaction)", "from 3, 2 turns", "</a> <span class=\"soft\">17 turns"},
		x.Fork:    {"2 <small>from 3</small>", "Turns 1–5 of 5", "(3 of them from before the fork)", "from 3, 2 turns", "</a> <span class=\"soft\">17 turns"},
		x.Other:   {"1", "Turns 1–1 of 1"},
	} {
		page := b.Has("/ui/s/"+id.String(), want[1:]...)
		if got := stat.FindStringSubmatch(page); got == nil || got[1] != want[0] {
			t.Errorf("%s counts %q turns, want %s", id, got, want[0])
		}
	}
	b.Has("/ui/diff/"+x.Session.String()+"/"+x.Fork.String(), "since then: turns and compactions 4–18", "since then: turns 4–5")
}

// A further page of a session has the turns, and the way to the beginning; what the first page says of the session it does not say again.
func TestAFurtherPageOfASessionIsShort(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.Session.String()
	const top, stats = "to the beginning of the session", `<dl class="stats">`
	for path, isShort := range map[string]bool{s: false, s + "?from=1": false, s + "?from=last": false, s + "?from=5": true} {
		page := b.Page(path)
		if strings.Contains(page, top) != isShort || strings.Contains(page, stats) == isShort || !strings.Contains(page, "<aside") {
			t.Errorf("%s is short: %v, has what it is of: %v", path, strings.Contains(page, top), strings.Contains(page, stats))
		}
	}
}

// A new fork opens at its end, and says what it is and which calls of its last turn have no result.
func TestANewForkSaysWhatItIs(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	s := x.Session.String()
	for _, tc := range []struct {
		turn turns.ID
		has  string
		not  string
	}{
		{x.Call, "1 call without a result", ""},
		{x.First, "behind turn 1, which is in it", "without a result"},
	} {
		status, h, body := b.Ask(http.MethodPost, "/ui/do/fork", explorertest.Form("session", s, "turn", tc.turn.String(), "mode", "full", "label", "try"+tc.turn.String()[20:]))
		to, anchor, _ := strings.Cut(h.Get("Location"), "#")
		if status != http.StatusSeeOther || anchor != "made" {
			t.Fatalf("%d, %s\n%s", status, h.Get("Location"), body)
		}
		page := b.Has(to, `id="made"`, "✓ forked", "try"+tc.turn.String()[20:], tc.has, `href="/ui/s/`+s+`"`)
		if strings.LastIndex(page, `<article`) > strings.Index(page, `id="made"`) {
			t.Error("what was made does not stand behind the last turn")
		}
		if tc.not != "" && strings.Contains(page, tc.not) {
			t.Errorf("the page has %q", tc.not)
		}
		if strings.Contains(b.Page(strings.TrimSuffix(to, "&forked=1")), `id="made"`) {
			t.Error("a later view says it, too")
		}
	}
	b.Has("/ui/s/"+s+"/t/"+x.Call.String(), "Turn 2 is in the fork", "1 call of this turn would be without a result")
}
