package explorer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// start opens a daemon with pages, and a client of its operator's credentials.
func start(t testing.TB, c config.Config) (*daemon.Daemon, *client.Client) {
	t.Helper()
	c.Listen, c.HTTP, c.MaxStore = "127.0.0.1:0", "127.0.0.1:0", 1<<30
	if c.Data == "" {
		c.Data = t.TempDir()
	}
	d, err := daemon.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := d.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return d, client.New(nc, "default", "main")
}

// browser is a browser without script.
type browser struct {
	t    testing.TB
	base string
	*http.Client
}

func newBrowser(t testing.TB, d *daemon.Daemon) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, d.HTTPURL(), &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// loggedIn is a browser that somebody logged in.
func loggedIn(t testing.TB, d *daemon.Daemon, c *client.Client, r api.OpenPages) *browser {
	t.Helper()
	link, err := c.OpenPages(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, d)
	if status, _, body := b.do(http.MethodPost, link.URL, ""); status != http.StatusSeeOther {
		t.Fatalf("login: %d\n%s", status, body)
	}
	return b
}

// do sends a request with headers, and returns the status, the headers and the body.
func (b *browser) do(method, to, form string, header ...string) (int, http.Header, string) {
	b.t.Helper()
	if strings.HasPrefix(to, "/") {
		to = b.base + to
	}
	r, err := http.NewRequest(method, to, strings.NewReader(form))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	a, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(body)
}

// page gets a page that must be there.
func (b *browser) page(path string) string {
	b.t.Helper()
	status, h, body := b.do(http.MethodGet, path, "")
	if status != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		b.t.Fatalf("%s: %d\n%s", path, status, body)
	}
	return body
}

// has fails for a text that a page lacks.
func (b *browser) has(path string, want ...string) string {
	b.t.Helper()
	body := b.page(path)
	for _, w := range want {
		if !strings.Contains(body, w) {
			b.t.Errorf("%s has no %q", path, w)
		}
	}
	return body
}

func say(role turns.Role, text string) turns.Message { return turns.TextMessage(role, text) }

