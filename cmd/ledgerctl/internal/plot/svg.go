package plot

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"

	"nexus/cmd/internal/kinds"
	"nexus/cmd/internal/prose"
)

// AxisMarks is the calls that the axis names: the first, the last, and multiples
// of every between them that are not too near the last.
func AxisMarks(calls, every int) (marks []int) {
	for n := 1; n <= calls; n += every - n%every {
		if n == 1 || calls-n >= max(1, every/2) {
			marks = append(marks, n)
		}
	}
	if calls > 1 {
		marks = append(marks, calls)
	}
	return marks
}

// NiceStep is the next of 1, 2 and 5 times a power of ten.
func NiceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*p >= v {
			return m * p
		}
	}
	return 10 * p
}

// Width is the width of a picture that a page shows next to its text, in
// pixels.
const Width = 720

// The colours of the kinds, and of lanes.
const (
	Blue   = kinds.Blue
	Orange = kinds.Orange
	Green  = kinds.Green
	Pink   = kinds.Pink
	Ochre  = kinds.Ochre
	Sky    = kinds.Sky
	Grey   = kinds.Grey
	Red    = kinds.Red
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

// Picture collects the elements of an SVG. Everything that a user or a model wrote
// goes through [Picture.Text] or [escaped], so that it stays text.
type Picture struct{ strings.Builder }

// Add writes an element. Arguments that are text must be escaped.
func (p *Picture) Add(format string, args ...any) {
	fmt.Fprintf(&p.Builder, format+"\n", args...)
}

// Text writes s at x and y. class is of [pictureStyle]; anchor is start, middle
// or end.
func (p *Picture) Text(class, anchor string, x, y float64, s string) {
	p.Add(`<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, class, anchor, x, y, escaped(s))
}

// Encode writes the whole picture; about says in words what it shows.
func (p *Picture) Encode(w io.Writer, width, height int, about string) error {
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
	_ = xml.EscapeText(&b, []byte(prose.Printable(s))) // a Builder takes everything
	return b.String()
}
