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

// form reads the session and the id of the request that a form sends, and a client that may
// change the session. The id makes a form that is sent twice one change.
func (v *visit) form() (*client.Client, *api.Session, turns.ID, error) {
	var none turns.ID
	if err := v.parse(); err != nil {
		return nil, nil, none, err
	}
	session, err := turns.ParseID(v.r.PostForm.Get("session"))
	if err != nil {
		return nil, nil, none, api.Errorf(api.Malformed, nil, "the form names no session")
	}
	id, err := turns.ParseID(v.r.PostForm.Get("id"))
	if err != nil {
		return nil, nil, none, api.Errorf(api.Malformed, nil, "the form has no id")
	}
	s, err := v.c.Session(v.r.Context(), session) // as who visits: one of another agent is not found
	if err != nil {
		return nil, nil, none, err
	}
	c, err := v.writer(s.Agent)
	return c, s, id, err
}

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

// formTurn reads the turn that a form names.
func (v *visit) formTurn() (turns.ID, error) {
	id, err := turns.ParseID(v.r.PostForm.Get("turn"))
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

func (v *visit) doFork() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	turn, err := v.formTurn()
	if err != nil {
		return err
	}
	r := api.CreateFork{ID: id, Turn: turn, Mode: v.r.PostForm.Get("mode")}
	if label := strings.TrimSpace(v.r.PostForm.Get("label")); label != "" {
		r.Label = &label
	}
	made, err := c.Fork(v.r.Context(), s.ID, r)
	if err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + made.ID.String() + "?from=last")
}

func (v *visit) doRewind() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	turn, err := v.formTurn()
	if err != nil {
		return err
	}
	r := api.MoveSession{ID: id, To: &turn}
	if head, err := turns.ParseID(v.r.PostForm.Get("head")); err == nil {
		r.IfHead = head
	}
	if _, err := c.Move(v.r.Context(), s.ID, r); err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + s.ID.String() + "?from=last")
}

func (v *visit) doLabel() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	label := strings.TrimSpace(v.r.PostForm.Get("label"))
	if _, err := c.Set(v.r.Context(), s.ID, api.SetSession{ID: id, SessionSettings: api.SessionSettings{Label: &label}}); err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + s.ID.String())
}

func (v *visit) doClose() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	if _, err := c.Close(v.r.Context(), s.ID, api.CloseSession{ID: id, Cause: "closed in the explorer"}); err != nil {
		return err
	}
	return v.seeOther("/ui/s/" + s.ID.String())
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

func (v *visit) doCompact() error {
	c, s, id, err := v.form()
	if err != nil {
		return err
	}
	made, err := c.Compact(v.r.Context(), s.ID, api.RunCompaction{ID: id, Focus: strings.TrimSpace(v.r.PostForm.Get("focus")), FromOriginals: v.r.PostForm.Get("from_originals") != "", WaitMS: 15_000})
	if err != nil {
		return err
	}
	if made.Compaction == nil {
		return v.seeOther("/ui/s/" + s.ID.String() + "?from=last")
	}
	return v.seeOther("/ui/s/" + s.ID.String() + "/c/" + made.Compaction.ID.String())
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
