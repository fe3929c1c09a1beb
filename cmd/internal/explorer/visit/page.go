package visit

import (
	"bytes"
	"net/http"

	"nexus/cmd/internal/highlight"
)

// Page is what every page shows, and what is its own.
type Page struct {
	Title   string
	Nav     string // the part of the explorer that it belongs to
	Theme   string // light, dark; "": as the system
	Agent   string // as whom it is read; "": nobody is logged in
	Tenant  string
	Version string
	Query   string // in the field of search
	Live    string // what the page follows: a session, "all"; "": nothing
	Here    string // its path, for forms that come back to it
	Data    any
	Status  int // of the reply; 0: 200

	colours *highlight.Page // of its code; nil: it has none
}

// Render shows a page to who visits.
func (v *Visit) Render(name, title, nav string, data any) {
	v.RenderLive(name, title, nav, "", data)
}

// RenderLive shows a page that follows a session, or "all".
func (v *Visit) RenderLive(name, title, nav, live string, data any) {
	v.Show(v.W, v.R, name, Page{Title: title, Nav: nav, Agent: v.Who.Agent, Tenant: v.Who.Tenant, Live: live, Data: data, colours: v.Colours})
}

// Show writes a page. Its status may be written before.
func (s *Site) Show(w http.ResponseWriter, r *http.Request, name string, p Page) {
	p.Version, p.Here, p.Theme = s.Version, r.URL.RequestURI(), themeOf(r)
	if r.Method != http.MethodGet {
		p.Here = "/ui/"
	}
	if p.Query == "" {
		p.Query = r.URL.Query().Get("q")
	}
	var b bytes.Buffer
	t := s.Looks.pages[name]
	what := "layout.html"
	if r.Header.Get("X-Fragment") != "" && t.Lookup("fragment") != nil {
		what = "fragment"
	}
	for n := 0; n < len(Sizes); n++ {
		b.Reset()
		if f, ok := p.Data.(fitting); ok {
			f.Fit(Sizes[n])
		}
		if err := t.ExecuteTemplate(&b, what, p); err != nil {
			s.Logger.Error("a defect in a page", "page", name, "err", err.Error())
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		if b.Len() <= maxPage {
			break
		}
		if p.colours.Off() { // they go before any text does
			n--
		} else if _, ok := p.Data.(fitting); !ok {
			break
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	_, _ = w.Write(b.Bytes())
}

// maxPage is the most bytes of a page that lists turns.
const maxPage = 280_000

// Size is how much of each turn a list of turns shows.
type Size struct {
	Text   int // bytes of what a person or the model says
	Inline int // bytes of a folded piece that is on the page
	Pieces int // of a turn
}

// Sizes are tried until the page is small enough.
var Sizes = [...]Size{{4000, 700, 40}, {1200, 300, 15}, {400, 0, 6}, {100, 0, 2}}

// fitting is a page that can show less.
type fitting interface{ Fit(Size) }

// themeOf is the theme that the visitor chose; "": none.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie("nexus-theme"); err == nil && (c.Value == "dark" || c.Value == "light") {
		return c.Value
	}
	return ""
}
