package explorer_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
)

// A text is taken out by two forms: one says what it reaches and changes nothing, the other does it; then no page of the session
// shows it, and the rest stays.
func TestATextIsTakenOutByAForm(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	session, turn := "/ui/s/"+x.session.String(), "/ui/s/"+x.session.String()+"/t/"+x.first.String()
	b.has(session, session+"/takeout")
	b.has(turn, turn+"/takeout", "my real export")
	b.has(session+"/takeout", "The whole session", "A text, wherever")
	b.has(turn+"/takeout", "All that turn 1 says")

	form := url.Values{"session": {x.session.String()}, "text": {"my real export"}}
	post := func(want int) string {
		status, h, page := b.do(http.MethodPost, "/ui/do/takeout", form.Encode())
		if status != want || h.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d, want %d\n%s", status, want, page)
		}
		return page
	}
	preview := post(http.StatusOK)
	if !strings.Contains(preview, "no way back") || !strings.Contains(preview, `name="sure"`) || !strings.Contains(preview, turn) {
		t.Errorf("the preview: %s", preview)
	}
	b.has(turn, "my real export")
	form.Set("sure", "1")
	form.Set("ground", "leak-3")
	if done := post(http.StatusOK); !strings.Contains(done, "stand in") || strings.Contains(done, "my real export") || !strings.Contains(done, "key") {
		t.Errorf("done: %s", done)
	}
	for _, path := range []string{"/ui/", session, turn, "/ui/s/" + x.fork.String(), "/ui/s/" + x.session.String() + "/x/" + x.call.String(), "/ui/s/" + x.session.String() + "/c/" + x.compaction.String()} {
		if page := b.page(path); strings.Contains(page, "my real export") {
			t.Errorf("%s shows it", path)
		}
	}
	b.has(turn, "[redacted]")
	if again := post(http.StatusOK); !strings.Contains(again, "has nothing of it") {
		t.Errorf("again: %s", again)
	}
	form = url.Values{"session": {x.session.String()}, "turn": {x.first.String()}}
	if preview := post(http.StatusOK); !strings.Contains(preview, "All that turn 1 says") {
		t.Errorf("of a turn: %s", preview)
	}
	form = url.Values{"session": {x.session.String()}, "whole": {"1"}}
	if preview := post(http.StatusOK); !strings.Contains(preview, "All that was said in this session") {
		t.Errorf("of the session: %s", preview)
	}
	form.Set("sure", "1")
	if done := post(http.StatusOK); !strings.Contains(done, "The session is erased") {
		t.Errorf("erased: %s", done)
	}
}

// Only an operator who may change takes something out, by a form of these pages.
func TestWhoTakesSomethingOut(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	form := url.Values{"session": {x.session.String()}, "text": {"my real export"}, "sure": {"1"}}.Encode()
	path := "/ui/s/" + x.session.String() + "/takeout"
	for name, b := range map[string]*browser{"an agent": loggedIn(t, d, c, api.OpenPages{}), "a reader": loggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})} {
		if status, _, page := b.do(http.MethodPost, "/ui/do/takeout", form); status != http.StatusForbidden {
			t.Errorf("%s: %d\n%s", name, status, page)
		}
		if status, _, _ := b.do(http.MethodGet, path, ""); status != http.StatusForbidden {
			t.Errorf("%s sees the form: %d", name, status)
		}
		if strings.Contains(b.page("/ui/s/"+x.session.String()), path) {
			t.Errorf("%s is shown the way", name)
		}
	}
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	if status, _, _ := b.do(http.MethodPost, "/ui/do/takeout", form, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("another site: %d", status)
	}
	b.has("/ui/s/"+x.session.String()+"/t/"+x.first.String(), "my real export")
}
