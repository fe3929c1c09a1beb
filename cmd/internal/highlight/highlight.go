package highlight

import (
	"html"
	"html/template"
	"strings"
)

const (
	// MaxBlock is the longest code that gets colours, in bytes.
	MaxBlock = 32 << 10
	// pageBytes bounds what the spans of a page add to it, in bytes.
	pageBytes = 90_000
)

// Page is what one page may spend on colours. Not safe for concurrent use.
type Page struct {
	added int // bytes of spans
	off   bool
	made  map[block]template.HTML // "": it stays plain
}

type block struct{ language, text string }

// NewPage returns the budget of a page.
func NewPage() *Page { return &Page{made: make(map[block]template.HTML)} }

// Off makes all code of the page plain from now on. It reports whether some had colours.
func (p *Page) Off() bool {
	if p == nil || p.off {
		return false
	}
	p.off = true
	return p.added > 0
}

// Code returns code as HTML with spans of classes; ok is false where it stays plain: its language is
// not known, it is longer than [MaxBlock], or the page has no room. A nil page has no colours. The
// HTML without its spans is the text, escaped. Where a page is made twice the code is the same both times.
func (p *Page) Code(language, text string) (out template.HTML, ok bool) {
	if p == nil || p.off || len(text) > MaxBlock {
		return "", false
	}
	b := block{strings.ToLower(language), text}
	out, known := p.made[b]
	if !known {
		if s := languages()[b.language]; s != nil {
			var added int
			if out, added = written(s.runs(text)); added == 0 || p.added+added > pageBytes {
				out = ""
			} else {
				p.added += added
			}
		}
		p.made[b] = out
	}
	return out, out != ""
}

// run is a piece of code of one class: k words of the language, t names that it has of its own, f
// names that are called and keys, s strings, n numbers, c comments, i and d lines of a difference;
// "": it has no colour.
type run struct{ class, text string }

// written returns runs as HTML, and the bytes of its spans.
func written(runs []run) (out template.HTML, added int) {
	var b strings.Builder
	for _, r := range runs {
		text := html.EscapeString(r.text)
		if r.class == "" {
			b.WriteString(text)
			continue
		}
		open := `<span class="` + r.class + `">`
		b.WriteString(open + text + "</span>")
		added += len(open) + len("</span>")
	}
	return template.HTML(b.String()), added
}
