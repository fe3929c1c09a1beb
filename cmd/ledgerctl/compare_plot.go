package main

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"nexus/compactor/compare"
)

// The plot's sizes, in pixels at its own scale.
const (
	plotWidth             = 960
	plotLeft, plotTop     = 78, 56 // of the area that the lines are drawn in
	plotRight, plotBottom = plotWidth - 24, 396
	legendTop, legendRow  = plotBottom + 60, 22
	legendColumns         = 2
)

// plotColours are told apart with every common kind of colour vision (Okabe and
// Ito, 2008, the darker of them), on white and on black. Dashes tell them apart
// where there is no colour.
var (
	plotColours = [...]string{"#0072b2", "#d55e00", "#009e73", "#b4609a", "#b58900", "#3d9bd1", "#7f7f7f", "#c0504d"}
	plotDashes  = [...]string{"", "7 3", "2 3", "10 3 2 3", "14 4", "4 2 1 2", "1 2", "9 2 3 2"}
)

// plot draws the context of each call of the longest history, a line a policy,
// with a mark where a compaction came into force.
func (x *comparison) plot(w io.Writer) error {
	top, calls := uint64(1), 1
	for _, r := range x.longest {
		calls = max(calls, len(r.Calls))
		for i := range r.Calls {
			top = max(top, r.Calls[i].Tokens)
		}
	}
	const bottom = plotBottom
	height := legendTop + legendRow*((len(x.longest)+legendColumns-1)/legendColumns)
	step := niceStep(float64(top) / 6)
	ceil := math.Ceil(float64(top)/step) * step
	at := func(call int, tokens uint64) (float64, float64) {
		return plotLeft + float64(plotRight-plotLeft)*float64(call)/float64(max(calls-1, 1)),
			float64(bottom) - float64(bottom-plotTop)*float64(tokens)/ceil
	}
	name := html.EscapeString(clip(x.name, 80))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-labelledby="t">
<title id="t">Tokens of the context at each model call of %s, by policy</title>
<style>
.page{fill:#fff}.ink{fill:#222}.soft{fill:#666}.grid{stroke:#ddd}.axis{stroke:#666}
text{font:13px system-ui,sans-serif}.small{font-size:12px}
@media (prefers-color-scheme:dark){.page{fill:#161616}.ink{fill:#eee}.soft{fill:#aaa}.grid{stroke:#383838}.axis{stroke:#999}}
</style>
<rect class="page" width="%d" height="%d"/>
<text class="ink" x="%d" y="24">%s: %s, window %s tokens</text>
<text class="soft small" x="%d" y="44">context, tokens</text>
`, plotWidth, height, plotWidth, height, name, plotWidth, height, plotLeft, name, plural(uint64(calls), "model call"), grouped(x.window), plotLeft)
	for v := 0.0; v <= ceil+step/2; v += step {
		_, y := at(0, uint64(v))
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"soft small\" text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%s</text>\n",
			plotLeft, plotRight, y, y, plotLeft-8, y+4, grouped(uint64(v)))
	}
	every := int(max(1, niceStep(float64(calls)/8)))
	for _, n := range callMarks(calls, every) {
		px, _ := at(n-1, 0)
		fmt.Fprintf(&b, "<text class=\"soft small\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%s</text>\n", px, bottom+18, grouped(uint64(n)))
	}
	fmt.Fprintf(&b, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/><text class=\"soft small\" text-anchor=\"end\" x=\"%d\" y=\"%d\">model call</text>\n",
		plotLeft, plotRight, bottom, bottom, plotRight, bottom+36)
	for i, r := range x.longest {
		x.plotLine(&b, i, r, at)
		x.plotKey(&b, i, r)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (x *comparison) plotLine(b *strings.Builder, i int, r *compare.Replay, at func(int, uint64) (float64, float64)) {
	colour, dash := plotColours[i%len(plotColours)], plotDashes[i%len(plotDashes)]
	fmt.Fprintf(b, "<g stroke=\"%s\" fill=\"none\" stroke-width=\"1.6\"><polyline stroke-dasharray=\"%s\" points=\"", colour, cmp.Or(dash, "none"))
	for n := range r.Calls {
		px, py := at(n, r.Calls[n].Tokens)
		fmt.Fprintf(b, "%.1f,%.1f ", px, py)
	}
	b.WriteString("\"/>")
	for n := range r.Calls {
		px, py := at(n, r.Calls[n].Tokens)
		switch c := &r.Calls[n]; {
		case c.Compacted:
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>", px, py, colour)
		case c.Elided:
			fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"5\" height=\"5\"/>", px-2.5, py-2.5)
		}
	}
	b.WriteString("</g>\n")
}

// callMarks is the calls that the axis names: the first, the last, and multiples
// of every between them that are not too near the last.
func callMarks(calls, every int) (marks []int) {
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

// plotKey is a policy's entry in the legend.
func (x *comparison) plotKey(b *strings.Builder, i int, r *compare.Replay) {
	var s compare.Sum
	s.Add(r)
	colour, dash := plotColours[i%len(plotColours)], plotDashes[i%len(plotDashes)]
	left, y := plotLeft+i%legendColumns*(plotRight-plotLeft)/legendColumns, legendTop+i/legendColumns*legendRow
	fmt.Fprintf(b, "<line stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/><circle cx=\"%d\" cy=\"%d\" r=\"3.5\" fill=\"%s\"/>",
		colour, cmp.Or(dash, "none"), left, left+32, y, y, left+16, y, colour)
	marks := "● " + plural(uint64(s.Compactions), "compaction")
	if s.Elisions > 0 {
		marks += fmt.Sprintf(", □ %d with elisions", s.Elisions)
	}
	fmt.Fprintf(b, "<text class=\"ink small\" x=\"%d\" y=\"%d\">%s, %s</text>\n", left+40, y+4, html.EscapeString(clip(r.Policy.Name, 34)), marks)
}

// niceStep is the next of 1, 2 and 5 times a power of ten.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*p >= v {
			return m * p
		}
	}
	return 10 * p
}
