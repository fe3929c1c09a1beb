package explorer

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"nexus/cmd/internal/highlight"
	"nexus/cmd/internal/kinds"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/turns"
)

//go:embed assets
var assets embed.FS

//go:embed templates
var templates embed.FS

// views has the templates by the name of their file, and the files of style and script by names
// with their hashes in them: a browser may keep those for ever.
type views struct {
	pages map[string]*template.Template
	files map[string][]byte
	names map[string]string // app.css: app.0123456789abcdef.css
}

func newViews() *views {
	v := &views{pages: make(map[string]*template.Template), files: make(map[string][]byte), names: make(map[string]string)}
	must := func(err error) {
		if err != nil {
			panic(err) // of what is embedded
		}
	}
	list, err := fs.ReadDir(assets, "assets")
	must(err)
	for _, f := range list {
		b, err := assets.ReadFile("assets/" + f.Name())
		must(err)
		if f.Name() == "app.css" {
			b = append([]byte(pages.Look()), b...)
		}
		sum := sha256.Sum256(b)
		ext := path.Ext(f.Name())
		name := strings.TrimSuffix(f.Name(), ext) + "." + hex.EncodeToString(sum[:8]) + ext
		v.files[name], v.names[f.Name()] = b, name
	}
	base := template.Must(template.New("").Funcs(v.functions()).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	list, err = fs.ReadDir(templates, "templates")
	must(err)
	for _, f := range list {
		if name := strings.TrimSuffix(f.Name(), ".html"); name != "layout" && name != "parts" {
			v.pages[name] = template.Must(template.Must(base.Clone()).ParseFS(templates, "templates/"+f.Name()))
		}
	}
	return v
}

// functions are what templates call.
func (v *views) functions() template.FuncMap {
	return template.FuncMap{
		"asset":      func(name string) string { return "/ui/a/" + v.names[name] },
		"short":      prose.Short,
		"count":      pages.Count,
		"grouped":    prose.Grouped,
		"plural":     func(n any, what string) string { return prose.Plural(toUint(n), what) },
		"bytes":      func(n any) string { return humanize.IBytes(toUint(n)) },
		"percent":    func(f float64) string { return fmt.Sprintf("%.0f %%", 100*f) },
		"md":         pages.Markdown,
		"line":       pages.Line,
		"text":       pages.Text,
		"kinds":      func() []kinds.Look { return kinds.All[:] },
		"stamp":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"when":       func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") },
		"clock":      func(t api.Time) string { return time.Time(t).Local().Format("2006-01-02 15:04") },
		"clip":       clip,
		"int":        func(n uint64) int { return int(min(n, math.MaxInt32)) },
		"add":        func(a, b int) int { return a + b },
		"list":       func(words ...string) []string { return words },
		"sum":        func(a, b uint64) uint64 { return a + b },
		"meter":      func(f float64) float64 { return 60 * min(max(f, 0.02), 1) },
		"percentof":  func(f float64) float64 { return max(1, 100*f) },
		"lanecolour": func(i int) int { return i % 5 },
		"limit": func(p piece) int {
			if p.Full {
				return pages.MaxPart
			}
			return p.Limit
		},
		"pair":  func(session turns.ID, e api.RedactedEvent) foundEvent { return foundEvent{session, e} },
		"fits":  func(p piece) bool { return p.Full || len(p.Text.Text) <= p.Limit },
		"newid": func() string { return api.NewID().String() },
		"cut": func(p pages.Prose, n int) cutText {
			return cutText{Text: clip(p.Text, n), More: uint64(max(0, len(p.Text)-len(clip(p.Text, n)))) + p.Left}
		},
	}
}

// cutText is the beginning of a text, and how many bytes come after it.
type cutText struct {
	Text string
	More uint64
}

// clip is the beginning of a text of at most n bytes, which ends with a whole line if it has
// several.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[:n], "")
	if i := strings.LastIndexByte(s, '\n'); i > n/2 {
		s = s[:i]
	}
	return s
}

func toUint(n any) uint64 {
	switch n := n.(type) {
	case uint64:
		return n
	case int:
		return uint64(max(n, 0))
	}
	return 0
}

// asset serves a file of style or script.
func (v *views) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	b, ok := v.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(b)
}

// page is what every page shows, and what is its own.
type page struct {
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

// page shows a page to who visits.
func (v *visit) page(name, title, nav string, data any) {
	v.follows(name, title, nav, "", data)
}

// follows shows a page that follows a session, or "all".
func (v *visit) follows(name, title, nav, live string, data any) {
	v.show(v.w, v.r, name, page{Title: title, Nav: nav, Agent: v.who.Agent, Tenant: v.who.Tenant, Live: live, Data: data, colours: v.colours})
}

// show writes a page. Its status may be written before.
func (e *Explorer) show(w http.ResponseWriter, r *http.Request, name string, p page) {
	p.Version, p.Here, p.Theme = e.Version, r.URL.RequestURI(), themeOf(r)
	if r.Method != http.MethodGet {
		p.Here = "/ui/"
	}
	if p.Query == "" {
		p.Query = r.URL.Query().Get("q")
	}
	var b bytes.Buffer
	t := e.views.pages[name]
	what := "layout.html"
	if r.Header.Get("X-Fragment") != "" && t.Lookup("fragment") != nil {
		what = "fragment"
	}
	for size := 0; size < len(sizes); size++ {
		b.Reset()
		if f, ok := p.Data.(fitting); ok {
			f.fit(sizes[size])
		}
		if err := t.ExecuteTemplate(&b, what, p); err != nil {
			e.Logger.Error("a defect in a page", "page", name, "err", err.Error())
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		if b.Len() <= maxPage {
			break
		}
		if p.colours.Off() { // they go before any text does
			size--
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

// size is how much of each turn a list of turns shows.
type size struct {
	text   int // bytes of what a person or the model says
	inline int // bytes of a folded piece that is on the page
	pieces int // of a turn
}

// sizes are tried until the page is small enough.
var sizes = [...]size{{4000, 700, 40}, {1200, 300, 15}, {400, 0, 6}, {100, 0, 2}}

// fitting is a page that can show less.
type fitting interface{ fit(size) }

// themeOf is the theme that the visitor chose; "": none.
func themeOf(r *http.Request) string {
	if c, err := r.Cookie("nexus-theme"); err == nil && (c.Value == "dark" || c.Value == "light") {
		return c.Value
	}
	return ""
}
