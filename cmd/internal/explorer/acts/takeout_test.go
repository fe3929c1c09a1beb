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
	"nexus/turns"
)

// A text is taken out by two forms: one says what it reaches and changes nothing, the other does it; then no page of the session
// shows it, and the rest stays.
func TestATextIsTakenOutByAForm(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	session, turn := "/ui/s/"+x.Session.String(), "/ui/s/"+x.Session.String()+"/t/"+x.First.String()
	b.Has(session, session+"/takeout")
	b.Has(turn, turn+"/takeout", "my real export")
	b.Has(session+"/takeout", "The whole session", "A text, wherever")
	if page := b.Has(turn+"/takeout", "All that turn 1 says", "Parts of turn 1"); strings.Contains(page, "The turn is of session") {
		t.Error("a turn of the session itself is said to be of another")
	}

	form := url.Values{"session": {x.Session.String()}, "what": {"text"}, "text": {"my real export"}}
	post := func(want int) string {
		status, h, page := b.Ask(http.MethodPost, "/ui/do/takeout", form.Encode())
		if status != want || h.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d, want %d\n%s", status, want, page)
		}
		return page
	}
	preview := post(http.StatusOK)
	if !strings.Contains(preview, "no way back") || !strings.Contains(preview, "would be done") || !strings.Contains(preview, `name="sure"`) || !strings.Contains(preview, turn) {
		t.Errorf("the preview: %s", preview)
	}
	b.Has(turn, "my real export")
	form.Set("sure", "1")
	form.Set("ground", "leak-3")
	if done := post(http.StatusOK); !strings.Contains(done, "stand in") || strings.Contains(done, "my real export") || !strings.Contains(done, "key") {
		t.Errorf("done: %s", done)
	}
	for _, path := range []string{"/ui/", session, turn, "/ui/s/" + x.Fork.String(), "/ui/s/" + x.Session.String() + "/x/" + x.Call.String(), "/ui/s/" + x.Session.String() + "/c/" + x.Compaction.String()} {
		if page := b.Page(path); strings.Contains(page, "my real export") {
			t.Errorf("%s shows it", path)
		}
	}
	b.Has(turn, "[redacted]")
	if again := post(http.StatusOK); !strings.Contains(again, "Nothing of it is left") {
		t.Errorf("again: %s", again)
	}
	form = url.Values{"session": {x.Session.String()}, "turn": {x.First.String()}, "what": {"turn"}}
	if preview := post(http.StatusOK); !strings.Contains(preview, "All that turn 1 says") {
		t.Errorf("of a turn: %s", preview)
	}
	form = url.Values{"session": {x.Session.String()}, "what": {"session"}}
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
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	form := url.Values{"session": {x.Session.String()}, "what": {"text"}, "text": {"my real export"}, "sure": {"1"}}.Encode()
	path := "/ui/s/" + x.Session.String() + "/takeout"
	for name, b := range map[string]*explorertest.Browser{"an agent": explorertest.LoggedIn(t, d, c, api.OpenPages{}), "a reader": explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})} {
		for _, verb := range []string{"takeout", "takeout-everywhere"} {
			if status, _, page := b.Ask(http.MethodPost, "/ui/do/"+verb, form); status != http.StatusForbidden {
				t.Errorf("%s, %s: %d\n%s", name, verb, status, page)
			}
		}
		for _, path := range []string{path, "/ui/takeout"} {
			if status, _, _ := b.Ask(http.MethodGet, path, ""); status != http.StatusForbidden {
				t.Errorf("%s sees the form: %d", name, status)
			}
		}
		if strings.Contains(b.Page("/ui/s/"+x.Session.String()), path) || strings.Contains(b.Page("/ui/"), "/ui/takeout") {
			t.Errorf("%s is shown the way", name)
		}
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	for _, verb := range []string{"takeout", "takeout-everywhere"} {
		for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://127.0.0.1:1"}} {
			if status, _, _ := b.Ask(http.MethodPost, "/ui/do/"+verb, form, header[:]...); status != http.StatusForbidden {
				t.Errorf("%s, %s: %d", verb, header, status)
			}
		}
	}
	b.Has("/ui/s/"+x.Session.String()+"/t/"+x.First.String(), "my real export")
}

