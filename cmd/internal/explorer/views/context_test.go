package views_test

import (
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
)

// The window of a context is that of the model that answered, where the transcript names one.
func TestAContextIsMeasuredByItsModel(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	s := "/ui/s/" + x.Session.String()
	page := b.Has(s+"/x/"+x.Edit.String(), s+"/x/"+x.Call.String()+`">the call before, turn 2`, "the window of claude-opus-4-5 is 200,000", "Beyond the estimate: the provider counted", "new from here on")
	if strings.Contains(page, "is a guess") {
		t.Error("a context of a model that is known has a window that is a guess")
	}
	id := saidWhen(t, c, time.Now(), "")
	b.Has("/ui/s/"+id.String(), "182k, a guess")
}
