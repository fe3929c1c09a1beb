package terminal

import (
	"strings"

	"charm.land/lipgloss/v2"

	"nexus/turns"
)

// Whole returns an id. It highlights the end, by which other output names it.
func Whole(id turns.ID) string {
	s := id.String()
	return Faint.Render(s[:18]) + ID.Render(s[18:])
}

// The styles use the sixteen colours of the terminal, which its owner chose.
// The output says in words or signs too whatever a style shows.
var (
	Faint  = lipgloss.NewStyle().Faint(true)
	Bold   = lipgloss.NewStyle().Bold(true)
	ID     = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	Good   = lipgloss.NewStyle().Foreground(lipgloss.Green)
	Bad    = lipgloss.NewStyle().Foreground(lipgloss.Red)
	Folded = lipgloss.NewStyle().Foreground(lipgloss.Magenta) // compactions
	Tool   = lipgloss.NewStyle().Foreground(lipgloss.Cyan)
	Title  = lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Blue)
)

// Gauge is a bar of width cells, share of it filled.
func Gauge(share float64, width int) string {
	n := min(width, max(0, int(share*float64(width)+0.5)))
	s := Good
	if share >= 0.8 {
		s = Bad
	}
	return s.Render(strings.Repeat("█", n)) + Faint.Render(strings.Repeat("░", width-n))
}
