package bench

import (
	"fmt"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
)

func agentTables(term *terminal.Terminal, out *AgentsResult) {
	ms := func(x float64) string {
		if x == 0 {
			return "–"
		}
		return fmt.Sprintf("%.2f", x)
	}
	bytes := func(x float64) string { return prose.Grouped(uint64(max(0, x))) }
	draw := func(heads []string, rows [][]string) {
		cols := []terminal.Column{{Head: heads[0]}}
		for _, h := range heads[1:] {
			cols = append(cols, terminal.Column{Head: h, Right: true})
		}
		fmt.Fprint(term.Out, term.Table(cols, rows))
	}
	for _, part := range []struct {
		head string
		of   []Worked
	}{
		{fmt.Sprintf("%s at once", prose.Plural(uint64(out.Agents.Agents), "agent")), out.Depth},
		{fmt.Sprintf("%s, %d awake", prose.Plural(uint64(out.Sessions), "session"), min(out.Awake, out.Sessions)), out.Orders},
	} {
		if len(part.of) == 0 {
			continue
		}
		var rows [][]string
		for _, w := range part.of {
			rows = append(rows, []string{w.What, ms(w.ContextP50), ms(w.ContextP99), ms(w.AppendP50), ms(w.AppendP99), fmt.Sprintf("%.0f µs", w.CPU), bytes(w.Disk), bytes(w.Sent), fmt.Sprint(w.Turns)})
		}
		draw([]string{part.head, "context p50", "p99 ms", "append p50", "p99 ms", "CPU", "disk", "sent", "turns"}, rows)
	}
	if len(out.Opens) > 0 {
		var rows [][]string
		for _, o := range out.Opens {
			rows = append(rows, []string{o.What, prose.Grouped(uint64(o.Rate)), ms(o.P50), ms(o.P99), fmt.Sprintf("%.0f µs", o.CPU), fmt.Sprintf("%.2f", o.Append)})
		}
		draw([]string{fmt.Sprintf("%d clients", min(openers, out.Sessions)), "a second", "p50 ms", "p99 ms", "CPU", "p50/append"}, rows)
	}
	if len(out.Verbs) > 0 {
		var rows [][]string
		for _, v := range out.Verbs {
			rows = append(rows, []string{v.Verb, bytes(float64(v.Preamble)), ms(v.P50), ms(v.P99), fmt.Sprintf("%.0f µs", v.CPU), fmt.Sprintf("%.2f", v.Relative), fmt.Sprintf("%.2f", v.RelP50), bytes(v.Sent)})
		}
		draw([]string{"verb", "preamble", "p50 ms", "p99 ms", "CPU", "× none", "p50 ×", "sent"}, rows)
	}
	term.Tell("%s", strings.Join([]string{"a turn is context.get and turn.append.", "CPU is the server's, disk its files' growth, sent its replies, a turn each."}, " "))
}
