package live_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
)

// A stream says that something is new, and nothing of what it is.
func TestAStreamTellsOfNewTurnsWithoutTheirContent(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Base+"/ui/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := (&http.Client{Jar: b.Jar}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(a.Status)
	}
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() && lines.Text() != "" { // it is subscribed when it says anything
	}
	if open, _ := d.PagesInUse(); !open {
		t.Error("a page that follows is not in use")
	}
	explorertest.Add(t, c, x.Session, "word-of-the-person", "word-of-the-model")
	want := "data: " + x.Session.String() + " turn.appended"
	for lines.Scan() {
		if strings.Contains(lines.Text(), "word-of") {
			t.Fatal("the stream has content")
		}
		if lines.Text() == want {
			return
		}
	}
	t.Errorf("no %q: %v", want, lines.Err())
}

// A daemon that stops waits for no page that follows it.
func TestADaemonStopsUnderAnOpenPage(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	a, err := (&http.Client{Jar: b.Jar}).Get(b.Base + "/ui/live")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(a.Body); err != nil && !strings.Contains(err.Error(), "EOF") {
		t.Log("the stream ended:", err)
	}
}
