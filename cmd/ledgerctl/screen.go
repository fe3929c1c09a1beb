package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// The styles use the sixteen colours of the terminal, which its owner chose.
// What a style says is always said in words or signs too.
var (
	faint   = lipgloss.NewStyle().Faint(true)
	bold    = lipgloss.NewStyle().Bold(true)
	idStyle = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	good    = lipgloss.NewStyle().Foreground(lipgloss.Green)
	bad     = lipgloss.NewStyle().Foreground(lipgloss.Red)
	folded  = lipgloss.NewStyle().Foreground(lipgloss.Magenta) // compactions
	tool    = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	title   = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Blue)
)

// dress makes out and err take the styles as their terminals can show them:
// none where they are files, where NO_COLOR is set, or with --no-color.
func (e *env) dress() {
	e.width = 0
	if f, ok := e.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			e.width = w
		}
	}
	if f, ok := e.err.(*os.File); ok {
		e.talks = term.IsTerminal(int(f.Fd()))
	}
	e.out, e.err = e.plain(e.out), e.plain(e.err)
}

func (e *env) plain(w io.Writer) io.Writer {
	p := colorprofile.NewWriter(w, os.Environ())
	if e.noColor {
		p.Profile = colorprofile.NoTTY
	}
	return p
}

// column is one of a table. Where a terminal is too narrow, the last column gives
// up what it has over its least; then those with the largest drop go, one by one;
// then the last one is cut, or goes on below itself.
type column struct {
	head  string
	right bool // of numbers
	drop  int  // 0: stays
	least int  // cells of the last column; 0: all that it has
	wraps bool // the last column
}

// gap is the cells between two columns.
const gap = 2

// table is a table without lines that fits into the terminal.
func (e *env) table(cols []column, rows [][]string) string {
	cells := [][]string{make([]string, len(cols))}
	for i, c := range cols {
		if c.head != "" {
			cells[0][i] = faint.Render(c.head)
		}
	}
	cells = append(cells, rows...)
	wide := make([]int, len(cols))
	for _, r := range cells {
		for i := range r {
			wide[i] = max(wide[i], lipgloss.Width(r[i]))
		}
	}
	shown, last := e.fits(cols, wide), len(cols)-1
	before := 0
	for _, i := range shown[:len(shown)-1] {
		before += wide[i] + gap
	}
	if e.width > 0 {
		wide[last] = max(1, min(wide[last], e.width-before))
	}
	var b strings.Builder
	for _, r := range cells {
		line := ""
		for _, i := range shown {
			text := r[i]
			if i == last && cols[i].wraps {
				lines := strings.Split(wrapped(wide[i], text, ""), "\n")
				for n := range lines {
					lines[n] = cut(lines[n], wide[i])
				}
				text = strings.Join(lines, "\n"+strings.Repeat(" ", before))
			} else {
				text = cut(text, wide[i])
			}
			pad := strings.Repeat(" ", max(0, wide[i]-lipgloss.Width(text)))
			if cols[i].right {
				text = pad + text
			} else if i != last {
				text += pad
			}
			line += text
			if i != last {
				line += strings.Repeat(" ", gap)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// fits is the columns that there is room for.
func (e *env) fits(cols []column, wide []int) []int {
	last := len(cols) - 1
	shown := make([]int, len(cols))
	total := -gap
	for i := range cols {
		shown[i], total = i, total+gap+wide[i]
	}
	if n := cols[last].least; n > 0 {
		total -= max(0, wide[last]-n)
	}
	for e.width > 0 && total > e.width {
		out := 0
		for n, i := range shown {
			if cols[i].drop > cols[shown[out]].drop {
				out = n
			}
		}
		i := shown[out]
		if cols[i].drop == 0 {
			break
		}
		total -= wide[i] + gap
		shown = slices.Delete(shown, out, out+1)
	}
	return shown
}

// stacked is a table as wide as it must be, in as many tables below each other as
// make it fit: each begins with the first column.
func (e *env) stacked(cols []column, rows [][]string) string {
	var b strings.Builder
	for from := 1; from < len(cols); {
		to := len(cols)
		for {
			pick := func(r []string) []string { return append([]string{r[0]}, r[from:to]...) }
			some := make([][]string, len(rows))
			for i, r := range rows {
				some[i] = pick(r)
			}
			wide := &env{}
			text := wide.table(append([]column{cols[0]}, cols[from:to]...), some)
			if e.width == 0 || lipgloss.Width(text) <= e.width || to == from+1 {
				if from > 1 {
					b.WriteByte('\n')
				}
				b.WriteString(text)
				break
			}
			to--
		}
		from = to
	}
	return b.String()
}

// cut is s, styled or not, in at most n cells.
func cut(s string, n int) string {
	if lipgloss.Width(s) <= n {
		return s
	}
	return lipgloss.NewStyle().Inline(true).MaxWidth(n-1).Render(s) + "…"
}

// wrapped is words in lines of width cells, those after the first behind lead; in
// one line where width is 0.
func wrapped(width int, text, lead string) string {
	if width == 0 {
		return text
	}
	var b strings.Builder
	at := 0
	for _, w := range strings.Fields(text) {
		n := lipgloss.Width(w)
		switch {
		case at == 0:
		case at+1+n > width:
			b.WriteString("\n" + lead)
			at = lipgloss.Width(lead)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += n
	}
	return b.String()
}

// gauge is a bar of width cells, share of it filled.
func gauge(share float64, width int) string {
	n := min(width, max(0, int(share*float64(width)+0.5)))
	s := good
	if share >= 0.8 {
		s = bad
	}
	return s.Render(strings.Repeat("█", n)) + faint.Render(strings.Repeat("░", width-n))
}

// progress is a bar on stderr for total bytes; it draws on a terminal only.
func (e *env) progress(total int64, what string) *progressbar.ProgressBar {
	if !e.talks || e.quiet || e.json {
		return progressbar.DefaultBytesSilent(total, what)
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(e.err), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(24), progressbar.OptionThrottle(1e8),
		progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
}

// share is a bar on stderr that says how much of a work is done, and how long
// the rest may take; it draws on a terminal only.
func (e *env) share(total int64, what string) *progressbar.ProgressBar {
	if !e.talks || e.quiet || e.json {
		return progressbar.DefaultSilent(total, what)
	}
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(e.err), progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(24), progressbar.OptionThrottle(1e8), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
}
