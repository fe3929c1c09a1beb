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

//go:embed page.css
var style string

//go:embed page.html
var layout string

// HTML writes the page as one file, which loads nothing and runs nothing: its policy
// (Content-Security-Policy) allows its own style and the pictures in it, nothing else.
func (p *Page) HTML(w io.Writer) error {
	sum := sha256.Sum256([]byte(style))
	policy := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'"
	md := markdown()
	t, err := template.New("page").Funcs(template.FuncMap{
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
	}).Parse(layout)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

// answer is the HTML of a model's Markdown, "" if the text is to be shown as it stands.
func answer(md goldmark.Markdown, s prose) template.HTML {
	out, _ := rendered(md, s.Text)
	return out
}
