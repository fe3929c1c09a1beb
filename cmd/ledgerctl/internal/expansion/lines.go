package expansion

import (
	"context"
	"fmt"
	"io"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// PrintLines prints the lines of a summary, each with the turns that it rests on.
func PrintLines(ctx context.Context, term *terminal.Terminal, p names.Place, r api.ExpandCompaction) error {
	const most = 3
	var rows [][]string
	none, partial := uint64(0), false
	var lines []api.SummaryLine
	for more := true; more; more = r.After != "" {
		x, err := p.Client.Expansion(ctx, p.Session.ID, r)
		if err != nil {
			return err
		}
		lines, partial, r.After = append(lines, x.Lines...), partial || x.Partial, x.Next
	}
	if partial {
		defer term.Say("of the oldest turns only the beginnings of long parts were read")
	}
	for _, l := range lines {
		if term.JSON {
			if err := term.Print(l); err != nil {
				return err
			}
			continue
		}
		on := ""
		switch {
		case l.Frame:
		case len(l.Turns) == 0:
			on = terminal.Bad.Render("none")
			none++
		default:
			for _, t := range l.Turns[:min(len(l.Turns), most)] {
				on += fmt.Sprintf("t%d ", t.Depth)
			}
			if n := uint64(max(0, len(l.Turns)-most)) + l.More; n > 0 {
				on += fmt.Sprintf("+%d", n)
			}
		}
		text := prose.Printable(l.Text)
		if len(l.Missing) > 0 {
			text += terminal.Faint.Render("  (in no turn: "+prose.Clip(strings.Join(l.Missing, ", "), 200)) + terminal.Faint.Render(")")
		}
		rows = append(rows, []string{fmt.Sprint(l.Line), strings.TrimSpace(on), text})
	}
	if term.JSON {
		return nil
	}
	if _, err := io.WriteString(term.Out, term.Table([]terminal.Column{{Head: "line", Right: true}, {Head: "rests on"}, {Head: "text", Least: 30}}, rows)); err != nil {
		return err
	}
	if none > 0 {
		term.Say("%s no covered turn", prose.Plural(none, "line")+map[bool]string{true: " rests on", false: " rest on"}[none == 1])
	}
	term.Say("next: ledgerctl expand %s/%s --line N", prose.Short(p.Session.ID), prose.Short(p.Turn))
	return nil
}

// PrintLine prints what one line of a summary rests on.
func PrintLine(ctx context.Context, term *terminal.Terminal, p names.Place, r api.ExpandCompaction) error {
	x, err := p.Client.Expansion(ctx, p.Session.ID, r)
	if err != nil {
		return err
	}
	l := &x.Lines[0]
	if term.JSON {
		return term.Print(l)
	}
	row := term.Rows(8)
	row("line", "%d", l.Line)
	row("text", "%s", prose.Printable(l.Text))
	row("in no turn", "%s", prose.Printable(strings.Join(l.Missing, ", ")))
	if x.Partial {
		row("partial", "of the oldest turns only the beginnings of long parts were read")
	}
	switch {
	case l.Frame:
		row("rests on", "nothing: it is a tag, a heading or blank")
		return nil
	case len(l.Turns) == 0:
		row("rests on", "%s", terminal.Bad.Render("no covered turn"))
		return nil
	}
	for _, t := range l.Turns {
		how := []string{fmt.Sprintf("%.0f %% of it", 100*t.Score)}
		if t.Quoted {
			how = append(how, "word for word")
		}
		if t.Cited {
			how = append(how, "cited")
		}
		if len(t.Facts) > 0 {
			how = append(how, prose.Clip(strings.Join(t.Facts, " "), 120))
		}
		fmt.Fprintf(term.Out, "\n%s  %s %s %d.%d  %s\n", terminal.ID.Render(fmt.Sprintf("t%d", t.Depth)), prose.Short(t.Turn), t.Half, t.Message, t.Part, strings.Join(how, ", "))
		if t.Excerpt != "" {
			fmt.Fprintf(term.Out, "  %s\n", prose.Clip(t.Excerpt, max(40, term.Width-2)))
		}
		fmt.Fprintf(term.Out, "  %s\n", terminal.Faint.Render(t.Hash.String()))
	}
	if l.More > 0 {
		fmt.Fprintf(term.Out, "\nand %s more\n", prose.Plural(l.More, "turn"))
	}
	term.Say("next: ledgerctl expand %s@t%d", prose.Short(p.Session.ID), l.Turns[0].Depth)
	return nil
}
