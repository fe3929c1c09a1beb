package page

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/yuin/goldmark"
)

// Markdown writes the page as Markdown, with folds as GitHub shows them. A text that would
// bring HTML or a picture into the file, or would not end where it ends, stands in a code
// block.
func (p *Page) Markdown(w io.Writer) error {
	m := markdownWriter{bufio.NewWriter(w), markdown()}
	m.page(p)
	return m.w.Flush()
}

type markdownWriter struct {
	w  *bufio.Writer // keeps the first error for Flush
	md goldmark.Markdown
}

func (m *markdownWriter) line(format string, args ...any) {
	fmt.Fprintf(m.w, format+"\n", args...)
}

// signs are the characters that Markdown acts on inside a line.
var signs = regexp.MustCompile("[\\\\`*_{}\\[\\]<>()#+!|~&-]")

// plain is a short text of one line as Markdown that shows it as it stands.
func plain(s string) string { return signs.ReplaceAllString(s, `\$0`) }

func (m *markdownWriter) page(p *Page) {
	m.line("# %s\n", plain(p.Title))
	dates := p.From
	if p.To != p.From {
		dates += " to " + p.To
	}
	m.line("%s", plain(strings.Join(append([]string{dates}, p.Models...), " · ")))
	about := []string{fmt.Sprintf("%d turns", p.Turns)}
	if p.Usage.InputTokens > 0 {
		about = append(about, Count(p.Usage.InputTokens)+" tokens in, "+Count(p.Usage.OutputTokens)+" out")
	}
	if p.Folder != "" {
		about = append(about, p.Folder)
	}
	if p.Branch != "" {
		about = append(about, "branch "+p.Branch)
	}
	about = append(about, "agent "+p.Agent, "session "+p.Session)
	m.line("%s\n", plain(strings.Join(about, " · ")))
	if o := p.Origin; o != nil {
		at := ""
		if o.Depth > 0 {
			at = fmt.Sprintf(" at turn %d: the turns up to there are of that session", o.Depth)
		}
		m.line("Forked from session %s%s.\n", o.Session, at)
	}
	if p.Masked > 0 {
		m.line("%d credentials are masked with asterisks.\n", p.Masked)
	}
	for _, s := range p.Sections {
		if s.By != nil {
			m.line("---\n\n*Turns %d to %d, which compaction %d replaced:*\n", s.From, s.To, s.By.Depth)
		}
		for _, e := range s.Entries {
			m.entry(e)
		}
		if s.By != nil {
			m.line("*End of what compaction %d replaced.*\n\n---\n", s.By.Depth)
		}
	}
}

func (m *markdownWriter) entry(e *entry) {
	head := fmt.Sprintf("%d · %s", e.Depth, e.Time)
	switch c := e.Compaction; {
	case c != nil:
		m.line("## %s · Compaction\n", head)
		covers := ""
		if c.Covers != "" {
			covers = " A summary stands for " + c.Covers + "."
		}
		m.line("%s.%s (%s)\n", plain(c.What), covers, plain(c.By))
		if c.Summary != nil {
			m.fold("What the model sees in their place", func() { m.prose(*c.Summary) })
		}
	default:
		if e.Model != "" {
			head += " · " + plain(e.Model)
		}
		m.line("## %s\n", head)
		for _, b := range e.Asked {
			m.block(b)
		}
		for _, b := range e.Answer {
			m.block(b)
		}
		switch {
		case e.Error != "":
			m.line("*The content of this turn can't be read: %s.*\n", plain(e.Error))
		case e.Pending:
			m.line("*No answer yet.*\n")
		}
	}
	for _, f := range e.Forks {
		m.line("*The session %s was forked here.*\n", plain(f.Name))
	}
}

func (m *markdownWriter) block(b *block) {
	switch b.Kind {
	case kindPerson:
		m.line("**Asked**\n")
		m.code(b.Text)
	case kindAnswer:
		m.prose(b.Text)
	case kindMedia:
		m.line("\\[%s\\]\n", plain(b.Brief)) // a picture's bytes would make the file unreadable
	case kindCall:
		title := b.Name + " " + b.Brief
		if b.Result != nil && b.Result.Failed {
			title += " (failed)"
		}
		m.fold(title, func() {
			for _, f := range b.Fields {
				if f.Name != "" {
					m.line("%s:\n", plain(f.Name))
				}
				m.code(f.Text)
			}
			if b.Result != nil {
				m.line("result:\n")
				m.code(b.Result.Text)
			}
		})
	default:
		m.fold(b.Brief, func() { m.code(b.Text) })
	}
}

func (m *markdownWriter) fold(title string, content func()) {
	m.line("<details><summary>%s</summary>\n", html.EscapeString(strings.ReplaceAll(title, "\n", " ")))
	content()
	m.line("</details>\n")
}

// prose is a model's Markdown.
func (m *markdownWriter) prose(p prose) {
	if s, ok := withoutHTML(m.md, p.Text); ok {
		m.line("%s\n", s)
		m.omitted(p)
		return
	}
	m.code(p)
}

// code is a text as it stands, in a fence that is longer than any in it.
func (m *markdownWriter) code(p prose) {
	fence, run := 3, 0
	for _, r := range p.Text {
		if r != '`' {
			run = 0
			continue
		}
		if run++; run >= fence {
			fence = run + 1
		}
	}
	mark := strings.Repeat("`", fence)
	m.line("%stext\n%s\n%s\n", mark, strings.TrimSuffix(p.Text, "\n"), mark)
	m.omitted(p)
}

// omitted says how much of a text is not in the file.
func (m *markdownWriter) omitted(p prose) {
	if p.Left > 0 {
		m.line("*%s more are not in this file.*\n", humanize.IBytes(p.Left))
	}
}