// Parts of a turn are chosen by their numbers: what is taken out is these, and of an inherited turn it is so in its own session.
func TestPartsAreTakenOutByAForm(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	fork, turn := "/ui/s/"+x.Fork.String(), "/ui/s/"+x.Fork.String()+"/t/"+x.Call.String()
	b.Has(turn+"/takeout", "Parts of turn 2", `name="part" value="2"`, "asked by the user", "reasoning", "call of Bash", "make test", "of session <a href=\"/ui/s/"+x.Session.String())
	form := url.Values{"session": {x.Fork.String()}, "turn": {x.Call.String()}, "what": {"parts"}}
	post := func(want int) string {
		t.Helper()
		status, _, page := b.Ask(http.MethodPost, "/ui/do/takeout", form.Encode())
		if status != want {
			t.Fatalf("%d, want %d\n%s", status, want, page)
		}
		return page
	}
	post(http.StatusBadRequest) // none is chosen: that is not the whole turn
	form["part"] = []string{"0"}
	post(http.StatusBadRequest)
	form["part"] = []string{"2", "1", "2"}
	if preview := post(http.StatusOK); !strings.Contains(preview, "Of turn 2, parts 1, 2 would be taken out") || !strings.Contains(preview, `name="part" value="2"`) {
		t.Errorf("the preview: %s", preview)
	}
	b.Has(turn, "what could be slow", "make test", "Go on.")
	form["sure"], form["id"] = []string{"1"}, []string{api.NewID().String()}
	for _, want := range []string{"2 markers stand in 1 event", "Nothing of it is left"} { // a form that is sent twice is one act
		if done := post(http.StatusOK); !strings.Contains(done, want) {
			t.Errorf("no %q: %s", want, done)
		}
	}
	for _, page := range []string{b.Has(turn, "make test", "[redacted]"), b.Page("/ui/s/" + x.Session.String() + "/t/" + x.Call.String()), b.Page(fork)} {
		if strings.Contains(page, "what could be slow") || strings.Contains(page, "Go on.") {
			t.Error("a page shows it")
		}
	}
	b.Has(turn+"/takeout", "something was taken out")
	if page := b.Page(turn + "/prove"); strings.Contains(page, "part=1\"") || !strings.Contains(page, "part=3") {
		t.Error("a part that is gone can be shown, or one that stays can't")
	}
	for name, form := range map[string]url.Values{"what is not said": {"session": {x.Session.String()}, "text": {"store"}}, "no text": {"session": {x.Session.String()}, "what": {"text"}}, "no turn": {"session": {x.Session.String()}, "what": {"turn"}}} {
		if status, _, page := b.Ask(http.MethodPost, "/ui/do/takeout", form.Encode()); status != http.StatusBadRequest {
			t.Errorf("%s: %d\n%s", name, status, page)
		}
	}
}

