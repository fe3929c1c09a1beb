package views_test

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// saidWhen makes a session whose only turn was said at a time.
func saidWhen(t *testing.T, c *client.Client, at time.Time, meta string) turns.ID {
	t.Helper()
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	m, claimed := explorertest.Say(turns.Assistant, "so"), api.Time(at)
	r := api.AppendTurn{Messages: []turns.Message{explorertest.Say(turns.User, "how?")}, Response: &m, Time: &claimed}
	if meta != "" {
		r.Meta = turns.Raw(meta)
	}
	if _, err := c.Append(t.Context(), s.ID, r); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

var (
	listed = regexp.MustCompile(`<a class="go" href="/ui/s/([0-9A-Z]+)`)
	older  = regexp.MustCompile(`<a href="([^"]+)" rel="next">Older</a>`)
)

// walk follows Older from a page on, and returns the sessions of each page. between runs between pages.
func walk(b *explorertest.Browser, from string, between func()) (ids [][]string) {
	for at := from; ; {
		page := b.Page(at)
		var list []string
		for _, m := range listed.FindAllStringSubmatch(page, -1) {
			list = append(list, m[1])
		}
		ids = append(ids, list)
		next := older.FindStringSubmatch(page)
		if next == nil {
			return ids
		}
		at = html.UnescapeString(next[1])
		between()
	}
}

// The ledger has sessions by their last change: an import stores old conversations after new ones. The
// list is by what its rows show, on all its pages, and paging neither repeats nor skips one.
func TestSessionsAreListedByTheirNewestTurn(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const n = 230
	said := make([]time.Time, n)
	want := make([]string, n)
	for i := range n { // stored in an order that is not that of the days
		k := i * 97 % n
		said[k] = day.AddDate(0, 0, -k)
		want[k] = saidWhen(t, c, said[k], "").String()
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	pages := walk(b, "/ui/", func() { saidWhen(t, c, day.Add(time.Hour), "") }) // what is said while somebody pages
	if got := slices.Concat(pages...); len(pages) != 3 || !slices.Equal(got, want) {
		t.Errorf("%d pages with %d sessions are not in the order of the %d newest turns", len(pages), len(got), len(want))
	}
	if got := slices.Concat(walk(b, "/ui/?state=closed", func() {})...); len(got) != 0 {
		t.Errorf("a filter lets %d through", len(got))
	}
	// Of too many sessions the list is the ledger's, and says so; its address has a place in that order.
	list, err := c.SessionPage(t.Context(), api.ListSessions{Order: "updated", Page: api.Page{Limit: 3}})
	if err != nil {
		t.Fatal(err)
	}
	page := b.Has("/ui/?after="+url.QueryEscape(list.Next), "In the order in which they changed in the ledger")
	if first := listed.FindStringSubmatch(page); first == nil || first[1] == want[0] {
		t.Errorf("the list of the ledger begins with %v", first)
	}
}

// A time that a transcript does not state is a bound in words, and no sign.
func TestABoundOfATimeIsInWords(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	at := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	saidWhen(t, c, at, `{"time_bound":"not_before"}`)
	saidWhen(t, c, at, `{"time_bound":"not_after"}`)
	none := saidWhen(t, c, time.Unix(0, 1), `{"time_bound":"not_before"}`)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	page := b.Has("/ui/", "after 3 Aug 2026<", "by 3 Aug 2026<", `title="the transcript does not say when">–<`)
	if strings.Contains(page, "unknown") || strings.ContainsAny(page, "≤≥") {
		t.Error("the list shows a sign for a bound")
	}
	b.Has("/ui/s/"+none.String(), `title="the transcript does not say when">–<`)
}

func TestTheListSaysWhatItIsToAFirstVisitor(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	id := saidWhen(t, c, time.Now(), "")
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	const intro = "What your agents did."
	b.Has("/ui/", intro)
	b.Page("/ui/s/" + id.String())
	if strings.Contains(b.Page("/ui/"), intro) {
		t.Error("who opened a session is told again")
	}
}

func TestHiddenSessionsAreFoundAlone(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	shown, hidden := saidWhen(t, c, time.Now(), "").String(), saidWhen(t, c, time.Now(), "")
	if _, err := c.Hide(t.Context(), hidden, api.HideSession{}); err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	for query, want := range map[string][]string{"": {shown}, "?hidden=1": {hidden.String(), shown}, "?hidden=only": {hidden.String()}} {
		got := slices.Concat(walk(b, "/ui/"+query, func() {})...)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %v, not %v", query, got, want)
		}
	}
}

// A ledger with too many sessions to read all of them for a page has them in its own order.
func TestTooManySessionsAreInTheOrderOfTheLedger(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	var makers sync.WaitGroup
	for range 25 {
		makers.Go(func() {
			for range 100 {
				if _, err := c.Create(t.Context(), api.CreateSession{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	makers.Wait()
	want := make([]string, 200)
	for i := range want {
		s, err := c.Create(t.Context(), api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		want[len(want)-1-i] = s.ID.String()
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	page := b.Has("/ui/", "In the order in which they changed in the ledger")
	var got []string
	for _, at := range []string{page, b.Page(html.UnescapeString(older.FindStringSubmatch(page)[1]))} {
		for _, m := range listed.FindAllStringSubmatch(at, -1) {
			got = append(got, m[1])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("two pages have %d sessions, not the newest 200 in their order", len(got))
	}
}
