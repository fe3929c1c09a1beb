package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// bar is one line of a plot: a value, and the text at its end.
type bar struct {
	name, text string
	value      float64
	ours       bool
}

// plot draws bars on a logarithmic axis, as SVG. Every value is above 0.
func plot(title, axis string, bars []bar) string {
	const left, width, row, top = 150, 470, 24, 66
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, b := range bars {
		lowest, highest = min(lowest, b.value), max(highest, b.value)
	}
	lo, hi := math.Floor(math.Log10(lowest)), math.Ceil(math.Log10(highest))
	if lo == math.Log10(lowest) { // else the shortest bar has no length
		lo--
	}
	x := func(v float64) float64 { return left + width*(math.Log10(v)-lo)/max(hi-lo, 1) }
	height := top + row*len(bars) + 12
	var s strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	p(`<svg xmlns="http://www.w3.org/2000/svg" width="720" height="%d" viewBox="0 0 720 %d" font-family="system-ui, sans-serif" font-size="12">`, height, height)
	p(`<title>%s</title>`, html.EscapeString(title))
	p(`<rect width="720" height="%d" fill="#ffffff"/>`, height)
	p(`<text x="12" y="20" font-size="14" fill="#1a1a1a">%s</text>`, html.EscapeString(title))
	p(`<text x="12" y="38" fill="#5a5a5a">%s, logarithmic</text>`, html.EscapeString(axis))
	for e := lo; e <= hi; e++ {
		at := x(math.Pow(10, e))
		p(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#dcdcdc"/>`, at, top-6, at, height-8)
		p(`<text x="%.1f" y="%d" fill="#5a5a5a" text-anchor="middle" font-size="10">%s</text>`, at, top-9, number(math.Pow(10, e)))
	}
	for i, b := range bars {
		y, fill := top+row*i, "#9aa7b4"
		if b.ours {
			fill = "#2f6db5"
		}
		p(`<text x="%d" y="%d" text-anchor="end" fill="#1a1a1a">%s</text>`, left-8, y+15, html.EscapeString(b.name))
		p(`<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, y+3, max(x(b.value)-left, 1), row-7, fill)
		p(`<text x="%.1f" y="%d" fill="#1a1a1a">%s</text>`, x(b.value)+5, y+15, html.EscapeString(b.text))
	}
	p(`</svg>`)
	return s.String()
}

func number(v float64) string {
	if v >= 1 {
		return grouped(int64(v + 0.5))
	}
	return fmt.Sprintf("%g", v)
}

func (res *results) plotAppends(clients int) string {
	var bars []bar
	for _, m := range res.Appends {
		if m.Clients == clients {
			bars = append(bars, bar{m.System, fmt.Sprintf("%s  p99 %.1f ms", grouped(int64(m.Rate)), m.P99), max(m.Rate, 1e-3), strings.HasPrefix(m.System, "nexus")})
		}
	}
	return plot(fmt.Sprintf("Durable appends, clients at once: %d (%s)", clients, res.Date), "appends a second", bars)
}

func (res *results) plotLineage() string {
	var bars []bar
	for _, v := range res.Lineage {
		question, _, _ := strings.Cut(v.What, " in ")
		shape, _, _ := strings.Cut(v.Cells, ":")
		shape = strings.TrimSuffix(shape, " forest")
		bars = append(bars, bar{shape + ", " + question, fmt.Sprintf("Nexus %.3f ms", v.P50), max(v.P50*1e3, 1e-3), true},
			bar{"", fmt.Sprintf("SQLite %.3f ms", v.Than50), max(v.Than50*1e3, 1e-3), false})
	}
	return plot("Merge base and ancestor, median ("+res.Date+")", "microseconds", bars)
}
