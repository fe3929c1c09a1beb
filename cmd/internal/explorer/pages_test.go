package explorer_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

func TestEachPageShowsWhatItIsFor(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	ctx := t.Context()
	if _, err := c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: "The export is in UTF-16.", Session: x.Session}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.Raw(`{"subject":"slow again"}`)}); err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	s := "/ui/s/" + x.Session.String()
	b.Has("/ui/", "shelf: import is slow", "second-try", "sub-agent", "17 turns")
	b.Has("/ui/?folder=/home/ann", "shelf: import is slow")
	b.Has("/ui/?folder=/home/bob", "No session is like that")
	page := b.Has(s, "Turns and compactions 1–18 of 18", "Importing my real export", "<strong>store.py</strong>", "<b>Bash</b> <code>make test</code>", "failed · 301 lines", "&#43;2 −1", "Compaction", "forked here", "Sub-agents", "Asked here", `href="#t1"`)
	if strings.Contains(page, "a line of the output") {
		t.Error("the content of a large fold is on the page of the session")
	}
	if again := b.Page(s + "?from=5"); strings.Contains(again, `id="t4"`) || !strings.Contains(again, `id="t5"`) {
		t.Error("the window does not begin where it should")
	}
	b.Has(s+"/t/"+x.Call.String(), "Turn 2", "make test", "a line of the output", "sha256:", "Fork here as", "2,000")
	b.Has(s+"/t/"+x.Call.String()+"/b/r1", "a line of the output")
	b.Has(s+"/x/"+x.Edit.String(), "What the model read for turn 3", "kept word for word", "Since the call before, turn 2", "fingerprint", "As a policy would build it", "makes the same of what is stored")
	b.Has(s+"/x/"+x.Last.String(), "summary", "a compaction put its summary in place")
	b.Has(s+"/x/"+x.Compaction.String(), "What the model read for turn 17", "makes the same of what is stored")
	b.Has(s+"/c/"+x.Compaction.String(), "covers turns 1–", "What was lost", "What stands in its place", "before", "after")
	b.Has(s+"/compact", "Compact this session")
	b.Has("/ui/search?q=export", "<mark>", "turn 1")
	b.Has("/ui/diff/"+x.Session.String()+"/"+x.Fork.String(), "turns are the same", "nothing since")
	forked := explorertest.Add(t, c, x.Fork, "Importing my whole export takes minutes in sql.py.", "I look at it.").ID
	sides := b.Has("/ui/diff/"+x.Session.String()+"/"+x.Fork.String(), "The first <b class=\"num\">3</b> turns are the same", "turn 4", "no such turn", "<ins>Importing my whole export")
	if strings.Contains(sides, "Importing my real") {
		t.Error("a turn that both have is compared")
	}
	compared := b.Has("/ui/diff?a=shelf@1&b="+url.QueryEscape(x.Fork.String()+"/"+forked.String()), "turn 1 of shelf", "<del>real</del>", "<ins>whole</ins>", "<del>store</del>.py", "<ins>sql</ins>.py", "on the way to them")
	if strings.Contains(compared, "<ins>Importing") {
		t.Error("words that both have are marked")
	}
	b.Has("/ui/diff?a=shelf@1&b=shelf@1", "the same turn")
	for _, bad := range []string{"a=shelf@1&b=shelf", "a=shelf@99&b=shelf@1", "a=shelf@x&b=shelf@1", "a=nobody&b=shelf"} {
		if status, _, body := b.Ask(http.MethodGet, "/ui/diff?"+bad, ""); status < 400 || status >= 500 {
			t.Errorf("%s: %d\n%s", bad, status, body)
		}
	}
	if status, _, part := b.Ask(http.MethodGet, "/ui/search?q=export", "", "X-Fragment", "1"); status != 200 || strings.Contains(part, "<html") || !strings.Contains(part, "<mark>") || !strings.Contains(part, `class="body found"`) {
		t.Errorf("what is asked for while one types: %d\n%s", status, part)
	}
	b.Has(s+"/x/"+x.Last.String()+"?policy=gsv&budget=1000", "would show", "as built", `<option selected>gsv`, "Where the two differ")
	if status, _, _ := b.Ask(http.MethodGet, s+"/x/"+x.Last.String()+"?policy=nothing", ""); status != 200 {
		t.Errorf("a policy that is not there: %d", status)
	}
	b.Has("/ui/cost?by=model", "claude-opus-4-5", "How certain this is")
	b.Has("/ui/memory", "The export is in UTF-16.")
	b.Has("/ui/events", "mail")
	b.Has("/ui/events?channel=mail&of=main", "slow again")
	b.Has("/ui/health", "the ledger is sound")
	b.Has("/ui/keys", "beyond the estimate")
	for _, format := range []string{"html", "markdown", "jsonl"} {
		if status, h, body := b.Ask(http.MethodGet, s+"/export?format="+format, ""); status != 200 || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || len(body) < 1000 {
			t.Errorf("export as %s: %d, %d bytes", format, status, len(body))
		}
	}
	for _, path := range []string{"/ui/s/0", s + "/t/" + api.NewID().String(), "/ui/nothing", s + "/t/" + x.Call.String() + "/b/r99", s + "/t/" + x.Call.String() + "/i/r1"} {
		if status, _, _ := b.Ask(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// A page is bounded whatever is stored: a line of 10 MB, a turn of as many parts as one may have, a long session.
func TestPagesAreBounded(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	long := explorertest.Add(t, c, s.ID, strings.Repeat("x", 10<<20), "seen").ID
	var parts []turns.Part
	for i := range 4096 {
		parts = append(parts, turns.Part{Type: turns.Text, Content: fmt.Sprintf("part %d of many", i)})
	}
	a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: parts}}, Response: new(explorertest.Say(turns.Assistant, "many"))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		explorertest.Add(t, c, s.ID, fmt.Sprint("question ", i, strings.Repeat(" and more", 80)), strings.Repeat("**a** `b` and\n\n* more\n\n", 100))
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	base := "/ui/s/" + s.ID.String()
	for _, path := range []string{"/ui/", base, base + "?from=last", base + "?from=100", base + "?from=99999999999", base + "/t/" + a.ID.String(), base + "/t/" + a.ID.String() + "?p=4050", base + "/x/" + a.ID.String(), "/ui/search?q=more"} {
		if body := b.Page(path); len(body) > explorertest.MaxPage {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	if body := b.Page(base + "/t/" + long.String()); len(body) > explorertest.MaxPage || !strings.Contains(body, "more are not shown") && !strings.Contains(body, "more</a>") {
		t.Errorf("the page of a long line has %d bytes, or does not say that it is cut", len(body))
	}
	if body := b.Page(base + "/t/" + a.ID.String() + "?p=4050"); !strings.Contains(body, "part 4050 of many") || !strings.Contains(body, "Parts 4051–4097 of 4097") {
		t.Error("the last parts can't be reached")
	}
}
