package views_test

import (
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

// The window of a context is that of the model that answered, where the transcript names one.
func TestAContextIsMeasuredByItsModel(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.Session.String()
	page := b.Has(s+"/x/"+x.Edit.String(), s+"/x/"+x.Call.String()+`">the call before, turn 2`, "(what the window of claude-opus-4-5, 200,000, leaves beside the answer; the session's budget is ", "Beyond the estimate: the provider counted", "new from here on")
	if strings.Contains(page, "is a guess") {
		t.Error("a context of a model that is known has a window that is a guess")
	}
	id := saidWhen(t, c, time.Now(), "")
	b.Has("/ui/s/"+id.String(), "of the session's budget, 182,000 by a guess")
}

// A page builds no context of more than 1,000 turns, and what a policy would make of a large one only if somebody asks.
func TestAPageBuildsNoContextThatIsTooLarge(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[int]string)
	for i := range 1010 {
		at[i+1] = explorertest.Add(t, c, s.ID, "Where is it?", "There.").ID.String()
	}
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	page := func(depth int) string { return "/ui/s/" + s.ID.String() + "/x/" + at[depth] }
	b.Has(page(150), "makes the same of what is stored", `>150</a>`, `>91</a>`)
	b.Has(page(300), "Pieces 480–599 of 599", "A context of 599 pieces is built when you ask for it", `>300</a>`, `>241</a>`)
	b.Has(page(300)+"?policy=balanced", "makes the same of what is stored")
	b.Has(page(300)+"?p=0", "Pieces 1–120 of 599", `>1</a>`, `>60</a>`)
	if got := b.Has(page(1005), "1,005</b> turns stand before the call that no compaction covers", `/ui/s/`+s.ID.String()+`?from=1005#t1005`); strings.Contains(got, "Pieces") {
		t.Error("a context that is too large is shown")
	}
	made, err := c.Compact(t.Context(), s.ID, api.RunCompaction{AtOnce: true, Budget: 20_000})
	if err != nil || made.Compaction == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	last := explorertest.Add(t, c, s.ID, "And now?", "Here.").ID.String()
	b.Has("/ui/s/"+s.ID.String()+"/x/"+last, "Pieces ", "summary")
	to := turns.MustParseID(at[1005])
	if _, err := c.Move(t.Context(), s.ID, api.MoveSession{To: &to}); err != nil {
		t.Fatal(err)
	}
	b.Has("/ui/s/"+s.ID.String()+"/x/"+last, "Pieces ", "summary") // what covers its turns is on its path, not on that of the head
}

// A piece of a context has the words of the legend.
func TestAPieceOfAContextIsNamedAsInTheLegend(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	page := b.Has("/ui/s/"+x.Session.String()+"/x/"+x.Last.String(), "<span>kept word for word</span></td>", "<td>messages sent</td>")
	if strings.Contains(page, "<span>verbatim</span>") || strings.Contains(page, "<th>half</th>") {
		t.Error("a piece has another word than the legend")
	}
}
