package visit

import (
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

	"nexus/cmd/internal/kinds"
	pages "nexus/cmd/internal/page"
	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
)

//go:embed assets
var assets embed.FS

//go:embed templates
var templates embed.FS

// Looks has the templates by the name of their file, and the files of style and script by names
// with their hashes in them: a browser may keep those for ever.
type Looks struct {
	pages map[string]*template.Template
	files map[string][]byte
	names map[string]string // app.css: app.0123456789abcdef.css
}

// NewLooks reads what is embedded.
func NewLooks() *Looks {
	v := &Looks{pages: make(map[string]*template.Template), files: make(map[string][]byte), names: make(map[string]string)}
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
func (v *Looks) functions() template.FuncMap {
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
		"status":     kinds.NameOf,
		"half":       halfOf,
		"kinds":      func() []kinds.Look { return kinds.All[:] },
		"stamp":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"when":       func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") },
		"clock":      func(t api.Time) string { return time.Time(t).Local().Format("2006-01-02 15:04") },
		"clip":       Clip,
		"int":        func(n uint64) int { return int(min(n, math.MaxInt32)) },
		"add":        func(a, b int) int { return a + b },
		"list":       func(words ...string) []string { return words },
		"sum":        func(a, b uint64) uint64 { return a + b },
		"meter":      func(f float64) float64 { return 60 * min(max(f, 0.02), 1) },
		"percentof":  func(f float64) float64 { return max(1, 100*f) },
		"lanecolour": func(i int) int { return i % 5 },
		"newid":      func() string { return api.NewID().String() },
		"cut": func(p pages.Prose, n int) cutText {
			return cutText{Text: Clip(p.Text, n), More: uint64(max(0, len(p.Text)-len(Clip(p.Text, n)))) + p.Left}
		},
	}
}

// halfOf is what of a turn a piece of a context is of, for people.
func halfOf(half string) string {
	switch half {
	case "messages":
		return "messages sent"
	case "response":
		return "response received"
	}
	return half
}

// cutText is the beginning of a text, and how many bytes come after it.
type cutText struct {
	Text string
	More uint64
}

// Asset serves a file of style or script.
func (v *Looks) Asset(w http.ResponseWriter, r *http.Request) {
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
