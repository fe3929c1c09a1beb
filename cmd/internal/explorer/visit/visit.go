package visit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/explorer/login"
	"nexus/cmd/internal/highlight"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Site is what all visits of an explorer share. Its Client may act as everybody: what a person may do
// is decided here, by their cookie. All fields must be set. Safe for concurrent use.
type Site struct {
	Client  *client.Client
	Version string
	Models  tokens.Models // for costs
	Now     func() time.Time
	Logger  *slog.Logger // content is never logged
	Desk    *login.Desk
	Looks   *Looks
}

// Visit is one request of somebody who is logged in.
type Visit struct {
	*Site
	W   http.ResponseWriter
	R   *http.Request
	Who login.Who
	C   *client.Client // reads as Who
	// Colours is what the page may spend on those of code.
	Colours *highlight.Page
}

// Pages are what a room serves, by patterns of [http.ServeMux].
type Pages map[string]func(*Visit) error

// Patience bounds a request of a page.
const Patience = 25 * time.Second

// MaxForm bounds what a form sends, in bytes.
const MaxForm = 64 << 10

// CookieName has the port in it: cookies are of a host, and there may be several ledgers.
func CookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	name := "nexus-ui-" + port
	if r.TLS != nil {
		name = "__Host-" + name
	}
	return name
}

// WhoIs returns who sent a request, by its cookie. It keeps the cookie in use.
func (s *Site) WhoIs(r *http.Request) (login.Who, bool) {
	c, err := r.Cookie(CookieName(r))
	if err != nil {
		return login.Who{}, false
	}
	return s.Desk.Who(c.Value)
}

// Fail shows an error.
func (v *Visit) Fail(err error) {
	if v.R.Context().Err() != nil && !errors.Is(v.R.Context().Err(), context.DeadlineExceeded) {
		return // nobody waits any more
	}
	said := api.FromError(err)
	status := said.Status()
	if status >= 500 {
		v.Logger.Warn("a page can't be shown", "path", v.R.Pattern, "code", said.Code)
	}
	v.Show(v.W, v.R, "error", Page{Title: "Error", Agent: v.Who.Agent, Tenant: v.Who.Tenant, Status: status, Data: struct{ Code, Text string }{string(said.Code), said.Message}})
}

// ID reads an id of the path.
func (v *Visit) ID(name string) (turns.ID, error) {
	id, err := turns.ParseID(strings.ToUpper(v.R.PathValue(name)))
	if err != nil {
		return id, api.Errorf(api.NotFound, nil, "the address names no %s", name)
	}
	return id, nil
}

// Place reads the session and the turn of the path.
func (v *Visit) Place() (s *api.Session, turn turns.ID, err error) {
	id, err := v.ID("session")
	if err != nil {
		return nil, turn, err
	}
	if v.R.PathValue("turn") != "" {
		if turn, err = v.ID("turn"); err != nil {
			return nil, turn, err
		}
	}
	s, err = v.C.GetSession(v.R.Context(), id, api.GetSession{About: api.About{About: true}})
	return s, turn, err
}

// Number reads a number of the query; def if it is not there or is none.
func (v *Visit) Number(name string, def uint64) uint64 {
	n, err := strconv.ParseUint(v.R.URL.Query().Get(name), 10, 64)
	if err != nil {
		return def
	}
	return n
}

// Parse reads a form of at most [MaxForm] bytes.
func (v *Visit) Parse() error {
	err := v.R.ParseForm()
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return api.Errorf(api.TooLarge, nil, "a form takes at most %s; on a terminal, ledgerctl turn note takes longer notes", humanize.IBytes(MaxForm))
	}
	if err != nil {
		return api.Errorf(api.Malformed, nil, "the form can't be read")
	}
	return nil
}

// SeeOther sends the browser to what an act made.
func (v *Visit) SeeOther(to string) error {
	http.Redirect(v.W, v.R, to, http.StatusSeeOther)
	return nil
}

// Writer returns a client that acts as the agent of a session, if the visitor may.
func (v *Visit) Writer(agent string) (*client.Client, error) {
	if !v.Who.MayChange(agent) {
		return nil, api.Errorf(api.Denied, nil, "%s", mayNot(v.Who))
	}
	return v.Client.For(v.Who.Tenant, agent).Within(Patience), nil
}

func mayNot(w login.Who) string {
	if w.ReadOnly {
		return "this login may change nothing; ledgerctl open without --read-only gives one that may"
	}
	return fmt.Sprintf("agent %s may not change this session", w.Agent)
}

// MayProve refuses a login that gets no proofs.
func (v *Visit) MayProve() error {
	if v.Who.Agent != api.Operator {
		return api.Errorf(api.Denied, nil, "checkpoints and proofs say how many events the whole ledger has; only the operator gets them")
	}
	return nil
}

// TurnURL is the path of the page of a turn, as a session has it.
func TurnURL(session, turn turns.ID) string {
	return "/ui/s/" + session.String() + "/t/" + turn.String()
}
