package explorer

import (
	"net/http"
	"net/url"
	"strings"

	"nexus/cmd/internal/explorer/login"
	"nexus/cmd/internal/explorer/visit"
	"nexus/ledger/api"
)

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
	was, in := e.site.WhoIs(r)
	if in && code == "" {
		http.Redirect(w, r, "/ui/", http.StatusSeeOther)
		return
	}
	p := visit.Page{Title: "Log in", Data: loginPage{}}
	if code != "" {
		who, ok := e.site.Desk.Waiting(code)
		l := loginPage{Code: code, Used: !ok, As: named(who)}
		if !ok {
			l.Code, p.Status = "", http.StatusUnauthorized
		}
		if in && ok && named(was) != l.As {
			l.Was = named(was)
		}
		p.Data = l
	}
	e.site.Show(w, r, "login", p)
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
	secret, to, ok := e.site.Desk.Redeem(r.URL.Query().Get("code")) // in the URL: the guard reads no body of a stranger
	if !ok {
		e.site.Show(w, r, "login", visit.Page{Title: "Log in", Data: loginPage{Used: true}, Status: http.StatusUnauthorized})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: visit.CookieName(r), Value: secret, Path: "/", MaxAge: 7 * 24 * 3600, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// doTheme sets the theme of this browser.
func (e *Explorer) doTheme(v *visit.Visit) error {
	if err := v.Parse(); err != nil {
		return err
	}
	c := &http.Cookie{Name: "nexus-theme", Path: "/ui/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteStrictMode, HttpOnly: true, Secure: v.R.TLS != nil}
	switch theme := v.R.PostForm.Get("theme"); theme {
	case "dark", "light":
		c.Value = theme
	default:
		c.MaxAge = -1
	}
	http.SetCookie(v.W, c)
	return v.SeeOther(local(v.R.PostForm.Get("back")))
}

// local returns a path of the explorer, "/ui/" for any other address.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/") || strings.Contains(u.Path, `\`) {
		return "/ui/"
	}
	return to
}

func (e *Explorer) doLogout(v *visit.Visit) error {
	if c, err := v.R.Cookie(visit.CookieName(v.R)); err == nil {
		v.Desk.Forget(c.Value)
	}
	http.SetCookie(v.W, &http.Cookie{Name: visit.CookieName(v.R), Path: "/", MaxAge: -1, HttpOnly: true, Secure: v.R.TLS != nil, SameSite: http.SameSiteStrictMode})
	return v.SeeOther("/ui/")
}
