package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// The styles use the sixteen colours of the terminal, which its owner chose.
// The output says in words or signs too whatever a style shows.
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
	e.width, e.screen = 0, false
	if f, ok := e.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		e.screen = true
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
	heads, wide := make([]string, len(cols)), make([]int, len(cols))
	for i, c := range cols {
		if c.head != "" {
			heads[i] = faint.Render(c.head)
		}
		for _, r := range append(rows, heads) {
			wide[i] = max(wide[i], lipgloss.Width(r[i]))
		}
	}
	shown, last := e.fits(cols, wide), len(cols)-1
	room := e.width
	for _, i := range shown[:len(shown)-1] {
		room -= wide[i] + gap
	}
	t := table.New().BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false)
	t.StyleFunc(func(_, n int) lipgloss.Style {
		s := lipgloss.NewStyle()
		if n < len(shown)-1 {
			s = s.PaddingRight(gap)
		}
		if cols[shown[n]].right {
			s = s.Align(lipgloss.Right)
		}
		return s
	})
	for _, r := range append([][]string{heads}, rows...) {
		var cells []string
		for _, i := range shown {
			text := r[i]
			if i == last && e.width > 0 {
				text = cols[i].limited(text, max(1, room))
			}
			cells = append(cells, text)
		}
		t.Row(cells...)
	}
	var b strings.Builder
	for line := range strings.Lines(t.Render()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// limited is a cell of the last column within n cells.
func (c column) limited(text string, n int) string {
	if !c.wraps {
		return cut(text, n)
	}
	lines := strings.Split(wrapped(n, text, ""), "\n")
	for i := range lines {
		lines[i] = cut(lines[i], n)
	}
	return strings.Join(lines, "\n")
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
func cut(s string, n int) string { return ansi.Truncate(s, n, "…") }

// rows returns what prints a name, n cells wide, and a value next to it; an empty
// value is not printed.
func (e *env) rows(n int) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		if v := strings.TrimSpace(fmt.Sprintf(format, args...)); v != "" {
			lead := max(n, lipgloss.Width(name)) + 1
			if room := e.width - lead; room > 0 {
				v = ansi.Hardwrap(wrapped(room, v, ""), room, true)
			}
			v = strings.ReplaceAll(v, "\n", "\n"+strings.Repeat(" ", lead))
			fmt.Fprintf(e.out, "%s %s\n", faint.Render(fmt.Sprintf("%-*s", n, name)), v)
		}
	}
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

// progress is a bar on stderr that says how much of a work is done, and how long
// the rest may take; it draws on a terminal only. more are options beyond those.
func (e *env) progress(total int64, what string, more ...progressbar.Option) *progressbar.ProgressBar {
	if !e.talks || e.quiet || e.json {
		return progressbar.DefaultSilent(total, what)
	}
	return progressbar.NewOptions64(total, append(more, progressbar.OptionSetWriter(e.err), progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(24), progressbar.OptionThrottle(1e8), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())...)
}
