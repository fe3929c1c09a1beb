package views_test

import (
	"net/http"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
)

// The pages of a session that was erased say so and show nothing of it; those of its fork go on.
func TestPagesOfAnErasedSession(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	if _, err := c.As(api.Operator).Erase(t.Context(), x.Session, api.EraseSession{}); err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	shows := func(page, path string) {
		for _, said := range []string{"Importing my real export", "store.py", "make test", "what could be slow", "import is slow"} {
			if strings.Contains(page, said) {
				t.Errorf("%s shows %q", path, said)
			}
		}
	}
	for _, path := range []string{"/ui/", "/ui/s/" + x.Session.String(), "/ui/s/" + x.Fork.String(), "/ui/search?q=real", "/ui/cost", "/ui/health"} {
		shows(b.Page(path), path)
	}
	for _, path := range []string{"/t/" + x.First.String(), "/x/" + x.Call.String(), "/c/" + x.Compaction.String()} {
		path = "/ui/s/" + x.Session.String() + path
		status, _, page := b.Ask(http.MethodGet, path, "")
		if shows(page, path); status != http.StatusGone && status != http.StatusOK || !strings.Contains(page, "erased") {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
	}
	b.Has("/ui/s/"+x.Session.String(), "erased")
	b.Has("/ui/s/"+x.Fork.String(), "second-try")
}
