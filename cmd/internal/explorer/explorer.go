package explorer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"nexus/cmd/internal/explorer/login"
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
	desk     *login.Desk
	views    *views
	handler  http.Handler
	live     *live
	costs    costs
	sums     sums
	large    sync.Map // tenant and agent: there are more than [orderedMost] sessions
	requests atomic.Uint64
	base     context.Context // of what goes on behind pages, until Close
	stop     context.CancelFunc
}

// New returns an explorer that nobody is logged in at.
func New(c Config) *Explorer {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Explorer{Config: c, desk: login.NewDesk(c.Now), views: newViews()}
	e.live = newLive(c.Client.Conn())
	e.base, e.stop = context.WithCancel(context.Background())
	e.handler = e.routes()
	return e
}

// ServeHTTP serves what is below /ui/.
func (e *Explorer) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.handler.ServeHTTP(w, r) }

// Close ends the streams of pages that follow the ledger, and what goes on behind pages.
func (e *Explorer) Close() { e.stop(); e.live.close() }

// InUse reports whether a page follows the ledger or a code waits to be redeemed. ever counts the
// requests of those who are logged in.
func (e *Explorer) InUse() (open bool, ever uint64) {
	return e.live.count() > 0 || e.desk.Waits(), e.requests.Load()
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
	code, till := e.desk.Code(who, to)
	return &api.OpenedPages{URL: url + "/ui/login?code=" + code, Expires: api.Time(till)}, nil
}

// policy is what a page may load and run: files of the explorer. A script may not assign HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// visit is one request of somebody who is logged in.
type visit struct {
	*Explorer
	w   http.ResponseWriter
	r   *http.Request
	who login.Who
	c   *client.Client // reads as who
	// colours is what the page may spend on those of code.
	colours *highlight.Page
}

// patience bounds a request of a page.
const patience = 25 * time.Second

// maxForm bounds what a form sends, in bytes.
const maxForm = 64 << 10

// routes is the table of pages.
func (e *Explorer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /ui/a/{file}", http.HandlerFunc(e.views.asset))
	mux.HandleFunc("GET /ui/login", e.askLogin)
	mux.HandleFunc("POST /ui/login", e.login)
	for pattern, f := range map[string]func(*visit) error{
		"GET /ui/{$}":                          (*visit).sessions,
		"GET /ui/s/{session}":                  (*visit).session,
		"GET /ui/s/{session}/t/{turn}":         (*visit).turn,
		"GET /ui/s/{session}/t/{turn}/b/{n}":   (*visit).block,
		"GET /ui/s/{session}/t/{turn}/i/{n}":   (*visit).picture,
		"GET /ui/s/{session}/x/{turn}":         (*visit).context,
		"GET /ui/s/{session}/c/{turn}":         (*visit).compaction,
		"GET /ui/s/{session}/export":           (*visit).export,
		"GET /ui/s/{session}/compact":          (*visit).compactPreview,
		"GET /ui/s/{session}/takeout":          (*visit).takeOut,
		"GET /ui/s/{session}/t/{turn}/takeout": (*visit).takeOut,
		"GET /ui/s/{session}/t/{turn}/prove":   (*visit).prove,
		"GET /ui/s/{session}/t/{turn}/proof":   (*visit).proof,
		"POST /ui/do/takeout":                  (*visit).doTakeOut,
		"GET /ui/takeout":                      (*visit).takeOutEverywhere,
		"POST /ui/do/takeout-everywhere":       (*visit).doTakeOutEverywhere,
		"GET /ui/search":                       (*visit).search,
		"GET /ui/diff/{a}/{b}":                 (*visit).compare,
		"GET /ui/diff":                         (*visit).compare,
		"GET /ui/cost":                         (*visit).cost,
		"GET /ui/memory":                       (*visit).memory,
		"GET /ui/events":                       (*visit).events,
		"GET /ui/health":                       (*visit).health,
		"GET /ui/checkpoints":                  (*visit).checkpoints,
		"GET /ui/vanished":                     (*visit).vanished,
		"GET /ui/keys":                         (*visit).keys,
		"GET /ui/live":                         (*visit).follow,
		"POST /ui/do/fork":                     acts((*act).fork),
		"POST /ui/do/rewind":                   acts((*act).rewind),
		"POST /ui/do/compact":                  acts((*act).compact),
		"POST /ui/do/label":                    acts((*act).label),
		"POST /ui/do/close":                    acts((*act).close),
		"POST /ui/do/describe":                 acts((*act).describe),
		"POST /ui/do/hide":                     acts((*act).hide),
		"POST /ui/do/note":                     acts((*act).note),
		"POST /ui/do/theme":                    (*visit).doTheme,
		"POST /ui/do/logout":                   (*visit).doLogout,
		"/ui/":                                 func(*visit) error { return api.Errorf(api.NotFound, nil, "there is no such page") },
	} {
		mux.Handle(pattern, e.known(f))
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

// known lets f serve those who are logged in. Others get the page that says how.
func (e *Explorer) known(f func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := e.whoIs(r)
		if !ok {
			e.show(w, r, "login", page{Title: "Not logged in", Data: loginPage{}, Status: http.StatusUnauthorized})
			return
		}
		e.requests.Add(1)
		if r.URL.Path != "/ui/live" {
			ctx, cancel := context.WithTimeout(r.Context(), patience)
			defer cancel()
			r = r.WithContext(ctx)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		v := &visit{Explorer: e, w: w, r: r, who: who, c: e.Client.For(who.Tenant, who.Agent).Within(patience), colours: highlight.NewPage()}
		if err := f(v); err != nil {
			v.fail(err)
		}
	})
}

// cookieName has the port in it: cookies are of a host, and there may be several ledgers.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	name := "nexus-ui-" + port
	if r.TLS != nil {
		name = "__Host-" + name
	}
	return name
}

