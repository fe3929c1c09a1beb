package explorer_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
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
	m, claimed := say(turns.Assistant, "so"), api.Time(at)
	r := api.AppendTurn{Messages: []turns.Message{say(turns.User, "how?")}, Response: &m, Time: &claimed}
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
func walk(b *browser, from string, between func()) (ids [][]string) {
	for at := from; ; {
		page := b.page(at)
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
	d, c := start(t, config.Config{})
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const n = 230
	said := make([]time.Time, n)
	want := make([]string, n)
	for i := range n { // stored in an order that is not that of the days
		k := i * 97 % n
		said[k] = day.AddDate(0, 0, -k)
		want[k] = saidWhen(t, c, said[k], "").String()
	}
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
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
	page := b.has("/ui/?after="+url.QueryEscape(list.Next), "In the order in which they changed in the ledger")
	if first := listed.FindStringSubmatch(page); first == nil || first[1] == want[0] {
		t.Errorf("the list of the ledger begins with %v", first)
	}
}

// A time that a transcript does not state is a bound in words, and no sign.
func TestABoundOfATimeIsInWords(t *testing.T) {
	d, c := start(t, config.Config{})
	at := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	saidWhen(t, c, at, `{"time_bound":"not_before"}`)
	saidWhen(t, c, at, `{"time_bound":"not_after"}`)
	none := saidWhen(t, c, time.Unix(0, 1), `{"time_bound":"not_before"}`)
	b := loggedIn(t, d, c, api.OpenPages{})
	page := b.has("/ui/", "after 3 Aug 2026<", "by 3 Aug 2026<", `title="the transcript does not say when">–<`)
	if strings.Contains(page, "unknown") || strings.ContainsAny(page, "≤≥") {
		t.Error("the list shows a sign for a bound")
	}
	b.has("/ui/s/"+none.String(), `title="the transcript does not say when">–<`)
}

func TestTheListSaysWhatItIsToAFirstVisitor(t *testing.T) {
	d, c := start(t, config.Config{})
	id := saidWhen(t, c, time.Now(), "")
	b := loggedIn(t, d, c, api.OpenPages{})
	const intro = "What your agents did."
	b.has("/ui/", intro)
	b.page("/ui/s/" + id.String())
	if strings.Contains(b.page("/ui/"), intro) {
		t.Error("who opened a session is told again")
	}
}

func TestHiddenSessionsAreFoundAlone(t *testing.T) {
	d, c := start(t, config.Config{})
	shown, hidden := saidWhen(t, c, time.Now(), "").String(), saidWhen(t, c, time.Now(), "")
	if _, err := c.Hide(t.Context(), hidden, api.HideSession{}); err != nil {
		t.Fatal(err)
	}
	b := loggedIn(t, d, c, api.OpenPages{})
	for query, want := range map[string][]string{"": {shown}, "?hidden=1": {hidden.String(), shown}, "?hidden=only": {hidden.String()}} {
		got := slices.Concat(walk(b, "/ui/"+query, func() {})...)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %v, not %v", query, got, want)
		}
	}
}

// What is shown of a compaction leads to it, without script.
func TestTheSignOfACompactionLeadsToIt(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.session.String()
	k := s + "/c/" + x.compaction.String()
	page := b.has(s, `<a class="k-summary-text" href="#compactions">◆ 1</a>`, `<section id="compactions">`, fmt.Sprintf(`<a href="%s" aria-label="Compaction at turn 17">`, k))
	if n := strings.Count(page, `href="`+k+`"`); n < 4 { // in the tree, in the list, and twice where it is
		t.Errorf("%d links lead to the compaction", n)
	}
	b.has(k, `<a href="#lost">what was lost`, `<section id="lost">`)
}

