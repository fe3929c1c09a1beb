package page

import (
	"cmp"
	"html/template"
	"sync"

	"nexus/ledger/api"
)

// What a template of another package is given: a turn, a piece of one, and a text. All of it
// is clean: credentials masked unless they were asked for, hidden characters visible.
type (
	// Entry is a turn as it is shown.
	Entry = entry
	// Block is a piece of a turn: what a person asked, an answer, a call with its result.
	Block = block
	// Prose is a text of at most [MaxPart] bytes.
	Prose = prose
)

// Entries reads turns of a session, which need not begin at the root, as [New] reads a whole
// session. A result stands with its call where both are among ts. masked counts credentials.
func Entries(s *api.Session, ts []api.Turn, opt Options) (out []*Entry, masked int, err error) {
	r := newReader(s, opt)
	for i := range ts {
		if err := r.turn(s.ID, &ts[i]); err != nil {
			return nil, 0, err
		}
	}
	return r.entries, r.Masked, nil
}

// Title is what a person knows a session by, in at most n characters.
func Title(s *api.Session, n int) string {
	r := newReader(s, Options{})
	return cmp.Or(r.line(s.Title, n), r.line(metaText(s.Meta, "title"), n), r.line(s.Label, n))
}

// Line is the beginning of a text in one line of at most n characters, with its credentials
// masked and hidden characters visible.
func Line(s string, n int) string { return (&reader{Page: new(Page)}).line(s, n) }

// Text makes a text ready to be shown.
func Text(s string) Prose { return (&reader{Page: new(Page)}).prose(s) }

// rendering is the one renderer of [Markdown].
var rendering = sync.OnceValue(markdown)

// Markdown is the HTML of a text of a model, "" if it is to be shown as it stands. It has no
// HTML of the text, no picture, no style and no address but web and mail.
func Markdown(p Prose) template.HTML { return MarkdownWith(p, nil) }

// Code returns code of a language as HTML; ok is false where it stays plain. The language is the
// word behind the fence, as the model wrote it.
type Code func(language, text string) (out template.HTML, ok bool)

// MarkdownWith is [Markdown] with the fenced blocks that code makes HTML of. nil: they are plain.
func MarkdownWith(p Prose, code Code) template.HTML {
	out, _ := rendered(rendering(), p.Text, code)
	return out
}
