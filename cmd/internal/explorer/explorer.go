package explorer

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"nexus/cmd/internal/explorer/acts"
	"nexus/cmd/internal/explorer/compare"
	"nexus/cmd/internal/explorer/costs"
	"nexus/cmd/internal/explorer/live"
	"nexus/cmd/internal/explorer/login"
	"nexus/cmd/internal/explorer/views"
	"nexus/cmd/internal/explorer/visit"
	"nexus/cmd/internal/highlight"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Config says what the pages show. All fields but Logger and Vanished must be set.
type Config struct {
	Client  *client.Client // asks as any tenant and agent; see [Explorer]
	Version string
	Models  tokens.Models // for costs
	Now     func() time.Time
	Health  func() []Fact // what the daemon knows of itself
	// Checkpoints says what was signed last; nil: nothing is signed here. The operator alone sees it.
	Checkpoints func(context.Context) (*Checkpoints, error)
	// Vanished lists transcripts that are gone from their agents' folders, the newest last. nil: nobody
	// watches any. The operator alone sees it: it names files of this machine.
	Vanished func() ([]Gone, error)
	Logger   *slog.Logger // nil: silent. Content is never logged
}

// Fact is a line of the page Health.
type Fact struct {
	Name, Text string
	OK         bool
}

// Gone is a transcript that is no longer where its agent wrote it.
type Gone struct {
	File, Agent string
	Session     turns.ID // one of those that it held; zero: not known
	Kept, Lost  int64    // bytes that are in the ledger, and that it had and are not
	Gone        time.Time
}

// Explorer serves the pages. Its Config's Client may act as everybody: what a person may do is
// decided here, by their cookie. Safe for concurrent use.
type Explorer struct {
	Config
	site     *visit.Site
	live     *live.Streams
	costs    *costs.Costs
	handler  http.Handler
	requests atomic.Uint64
	stop     context.CancelFunc // of what goes on behind pages
}

// New returns an explorer that nobody is logged in at.
func New(c Config) *Explorer {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	base, stop := context.WithCancel(context.Background())
	e := &Explorer{Config: c, live: live.New(c.Client.Conn()), costs: costs.New(base), stop: stop}
	e.site = &visit.Site{Client: c.Client, Version: c.Version, Models: c.Models, Now: c.Now, Logger: c.Logger, Desk: login.NewDesk(c.Now), Looks: visit.NewLooks()}
	e.handler = e.routes()
	return e
}

// ServeHTTP serves what is below /ui/.
func (e *Explorer) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.handler.ServeHTTP(w, r) }

// Close ends the streams of pages that follow the ledger, and what goes on behind pages.
func (e *Explorer) Close() { e.stop(); e.live.Close() }

// InUse reports whether a page follows the ledger or a code waits to be redeemed. ever counts the
// requests of those who are logged in.
func (e *Explorer) InUse() (open bool, ever uint64) {
	return e.live.Count() > 0 || e.site.Desk.Waits(), e.requests.Load()
}

// Open returns a link to the explorer at a URL that logs who in, once.
func (e *Explorer) Open(url string, who login.Who, r api.OpenPages) (*api.OpenedPages, error) {
	to := "/ui/"
	switch {
	case !r.Turn.IsZero() && r.Session.IsZero():
		return nil, api.FieldErrorf("/turn", "goes with session")
	case !r.Turn.IsZero():
		to += "s/" + r.Session.String() + "/t/" + r.Turn.String()
	case !r.Session.IsZero():
		to += "s/" + r.Session.String()
	}
	code, till := e.site.Desk.Code(who, to)
	return &api.OpenedPages{URL: url + "/ui/login?code=" + code, Expires: api.Time(till)}, nil
}

// policy is what a page may load and run: files of the explorer. A script may not assign HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// routes is the table of pages: those of the rooms, and the explorer's own.
func (e *Explorer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/a/{file}", e.site.Looks.Asset)
	mux.HandleFunc("GET /ui/login", e.askLogin)
	mux.HandleFunc("POST /ui/login", e.login)
	own := visit.Pages{
		"GET /ui/health":      e.health,
		"GET /ui/checkpoints": e.checkpoints,
		"GET /ui/vanished":    e.vanished,
		"GET /ui/keys":        e.keys,
		"POST /ui/do/theme":   e.doTheme,
		"POST /ui/do/logout":  e.doLogout,
		"/ui/":                func(*visit.Visit) error { return api.Errorf(api.NotFound, nil, "there is no such page") },
	}
	for _, room := range []visit.Pages{views.New(e.costs, e.Vanished != nil).Pages(), compare.New(e.costs).Pages(), e.costs.Pages(), acts.Pages(), e.live.Pages(), own} {
		for pattern, f := range room {
			mux.Handle(pattern, e.known(f, pattern != live.Pattern))
		}
	}
	return secured(http.NewCrossOriginProtection().Handler(mux))
}

// secured adds the headers of every reply, and refuses what other pages ask for: a page on
// another port of this machine is of the same site, and its requests carry the cookie.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		if s := r.Header.Get("Sec-Fetch-Site"); s == "cross-site" || s == "same-site" {
			link := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
			if !link {
				http.Error(w, "a page of another origin asks", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// known lets f serve those who are logged in, for a bounded time or until they go. Others get the page
// that says how.
func (e *Explorer) known(f func(*visit.Visit) error, bounded bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := e.site.WhoIs(r)
		if !ok {
			e.site.Show(w, r, "login", visit.Page{Title: "Not logged in", Data: loginPage{}, Status: http.StatusUnauthorized})
			return
		}
		e.requests.Add(1)
		if bounded {
			ctx, cancel := context.WithTimeout(r.Context(), visit.Patience)
			defer cancel()
			r = r.WithContext(ctx)
		}
		r.Body = http.MaxBytesReader(w, r.Body, visit.MaxForm)
		v := &visit.Visit{Site: e.site, W: w, R: r, Who: who, C: e.Client.For(who.Tenant, who.Agent).Within(visit.Patience), Colours: highlight.NewPage()}
		if err := f(v); err != nil {
			v.Fail(err)
		}
	})
}

// Caller returns who sent a request for a page, by its cookie: for [web.Guard].
func (e *Explorer) Caller(r *http.Request) (web.Caller, bool) {
	if !strings.HasPrefix(r.URL.Path, "/ui/") {
		return web.Caller{}, false
	}
	who, ok := e.site.WhoIs(r)
	scope := web.Write
	if who.ReadOnly {
		scope = web.Read
	}
	return web.Caller{Name: "explorer", Tenant: who.Tenant, Agent: who.Agent, Scope: scope}, ok
}