// The page of a compaction lists some of the facts that were lost, and counts all of them.
func TestLostFactsAreCountedWhole(t *testing.T) {
	d, c := start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for i := range 25 {
		paths = append(paths, fmt.Sprintf("/srv/data/file-%d.txt", i))
	}
	add(t, c, s.ID, "Which files are there?", strings.Join(paths, "\n"))
	made, err := c.Record(t.Context(), s.ID, api.RecordCompaction{Replacement: []turns.Message{say(turns.User, "There are files.")}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.LostFacts(t.Context(), s.ID, api.ListLost{ID: made.ID, Page: api.Page{Limit: 1000}})
	if err != nil || all.Next != "" || all.Count < 25 {
		t.Fatalf("%+v, %v", all, err)
	}
	b := loggedIn(t, d, c, api.OpenPages{})
	b.has("/ui/s/"+s.ID.String()+"/c/"+made.ID.String(), fmt.Sprintf(`<a href="#lost">what was lost: %d facts</a>`, all.Count), fmt.Sprintf(`What was lost: <span class="num">%d facts</span>, `, all.Count), " of them listed", `paths <span class="soft num">10 of 25</span>`)
}

// The form that goes to a turn lands on it: a browser without script keeps the fragment of where it is sent.
func TestGoLandsOnTheTurn(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.session.String()
	b.has(s, `name="turn" inputmode`)
	for asked, want := range map[string]string{"9": s + "?from=5#t9", "1": s + "?from=1#t1", "999": s + "?from=14#t18"} {
		if status, h, _ := b.do(http.MethodGet, s+"?turn="+asked, ""); status != http.StatusSeeOther || h.Get("Location") != want {
			t.Errorf("turn %s: %d, %s", asked, status, h.Get("Location"))
		}
	}
	b.has(s+"?turn=none", "Turns and compactions 1–18 of 18")
}

// The window of a context is that of the model that answered, where the transcript names one.
func TestAContextIsMeasuredByItsModel(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.session.String()
	page := b.has(s+"/x/"+x.edit.String(), s+"/x/"+x.call.String()+`">the call before, turn 2`, "the window of claude-opus-4-5 is 200,000", "Beyond the estimate: the provider counted", "new from here on")
	if strings.Contains(page, "is a guess") {
		t.Error("a context of a model that is known has a window that is a guess")
	}
	id := saidWhen(t, c, time.Now(), "")
	b.has("/ui/s/"+id.String(), "182k, a guess")
}

// A saved note says so, at its place; so does one that is taken back.
func TestASavedNoteSaysSo(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c, api.OpenPages{})
	turn := "/ui/s/" + x.session.String() + "/t/" + x.call.String()
	page := b.page(turn)
	if at := strings.Index(page, "/ui/do/note"); at < 0 || at > strings.Index(page, "/ui/do/fork") {
		t.Error("the form of a note does not come first")
	}
	if strings.Contains(page, "✓ saved") {
		t.Error("nothing was saved yet")
	}
	for text, want := range map[string]string{"look here": "✓ saved", "": "✓ the note was taken back"} {
		form := url.Values{"session": {x.session.String()}, "turn": {x.call.String()}, "id": {api.NewID().String()}, "text": {text}}
		status, h, body := b.do(http.MethodPost, "/ui/do/note", form.Encode())
		if to := h.Get("Location"); status != http.StatusSeeOther || to != turn+"?noted#note" {
			t.Fatalf("%d, %s\n%s", status, to, body)
		}
		b.has(turn+"?noted", want, `id="note"`, text)
	}
}

func TestTheThemeShowsWhichItIs(t *testing.T) {
	d, c := start(t, config.Config{})
	b := loggedIn(t, d, c, api.OpenPages{})
	sign := regexp.MustCompile(`(?s)<form class="theme".*?</form>`)
	seen := make(map[string]string)
	for _, theme := range []string{"auto", "dark", "light"} {
		b.do(http.MethodPost, "/ui/do/theme", "theme="+theme+"&back=/ui/")
		svg := regexp.MustCompile(`(?s)<svg.*</svg>`).FindString(sign.FindString(b.page("/ui/")))
		if other, ok := seen[svg]; ok || svg == "" {
			t.Errorf("%s looks like %s", theme, other)
		}
		seen[svg] = theme
	}
}

// A ledger with too many sessions to read all of them for a page has them in its own order.
func TestTooManySessionsAreInTheOrderOfTheLedger(t *testing.T) {
	d, c := start(t, config.Config{})
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
	b := loggedIn(t, d, c, api.OpenPages{})
	page := b.has("/ui/", "In the order in which they changed in the ledger")
	var got []string
	for _, at := range []string{page, b.page(html.UnescapeString(older.FindStringSubmatch(page)[1]))} {
		for _, m := range listed.FindAllStringSubmatch(at, -1) {
			got = append(got, m[1])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("two pages have %d sessions, not the newest 200 in their order", len(got))
	}
}

// The turns of a session are those of its own, without compactions, wherever they are counted; numbers count all on the way to the
// newest turn, and say so.
func TestTurnsAreCountedTheSameOnEachPage(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	for range 2 {
		add(t, c, x.fork, "And of the fork?", "It goes on.")
	}
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	list := b.page("/ui/")
	for id, want := range map[turns.ID]string{x.session: ">17 turns", x.fork: ">2 turns", x.other: ">1 turn<"} {
		_, row, _ := strings.Cut(list, `href="/ui/s/`+id.String())
		row, _, _ = strings.Cut(row, "</li>")
		if !strings.Contains(row, want) {
			t.Errorf("the list has no %q: %s", want, row)
		}
	}
	stat := regexp.MustCompile(`<dt>turns</dt><dd[^>]*>(.*?)</dd>`)
	for id, want := range map[turns.ID][]string{
		x.session: {"17", "Turns and compactions 1–18 of 18", "from 3, 2 turns", "</a> <span class=\"soft\">17 turns"},
		x.fork:    {"2 <small>from 3</small>", "Turns 1–5 of 5", "from 3, 2 turns", "</a> <span class=\"soft\">17 turns"},
		x.other:   {"1", "Turns 1–1 of 1"},
	} {
		page := b.has("/ui/s/"+id.String(), want[1:]...)
		if got := stat.FindStringSubmatch(page); got == nil || got[1] != want[0] {
			t.Errorf("%s counts %q turns, want %s", id, got, want[0])
		}
	}
	b.has("/ui/diff/"+x.session.String()+"/"+x.fork.String(), "since then: turns and compactions 4–18", "since then: turns 4–5")
}
