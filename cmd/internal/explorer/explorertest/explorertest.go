package explorertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon"
	"nexus/cmd/internal/daemon/config"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Start opens a daemon with pages, and a client of its operator's credentials.
func Start(t testing.TB, c config.Config) (*daemon.Daemon, *client.Client) {
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

// MaxPage is the most bytes of a page.
const MaxPage = 300_000

// Browser is a browser without script.
type Browser struct {
	t    testing.TB
	Base string // of the daemon
	*http.Client
}

// NewBrowser returns a browser that nobody logged in.
func NewBrowser(t testing.TB, d *daemon.Daemon) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{t, d.HTTPURL(), &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// LoggedIn is a browser that somebody logged in.
func LoggedIn(t testing.TB, d *daemon.Daemon, c *client.Client, r api.OpenPages) *Browser {
	t.Helper()
	link, err := c.OpenPages(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBrowser(t, d)
	if status, _, body := b.Ask(http.MethodPost, link.URL, ""); status != http.StatusSeeOther {
		t.Fatalf("login: %d\n%s", status, body)
	}
	return b
}

// Ask sends a request with headers, and returns the status, the headers and the body.
func (b *Browser) Ask(method, to, form string, header ...string) (int, http.Header, string) {
	b.t.Helper()
	if strings.HasPrefix(to, "/") {
		to = b.Base + to
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

// Page gets a page that must be there.
func (b *Browser) Page(path string) string {
	b.t.Helper()
	status, h, body := b.Ask(http.MethodGet, path, "")
	if status != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		b.t.Fatalf("%s: %d\n%s", path, status, body)
	}
	return body
}

// Has fails for a text that a page lacks.
func (b *Browser) Has(path string, want ...string) string {
	b.t.Helper()
	body := b.Page(path)
	for _, w := range want {
		if !strings.Contains(body, w) {
			b.t.Errorf("%s has no %q", path, w)
		}
	}
	return body
}

// Shows gets a page until it has all texts: a figure that takes long to add up is on a later view. It fails after a minute.
func (b *Browser) Shows(path string, want ...string) string {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		body := b.Page(path)
		missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return strings.Contains(body, w) })
		if len(missing) == 0 {
			return body
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s has no %q after a minute\n%s", path, missing, body)
		}
	}
}

// Say returns a message of one text.
func Say(role turns.Role, text string) turns.Message { return turns.TextMessage(role, text) }

// Add appends a turn.
func Add(t testing.TB, c *client.Client, s turns.ID, asked, answered string) *api.Appended {
	t.Helper()
	m := Say(turns.Assistant, answered)
	a, err := c.Append(context.Background(), s, api.AppendTurn{Messages: []turns.Message{Say(turns.User, asked)}, Response: &m, Model: "claude-opus-4-5",
		Usage: &turns.Usage{InputTokens: 1200, CacheRead: 900, OutputTokens: 40}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Story is a session with a call, an edit, a compaction and a fork.
type Story struct {
	Session, Fork, Other turns.ID
	First, Call, Edit    turns.ID
	Compaction, Last     turns.ID
}

// Tell stores a story.
func Tell(t testing.TB, c *client.Client) (x Story) {
	t.Helper()
	ctx := context.Background()
	label := "shelf"
	s, err := c.Create(ctx, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label, Meta: turns.Raw(`{"cwd":"/home/ann/shelf","source":"claude-code","title":"shelf: import is slow"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	x.Session = s.ID
	x.First = Add(t, c, s.ID, "Importing my real export takes minutes in store.py.", "I look at **store.py** first.").ID
	call := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.Reasoning, Content: "what could be slow?"}, {Type: turns.ToolCall, ID: "c1", Name: "Bash", Arguments: turns.Raw(`{"command":"make test"}`)}}}
	a, err := c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{Say(turns.User, "Go on.")}, Response: &call, Model: "claude-opus-4-5", Usage: &turns.Usage{InputTokens: 2000, CacheRead: 1200, OutputTokens: 60}})
	if err != nil {
		t.Fatal(err)
	}
	x.Call = a.ID
	edit := turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c2", Name: "Edit", Arguments: turns.Raw(`{"file_path":"store.py","old_string":"a\nb\nc","new_string":"a\nB\nB2\nc"}`)}}}
	result := turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", IsError: true, Response: turns.RawText("exit 2\n" + strings.Repeat("a line of the output that is long\n", 300))}}}
	if a, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{result}, Response: &edit, Model: "claude-opus-4-5", Usage: &turns.Usage{InputTokens: 5000, CacheRead: 2000, OutputTokens: 80}}); err != nil {
		t.Fatal(err)
	}
	x.Edit = a.ID
	done := Say(turns.Assistant, "Done.")
	if _, err = c.Append(ctx, s.ID, api.AppendTurn{Messages: []turns.Message{{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c2", Response: turns.RawText("ok")}}}}, Response: &done, Model: "claude-opus-4-5"}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		Add(t, c, s.ID, fmt.Sprintf("Question %d about /srv/data/file-%d.txt and its %d rows?", i, i, 1000+i), fmt.Sprintf("Answer %d: %s", i, strings.Repeat("it is so. ", 120)))
	}
	made, err := c.Compact(ctx, s.ID, api.RunCompaction{AtOnce: true, Budget: 3000})
	if err != nil || made.Compaction == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	x.Compaction = made.Compaction.ID
	x.Last = Add(t, c, s.ID, "And now?", "It is fast.").ID
	name := "second-try"
	f, err := c.Fork(ctx, s.ID, api.CreateFork{Turn: x.Edit, Label: &name, Mode: "full"})
	if err != nil {
		t.Fatal(err)
	}
	x.Fork = f.ID
	o, err := c.Create(ctx, api.CreateSession{SpawnedBy: &api.SpawnedBy{Session: s.ID}})
	if err != nil {
		t.Fatal(err)
	}
	x.Other = o.ID
	Add(t, c, o.ID, "Find it.", "Found.")
	return x
}

// Form is what the form of a page would send.
func Form(kv ...string) string {
	v := url.Values{"id": {api.NewID().String()}}
	for i := 0; i+1 < len(kv); i += 2 {
		v.Set(kv[i], kv[i+1])
	}
	return v.Encode()
}

// Hostile are texts that try to be more than text.
var Hostile = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `</div></main><h1>mine</h1>`, `<!-- gone`, `<style>*{display:none}</style>`, `<svg onload=alert(1)>`, `<base href=//evil.example>`,
	`<form action=/ui/do/close method=post><button>x`, "[x](javascript:alert(1))", "![p](http://example.com/t.png)", `<javascript:alert(1)>`, "\x1b[31mred\x1b[0m\x1b]0;t\a", "a\u202eb\u2066c", "nul\x00byte",
	"{{.Title}}", `"><svg/onload=alert(1)>`, "a&#x202e;b", "[x](/ui/do/close)", "<iframe srcdoc='<script>x'>", "<meta http-equiv=refresh content=0>",
}

var tag = regexp.MustCompile(`<([a-zA-Z]+)((?:\s[^<>]*)?)>`)

// Tame fails for an element or an attribute of a page that no template has.
func Tame(t testing.TB, where, page string) {
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
