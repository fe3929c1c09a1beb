package explorer_test

import (
	"net/http"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
)

// The pages of a session that was erased say so and show nothing of it; those of its fork go on.
func TestPagesOfAnErasedSession(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	if _, err := c.As(api.Operator).Erase(t.Context(), x.session, api.EraseSession{}); err != nil {
		t.Fatal(err)
	}
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	shows := func(page, path string) {
		for _, said := range []string{"Importing my real export", "store.py", "make test", "what could be slow", "import is slow"} {
			if strings.Contains(page, said) {
				t.Errorf("%s shows %q", path, said)
			}
		}
	}
	for _, path := range []string{"/ui/", "/ui/s/" + x.session.String(), "/ui/s/" + x.fork.String(), "/ui/search?q=real", "/ui/cost", "/ui/health"} {
		shows(b.page(path), path)
	}
	for _, path := range []string{"/t/" + x.first.String(), "/x/" + x.call.String(), "/c/" + x.compaction.String()} {
		path = "/ui/s/" + x.session.String() + path
		status, _, page := b.do(http.MethodGet, path, "")
		if shows(page, path); status != http.StatusGone && status != http.StatusOK || !strings.Contains(page, "erased") {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
	}
	b.has("/ui/s/"+x.session.String(), "erased")
	b.has("/ui/s/"+x.fork.String(), "second-try")
}
