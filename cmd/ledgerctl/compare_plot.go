package main

import (
	"cmp"
	"fmt"
	"io"
	"math"

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

// Dashes tell the lines apart where there is no colour.
var (
	plotColours = [...]string{blue, orange, green, pink, ochre, sky, grey, red}
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
	name := clip(x.name, 80)
	var b picture
	b.text("ink", "start", plotLeft, 24, fmt.Sprintf("%s: %s, window %s tokens", name, plural(uint64(calls), "model call"), grouped(x.window)))
	b.text("soft small", "start", plotLeft, 44, "context, tokens")
	for v := 0.0; v <= ceil+step/2; v += step {
		_, y := at(0, uint64(v))
		b.add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, plotRight, y, y)
		b.text("soft small", "end", plotLeft-8, y+4, grouped(uint64(v)))
	}
	every := int(max(1, niceStep(float64(calls)/8)))
	for _, n := range callMarks(calls, every) {
		px, _ := at(n-1, 0)
		b.text("soft small", "middle", px, bottom+18, grouped(uint64(n)))
	}
	b.add(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, plotLeft, plotRight, bottom, bottom)
	b.text("soft small", "end", plotRight, bottom+36, "model call")
	for i, r := range x.longest {
		x.plotLine(&b, i, r, at)
		x.plotKey(&b, i, r)
	}
	return b.write(w, plotWidth, height, fmt.Sprintf("Tokens of the context at each model call of %s, by policy", name))
}

func (x *comparison) plotLine(b *picture, i int, r *compare.Replay, at func(int, uint64) (float64, float64)) {
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
func (x *comparison) plotKey(b *picture, i int, r *compare.Replay) {
	var s compare.Sum
	s.Add(r)
	colour, dash := plotColours[i%len(plotColours)], plotDashes[i%len(plotDashes)]
	left, y := plotLeft+i%legendColumns*(plotRight-plotLeft)/legendColumns, legendTop+i/legendColumns*legendRow
	b.add(`<line stroke="%s" stroke-width="2" stroke-dasharray="%s" x1="%d" x2="%d" y1="%d" y2="%d"/><circle cx="%d" cy="%d" r="3.5" fill="%s"/>`,
		colour, cmp.Or(dash, "none"), left, left+32, y, y, left+16, y, colour)
	marks := "● " + plural(uint64(s.Compactions), "compaction")
	if s.Elisions > 0 {
		marks += fmt.Sprintf(", □ %d with elisions", s.Elisions)
	}
	b.text("ink small", "start", float64(left+40), float64(y+4), clip(r.Policy.Name, 34)+", "+marks)
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
