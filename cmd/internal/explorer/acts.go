package explorer

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dustin/go-humanize"

	pages "nexus/cmd/internal/page"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// act is a change of a session that a form asks for.
type act struct {
	*visit
	c  *client.Client // may change the session
	s  *api.Session
	id turns.ID // of the request: a form that is sent twice is one change
}

// acts returns what serves the form of a change. do returns where the browser goes then.
func acts(do func(*act) (to string, err error)) func(*visit) error {
	return func(v *visit) error {
		a, err := v.form()
		if err != nil {
			return err
		}
		to, err := do(a)
		if err != nil {
			return err
		}
		return v.seeOther(to)
	}
}

// form reads what all forms of changes have.
func (v *visit) form() (*act, error) {
	if err := v.parse(); err != nil {
		return nil, err
	}
	session, err := turns.ParseID(v.r.PostForm.Get("session"))
	if err != nil {
		return nil, api.Errorf(api.Malformed, nil, "the form names no session")
	}
	id, err := turns.ParseID(v.r.PostForm.Get("id"))
	if err != nil {
		return nil, api.Errorf(api.Malformed, nil, "the form has no id")
	}
	s, err := v.c.Session(v.r.Context(), session) // as who visits: one of another agent is not found
	if err != nil {
		return nil, err
	}
	c, err := v.writer(s.Agent)
	return &act{v, c, s, id}, err
}

// here is the page of the session.
func (a *act) here() string { return "/ui/s/" + a.s.ID.String() }

// parse reads a form of at most [maxForm] bytes.
func (v *visit) parse() error {
	err := v.r.ParseForm()
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return api.Errorf(api.TooLarge, nil, "a form takes at most %s; on a terminal, ledgerctl turn note takes longer notes", humanize.IBytes(maxForm))
	}
	if err != nil {
		return api.Errorf(api.Malformed, nil, "the form can't be read")
	}
	return nil
}

// turn reads the turn that a form names.
func (a *act) turn() (turns.ID, error) {
	id, err := turns.ParseID(a.r.PostForm.Get("turn"))
	if err != nil {
		return id, api.Errorf(api.Malformed, nil, "the form names no turn")
	}
	return id, nil
}

// seeOther sends the browser to what an act made.
func (v *visit) seeOther(to string) error {
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

func (a *act) fork() (string, error) {
	turn, err := a.turn()
	if err != nil {
		return "", err
	}
	r := api.CreateFork{ID: a.id, Turn: turn, Mode: a.r.PostForm.Get("mode")}
	if label := strings.TrimSpace(a.r.PostForm.Get("label")); label != "" {
		r.Label = &label
	}
	made, err := a.c.Fork(a.r.Context(), a.s.ID, r)
	if err != nil {
		return "", err
	}
	return "/ui/s/" + made.ID.String() + "?from=last", nil
}

func (a *act) rewind() (string, error) {
	turn, err := a.turn()
	if err != nil {
		return "", err
	}
	r := api.MoveSession{ID: a.id, To: &turn}
	if head, err := turns.ParseID(a.r.PostForm.Get("head")); err == nil {
		r.IfHead = head
	}
	_, err = a.c.Move(a.r.Context(), a.s.ID, r)
	return a.here() + "?from=last", err
}

func (a *act) label() (string, error) {
	label := strings.TrimSpace(a.r.PostForm.Get("label"))
	_, err := a.c.Set(a.r.Context(), a.s.ID, api.SetSession{ID: a.id, SessionSettings: api.SessionSettings{Label: &label}})
	return a.here(), err
}

func (a *act) close() (string, error) {
	_, err := a.c.Close(a.r.Context(), a.s.ID, api.CloseSession{ID: a.id, Cause: "closed in the explorer"})
	return a.here(), err
}

type compactPage struct {
	head
	Plan    *api.Plan
	Nothing string
	Focus   string
	Budget  uint64
	Through uint64
	Before  string
	After   string
}

// compactPreview shows what a compaction would do, and makes none.
func (v *visit) compactPreview() error {
	s, _, err := v.place()
	if err != nil {
		return err
	}
	c, err := v.writer(s.Agent)
	if err != nil {
		return err
	}
	p := &compactPage{head: v.head(s), Focus: pages.Line(v.r.URL.Query().Get("focus"), 400)}
	made, err := c.Compact(v.r.Context(), s.ID, api.RunCompaction{DryRun: true, Focus: p.Focus})
	switch e := (*api.Error)(nil); {
	case err == nil && made.Plan != nil:
		p.Plan = made.Plan
		most := max(p.Plan.TokensBefore, 1)
		p.Before, p.After = "100", fmt.Sprint(max(1, 100*min(p.Plan.TokensKept+p.Plan.SummaryMax, most)/most))
		if t := p.Plan.Through; t != nil {
			if x, err := v.c.Turn(v.r.Context(), s.ID, *t); err == nil {
				p.Through = x.Depth
			}
		}
	case err != nil:
		if e = api.FromError(err); e.Code != api.Nothing && e.Code != api.Unprocessable {
			return err
		}
		p.Nothing = e.Message
	}
	v.page("compact", "Compact", "sessions", p)
	return nil
}

func (a *act) compact() (string, error) {
	made, err := a.c.Compact(a.r.Context(), a.s.ID, api.RunCompaction{ID: a.id, Focus: strings.TrimSpace(a.r.PostForm.Get("focus")), FromOriginals: a.r.PostForm.Get("from_originals") != "", WaitMS: 15_000})
	if err != nil {
		return "", err
	}
	if made.Compaction == nil {
		return a.here() + "?from=last", nil
	}
	return a.here() + "/c/" + made.Compaction.ID.String(), nil
}

// doTheme sets the theme of this browser.
func (v *visit) doTheme() error {
	if err := v.parse(); err != nil {
		return err
	}
	c := &http.Cookie{Name: "nexus-theme", Path: "/ui/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteStrictMode, HttpOnly: true, Secure: v.r.TLS != nil}
	switch theme := v.r.PostForm.Get("theme"); theme {
	case "dark", "light":
		c.Value = theme
	default:
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
	return v.seeOther(local(v.r.PostForm.Get("back")))
}

// local returns a path of the explorer, "/ui/" for any other address.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/") || strings.Contains(u.Path, `\`) {
		return "/ui/"
	}
	return to
}

func (v *visit) doLogout() error {
	if c, err := v.r.Cookie(cookieName(v.r)); err == nil {
		v.desk.Forget(c.Value)
	}
	http.SetCookie(v.w, &http.Cookie{Name: cookieName(v.r), Path: "/", MaxAge: -1, HttpOnly: true, Secure: v.r.TLS != nil, SameSite: http.SameSiteStrictMode})
	return v.seeOther("/ui/")
}