// A text is taken out of one part: of what was asked, or of a string of a call. What other parts repeat stays, and a form of before takes
// nothing out of what changed since.
func TestATextIsTakenOutOfOnePartByAForm(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("a line of the output\n", 20_000) + "door 7351\n"
	asked := turns.Message{Role: turns.User, Parts: []turns.Part{turns.TextPart("The door is 7351, not 7352; 7351!"), turns.TextPart("7351 <b>opens</b> it."), turns.TextPart(large)}}
	answer := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c1", Name: "Bash", Arguments: turns.Raw(`{"command":"open \"7351\"","note":"Zo\u00eb: 7351"}`)}}}
	a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{asked}, Response: &answer})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Fork(ctx, s.ID, api.CreateFork{Turn: a.ID, Mode: "full"})
	if err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	turn := "/ui/s/" + f.ID.String() + "/t/" + a.ID.String()
	b.Has(turn+"/takeout", "A text in one part of turn 1", `<option value="2">2: asked by the user</option>`, `<option value="4">4: call of Bash</option>`)
	hidden := regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)
	post := func(want int, form url.Values) (page string, next url.Values) { // the page, and what its form sends
		t.Helper()
		status, _, page := b.Ask(http.MethodPost, "/ui/do/takeout", form.Encode())
		if status != want {
			t.Fatalf("%d, want %d\n%s", status, want, page)
		}
		explorertest.Tame(t, "the answer", page)
		next = url.Values{"text": form["text"]}
		_, main, _ := strings.Cut(page, "<main")
		for _, m := range hidden.FindAllStringSubmatch(main, -1) {
			next.Set(m[1], html.UnescapeString(m[2]))
		}
		return page, next
	}
	of := func(part, text string) url.Values {
		return url.Values{"session": {f.ID.String()}, "turn": {a.ID.String()}, "what": {"span"}, "part": {part}, "text": {text}}
	}
	page, sure := post(http.StatusOK, of("1", "7351"))
	if !strings.Contains(page, "The text stands 2 times in part 1 of turn 1") || !strings.Contains(page, "no way back") || !strings.Contains(page, "of session <a href=\"/ui/s/"+s.ID.String()) || sure.Get("sure") != "1" || sure.Get("part") != "1" || len(sure.Get("as")) != 64 {
		t.Errorf("the preview: %s", page)
	}
	b.Has(turn, "The door is 7351, not 7352; 7351!")
	if page, _ := post(http.StatusOK, sure); !strings.Contains(page, "2 markers stand in 1 event") {
		t.Errorf("done: %s", page)
	}
	b.Has(turn, "The door is [redacted], not 7352; [redacted]!", "7351 &lt;b&gt;opens")
	b.Has("/ui/s/"+s.ID.String(), "The door is [redacted], not 7352")
	if page, _ := post(http.StatusOK, sure); !strings.Contains(page, "Nothing of it is in part 1 of turn 1") { // sent twice
		t.Errorf("again: %s", page)
	}

	_, old := post(http.StatusOK, of("2", "opens</b> it."))
	_, sure = post(http.StatusOK, of("2", "7351 <b>"))
	post(http.StatusOK, sure)
	post(http.StatusConflict, old) // its bytes are others by now
	b.Has(turn, "[redacted]opens&lt;/b&gt; it.")

	for _, text := range []string{`open "7351"`, "Zoë"} { // as one reads it, not as JSON has it
		page, sure = post(http.StatusOK, of("4", text))
		if !strings.Contains(page, "stands 1 time in part 4") {
			t.Errorf("%s: %s", text, page)
		}
		post(http.StatusOK, sure)
	}
	if got, err := c.Turn(ctx, s.ID, a.ID); err != nil || string(got.Response.Parts[0].Arguments) != `{"command":"[redacted]","note":"[redacted]: 7351"}` {
		t.Errorf("the call: %+v, %v", got, err)
	}
	_, sure = post(http.StatusOK, of("3", "door 7351")) // large content, in a blob
	post(http.StatusOK, sure)
	if page, _ := post(http.StatusOK, of("3", "door 7351")); !strings.Contains(page, "Nothing of it is in part 3") {
		t.Errorf("of large content: %s", page)
	}

	bad := func(change func(url.Values)) url.Values {
		form := of("2", "opens")
		change(form)
		return form
	}
	for name, form := range map[string]url.Values{
		"no text":         bad(func(f url.Values) { f.Del("text") }),
		"the marker":      bad(func(f url.Values) { f.Set("text", "redacted") }),
		"no part":         bad(func(f url.Values) { f.Del("part") }),
		"two parts":       bad(func(f url.Values) { f.Add("part", "1") }),
		"part 0":          bad(func(f url.Values) { f.Set("part", "0") }),
		"a part too many": bad(func(f url.Values) { f.Set("part", "5") }),
		"a part in words": bad(func(f url.Values) { f.Set("part", "<b>") }),
		"no turn":         bad(func(f url.Values) { f.Del("turn") }),
		"too many places": of("3", "a"),
	} {
		if status, _, page := b.Ask(http.MethodPost, "/ui/do/takeout", form.Encode()); status != http.StatusBadRequest {
			t.Errorf("%s: %d\n%s", name, status, page)
		}
	}
	for name, as := range map[string]string{"without a preview": "", "of another preview": strings.Repeat("0", 32)} {
		form := bad(func(f url.Values) { f.Set("sure", "1"); f.Set("as", as) })
		if status, _, page := b.Ask(http.MethodPost, "/ui/do/takeout", form.Encode()); status != http.StatusConflict {
			t.Errorf("%s: %d\n%s", name, status, page)
		}
	}
	b.Has(turn, "[redacted]opens&lt;/b&gt; it.")
}

// A text is taken out of all sessions, some at a time, and of what agents saved; a preview changes nothing.
func TestATextIsTakenOutEverywhereByAForm(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	ctx := t.Context()
	const text = "door <code> 7351-9920"
	var with []turns.ID
	for i := range 104 {
		s, err := c.Create(ctx, api.CreateSession{})
		if err != nil {
			t.Fatal(err)
		}
		if i%103 == 0 { // the first and the last one
			with = append(with, s.ID)
			explorertest.Add(t, c, s.ID, "Keep the "+text+", please.", "I keep "+text+".")
		}
	}
	if _, err := c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: "The " + text + " opens it."}); err != nil {
		t.Fatal(err)
	}
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	b.Has("/ui/", `href="/ui/takeout"`)
	b.Has("/ui/takeout", "Take a text out everywhere", `action="/ui/do/takeout-everywhere"`)
	hidden := regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)
	post := func(form url.Values) (string, url.Values) { // the page, and what its own form sends
		t.Helper()
		status, h, page := b.Ask(http.MethodPost, "/ui/do/takeout-everywhere", form.Encode())
		if status != http.StatusOK || h.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d\n%s", status, page)
		}
		explorertest.Tame(t, "the answer", page)
		next := url.Values{"text": {text}}
		_, main, _ := strings.Cut(page, "<main")
		for _, m := range hidden.FindAllStringSubmatch(main, -1) {
			next.Set(m[1], html.UnescapeString(m[2]))
		}
		return page, next
	}
	page, next := post(url.Values{"text": {text}})
	if !strings.Contains(page, "1 event of 1 session") || !strings.Contains(page, "Go on looking") || strings.Contains(page, "for ever</button>") || !strings.Contains(page, "/t/") {
		t.Errorf("the first form: %s", page)
	}
	page, next = post(next)
	if !strings.Contains(page, "2 events of 2 sessions") || !strings.Contains(page, "104 sessions looked at") || !strings.Contains(page, "agent main: 1 memory would be withdrawn") || !strings.Contains(page, "no way back") || next.Get("sure") != "1" {
		t.Errorf("the last form of the preview: %s", page)
	}
	for _, s := range with {
		b.Has("/ui/s/"+s.String(), "7351-9920")
	}
	b.Has("/ui/memory", "7351-9920")
	next.Set("ground", "leak-8")
	page, next = post(next)
	if !strings.Contains(page, "Go on taking it out") || next.Get("sure") != "1" || next.Get("ground") != "leak-8" || next.Get("looked") != "100" {
		t.Errorf("the first form of the act: %s", page)
	}
	if page, _ = post(next); !strings.Contains(page, "2 events of 2 sessions have a marker") || !strings.Contains(page, "the key log") || !strings.Contains(page, "1 memory can&#39;t be read any more") && !strings.Contains(page, "1 memory can't be read any more") {
		t.Errorf("the last form of the act: %s", page)
	}
	for _, s := range with {
		if page := b.Has("/ui/s/"+s.String(), "[redacted]"); strings.Contains(page, "7351-9920") {
			t.Errorf("session %s shows it", s)
		}
	}
	if page := b.Page("/ui/memory"); strings.Contains(page, "7351-9920") {
		t.Error("the memory shows it")
	}
	_, next = post(url.Values{"text": {text}})
	if page, _ = post(next); !strings.Contains(page, "Nothing has it") {
		t.Errorf("again: %s", page)
	}
	b.Has("/ui/checkpoints", "leak-8", "2 rows", "its event")
	for name, form := range map[string]url.Values{"no text": {}, "too short": {"text": {"abc"}}, "a place that is none": {"text": {text}, "after": {"<b>"}}, "a number that is none": {"text": {text}, "looked": {"-1"}}, "a ground that is none": {"text": {text}, "ground": {"<b>"}, "sure": {"1"}}} {
		if status, _, page := b.Ask(http.MethodPost, "/ui/do/takeout-everywhere", form.Encode()); status < 400 || status >= 500 {
			t.Errorf("%s: %d\n%s", name, status, page)
		}
	}
}
