package views_test

import (
	"fmt"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

// What is shown of a compaction leads to it, without script.
func TestTheSignOfACompactionLeadsToIt(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.Session.String()
	k := s + "/c/" + x.Compaction.String()
	page := b.Has(s, `<a class="k-summary-text" href="#compactions">◆ 1</a>`, `<section id="compactions">`, fmt.Sprintf(`<a href="%s" aria-label="Compaction at turn 17">`, k))
	if n := strings.Count(page, `href="`+k+`"`); n < 4 { // in the tree, in the list, and twice where it is
		t.Errorf("%d links lead to the compaction", n)
	}
	b.Has(k, "Compaction at turn 17</h1>", `<a href="#lost">what was lost`, `<section id="lost">`)
}

// The page of a compaction lists some of the facts that were lost, and counts all of them.
func TestLostFactsAreCountedWhole(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for i := range 25 {
		paths = append(paths, fmt.Sprintf("/srv/data/file-%d.txt", i))
	}
	explorertest.Add(t, c, s.ID, "Which files are there?", strings.Join(paths, "\n"))
	made, err := c.Record(t.Context(), s.ID, api.RecordCompaction{Replacement: []turns.Message{explorertest.Say(turns.User, "There are files.")}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.LostFacts(t.Context(), s.ID, api.ListLost{ID: made.ID, Page: api.Page{Limit: 1000}})
	if err != nil || all.Next != "" || all.Count < 25 {
		t.Fatalf("%+v, %v", all, err)
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	b.Has("/ui/s/"+s.ID.String()+"/c/"+made.ID.String(), fmt.Sprintf(`<a href="#lost">what was lost: %d facts</a>`, all.Count), fmt.Sprintf(`What was lost: <span class="num">%d facts</span>, `, all.Count), " of them listed", `paths <span class="soft num">10 of 25</span>`, `class="num">turn 1</a><code>`)
}
