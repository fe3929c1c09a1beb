package explorer_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"nexus/cmd/internal/daemon/config"
	"nexus/cmd/internal/explorer/explorertest"
	"nexus/ledger/api"
)

func TestWhoeverIsNotLoggedInGetsNothing(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.NewBrowser(t, d)
	if status, h, _ := b.Ask(http.MethodGet, "/", ""); status != http.StatusSeeOther || h.Get("Location") != "/ui/" {
		t.Errorf("/: %d", status)
	}
	for _, path := range []string{"/ui/", "/ui/s/" + x.Session.String(), "/ui/search?q=export", "/ui/live", "/ui/cost", "/ui/nothing", "/ui/s/" + x.Session.String() + "/export?format=jsonl"} {
		for _, cookie := range []string{"", "nexus-ui-" + d.HTTPURL()[strings.LastIndexByte(d.HTTPURL(), ':')+1:] + "=AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
			status, _, body := b.Ask(http.MethodGet, path, "", "Cookie", cookie)
			if status != http.StatusUnauthorized || strings.Contains(body, "shelf") || !strings.Contains(body, "ledgerctl open") {
				t.Errorf("%s: %d\n%s", path, status, body)
			}
		}
	}
	if status, _, _ := b.Ask(http.MethodPost, "/ui/do/close", explorertest.Form("session", x.Session.String())); status != http.StatusUnauthorized {
		t.Errorf("an act: %d", status)
	}
	if s, err := c.Session(t.Context(), x.Session); err != nil || s.State != "open" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestALinkIsGoodForOneLogin(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	link, err := c.OpenPages(t.Context(), api.OpenPages{})
	if err != nil {
		t.Fatal(err)
	}
	if until := time.Until(time.Time(link.Expires)); until > time.Minute || until < 50*time.Second {
		t.Errorf("it is good for %v", until)
	}
	first, second := explorertest.NewBrowser(t, d), explorertest.NewBrowser(t, d)
	for range 3 { // whatever loads the link before a person follows it
		if status, h, body := first.Ask(http.MethodGet, link.URL, ""); status != 200 || h.Get("Set-Cookie") != "" || !strings.Contains(body, "<button") {
			t.Fatalf("%d\n%s", status, body)
		}
	}
	first.Has(link.URL[len(first.Base):], "agent main of tenant default")
	if status, h, _ := first.Ask(http.MethodPost, link.URL, ""); status != http.StatusSeeOther || !strings.Contains(h.Get("Set-Cookie"), "HttpOnly; SameSite=Strict") {
		t.Errorf("%d, %s", status, h.Get("Set-Cookie"))
	}
	if status, h, body := second.Ask(http.MethodPost, link.URL, ""); status != http.StatusUnauthorized || h.Get("Set-Cookie") != "" || !strings.Contains(body, "counts no more") {
		t.Errorf("a second login: %d\n%s", status, body)
	}
	first.Page("/ui/")
	if status, _, body := first.Ask(http.MethodGet, link.URL, ""); status != http.StatusUnauthorized || !strings.Contains(body, "counts no more") || strings.Contains(body, "<button") {
		t.Errorf("a used link: %d\n%s", status, body)
	}
	if other, err := c.As(api.Operator).OpenPages(t.Context(), api.OpenPages{ReadOnly: true}); err != nil {
		t.Fatal(err)
	} else { // somebody else's link, in a browser that is logged in
		first.Has(other.URL[len(first.Base):], "the operator, who reads all agents, of tenant default; it reads only", "It is logged in as somebody else now", "agent main of tenant default")
	}
	if status, _, _ := first.Ask(http.MethodPost, "/ui/do/logout", "a=b"); status != http.StatusSeeOther {
		t.Errorf("logout: %d", status)
	}
	if status, _, _ := first.Ask(http.MethodGet, "/ui/", ""); status != http.StatusUnauthorized {
		t.Errorf("after it: %d", status)
	}
}

// A page of another origin neither acts nor reads: on another site, and on another port of this
// machine, to which the browser sends the cookie.
func TestPagesOfOtherOriginsAreRefused(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	closing := explorertest.Form("session", x.Session.String())
	for name, header := range map[string][]string{
		"another port": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "http://127.0.0.1:3000"},
		"a form":       {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "http://localhost:3000"},
		"another site": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "https://evil.example"},
		"an old one":   {"Origin", "https://evil.example"},
		"no origin":    {"Origin", "null"},
	} {
		if status, _, body := b.Ask(http.MethodPost, "/ui/do/close", closing, header...); status != http.StatusForbidden {
			t.Errorf("%s acts: %d\n%s", name, status, body)
		}
	}
	for name, header := range map[string][]string{
		"a request": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
		"a script":  {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"},
		"a frame":   {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
	} {
		if status, _, body := b.Ask(http.MethodGet, "/ui/", "", header...); status != http.StatusForbidden || strings.Contains(body, "shelf") {
			t.Errorf("%s reads: %d", name, status)
		}
	}
	if status, _, _ := b.Ask(http.MethodGet, "/ui/", "", "Host", "evil.example"); status != http.StatusMisdirectedRequest {
		t.Errorf("a name that resolves to this machine: %d", status)
	}
	if s, err := c.Session(t.Context(), x.Session); err != nil || s.State != "open" {
		t.Errorf("%+v, %v", s, err)
	}
	_, h, _ := b.Ask(http.MethodGet, "/ui/", "")
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
	d, c := explorertest.Start(t, config.Config{Token: []config.TokenRow{row}})
	x := explorertest.Tell(t, c)
	b := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{})
	for _, path := range []string{"/mcp", "/v1/models"} {
		if status, _, _ := b.Ask(http.MethodGet, path, ""); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, _ := explorertest.NewBrowser(t, d).Ask(http.MethodGet, "/ui/", "", "Authorization", "Bearer "+secret); status != http.StatusUnauthorized {
		t.Errorf("a token opens the pages: %d", status)
	}
	// Beside tokens the guard waits for no body of a stranger; this one is known.
	if status, _, body := b.Ask(http.MethodPost, "/ui/do/label", explorertest.Form("session", x.Session.String(), "label", "renamed")); status != http.StatusSeeOther {
		t.Errorf("an act: %d\n%s", status, body)
	}
}

func TestALoginMayDoWhatItsAskerMay(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	x := explorertest.Tell(t, c)
	other, err := c.As("other").Create(t.Context(), api.CreateSession{})
	if err != nil {
		t.Fatal(err)
	}
	explorertest.Add(t, c.As("other"), other.ID, "a secret of another agent", "yes")
	main := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	if body := main.Page("/ui/"); strings.Contains(body, other.ID.String()) || !strings.Contains(body, x.Session.String()) {
		t.Error("agent main sees the sessions of another, or not its own")
	}
	for _, path := range []string{"/ui/s/" + other.ID.String(), "/ui/s/" + other.ID.String() + "/export?format=html"} {
		if status, _, _ := main.Ask(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, _ := main.Ask(http.MethodPost, "/ui/do/close", explorertest.Form("session", other.ID.String())); status != http.StatusNotFound {
		t.Errorf("agent main closes a session of another: %d", status)
	}
	if status, _, _ := main.Ask(http.MethodGet, "/ui/s/"+x.Session.String()+"/export?format=jsonl", ""); status != http.StatusForbidden {
		t.Errorf("an agent exports content keys: %d", status)
	}
	read := explorertest.LoggedIn(t, d, c.As(api.Operator), api.OpenPages{ReadOnly: true})
	body := read.Has("/ui/s/"+x.Session.String(), "reads only")
	if strings.Contains(body, "/ui/do/close") {
		t.Error("a login that reads only is offered acts")
	}
	for _, verb := range []string{"fork", "rewind", "compact", "label", "close", "describe", "hide", "note"} {
		if status, _, _ := read.Ask(http.MethodPost, "/ui/do/"+verb, explorertest.Form("session", x.Session.String(), "turn", x.First.String())); status != http.StatusForbidden {
			t.Errorf("%s by a login that reads only: %d", verb, status)
		}
	}
	if status, _, _ := read.Ask(http.MethodGet, "/ui/s/"+x.Session.String()+"/export?format=jsonl", ""); status != http.StatusForbidden {
		t.Errorf("it exports content keys: %d", status)
	}
	if s, err := c.Session(t.Context(), x.Session); err != nil || s.State != "open" || s.Label != "shelf" || *s.Head != x.Last {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTheThemeShowsWhichItIs(t *testing.T) {
	d, c := explorertest.Start(t, config.Config{})
	b := explorertest.LoggedIn(t, d, c, api.OpenPages{})
	sign := regexp.MustCompile(`(?s)<form class="theme".*?</form>`)
	seen := make(map[string]string)
	for _, theme := range []string{"auto", "dark", "light"} {
		b.Ask(http.MethodPost, "/ui/do/theme", "theme="+theme+"&back=/ui/")
		svg := regexp.MustCompile(`(?s)<svg.*</svg>`).FindString(sign.FindString(b.Page("/ui/")))
		if other, ok := seen[svg]; ok || svg == "" {
			t.Errorf("%s looks like %s", theme, other)
		}
		seen[svg] = theme
	}
}
