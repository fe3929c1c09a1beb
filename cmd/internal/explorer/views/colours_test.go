package views_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
)

// The code of an answer has colours on the pages of its session and its turn, by classes alone; what no language is named of, and what
// is no answer, is plain.
func TestCodeHasColoursOnPages(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	code := "```go\nfunc f() string { return \"<script>alert(1)</script>\" }\n```"
	a := explorertest.Add(t, c, s.ID, "Write f. Not so: "+code, "So:\n\n"+code+"\n\n```\nfunc plain() {}\n```\n\n```mermaid\ngraph TD\n```\n")
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	session := "/ui/s/" + s.ID.String()
	for _, path := range []string{session, session + "/t/" + a.ID.String()} {
		page := b.Page(path)
		explorertest.Tame(t, path, page)
		if !strings.Contains(page, `<span class="k">func</span> <span class="f">f</span>() <span class="t">string</span> { <span class="k">return</span> <span class="s">&#34;&lt;script&gt;alert(1)&lt;/script&gt;&#34;</span> }`) ||
			strings.Count(page, `<span class="k">func`) != 1 || !strings.Contains(page, "<pre><code>func plain() {}\n</code></pre>") {
			t.Errorf("%s: %s", path, page)
		}
	}
	if _, _, exported := b.Ask("GET", session+"/export?format=html", ""); strings.Contains(exported, `class="k"`) {
		t.Error("an exported page has classes that its style does not know")
	}
}

// A page keeps its bound of bytes, whatever its code is: colours go first.
func TestColoursKeepTheBoundsOfAPage(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	large, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		explorertest.Add(t, c, large.ID, fmt.Sprint("file ", i), "```go\n"+strings.Repeat("x := f(1)\n", 2500)+"```\n")
		explorertest.Add(t, c, bad.ID, fmt.Sprint("file ", i), "```json\n"+fmt.Sprint(i)+`"`+strings.Repeat(`\\`, 1500)+"\n```\n")
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	tags := regexp.MustCompile(`<[^>]*>`)
	for _, id := range []string{large.ID.String(), bad.ID.String()} {
		page := b.Page("/ui/s/" + id)
		if len(page) > 300_000 {
			t.Errorf("%d bytes", len(page))
		}
	}
	for at := 1; at <= 40; at += 13 { // a page of a turn has all of it, with colours or without
		turn, err := c.TurnPage(t.Context(), large.ID, api.ListTurns{From: uint64(at), Page: api.Page{Limit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		page := b.Page("/ui/s/" + large.ID.String() + "/t/" + turn.Turns[0].ID.String())
		if got := html.UnescapeString(tags.ReplaceAllString(page, "")); len(page) > 300_000 || strings.Count(got, "x := f(1)\n") != 2500 {
			t.Errorf("the page of turn %d has %d bytes and %d lines of its code", at, len(page), strings.Count(got, "x := f(1)\n"))
		}
	}
}
