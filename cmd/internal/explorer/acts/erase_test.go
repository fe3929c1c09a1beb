package acts_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
	"nexus/ledger/tlog"
	"nexus/turns"
)

var hiddenInputs = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// sends is what the form of a page sends.
func sends(page string) url.Values {
	form := make(url.Values)
	_, main, _ := strings.Cut(page, "<main")
	for _, m := range hiddenInputs.FindAllStringSubmatch(main, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	return form
}

// A session is erased with its forks, its sub-agents and the events that it answered, as a preview named them; without, those stay.
func TestASessionIsErasedWithWhatComesFromIt(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	ctx := t.Context()
	explorertest.Add(t, c, x.Fork, "Of the fork alone?", "It is.")
	event, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.Raw(`{"subject":"slow once more"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Append(ctx, x.Session, api.AppendTurn{Messages: []turns.Message{explorertest.Say(turns.User, "Answer the mail.")}, Meta: turns.Raw(`{"event":{"channel":"mail","id":"` + event.ID.String() + `"}}`)}); err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	b.Has("/ui/s/"+x.Session.String()+"/takeout", `name="forks"`, `name="agents" value="1" checked`, `name="events"`)
	state := func(id turns.ID) string {
		t.Helper()
		s, err := c.As(api.Operator).Session(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return s.State
	}
	post := func(form url.Values, want int) string {
		t.Helper()
		status, _, page := b.Ask(http.MethodPost, "/ui/do/takeout", form.Encode())
		if status != want {
			t.Fatalf("%d, want %d\n%s", status, want, page)
		}
		explorertest.Tame(t, "the answer", page)
		return page
	}
	form := url.Values{"session": {x.Session.String()}, "what": {"session"}, "forks": {"1"}, "agents": {"1"}, "events": {"1"}}
	preview := post(form, http.StatusOK)
	for _, want := range []string{"in 2 sessions that come from it", "fork <a href=\"/ui/s/" + x.Fork.String(), "sub-agent <a href=\"/ui/s/" + x.Other.String() + `">Find it.<`, "external events", "no way back", "would be done"} {
		if !strings.Contains(preview, want) {
			t.Errorf("the preview has no %q: %s", want, preview)
		}
	}
	sure := sends(preview)
	if sure.Get("sure") != "1" || len(sure.Get("as")) != 32 || sure.Get("forks") != "1" || sure.Get("agents") != "1" || sure.Get("events") != "1" {
		t.Fatalf("%v", sure)
	}
	for _, id := range []turns.ID{x.Session, x.Fork, x.Other} {
		if state(id) == "erased" {
			t.Fatal("a preview erases")
		}
	}
	name := "third-try"
	third, err := c.Fork(ctx, x.Session, api.CreateFork{Turn: x.First, Label: &name, Mode: "full"})
	if err != nil {
		t.Fatal(err)
	}
	post(sure, http.StatusConflict) // it names another set of sessions
	sure = sends(post(form, http.StatusOK))
	sure.Set("ground", "request-7")
	if done := post(sure, http.StatusOK); !strings.Contains(done, "The session is erased") || !strings.Contains(done, "Nor can that of 3 sessions") || strings.Contains(done, "Go on erasing") {
		t.Errorf("done: %s", done)
	}
	for _, id := range []turns.ID{x.Session, x.Fork, x.Other, third.ID} {
		if got := state(id); got != "erased" {
			t.Errorf("session %s is %s", id, got)
		}
	}
	if page := b.Page("/ui/events?channel=mail&of=main"); strings.Contains(page, "slow once more") {
		t.Error("the event that a turn answered is shown")
	}
	post(sure, http.StatusOK) // sent twice it is one act

	kept := explorertest.Tell(t, c.As("second"))
	form = url.Values{"session": {kept.Session.String()}, "what": {"session"}}
	if preview = post(form, http.StatusOK); strings.Contains(preview, "come from it") {
		t.Errorf("of the session alone: %s", preview)
	}
	post(sends(preview), http.StatusOK)
	if state(kept.Session) != "erased" || state(kept.Fork) != "open" || state(kept.Other) != "open" {
		t.Error("a session alone is not erased alone")
	}
}

// The key of a session is given away by two forms: one says what it opens, the other has the files.
func TestTheKeyOfASessionIsGivenAwayByAForm(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	b.Has("/ui/s/"+x.Session.String()+"/t/"+x.Call.String()+"/prove", `action="/ui/do/prove"`, "The key of the session")
	form := url.Values{"session": {x.Session.String()}, "turn": {x.Call.String()}}
	status, _, preview := b.Ask(http.MethodPost, "/ui/do/prove", form.Encode())
	if status != http.StatusOK || !strings.Contains(preview, "no way back") || !strings.Contains(preview, "17 turns") || !strings.Contains(preview, "each turn to come") {
		t.Fatalf("%d\n%s", status, preview)
	}
	explorertest.Tame(t, "the preview", preview)
	files := make(map[string]string)
	for _, file := range []string{"proof", "event"} {
		form.Set("sure", file)
		status, h, text := b.Ask(http.MethodPost, "/ui/do/prove", form.Encode())
		if status != http.StatusOK || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || !strings.Contains(h.Get("Content-Disposition"), "-key.proof") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: %d, %v\n%s", file, status, h, text)
		}
		files[file] = text
	}
	key, err := c.As(api.Operator).CheckpointKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proof, err := tlog.ParseProof([]byte(files["proof"]))
	if err != nil {
		t.Fatal(err)
	}
	e, err := tlog.ParseEvent([]byte(files["event"]))
	if err != nil || e.Key == nil {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := proof.Verify(e.Entry(), key.Key); err != nil {
		t.Error(err)
	}

	form.Del("sure")
	for who, r := range map[string]struct {
		as string
		r  api.OpenPages
	}{"a login that reads only": {api.Operator, api.OpenPages{ReadOnly: true}}, "an agent": {"main", api.OpenPages{}}} {
		other := explorertest.LoggedIn(t, d, c.As(r.as), r.r)
		if status, _, body := other.Ask(http.MethodPost, "/ui/do/prove", form.Encode()); status != http.StatusForbidden {
			t.Errorf("%s: %d\n%s", who, status, body)
		}
	}
	if page := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true}).Page("/ui/s/" + x.Session.String() + "/t/" + x.Call.String() + "/prove"); strings.Contains(page, "/ui/do/prove") {
		t.Error("a login that reads only is offered the key")
	}
	if _, err := c.As(api.Operator).Redact(t.Context(), x.Session, api.RedactTurn{Text: "my real export"}); err != nil {
		t.Fatal(err)
	}
	if status, _, body := b.Ask(http.MethodPost, "/ui/do/prove", form.Encode()); status != http.StatusUnprocessableEntity || !strings.Contains(body, "disclose turns") {
		t.Errorf("a session of which something was taken out: %d\n%s", status, body)
	}
}
