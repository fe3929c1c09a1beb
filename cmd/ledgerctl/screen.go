package main

import (
	"io"
	"os"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
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

// columns is a table without lines; right names the columns of numbers.
func columns(head []string, rows [][]string, right ...int) string {
	number := make(map[int]bool)
	for _, c := range right {
		number[c] = true
	}
	t := table.New().Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		Headers(head...).Rows(rows...).Wrap(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			s := lipgloss.NewStyle()
			if row == table.HeaderRow {
				s = faint
			}
			if number[col] {
				s = s.Align(lipgloss.Right)
			}
			if col < len(head)-1 {
				s = s.PaddingRight(2)
			}
			return s
		})
	var b strings.Builder
	for line := range strings.Lines(t.String()) {
		b.WriteString(strings.TrimRight(line, " \n"))
		b.WriteByte('\n')
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
