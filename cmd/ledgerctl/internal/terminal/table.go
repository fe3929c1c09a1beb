package terminal

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

// Column is one of a table. Where a terminal is too narrow, the last column gives
// up what it has over its least; then those with the largest drop go, one by one;
// then the last one is cut, or goes on below itself.
type Column struct {
	Head  string
	Right bool // of numbers
	Drop  int  // 0: stays
	Least int  // cells of the last column; 0: all that it has
	Wraps bool // the last column
}

// gap is the cells between two columns.
const gap = 2

// limited is a cell of the last column within n cells.
func (c Column) limited(text string, n int) string {
	if !c.Wraps {
		return Cut(text, n)
	}
	lines := strings.Split(Wrapped(n, text, ""), "\n")
	for i := range lines {
		lines[i] = Cut(lines[i], n)
	}
	return strings.Join(lines, "\n")
}

// Cut is s, styled or not, in at most n cells.
func Cut(s string, n int) string { return ansi.Truncate(s, n, "…") }

// Wrapped is words in lines of width cells, those after the first behind lead; in
// one line where width is 0.
func Wrapped(width int, text, lead string) string {
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

// Table is a table without lines that fits into the terminal.
func (term *Terminal) Table(cols []Column, rows [][]string) string {
	heads, wide := make([]string, len(cols)), make([]int, len(cols))
	for i, c := range cols {
		if c.Head != "" {
			heads[i] = Faint.Render(c.Head)
		}
		for _, r := range append(rows, heads) {
			wide[i] = max(wide[i], lipgloss.Width(r[i]))
		}
	}
	shown, last := term.fits(cols, wide), len(cols)-1
	room := term.Width
	for _, i := range shown[:len(shown)-1] {
		room -= wide[i] + gap
	}
	t := table.New().BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false)
	t.StyleFunc(func(_, n int) lipgloss.Style {
		s := lipgloss.NewStyle()
		if n < len(shown)-1 {
			s = s.PaddingRight(gap)
		}
		if cols[shown[n]].Right {
			s = s.Align(lipgloss.Right)
		}
		return s
	})
	for _, r := range append([][]string{heads}, rows...) {
		var cells []string
		for _, i := range shown {
			text := r[i]
			if i == last && term.Width > 0 {
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

// fits is the columns that there is room for.
func (term *Terminal) fits(cols []Column, wide []int) []int {
	last := len(cols) - 1
	need := slices.Clone(wide)
	if n := cols[last].Least; n > 0 {
		need[last] = min(need[last], n)
	}
	shown := make([]int, len(cols))
	total := -gap
	for i := range cols {
		shown[i], total = i, total+gap+need[i]
	}
	for term.Width > 0 && total > term.Width {
		out := 0
		for n, i := range shown {
			if cols[i].Drop > cols[shown[out]].Drop {
				out = n
			}
		}
		i := shown[out]
		if cols[i].Drop == 0 {
			break
		}
		total -= need[i] + gap
		shown = slices.Delete(shown, out, out+1)
	}
	return shown
}

// Stacked is a table as wide as it must be, in as many tables below each other as
// make it fit: each begins with the first column.
func (term *Terminal) Stacked(cols []Column, rows [][]string) string {
	var b strings.Builder
	for from := 1; from < len(cols); {
		to := len(cols)
		for {
			pick := func(r []string) []string { return append([]string{r[0]}, r[from:to]...) }
			some := make([][]string, len(rows))
			for i, r := range rows {
				some[i] = pick(r)
			}
			wide := &Terminal{}
			text := wide.Table(append([]Column{cols[0]}, cols[from:to]...), some)
			if term.Width == 0 || lipgloss.Width(text) <= term.Width || to == from+1 {
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

// Rows returns what prints a name, n cells wide, and a value next to it; an empty
// value is not printed.
func (term *Terminal) Rows(n int) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		if v := strings.TrimSpace(fmt.Sprintf(format, args...)); v != "" {
			lead := max(n, lipgloss.Width(name)) + 1
			if room := term.Width - lead; room > 0 {
				v = ansi.Hardwrap(Wrapped(room, v, ""), room, true)
			}
			v = strings.ReplaceAll(v, "\n", "\n"+strings.Repeat(" ", lead))
			fmt.Fprintf(term.Out, "%s %s\n", Faint.Render(fmt.Sprintf("%-*s", n, name)), v)
		}
	}
}
