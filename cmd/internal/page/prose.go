package page

import (
	"bytes"
	"html"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxMarkdown is the longest text that is read as Markdown, in bytes. A longer one is
// shown as it stands: the work on nested quotes grows with the square of their depth.
const maxMarkdown = 32 << 10

// markdown returns the parser and renderer of a model's Markdown. What it renders has no
// HTML of the text, no picture, no style and no address but web and mail.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)), extension.Strikethrough),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(textRenderer{}, 1))))
}

// rendered returns a text as HTML, with what code makes of its fenced blocks; ok is false if it is
// too long for that, or nested too deep.
func rendered(md goldmark.Markdown, s string, code Code) (out template.HTML, ok bool) {
	if len(s) > maxMarkdown || nested(s) > 40 {
		return "", false
	}
	source := []byte(s)
	doc := md.Parser().Parse(text.NewReader(source))
	if code != nil {
		highlight(doc, source, code)
	}
	var b bytes.Buffer
	if err := md.Renderer().Render(&b, source, doc); err != nil {
		return "", false
	}
	return template.HTML(clean(b.String())), true // &#x202e; is a hidden character by now
}

// highlighted is the attribute of a fenced block whose HTML was made. A text has no way to set it:
// the parser reads attributes of no node.
const highlighted = "highlighted"

// highlight puts what code makes of the fenced blocks of a text beside them.
func highlight(doc ast.Node, source []byte, code Code) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		f, ok := n.(*ast.FencedCodeBlock)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		if language := string(f.Language(source)); language != "" {
			if out, ok := code(language, string(linesOf(f, source))); ok {
				f.SetAttributeString(highlighted, out)
			}
		}
		return ast.WalkSkipChildren, nil
	})
}

// nested returns the upper bound of how deep the quotes and lists of a text are nested: the
// most signs that a line begins with.
func nested(s string) (deepest int) {
	for line := range strings.Lines(s) {
		n := 0
		for _, r := range line {
			if !strings.ContainsRune(" \t>-*+0123456789.)", r) {
				break
			}
			if strings.ContainsRune(">-*+.)", r) {
				n++
			}
		}
		if strings.Trim(line, " \t-*_\r\n") == "" { // a rule
			n = 0
		}
		deepest = max(deepest, n)
	}
	return deepest
}

// textRenderer renders the nodes of a text that could carry HTML, load a file, or break
// the outline of the page.
type textRenderer struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (t textRenderer) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindHTMLBlock, t.htmlBlock)
	reg.Register(ast.KindRawHTML, t.rawHTML)
	reg.Register(ast.KindImage, t.image)
	reg.Register(ast.KindLink, t.link)
	reg.Register(ast.KindAutoLink, t.autoLink)
	reg.Register(ast.KindHeading, t.heading)
	reg.Register(extast.KindTable, t.table)
	reg.Register(extast.KindTableCell, t.cell)
	reg.Register(ast.KindCodeBlock, t.code)
	reg.Register(ast.KindFencedCodeBlock, t.code)
}

// heading is a paragraph that looks like a heading: the page's own outline stays whole.
func (textRenderer) heading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<p class="head">`)
	} else {
		_, _ = w.WriteString("</p>\n")
	}
	return ast.WalkContinue, nil
}

func (textRenderer) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		v, _ := n.AttributeString(highlighted)
		out, ok := v.(template.HTML)
		if !ok {
			out = template.HTML(html.EscapeString(string(linesOf(n, source))))
		}
		_, _ = w.WriteString("<pre><code>" + string(out) + "</code></pre>\n")
	}
	return ast.WalkSkipChildren, nil
}

func (textRenderer) htmlBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<p class="raw">` + html.EscapeString(strings.TrimRight(string(htmlLines(n.(*ast.HTMLBlock), source)), "\n")) + "</p>\n")
	}
	return ast.WalkSkipChildren, nil
}

func (textRenderer) rawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		segments := n.(*ast.RawHTML).Segments
		for i := range segments.Len() {
			at := segments.At(i)
			_, _ = w.WriteString(html.EscapeString(string(at.Value(source))))
		}
	}
	return ast.WalkSkipChildren, nil
}

// image names a picture and its address. The page loads none.
func (textRenderer) image(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("[picture " + html.EscapeString(strings.TrimSpace(words(n, source)+" "+string(n.(*ast.Image).Destination))) + "]")
	}
	return ast.WalkSkipChildren, nil
}

