package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// pictureWidth is the width of a picture that a page shows next to its text, in
// pixels.
const pictureWidth = 720

// These colours can be distinguished with every common kind of colour vision (Okabe and
// Ito, 2008, the darker of them), on white and on black.
const (
	blue   = "#0072b2"
	orange = "#d55e00"
	green  = "#009e73"
	pink   = "#b4609a"
	ochre  = "#b58900"
	sky    = "#3d9bd1"
	grey   = "#7f7f7f"
	red    = "#c0504d"
)

// pictureStyle is the style of every picture: its colours follow those of the
// reader's system, its fonts are the system's own.
const pictureStyle = `<style>
.page{fill:#fff}.ink{fill:#222}.soft{fill:#666}.grid{stroke:#ddd}.axis{stroke:#666}
.cut{stroke:#fff}.limit{stroke:#222}.halo{paint-order:stroke;stroke:#fff;stroke-width:4px}.room{fill:#eee;stroke:#999}.cover{fill:#b4609a;fill-opacity:.22}
text{font:13px system-ui,sans-serif}.small{font-size:12px}.bold{font-weight:600}.id{font-family:ui-monospace,monospace}
@media (prefers-color-scheme:dark){.page{fill:#161616}.ink{fill:#eee}.soft{fill:#aaa}.grid{stroke:#383838}.axis{stroke:#999}
.cut{stroke:#161616}.limit{stroke:#eee}.halo{stroke:#161616}.room{fill:#2a2a2a;stroke:#777}.cover{fill-opacity:.4}}
</style>
`

// errBothForms is the error of a picture that is asked for as JSON too.
var errBothForms = errors.New("--svg prints a picture; leave --json and --format out")

// picture collects the elements of an SVG. Everything that a user or a model wrote
// goes through [picture.text] or [escaped], so that it stays text.
type picture struct{ strings.Builder }

// add writes an element. Arguments that are text must be escaped.
func (p *picture) add(format string, args ...any) {
	fmt.Fprintf(&p.Builder, format+"\n", args...)
}

// text writes s at x and y. class is of [pictureStyle]; anchor is start, middle
// or end.
func (p *picture) text(class, anchor string, x, y float64, s string) {
	p.add(`<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y, escaped(s))
}

// write writes the whole picture; about says in words what it shows.
func (p *picture) write(w io.Writer, width, height int, about string) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="t">
<title id="t">%s</title>
%s<rect class="page" width="%d" height="%d"/>
%s</svg>
`, width, height, width, height, escaped(about), pictureStyle, width, height, p.String())
	return err
}

// escaped is s as the text of an XML document: without characters that steer a
// terminal or that XML can't hold.
func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(printable(s))) // a Builder takes everything
	return b.String()
}
