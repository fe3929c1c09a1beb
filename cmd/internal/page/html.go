package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/yuin/goldmark"
)

//go:embed look.css
var look string

//go:embed page.css
var own string

// Look is the style that every page of the product has: colours, type, and what models say.
func Look() string { return look }

// style is that of exported pages.
func style() string { return look + own }

//go:embed head.html
var head string

//go:embed page.html
var layout string

//go:embed index.html
var indexLayout string

// Index is the list of a folder of pages.
type Index struct {
	Title string
	Note  string
	Rows  []IndexRow
}

// IndexRow is a page of the folder. Its texts are cleaned when it is written.
type IndexRow struct {
	File, Title, About, When string
	Turns                    uint64
	Compactions              uint64
}

// HTML writes the index as one file, of which the same holds as of [Page.HTML].
func (x *Index) HTML(w io.Writer) error {
	clean := *x
	clean.Rows = nil
	for _, r := range x.Rows {
		r.Title, r.About = Line(r.Title, 160), Line(r.About, 200)
		clean.Rows = append(clean.Rows, r)
	}
	return write(w, "index", indexLayout, &clean)
}

// HTML writes the page as one file, which loads nothing and runs nothing: its policy
// (Content-Security-Policy) allows its own style and the pictures in it, nothing else.
func (p *Page) HTML(w io.Writer) error {
	return write(w, "page", layout, p)
}

// write fills a template of a file that loads and runs nothing.
func write(w io.Writer, name, text string, data any) error {
	style := style()
	sum := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'"
	md := markdown()
	t, err := template.New(name).Funcs(template.FuncMap{
		"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") },
		"policy": func() string { return policy },
		"answer": func(s prose) any { return answer(md, s) },
		"image":  func(s string) template.URL { return template.URL(s) },
		"bytes":  humanize.IBytes,
		"count":  Count,
		"lines": func(n int) string {
			if n == 1 {
				return "1 line"
			}
			return fmt.Sprintf("%d lines", n)
		},
		"less": func(a, b int) int { return a - b },
	}).Parse(head)
	if err != nil {
		return err
	}
	if _, err := t.Parse(text); err != nil {
		return err
	}
	return t.Execute(w, data)
}

// answer is the HTML of a model's Markdown, "" if the text is to be shown as it stands.
func answer(md goldmark.Markdown, s prose) template.HTML {
	out, _ := rendered(md, s.Text, nil)
	return out
}