func (e *Explorer) whoIs(r *http.Request) (login.Who, bool) {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return login.Who{}, false
	}
	return e.desk.Who(c.Value)
}

// Caller returns who sent a request for a page, by its cookie: for [web.Guard].
func (e *Explorer) Caller(r *http.Request) (web.Caller, bool) {
	if !strings.HasPrefix(r.URL.Path, "/ui/") {
		return web.Caller{}, false
	}
	who, ok := e.whoIs(r)
	scope := web.Write
	if who.ReadOnly {
		scope = web.Read
	}
	return web.Caller{Name: "explorer", Tenant: who.Tenant, Agent: who.Agent, Scope: scope}, ok
}

type loginPage struct {
	Code string
	Used bool   // the code counts no more
	As   string // whom the code logs in
	Was  string // whom it logs out: this browser is logged in as another one
}

// askLogin shows a button that redeems a code: a browser that loads links before a person
// follows them redeems none.
func (e *Explorer) askLogin(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	was, in := e.whoIs(r)
	if in && code == "" {
		http.Redirect(w, r, "/ui/", http.StatusSeeOther)
		return
	}
	p := page{Title: "Log in", Data: loginPage{}}
	if code != "" {
		who, ok := e.desk.Waiting(code)
		l := loginPage{Code: code, Used: !ok, As: named(who)}
		if !ok {
			l.Code, p.Status = "", http.StatusUnauthorized
		}
		if in && ok && named(was) != l.As {
			l.Was = named(was)
		}
		p.Data = l
	}
	e.show(w, r, "login", p)
}

// named says as whom somebody looks, and what they may do: a link of a stranger must not pass for
// one's own.
func named(w login.Who) string {
	who := "agent " + w.Agent
	if w.Agent == api.Operator {
		who = "the operator, who reads all agents,"
	}
	who += " of tenant " + w.Tenant
	if w.By != "" {
		who = "user " + w.By + ", as " + who
	}
	if w.ReadOnly {
		return who + "; it reads only"
	}
	return who
}

func (e *Explorer) login(w http.ResponseWriter, r *http.Request) {
	secret, to, ok := e.desk.Redeem(r.URL.Query().Get("code")) // in the URL: the guard reads no body of a stranger
	if !ok {
		e.show(w, r, "login", page{Title: "Log in", Data: loginPage{Used: true}, Status: http.StatusUnauthorized})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: secret, Path: "/", MaxAge: 7 * 24 * 3600, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// fail shows an error.
func (v *visit) fail(err error) {
	if v.r.Context().Err() != nil && !errors.Is(v.r.Context().Err(), context.DeadlineExceeded) {
		return // nobody waits any more
	}
	said := api.FromError(err)
	status := said.Status()
	if status >= 500 {
		v.Logger.Warn("a page can't be shown", "path", v.r.Pattern, "code", said.Code)
	}
	v.show(v.w, v.r, "error", page{Title: "Error", Agent: v.who.Agent, Tenant: v.who.Tenant, Status: status, Data: struct{ Code, Text string }{string(said.Code), said.Message}})
}

// id reads an id of the path.
func (v *visit) id(name string) (turns.ID, error) {
	id, err := turns.ParseID(strings.ToUpper(v.r.PathValue(name)))
	if err != nil {
		return id, api.Errorf(api.NotFound, nil, "the address names no %s", name)
	}
	return id, nil
}

// place reads the session and the turn of the path.
func (v *visit) place() (s *api.Session, turn turns.ID, err error) {
	id, err := v.id("session")
	if err != nil {
		return nil, turn, err
	}
	if v.r.PathValue("turn") != "" {
		if turn, err = v.id("turn"); err != nil {
			return nil, turn, err
		}
	}
	s, err = v.c.GetSession(v.r.Context(), id, api.GetSession{About: api.About{About: true}})
	return s, turn, err
}

// number reads a number of the query; def if it is not there or is none.
func (v *visit) number(name string, def uint64) uint64 {
	n, err := strconv.ParseUint(v.r.URL.Query().Get(name), 10, 64)
	if err != nil {
		return def
	}
	return n
}

// writer returns a client that acts as the agent of a session, if the visitor may.
func (v *visit) writer(agent string) (*client.Client, error) {
	if !v.who.MayChange(agent) {
		return nil, api.Errorf(api.Denied, nil, "%s", mayNot(v.who))
	}
	return v.Client.For(v.who.Tenant, agent).Within(patience), nil
}

func mayNot(w login.Who) string {
	if w.ReadOnly {
		return "this login may change nothing; ledgerctl open without --read-only gives one that may"
	}
	return fmt.Sprintf("agent %s may not change this session", w.Agent)
}
