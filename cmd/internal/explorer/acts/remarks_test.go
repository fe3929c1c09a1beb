package acts_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
)

// What a page cannot be asked for is refused before anything of the ledger is read.
// What a person says of a session: a title, tags, a note on a turn, and that lists leave it out.
func TestAPersonSaysWhatASessionIs(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	at, turn := "/ui/s/"+x.Session.String(), "/ui/s/"+x.Session.String()+"/t/"+x.First.String()
	act := func(verb string, kv ...string) {
		t.Helper()
		if status, _, body := b.Ask(http.MethodPost, "/ui/do/"+verb, explorertest.Form(append([]string{"session", x.Session.String()}, kv...)...)); status != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", verb, status, body)
		}
	}
	act("describe", "title", "A quaint <title>", "tags", "zebra, apple ,, zebra")
	b.Has(at, "<h1>A quaint &lt;title&gt;", `value="A quaint &lt;title&gt;"`, `value="apple, zebra"`, `<span class="tag">zebra</span>`)
	b.Has("/ui/?title=zebra", "A quaint &lt;title&gt;")
	act("note", "turn", x.First.String(), "text", "here it begins")
	b.Has(turn, "<b>Note</b> here it begins")
	b.Has(at, "<b>Note</b> here it begins")
	if status, _, body := b.Ask(http.MethodPost, "/ui/do/note", explorertest.Form("session", x.Session.String(), "turn", x.First.String(), "text", strings.Repeat("a", 65<<10))); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "a form takes at most 64 KiB") {
		t.Errorf("a note of 65 KiB: %d\n%s", status, body)
	}
	act("note", "turn", x.First.String(), "text", "")
	if body := b.Page(turn); strings.Contains(body, "here it begins") {
		t.Error("a note that was taken away is shown")
	}
	act("hide", "hidden", "1")
	if body := b.Page("/ui/"); strings.Contains(body, "A quaint") {
		t.Error("a hidden session is listed")
	}
	b.Has("/ui/?hidden=1", "A quaint &lt;title&gt;", `<span class="tag">hidden</span>`)
	b.Has(at, "Show it in lists again")
	act("hide")
	b.Has("/ui/", "A quaint &lt;title&gt;")
	act("describe", "was_title", "A quaint <title>", "was_tags", "apple, zebra", "title", "", "tags", "")
	if body := b.Page(at); strings.Contains(body, "zebra") || strings.Contains(body, "quaint") {
		t.Error("what was taken back is shown")
	}
}

// A saved note says so, at its place; so does one that is taken back.
func TestASavedNoteSaysSo(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	turn := "/ui/s/" + x.Session.String() + "/t/" + x.Call.String()
	page := b.Page(turn)
	if at := strings.Index(page, "/ui/do/note"); at < 0 || at > strings.Index(page, "/ui/do/fork") {
		t.Error("the form of a note does not come first")
	}
	if strings.Contains(page, "✓ saved") {
		t.Error("nothing was saved yet")
	}
	for text, want := range map[string]string{"look here": "✓ saved", "": "✓ the note was taken back"} {
		form := url.Values{"session": {x.Session.String()}, "turn": {x.Call.String()}, "id": {api.NewID().String()}, "text": {text}}
		status, h, body := b.Ask(http.MethodPost, "/ui/do/note", form.Encode())
		if to := h.Get("Location"); status != http.StatusSeeOther || to != turn+"?noted#note" {
			t.Fatalf("%d, %s\n%s", status, to, body)
		}
		b.Has(turn+"?noted", want, `id="note"`, text)
	}
}