// add appends a turn.
func add(t testing.TB, c *client.Client, s turns.ID, asked, answered string) *api.Appended {
	t.Helper()
	m := say(turns.Assistant, answered)
	a, err := c.Append(context.Background(), s, api.AppendTurn{Messages: []turns.Message{say(turns.User, asked)}, Response: &m, Model: "claude-opus-4-5",
		Usage: &turns.Usage{InputTokens: 1200, CacheRead: 900, OutputTokens: 40}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// story is a session with a call, an edit, a compaction and a fork.
type story struct {
	session, fork, other turns.ID
	first, call, edit    turns.ID
	compaction, last     turns.ID
}

func tell(t testing.TB, c *client.Client) (x story) {
	t.Helper()
	ctx := context.Background()
	label := "shelf"
	s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, Meta: turns.Raw(`{"cwd":"/home/ann/shelf","source":"claude-code","title":"shelf: import is slow"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	x.session = s.ID
	x.first = add(t, c, s.ID, "Importing my real export takes minutes in store.py.", "I look at **store.py** first.").ID
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.Reasoning, Content: "what could be slow?"}, {Type: turns.ToolCall, ID: "c1", Name: "Bash", Arguments: turns.Raw(`{"command":"make test"}`)}}}
	a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{say(turns.User, "Go on.")}, Response: &call, Model: "claude-opus-4-5", Usage: &turns.Usage{InputTokens: 2000, CacheRead: 1200, OutputTokens: 60}})
	if err != nil {
		t.Fatal(err)
	}
	x.call = a.ID
	edit := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c2", Name: "Edit", Arguments: turns.Raw(`{"file_path":"store.py","old_string":"a\nb\nc","new_string":"a\nB\nB2\nc"}`)}}}
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", IsError: true, Response: turns.RawText("exit 2\n" + strings.Repeat("a line of the output that is long\n", 300))}}}
	if a, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{result}, Response: &edit, Model: "claude-opus-4-5", Usage: &turns.Usage{InputTokens: 5000, CacheRead: 2000, OutputTokens: 80}}); err != nil {
		t.Fatal(err)
	}
	x.edit = a.ID
	done := say(turns.Assistant, "Done.")
	if _, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c2", Response: turns.RawText("ok")}}}}, Response: &done, Model: "claude-opus-4-5"}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		add(t, c, s.ID, fmt.Sprintf("Question %d about /srv/data/file-%d.txt and its %d rows?", i, i, 1000+i), fmt.Sprintf("Answer %d: %s", i, strings.Repeat("it is so. ", 120)))
	}
	made, err := c.Compact(ctx, s.ID, api.RunCompaction{AtOnce: true, Budget: 3000})
	if err != nil || made.Compaction == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	x.compaction = made.Compaction.ID
	x.last = add(t, c, s.ID, "And now?", "It is fast.").ID
	name := "second-try"
	f, err := c.Fork(ctx, s.ID, api.CreateFork{Turn: x.edit, Label: &name, Mode: "full"})
	if err != nil {
		t.Fatal(err)
	}
	x.fork = f.ID
	o, err := c.Create(ctx, api.CreateSession{SpawnedBy: &api.SpawnedBy{Session: s.ID}})
	if err != nil {
		t.Fatal(err)
	}
	x.other = o.ID
	add(t, c, o.ID, "Find it.", "Found.")
	return x
}

func TestEachPageShowsWhatItIsFor(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	ctx := t.Context()
	if _, err := c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: "The export is in UTF-16.", Session: x.session}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.Raw(`{"subject":"slow again"}`)}); err != nil {
		t.Fatal(err)
	}
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	s := "/ui/s/" + x.session.String()
	b.has("/ui/", "shelf: import is slow", "second-try", "sub-agent", "17 turns")
	b.has("/ui/?folder=/home/ann", "shelf: import is slow")
	b.has("/ui/?folder=/home/bob", "No session is like that")
	page := b.has(s, "Turns and compactions 1–18 of 18", "Importing my real export", "<strong>store.py</strong>", "<b>Bash</b> <code>make test</code>", "failed · 301 lines", "&#43;2 −1", "Compaction", "forked here", "Sub-agents", "Asked here", `href="#t1"`)
	if strings.Contains(page, "a line of the output") {
		t.Error("the content of a large fold is on the page of the session")
	}
	if again := b.page(s + "?from=5"); strings.Contains(again, `id="t4"`) || !strings.Contains(again, `id="t5"`) {
		t.Error("the window does not begin where it should")
	}
	b.has(s+"/t/"+x.call.String(), "Turn 2", "make test", "a line of the output", "sha256:", "Fork here as", "2,000")
	b.has(s+"/t/"+x.call.String()+"/b/r1", "a line of the output")
	b.has(s+"/x/"+x.edit.String(), "What the model read for turn 3", "kept word for word", "Since the call before, turn 2", "fingerprint", "As a policy would build it", "makes the same of what is stored")
	b.has(s+"/x/"+x.last.String(), "summary", "a compaction put its summary in place")
	b.has(s+"/x/"+x.compaction.String(), "What the model read for turn 17", "makes the same of what is stored")
	b.has(s+"/c/"+x.compaction.String(), "covers turns 1–", "What was lost", "What stands in its place", "before", "after")
	b.has(s+"/compact", "Compact this session")
	b.has("/ui/search?q=export", "<mark>", "turn 1")
	b.has("/ui/diff/"+x.session.String()+"/"+x.fork.String(), "turns are the same", "nothing since")
	forked := add(t, c, x.fork, "Importing my whole export takes minutes in sql.py.", "I look at it.").ID
	sides := b.has("/ui/diff/"+x.session.String()+"/"+x.fork.String(), "The first <b class=\"num\">3</b> turns are the same", "turn 4", "no such turn", "<ins>Importing my whole export")
	if strings.Contains(sides, "Importing my real") {
		t.Error("a turn that both have is compared")
	}
	compared := b.has("/ui/diff?a=shelf@1&b="+url.QueryEscape(x.fork.String()+"/"+forked.String()), "turn 1 of shelf", "<del>real</del>", "<ins>whole</ins>", "<del>store</del>.py", "<ins>sql</ins>.py", "on the way to them")
	if strings.Contains(compared, "<ins>Importing") {
		t.Error("words that both have are marked")
	}
	b.has("/ui/diff?a=shelf@1&b=shelf@1", "the same turn")
	for _, bad := range []string{"a=shelf@1&b=shelf", "a=shelf@99&b=shelf@1", "a=shelf@x&b=shelf@1", "a=nobody&b=shelf"} {
		if status, _, body := b.do(http.MethodGet, "/ui/diff?"+bad, ""); status < 400 || status >= 500 {
			t.Errorf("%s: %d\n%s", bad, status, body)
		}
	}
	if status, _, part := b.do(http.MethodGet, "/ui/search?q=export", "", "X-Fragment", "1"); status != 200 || strings.Contains(part, "<html") || !strings.Contains(part, "<mark>") || !strings.Contains(part, `class="body found"`) {
		t.Errorf("what is asked for while one types: %d\n%s", status, part)
	}
	b.has(s+"/x/"+x.last.String()+"?policy=gsv&budget=1000", "would show", "as built", `<option selected>gsv`, "Where the two differ")
	if status, _, _ := b.do(http.MethodGet, s+"/x/"+x.last.String()+"?policy=nothing", ""); status != 200 {
		t.Errorf("a policy that is not there: %d", status)
	}
	b.has("/ui/cost?by=model", "claude-opus-4-5", "How certain this is")
	b.has("/ui/memory", "The export is in UTF-16.")
	b.has("/ui/events", "mail")
	b.has("/ui/events?channel=mail&of=main", "slow again")
	b.has("/ui/health", "the ledger is sound")
	b.has("/ui/keys", "beyond the estimate")
	for _, format := range []string{"html", "markdown", "jsonl"} {
		if status, h, body := b.do(http.MethodGet, s+"/export?format="+format, ""); status != 200 || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || len(body) < 1000 {
			t.Errorf("export as %s: %d, %d bytes", format, status, len(body))
		}
	}
	for _, path := range []string{"/ui/s/0", s + "/t/" + api.NewID().String(), "/ui/nothing", s + "/t/" + x.call.String() + "/b/r99", s + "/t/" + x.call.String() + "/i/r1"} {
		if status, _, _ := b.do(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// form is what the form of a page would send.
func form(kv ...string) string {
	v := url.Values{"id": {api.NewID().String()}}
	for i := 0; i+1 < len(kv); i += 2 {
		v.Set(kv[i], kv[i+1])
	}
	return v.Encode()
}

func TestActsChangeTheLedgerOnce(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{Session: x.session})
	s := x.session.String()
	act := func(verb, form string) string {
		t.Helper()
		status, h, body := b.do(http.MethodPost, "/ui/do/"+verb, form)
		if status != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", verb, status, body)
		}
		return h.Get("Location")
	}
	fork := form("session", s, "turn", x.first.String(), "mode", "as_seen", "label", "third")
	if one, two := act("fork", fork), act("fork", fork); one != two || !strings.HasPrefix(one, "/ui/s/") {
		t.Errorf("a form that is sent twice: %s, %s", one, two)
	}
	if made, err := c.Resolve(t.Context(), "third"); err != nil || made.ForkedFrom.Turn != x.first {
		t.Errorf("%+v, %v", made, err)
	}
	act("label", form("session", s, "label", "renamed"))
	act("rewind", form("session", s, "turn", x.edit.String(), "head", x.last.String()))
	if now, err := c.Session(t.Context(), x.session); err != nil || now.Label != "renamed" || *now.Head != x.edit {
		t.Errorf("%+v, %v", now, err)
	}
	if status, _, _ := b.do(http.MethodPost, "/ui/do/rewind", form("session", s, "turn", x.first.String(), "head", x.last.String())); status != http.StatusConflict {
		t.Errorf("a rewind of a head that is another by now: %d", status)
	}
	act("rewind", form("session", s, "turn", x.last.String()))
	act("close", form("session", s))
	if now, err := c.Session(t.Context(), x.session); err != nil || now.State != "closed" {
		t.Errorf("%+v, %v", now, err)
	}
}

// What a page cannot be asked for is refused before anything of the ledger is read.
// What a person says of a session: a title, tags, a note on a turn, and that lists leave it out.
func TestAPersonSaysWhatASessionIs(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c, api.OpenPages{})
	at, turn := "/ui/s/"+x.session.String(), "/ui/s/"+x.session.String()+"/t/"+x.first.String()
	act := func(verb string, kv ...string) {
		t.Helper()
		if status, _, body := b.do(http.MethodPost, "/ui/do/"+verb, form(append([]string{"session", x.session.String()}, kv...)...)); status != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", verb, status, body)
		}
	}
	act("describe", "title", "A quaint <title>", "tags", "zebra, apple ,, zebra")
	b.has(at, "<h1>A quaint &lt;title&gt;", `value="A quaint &lt;title&gt;"`, `value="apple, zebra"`, `<span class="tag">zebra</span>`)
	b.has("/ui/?title=zebra", "A quaint &lt;title&gt;")
	act("note", "turn", x.first.String(), "text", "here it begins")
	b.has(turn, "<b>Note</b> here it begins")
	b.has(at, "<b>Note</b> here it begins")
	if status, _, body := b.do(http.MethodPost, "/ui/do/note", form("session", x.session.String(), "turn", x.first.String(), "text", strings.Repeat("a", 65<<10))); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "a form takes at most 64 KiB") {
		t.Errorf("a note of 65 KiB: %d\n%s", status, body)
	}
	act("note", "turn", x.first.String(), "text", "")
	if body := b.page(turn); strings.Contains(body, "here it begins") {
		t.Error("a note that was taken away is shown")
	}
	act("hide", "hidden", "1")
	if body := b.page("/ui/"); strings.Contains(body, "A quaint") {
		t.Error("a hidden session is listed")
	}
	b.has("/ui/?hidden=1", "A quaint &lt;title&gt;", `<span class="tag">hidden</span>`)
	b.has(at, "Show it in lists again")
	act("hide")
	b.has("/ui/", "A quaint &lt;title&gt;")
	act("describe", "was_title", "A quaint <title>", "was_tags", "apple, zebra", "title", "", "tags", "")
	if body := b.page(at); strings.Contains(body, "zebra") || strings.Contains(body, "quaint") {
		t.Error("what was taken back is shown")
	}
}

func TestWhoeverIsNotLoggedInGetsNothing(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := newBrowser(t, d)
	if status, h, _ := b.do(http.MethodGet, "/", ""); status != http.StatusSeeOther || h.Get("Location") != "/ui/" {
		t.Errorf("/: %d", status)
	}
	for _, path := range []string{"/ui/", "/ui/s/" + x.session.String(), "/ui/search?q=export", "/ui/live", "/ui/cost", "/ui/nothing", "/ui/s/" + x.session.String() + "/export?format=jsonl"} {
		for _, cookie := range []string{"", "nexus-ui-" + d.HTTPURL()[strings.LastIndexByte(d.HTTPURL(), ':')+1:] + "=AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
			status, _, body := b.do(http.MethodGet, path, "", "Cookie", cookie)
			if status != http.StatusUnauthorized || strings.Contains(body, "shelf") || !strings.Contains(body, "ledgerctl open") {
				t.Errorf("%s: %d\n%s", path, status, body)
			}
		}
	}
	if status, _, _ := b.do(http.MethodPost, "/ui/do/close", form("session", x.session.String())); status != http.StatusUnauthorized {
		t.Errorf("an act: %d", status)
	}
	if s, err := c.Session(t.Context(), x.session); err != nil || s.State != "open" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestALinkIsGoodForOneLogin(t *testing.T) {
	d, c := start(t, config.Config{})
	link, err := c.OpenPages(t.Context(), api.OpenPages{})
	if err != nil {
		t.Fatal(err)
	}
	if until := time.Until(time.Time(link.Expires)); until > time.Minute || until < 50*time.Second {
		t.Errorf("it is good for %v", until)
	}
	first, second := newBrowser(t, d), newBrowser(t, d)
	for range 3 { // whatever loads the link before a person follows it
		if status, h, body := first.do(http.MethodGet, link.URL, ""); status != 200 || h.Get("Set-Cookie") != "" || !strings.Contains(body, "<button") {
			t.Fatalf("%d\n%s", status, body)
		}
	}
	first.has(link.URL[len(first.base):], "agent main of tenant default")
	if status, h, _ := first.do(http.MethodPost, link.URL, ""); status != http.StatusSeeOther || !strings.Contains(h.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") {
		t.Errorf("%d, %s", status, h.Get("Set-Cookie"))
	}
	if status, h, body := second.do(http.MethodPost, link.URL, ""); status != http.StatusUnauthorized || h.Get("Set-Cookie") != "" || !strings.Contains(body, "counts no more") {
		t.Errorf("a second login: %d\n%s", status, body)
	}
	first.page("/ui/")
	if status, _, body := first.do(http.MethodGet, link.URL, ""); status != http.StatusUnauthorized || !strings.Contains(body, "counts no more") || strings.Contains(body, "<button") {
		t.Errorf("a used link: %d\n%s", status, body)
	}
	if other, err := c.As(api.Operator).OpenPages(t.Context(), api.OpenPages{ReadOnly: true}); err != nil {
		t.Fatal(err)
	} else { // somebody else's link, in a browser that is logged in
		first.has(other.URL[len(first.base):], "the operator, who reads all agents, of tenant default; it reads only", "It is logged in as somebody else now", "agent main of tenant default")
	}
	if status, _, _ := first.do(http.MethodPost, "/ui/do/logout", "a=b"); status != http.StatusSeeOther {
		t.Errorf("logout: %d", status)
	}
	if status, _, _ := first.do(http.MethodGet, "/ui/", ""); status != http.StatusUnauthorized {
		t.Errorf("after it: %d", status)
	}
}

// A page of another origin neither acts nor reads: on another site, and on another port of this
// machine, to which the browser sends the cookie.
func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	closing := form("session", x.session.String())
	for name, header := range map[string][]string{
		"another port": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "http://127.0.0.1:3000"},
		"a form":       {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "http://localhost:3000"},
		"another site": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "https://evil.example"},
		"an old one":   {"Origin", "https://evil.example"},
		"no origin":    {"Origin", "null"},
	} {
		if status, _, body := b.do(http.MethodPost, "/ui/do/close", closing, header...); status != http.StatusForbidden {
			t.Errorf("%s acts: %d\n%s", name, status, body)
		}
	}
	for name, header := range map[string][]string{
		"a request": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
		"a script":  {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"},
		"a frame":   {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
	} {
		if status, _, body := b.do(http.MethodGet, "/ui/", "", header...); status != http.StatusForbidden || strings.Contains(body, "shelf") {
			t.Errorf("%s reads: %d", name, status)
		}
	}
	if status, _, _ := b.do(http.MethodGet, "/ui/", "", "Host", "evil.example"); status != http.StatusMisdirectedRequest {
		t.Errorf("a name that resolves to this machine: %d", status)
	}
	if s, err := c.Session(t.Context(), x.session); err != nil || s.State != "open" {
		t.Errorf("%+v, %v", s, err)
	}
	_, h, _ := b.do(http.MethodGet, "/ui/", "")
	for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'", "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if !strings.Contains(h.Get(name), want) {
			t.Errorf("%s: %q", name, h.Get(name))
		}
	}
	for _, not := range []string{"unsafe", "http:", "https:", "*", "data:", "blob:"} {
		if strings.Contains(h.Get("Content-Security-Policy"), not) {
			t.Errorf("the policy has %s", not)
		}
	}
	if h.Get("Access-Control-Allow-Origin") != "" {
		t.Error("other origins may read")
	}
}

// The cookie of a page is no token for the rest of HTTP.
func TestTheCookieCountsForPagesAlone(t *testing.T) {
	secret, row, err := config.NewToken("ci", "", "main", "write")
	if err != nil {
		t.Fatal(err)
	}
	d, c := start(t, config.Config{Token: []config.TokenRow{row}})
	x := tell(t, c)
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	for _, path := range []string{"/mcp", "/v1/models"} {
		if status, _, _ := b.do(http.MethodGet, path, ""); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, _ := newBrowser(t, d).do(http.MethodGet, "/ui/", "", "Authorization", "Bearer "+secret); status != http.StatusUnauthorized {
		t.Errorf("a token opens the pages: %d", status)
	}
	// Beside tokens the guard waits for no body of a stranger; this one is known.
	if status, _, body := b.do(http.MethodPost, "/ui/do/label", form("session", x.session.String(), "label", "renamed")); status != http.StatusSeeOther {
		t.Errorf("an act: %d\n%s", status, body)
	}
}

func TestALoginMayDoWhatItsAskerMay(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	other, err := c.As("other").Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	add(t, c.As("other"), other.ID, "a secret of another agent", "yes")
	main := loggedIn(t, d, c, api.OpenPages{})
	if body := main.page("/ui/"); strings.Contains(body, other.ID.String()) || !strings.Contains(body, x.session.String()) {
		t.Error("agent main sees the sessions of another, or not its own")
	}
	for _, path := range []string{"/ui/s/" + other.ID.String(), "/ui/s/" + other.ID.String() + "/export?format=html"} {
		if status, _, _ := main.do(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, _ := main.do(http.MethodPost, "/ui/do/close", form("session", other.ID.String())); status != http.StatusNotFound {
		t.Errorf("agent main closes a session of another: %d", status)
	}
	if status, _, _ := main.do(http.MethodGet, "/ui/s/"+x.session.String()+"/export?format=jsonl", ""); status != http.StatusForbidden {
		t.Errorf("an agent exports content keys: %d", status)
	}
	read := loggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})
	body := read.has("/ui/s/"+x.session.String(), "reads only")
	if strings.Contains(body, "/ui/do/close") {
		t.Error("a login that reads only is offered acts")
	}
	for _, verb := range []string{"fork", "rewind", "compact", "label", "close", "describe", "hide", "note"} {
		if status, _, _ := read.do(http.MethodPost, "/ui/do/"+verb, form("session", x.session.String(), "turn", x.first.String())); status != http.StatusForbidden {
			t.Errorf("%s by a login that reads only: %d", verb, status)
		}
	}
	if status, _, _ := read.do(http.MethodGet, "/ui/s/"+x.session.String()+"/export?format=jsonl", ""); status != http.StatusForbidden {
		t.Errorf("it exports content keys: %d", status)
	}
	if s, err := c.Session(t.Context(), x.session); err != nil || s.State != "open" || s.Label != "shelf" || *s.Head != x.last {
		t.Errorf("%+v, %v", s, err)
	}
}

// hostile are texts that try to be more than text.
var hostile = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `</div></main><h1>mine</h1>`, `<!-- gone`, `<style>*{display:none}</style>`, `<svg onload=alert(1)>`, `<base href=//evil.example>`,
	`<form action=/ui/do/close method=post><button>x`, "[x](javascript:alert(1))", "![p](http://example.com/t.png)", `<javascript:alert(1)>`, "\x1b[31mred\x1b[0m\x1b]0;t\a", "a\u202eb\u2066c", "nul\x00byte",
	"{{.Title}}", `"><svg/onload=alert(1)>`, "a&#x202e;b", "[x](/ui/do/close)", "<iframe srcdoc='<script>x'>", "<meta http-equiv=refresh content=0>",
}

var tag = regexp.MustCompile(`<([a-zA-Z]+)((?:\s[^<>]*)?)>`)

// tame fails for an element or an attribute of a page that no template has.
func tame(t testing.TB, where, page string) {
	t.Helper()
	for _, m := range tag.FindAllStringSubmatch(page, -1) {
		switch name, attributes := strings.ToLower(m[1]), m[2]; {
		case name == "script" && !strings.Contains(attributes, `src="/ui/a/app.`), name == "style", name == "iframe", name == "base", name == "object", name == "embed":
			t.Fatalf("%s: %s", where, m[0])
		case regexp.MustCompile(`(?i)\s(on[a-z]+|style|srcdoc|http-equiv|formaction)\s*=`).MatchString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(attributes, `""`)):
			t.Fatalf("%s: %s", where, m[0])
		case regexp.MustCompile(`(?i)(href|src|action)="(javascript|data|vbscript):`).MatchString(attributes), name == "img" && !strings.Contains(attributes, `src="/ui/s/`):
			t.Fatalf("%s: %s", where, m[0])
		}
	}
	for _, r := range page {
		if turns.IsHidden(r) && r != '\n' && r != '\t' {
			t.Fatalf("%s: the hidden character %U", where, r)
		}
	}
}

// tagOf is a text as the name of a tool, which may not have every character.
func tagOf(text string) string {
	for _, r := range text {
		if turns.IsHidden(r) {
			return "<b>tool"
		}
	}
	return text[:min(len(text), 60)]
}

func TestHostileTranscriptsStayText(t *testing.T) {
	d, c := start(t, config.Config{})
	ctx := t.Context()
	all := strings.Join(hostile, "\n\n")
	title := hostile[0] + hostile[11] + hostile[12]
	s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Meta: turns.Raw(`{"cwd":"/tmp/<b>","title":` + string(turns.RawText(title)) + `}`)}})
	if err != nil {
		t.Fatal(err)
	}
	var at []turns.ID
	for _, text := range append(hostile, all) {
		at = append(at, add(t, c, s.ID, text, text).ID)
		m := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.Reasoning, Content: text}, {Type: turns.ToolCall, ID: "c", Name: tagOf(text), Arguments: turns.Raw(`{"command":` + string(turns.RawText(text)) + `}`)}}}
		a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{say(turns.User, "call")}, Response: &m})
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, a.ID)
		if _, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c", Response: turns.RawText(text)}}}}}); err != nil {
			t.Fatal(err)
		}
		if !strings.ContainsFunc(text, turns.IsHidden) {
			if _, err := c.SaveMemory(ctx, api.SaveMemory{Kind: "semantic", Text: text + " "}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.AppendEvent(ctx, api.AppendEvent{Channel: "mail", Kind: "received", Body: turns.RawText(text)}); err != nil {
			t.Fatal(err)
		}
	}
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	base := "/ui/s/" + s.ID.String()
	paths := []string{"/ui/", base, base + "?from=last", "/ui/search?q=alert", "/ui/search?q=" + url.QueryEscape(hostile[1]), "/ui/memory", "/ui/events?channel=mail&of=main", "/ui/cost?by=project", "/ui/?title=" + url.QueryEscape(`"><script>`), "/ui/diff?a=" + s.ID.String() + "&b=" + s.ID.String()}
	for _, id := range at {
		paths = append(paths, base+"/t/"+id.String(), base+"/x/"+id.String(), base+"/t/"+id.String()+"/b/r0")
	}
	for _, path := range paths {
		tame(t, path, b.page(path))
	}
	status, _, body := b.do(http.MethodGet, "/ui/diff?a="+url.QueryEscape("<script>x")+"&b=y", "")
	if tame(t, "an error", body); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
}

