package explorer_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/cmd/internal/explorer/login"
	"nexus/ledger/api"
	"nexus/ledger/tlog"
)

// The page of the checkpoints says what is signed, how far it reaches, and where it is kept.
func TestThePageOfTheCheckpoints(t *testing.T) {
	out, data := t.TempDir(), t.TempDir()
	d, c := explorertest.Start(t, config.Config{Data: data, Checkpoint: config.CheckpointTable{Every: "1h", Out: []string{out, "/nowhere/<b>"}}})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})
	b.Has("/ui/health", "/ui/checkpoints")
	explorertest.Tame(t, "checkpoints", b.Has("/ui/checkpoints", "not covered yet", "/nowhere/&lt;b&gt;", "not yet", out, "Nothing was taken out", "and 1h have passed"))
	signed, err := c.As(api.Operator).Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := c.As(api.Operator).CheckpointKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := html.UnescapeString(b.Has("/ui/checkpoints", "▲ late", "✓ written", "a folder elsewhere lacks it", "no such file"))
	if !strings.Contains(page, signed.Note) || !strings.Contains(page, signed.Origin) || !strings.Contains(page, key.Key) || strings.Contains(page, "not covered yet") || !strings.Contains(page, "in the last minute") {
		t.Errorf("of %d events: %s", signed.Size, page)
	}
	if _, err := c.As(api.Operator).Erase(t.Context(), x.Session, api.EraseSession{Ground: "request-9"}); err != nil {
		t.Fatal(err)
	}
	b.Has("/ui/checkpoints", "request-9", "the session", "signed with the key above", "not covered yet")

	// A larger note of its own key, as of a folder that was put back, stops the signing; the page says why.
	text, err := os.ReadFile(filepath.Join(data, "checkpoint.key"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := tlog.ParseKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	larger, err := own.Sign(tlog.Checkpoint{Origin: signed.Origin, Size: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.As(api.Operator).Consistency(t.Context(), api.GetConsistency{From: 1, Note: string(larger)}); err == nil {
		t.Error("the note is taken")
	}
	b.Has("/ui/checkpoints", "nothing is signed any more", "rolled back", "1073741824")
}

// Without a folder elsewhere the page says how one is named.
func TestThePageOfTheCheckpointsWithoutAFolder(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	b.Has("/ui/checkpoints", "No folder is set", "out = [\"/mnt/other-disk/nexus\"]")
}

// Where nothing is signed, as on a NATS server of others, the page says that.
func TestThePageOfTheCheckpointsWhereNothingIsSigned(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	e := explorer.New(explorer.Config{Client: c, Now: time.Now})
	own := httptest.NewServer(e)
	defer own.Close()
	link, err := e.Open(own.URL, login.Who{Tenant: "default", Agent: api.Operator}, api.OpenPages{})
	if err != nil {
		t.Fatal(err)
	}
	b := explorertest.NewBrowser(t, d)
	b.Base = own.URL
	if status, _, _ := b.Ask(http.MethodPost, link.URL, ""); status != http.StatusSeeOther {
		t.Fatal(status)
	}
	b.Has("/ui/checkpoints", "signs no checkpoints")
}
