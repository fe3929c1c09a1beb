package memoryview

import (
	"fmt"
	"io"
	"strings"
	"time"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// SeenBy says who sees a memory.
func SeenBy(m *api.Memory) string {
	switch m.Visibility {
	case "main":
		return "main sessions"
	case "branch":
		return "its branch"
	}
	return "all sessions"
}

// Print prints a line for each memory.
func Print(term *terminal.Terminal, list []api.Memory) error {
	rows := make([][]string, len(list))
	for i, m := range list {
		said := strings.Join(strings.Fields(prose.Printable(m.Text)), " ")
		if m.Error != "" {
			said = terminal.Faint.Render("unreadable: " + string(m.Error))
		}
		rows[i] = []string{terminal.ID.Render(prose.Short(m.ID)), time.Time(m.Time).Local().Format(time.DateOnly), m.Agent, m.Kind, m.State, m.Trust, m.Visibility, sourceOf(&m), said}
	}
	cols := []terminal.Column{{Head: "memory"}, {Head: "day", Drop: 2}, {Head: "agent", Drop: 5}, {Head: "kind", Drop: 1}, {Head: "state", Drop: 1}, {Head: "by", Drop: 3}, {Head: "seen by", Drop: 4}, {Head: "turn", Drop: 6}, {Head: "text"}}
	_, err := io.WriteString(term.Out, term.Table(cols, rows))
	return err
}

// sourceOf names the first turn that a memory comes from, as show takes it, and how many
// more there are.
func sourceOf(m *api.Memory) string {
	switch n := len(m.Sources); n {
	case 0:
		return ""
	case 1:
		return prose.Short(m.Sources[0].Turn)
	default:
		return fmt.Sprintf("%s +%d", prose.Short(m.Sources[0].Turn), n-1)
	}
}

func stays(n int) string {
	if n == 1 {
		return "stays"
	}
	return "stay"
}

func shorts(ids []turns.ID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = prose.Short(id)
	}
	return strings.Join(names, ", ")
}
