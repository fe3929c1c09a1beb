package explorer_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/turns"
)

// The transcripts that vanished are listed with the sessions that have what they held, for the
// operator alone: the list names files of the machine.
func TestVanishedTranscriptsAreListedForTheOperator(t *testing.T) {
	var session turns.ID
	d, c := explorertest.Start(t, config.Config{Vanished: func() ([]config.VanishedFile, error) {
		return []config.VanishedFile{{File: "/home/ann/old.jsonl", Agent: "claude"}, {File: "/home/ann/<b>.jsonl", Agent: "codex", Session: session, Kept: 2048, Lost: 1024, Gone: time.Now().Add(-3 * time.Hour)}}, nil
	}})
	session = explorertest.Tell(t, c).Session
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	page := b.Has("/ui/vanished", "/home/ann/&lt;b&gt;.jsonl", "/home/ann/old.jsonl", "/ui/s/"+session.String(), "2.0 KiB", "its last 1.0 KiB were not in the ledger", "3 h")
	if strings.Index(page, "old.jsonl") < strings.Index(page, "b&gt;.jsonl") {
		t.Error("the newest is not first")
	}
	b.Has("/ui/", `href="/ui/vanished"`)
	agent := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	if status, _, body := agent.Ask(http.MethodGet, "/ui/vanished", ""); status != http.StatusForbidden || strings.Contains(body, "old.jsonl") {
		t.Errorf("an agent: %d\n%s", status, body)
	}
	if strings.Contains(agent.Page("/ui/"), "vanished") {
		t.Error("an agent is shown the way to it")
	}
}