// A picture of a transcript is served if its bytes are one, and as nothing else.
func TestPicturesAreServedForWhatTheyAre(t *testing.T) {
	d, c := start(t, config.Config{})
	s, err := c.Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	gif := []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")
	part := func(mime string, data []byte) turns.Part {
		return turns.Part{Type: turns.Blob, Modality: "image", MimeType: mime, Data: data}
	}
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`)
	a, err := c.Append(t.Context(), s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{part("image/gif", gif), part("image/png", svg), part("image/svg+xml", svg), part("image/png", []byte("broken"))}}}})
	if err != nil {
		t.Fatal(err)
	}
	b := loggedIn(t, d, c, api.OpenPages{})
	base := "/ui/s/" + s.ID.String() + "/t/" + a.ID.String()
	b.page(base)
	status, h, body := b.do(http.MethodGet, base+"/i/a0", "")
	if status != 200 || h.Get("Content-Type") != "image/gif" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || body != string(gif) {
		t.Errorf("%d, %s", status, h.Get("Content-Type"))
	}
	for _, n := range []string{"a1", "a2", "a3"} {
		if status, _, _ := b.do(http.MethodGet, base+"/i/"+n, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", n, status)
		}
	}
}

// maxPage is the most bytes of a page.
const maxPage = 300_000

// A page is bounded whatever is stored: a line of 10 MB, a turn of as many parts as one may have, a long session.
func TestPagesAreBounded(t *testing.T) {
	d, c := start(t, config.Config{})
	ctx := t.Context()
	s, err := c.Create(ctx, api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	long := add(t, c, s.ID, strings.Repeat("x", 10<<20), "seen").ID
	var parts []turns.Part
	for i := range 4096 {
		parts = append(parts, turns.Part{Type: turns.Text, Content: fmt.Sprintf("part %d of many", i)})
	}
	a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.User, Parts: parts}}, Response: new(say(turns.Assistant, "many"))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		add(t, c, s.ID, fmt.Sprint("question ", i, strings.Repeat(" and more", 80)), strings.Repeat("**a** `b` and\n\n* more\n\n", 100))
	}
	b := loggedIn(t, d, c, api.OpenPages{})
	base := "/ui/s/" + s.ID.String()
	for _, path := range []string{"/ui/", base, base + "?from=last", base + "?from=100", base + "?from=99999999999", base + "/t/" + a.ID.String(), base + "/t/" + a.ID.String() + "?p=4050", base + "/x/" + a.ID.String(), "/ui/search?q=more"} {
		if body := b.page(path); len(body) > maxPage {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	if body := b.page(base + "/t/" + long.String()); len(body) > maxPage || !strings.Contains(body, "more are not shown") && !strings.Contains(body, "more</a>") {
		t.Errorf("the page of a long line has %d bytes, or does not say that it is cut", len(body))
	}
	if body := b.page(base + "/t/" + a.ID.String() + "?p=4050"); !strings.Contains(body, "part 4050 of many") || !strings.Contains(body, "Parts 4051–4097 of 4097") {
		t.Error("the last parts can't be reached")
	}
}

// A stream says that something is new, and nothing of what it is.
func TestAStreamTellsOfNewTurnsWithoutTheirContent(t *testing.T) {
	d, c := start(t, config.Config{})
	x := tell(t, c)
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/ui/live", nil)
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
	add(t, c, x.session, "word-of-the-person", "word-of-the-model")
	want := "data: " + x.session.String() + " turn.appended"
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
	d, c := start(t, config.Config{})
	b := loggedIn(t, d, c, api.OpenPages{})
	a, err := (&http.Client{Jar: b.Jar}).Get(b.base + "/ui/live")
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

// The transcripts that vanished are listed with the sessions that have what they held, for the
// operator alone: the list names files of the machine.
func TestVanishedTranscriptsAreListedForTheOperator(t *testing.T) {
	var session turns.ID
	d, c := start(t, config.Config{Vanished: func() ([]config.VanishedFile, error) {
		return []config.VanishedFile{{File: "/home/ann/old.jsonl", Agent: "claude"}, {File: "/home/ann/<b>.jsonl", Agent: "codex", Session: session, Kept: 2048, Lost: 1024, Gone: time.Now().Add(-3 * time.Hour)}}, nil
	}})
	session = tell(t, c).session
	b := loggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	page := b.has("/ui/vanished", "/home/ann/&lt;b&gt;.jsonl", "/home/ann/old.jsonl", "/ui/s/"+session.String(), "2.0 KiB", "its last 1.0 KiB were not in the ledger", "3 h")
	if strings.Index(page, "old.jsonl") < strings.Index(page, "b&gt;.jsonl") {
		t.Error("the newest is not first")
	}
	b.has("/ui/", `href="/ui/vanished"`)
	agent := loggedIn(t, d, c, api.OpenPages{})
	if status, _, body := agent.do(http.MethodGet, "/ui/vanished", ""); status != http.StatusForbidden || strings.Contains(body, "old.jsonl") {
		t.Errorf("an agent: %d\n%s", status, body)
	}
	if strings.Contains(agent.page("/ui/"), "vanished") {
		t.Error("an agent is shown the way to it")
	}
}
