package comparison

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/plot"
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
	plotColours = [...]string{plot.Blue, plot.Orange, plot.Green, plot.Pink, plot.Ochre, plot.Sky, plot.Grey, plot.Red}
	plotDashes  = [...]string{"", "7 3", "2 3", "10 3 2 3", "14 4", "4 2 1 2", "1 2", "9 2 3 2"}
)

// Plot draws the context of each call of the longest history, a line a policy,
// with a mark where a compaction came into force.
func (x *Comparison) Plot(w io.Writer) error {
	top, calls := uint64(1), 1
	for _, r := range x.Longest {
		calls = max(calls, len(r.Calls))
		for i := range r.Calls {
			top = max(top, r.Calls[i].Tokens)
		}
	}
	const bottom = plotBottom
	height := legendTop + legendRow*((len(x.Longest)+legendColumns-1)/legendColumns)
	step := plot.NiceStep(float64(top) / 6)
	ceil := math.Ceil(float64(top)/step) * step
	at := func(call int, tokens uint64) (float64, float64) {
		return plotLeft + float64(plotRight-plotLeft)*float64(call)/float64(max(calls-1, 1)),
			float64(bottom) - float64(bottom-plotTop)*float64(tokens)/ceil
	}
	name := prose.Clip(x.LongestName, 80)
	var b plot.Picture
	b.Text("ink", "start", plotLeft, 24, fmt.Sprintf("%s: %s, window %s tokens", name, prose.Plural(uint64(calls), "model call"), prose.Grouped(x.Window)))
	b.Text("soft small", "start", plotLeft, 44, "context, tokens")
	for v := 0.0; v <= ceil+step/2; v += step {
		_, y := at(0, uint64(v))
		b.Add(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, plotRight, y, y)
		b.Text("soft small", "end", plotLeft-8, y+4, prose.Grouped(uint64(v)))
	}
	every := int(max(1, plot.NiceStep(float64(calls)/8)))
	for _, n := range plot.AxisMarks(calls, every) {
		px, _ := at(n-1, 0)
		b.Text("soft small", "middle", px, bottom+18, prose.Grouped(uint64(n)))
	}
	b.Add(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, plotLeft, plotRight, bottom, bottom)
	b.Text("soft small", "end", plotRight, bottom+36, "model call")
	for i, r := range x.Longest {
		x.plotLine(&b, i, r, at)
		x.plotKey(&b, i, r)
	}
	return b.Encode(w, plotWidth, height, fmt.Sprintf("Tokens of the context at each model call of %s, by policy", name))
}

func (x *Comparison) plotLine(b *plot.Picture, i int, r *compare.Replay, at func(int, uint64) (float64, float64)) {
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

// plotKey is a policy's entry in the legend.
func (x *Comparison) plotKey(b *plot.Picture, i int, r *compare.Replay) {
	var s compare.Sum
	s.Add(r)
	colour, dash := plotColours[i%len(plotColours)], plotDashes[i%len(plotDashes)]
	left, y := plotLeft+i%legendColumns*(plotRight-plotLeft)/legendColumns, legendTop+i/legendColumns*legendRow
	b.Add(`<line stroke="%s" stroke-width="2" stroke-dasharray="%s" x1="%d" x2="%d" y1="%d" y2="%d"/><circle cx="%d" cy="%d" r="3.5" fill="%s"/>`,
		colour, cmp.Or(dash, "none"), left, left+32, y, y, left+16, y, colour)
	marks := "● " + prose.Plural(uint64(s.Compactions), "compaction")
	if s.Elisions > 0 {
		marks += fmt.Sprintf(", □ %d with elisions", s.Elisions)
	}
	b.Text("ink small", "start", float64(left+40), float64(y+4), prose.Clip(r.Policy.Name, 34)+", "+marks)
}