func (textRenderer) link(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	to := string(n.(*ast.Link).Destination)
	ok := isWeb(to)
	switch {
	case entering && ok:
		_, _ = w.WriteString(`<a rel="noopener noreferrer nofollow" href="` + html.EscapeString(to) + `">`)
		if strings.TrimSpace(words(n, source)) == "" {
			_, _ = w.WriteString(html.EscapeString(to))
		}
	case ok:
		_, _ = w.WriteString("</a>")
	case !entering && strings.Contains(to, ":") && !strings.HasPrefix(to, "/"): // not a file of somebody's machine
		_, _ = w.WriteString(" (" + html.EscapeString(to) + ")")
	}
	return ast.WalkContinue, nil
}

func (textRenderer) autoLink(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		l := n.(*ast.AutoLink)
		label, to := html.EscapeString(string(l.Label(source))), string(l.URL(source))
		if l.AutoLinkType == ast.AutoLinkURL && isWeb(to) {
			label = `<a rel="noopener noreferrer nofollow" href="` + html.EscapeString(to) + `">` + label + "</a>"
		}
		_, _ = w.WriteString(label)
	}
	return ast.WalkSkipChildren, nil
}

// table stands in a box of its own that scrolls, by keys too: a wide table does not widen
// the page.
func (textRenderer) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString(`<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>` + "\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// cell is a cell of a table. An empty one of the first row heads no column.
func (textRenderer) cell(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	tag := "td"
	if n.Parent().Kind() == extast.KindTableHeader && n.HasChildren() {
		tag = "th"
	}
	if entering {
		tag = "<" + tag + ">"
	} else {
		tag = "</" + tag + ">\n"
	}
	_, _ = w.WriteString(tag)
	return ast.WalkContinue, nil
}

// isWeb reports whether a page may link to an address.
func isWeb(s string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains([]string{"http", "https", "mailto"}, u.Scheme)
}

// words returns the text below a node.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(x ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := x.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
		}
		if _, ok := x.(*ast.Image); ok && entering {
			b.WriteString("picture")
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

func linesOf(n ast.Node, source []byte) (out []byte) {
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		out = append(out, at.Value(source)...)
	}
	return out
}

// htmlLines returns a block of HTML with the line that ends it.
func htmlLines(n *ast.HTMLBlock, source []byte) []byte {
	out := linesOf(n, source)
	if n.HasClosure() {
		out = append(out, n.ClosureLine.Value(source)...)
	}
	return out
}

// isTame reports whether a text can stand in a Markdown file as it is: every block that it
// opens ends with it, and it has neither HTML nor a picture, which a viewer may load, nor a
// definition of an address, which another text could make a picture of, nor the number or
// name of a hidden character.
func isTame(md goldmark.Markdown, s string) bool {
	if len(s) > maxMarkdown || nested(s) > 40 {
		return false
	}
	const sentinel = "ENDOFTEXT"
	source := []byte(s + "\n\n" + sentinel)
	defined := parser.NewContext()
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(defined))
	if len(defined.References()) > 0 || clean(html.UnescapeString(s)) != html.UnescapeString(s) {
		return false
	}
	last := doc.LastChild()
	if last == nil || last.Kind() != ast.KindParagraph || string(linesOf(last, source)) != sentinel {
		return false
	}
	tame := true
	_ = ast.Walk(doc, func(n ast.Node, _ bool) (ast.WalkStatus, error) {
		switch n.Kind() {
		case ast.KindHTMLBlock, ast.KindRawHTML, ast.KindImage:
			tame = false
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return tame
}

// withoutHTML returns a text with the brackets of its HTML escaped, where that makes it
// tame. ok is false if it does not.
func withoutHTML(md goldmark.Markdown, s string) (out string, ok bool) {
	for range 4 {
		if isTame(md, s) {
			return s, true
		}
		if len(s) > maxMarkdown || nested(s) > 40 {
			return "", false
		}
		source := []byte(s)
		var at []int // of the brackets
		mark := func(from, to int) {
			for i := from; i < to; i++ {
				if source[i] == '<' {
					at = append(at, i)
				}
			}
		}
		_ = ast.Walk(md.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.RawHTML:
				for i := range n.Segments.Len() {
					mark(n.Segments.At(i).Start, n.Segments.At(i).Stop)
				}
			case *ast.HTMLBlock:
				for i := range n.Lines().Len() {
					mark(n.Lines().At(i).Start, n.Lines().At(i).Stop)
				}
				if n.HasClosure() {
					mark(n.ClosureLine.Start, n.ClosureLine.Stop)
				}
			}
			return ast.WalkContinue, nil
		})
		if len(at) == 0 {
			return "", false
		}
		slices.Sort(at)
		at = slices.Compact(at)
		var b strings.Builder
		from := 0
		for _, i := range at {
			b.WriteString(s[from:i] + "&lt;")
			from = i + 1
		}
		s = b.String() + s[from:]
	}
	return "", false
}
