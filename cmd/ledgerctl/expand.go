package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

// expandCmd is the command expand.
func expandCmd(e *env) *cobra.Command {
	var all bool
	var r api.ExpandCompaction
	c := verb("expand COMPACTION|TURN|SESSION", "the turns behind what a context shows", 1, 1, func(cmd *cobra.Command, args []string) error {
		set := 0
		for _, name := range []string{"all", "line", "lines", "call"} {
			if cmd.Flags().Changed(name) {
				set++
			}
		}
		if set > 1 {
			return usageError{errors.New("--all, --line, --lines and --call do not go together")}
		}
		if cmd.Flags().Changed("line") && r.Line == 0 {
			return usageError{errors.New("--line counts from 1; --lines shows the numbers")}
		}
		p, err := e.place(cmd, args[0])
		if err != nil {
			return err
		}
		if p.turn.IsZero() && r.Call == "" {
			if p, err = e.newestCompaction(cmd.Context(), p); err != nil {
				return err
			}
		}
		if r.ID = p.turn; all {
			r.Levels = turns.Raw(`"all"`)
		}
		switch {
		case r.Lines:
			err = e.printLines(cmd, p, r)
		case r.Line > 0:
			err = e.printLine(cmd, p, r)
		default:
			err = e.printExpanded(cmd.Context(), p, r)
		}
		if coded(err, api.Unprocessable) {
			err = hinted{err, "ledgerctl tree " + short(p.s.ID) + " shows its compactions"}
		}
		return err
	})
	c.Flags().BoolVar(&all, "all", false, "through every compaction inside it")
	c.Flags().Uint64Var(&r.Line, "line", 0, "what one line of a summary rests on, from 1")
	c.Flags().BoolVar(&r.Lines, "lines", false, "every line of a summary with its number, and the turns that it rests on")
	c.Flags().StringVar(&r.Call, "call", "", "the turns with a tool call and its results, by the call's id")
	return c
}

// newestCompaction finds the newest compaction on the path of a session's head, and says
// which that is.
func (e *env) newestCompaction(ctx context.Context, p place) (place, error) {
	for t, err := range p.c.Turns(ctx, p.s.ID, api.ListTurns{Order: "desc", Page: api.Page{Limit: 1000}}) {
		if err != nil {
			return p, err
		}
		if t.Type == "compaction" {
			p.turn, p.depth = t.ID, t.Depth
			e.say("the newest compaction of the session: %s@%d", short(p.s.ID), t.Depth)
			return p, nil
		}
	}
	return p, hinted{api.Errorf(api.NotFound, nil, "session %s has no compaction: its context shows every turn", short(p.s.ID)), "ledgerctl log " + short(p.s.ID) + " shows them; expand SESSION@N shows one whole"}
}

// printExpanded prints the turns that a compaction covers, or one turn whole.
func (e *env) printExpanded(ctx context.Context, p place, r api.ExpandCompaction) error {
	x, err := p.c.Expansion(ctx, p.s.ID, r)
	if err != nil {
		return err
	}
	if x.State == "" && r.Call == "" {
		return e.printTurns(p.c.Expand(ctx, p.s.ID, r), 0, "")
	}
	if e.json {
		return e.print(x)
	}
	for i := range x.Turns {
		t := &x.Turns[i]
		if i > 0 {
			fmt.Fprintln(e.out)
		}
		if x.State != "" {
			e.rows(8)("shown", "%s", shownAs(x))
		}
		e.showTurn(t)
	}
	return nil
}

// shownAs says what the context shows of an expanded turn.
func shownAs(x *api.Expanded) string {
	switch x.State {
	case "compacted":
		by := make([]string, len(x.CoveredBy))
		for i, id := range x.CoveredBy {
			by[i] = short(id)
		}
		return "not at all: covered by " + strings.Join(by, ", whose summary is in that of ")
	case "elided":
		return "shortened by a compaction"
	case "shortened":
		return "shortened by the policy"
	case "other_branch":
		return "not at all: it is on another branch"
	}
	return "as it is"
}

// printLines prints the lines of a summary, each with the turns that it rests on.
func (e *env) printLines(cmd *cobra.Command, p place, r api.ExpandCompaction) error {
	const most = 3
	var rows [][]string
	none, partial := uint64(0), false
	var lines []api.SummaryLine
	for more := true; more; more = r.After != "" {
		x, err := p.c.Expansion(cmd.Context(), p.s.ID, r)
		if err != nil {
			return err
		}
		lines, partial, r.After = append(lines, x.Lines...), partial || x.Partial, x.Next
	}
	if partial {
		defer e.say("of the oldest turns only the beginnings of long parts were read")
	}
	for _, l := range lines {
		if e.json {
			if err := e.print(l); err != nil {
				return err
			}
			continue
		}
		on := ""
		switch {
		case l.Frame:
		case len(l.Turns) == 0:
			on = bad.Render("none")
			none++
		default:
			for _, t := range l.Turns[:min(len(l.Turns), most)] {
				on += fmt.Sprintf("t%d ", t.Depth)
			}
			if n := uint64(max(0, len(l.Turns)-most)) + l.More; n > 0 {
				on += fmt.Sprintf("+%d", n)
			}
		}
		text := printable(l.Text)
		if len(l.Missing) > 0 {
			text += faint.Render("  (in no turn: "+clip(strings.Join(l.Missing, ", "), 200)) + faint.Render(")")
		}
		rows = append(rows, []string{fmt.Sprint(l.Line), strings.TrimSpace(on), text})
	}
	if e.json {
		return nil
	}
	if _, err := io.WriteString(e.out, e.table([]column{{head: "line", right: true}, {head: "rests on"}, {head: "text", least: 30}}, rows)); err != nil {
		return err
	}
	if none > 0 {
		e.say("%s no covered turn", plural(none, "line")+map[bool]string{true: " rests on", false: " rest on"}[none == 1])
	}
	e.say("next: ledgerctl expand %s/%s --line N", short(p.s.ID), short(p.turn))
	return nil
}

// printLine prints what one line of a summary rests on.
func (e *env) printLine(cmd *cobra.Command, p place, r api.ExpandCompaction) error {
	x, err := p.c.Expansion(cmd.Context(), p.s.ID, r)
	if err != nil {
		return err
	}
	l := &x.Lines[0]
	if e.json {
		return e.print(l)
	}
	row := e.rows(8)
	row("line", "%d", l.Line)
	row("text", "%s", printable(l.Text))
	row("in no turn", "%s", printable(strings.Join(l.Missing, ", ")))
	if x.Partial {
		row("partial", "of the oldest turns only the beginnings of long parts were read")
	}
	switch {
	case l.Frame:
		row("rests on", "nothing: it is a tag, a heading or blank")
		return nil
	case len(l.Turns) == 0:
		row("rests on", "%s", bad.Render("no covered turn"))
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
			how = append(how, clip(strings.Join(t.Facts, " "), 120))
		}
		fmt.Fprintf(e.out, "\n%s  %s %s %d.%d  %s\n", idStyle.Render(fmt.Sprintf("t%d", t.Depth)), short(t.Turn), t.Half, t.Message, t.Part, strings.Join(how, ", "))
		if t.Excerpt != "" {
			fmt.Fprintf(e.out, "  %s\n", clip(t.Excerpt, max(40, e.width-2)))
		}
		fmt.Fprintf(e.out, "  %s\n", faint.Render(t.Hash.String()))
	}
	if l.More > 0 {
		fmt.Fprintf(e.out, "\nand %s more\n", plural(l.More, "turn"))
	}
	e.say("next: ledgerctl expand %s@t%d", short(p.s.ID), l.Turns[0].Depth)
	return nil
}

// missedFirst are the kinds of lost facts that are listed, those that a person would miss
// first in front: what failed, what was run, the files, then names. Listings are full of
// numbers, so these are left out.
var missedFirst = [][]string{{"errors"}, {"commands"}, {"paths"}, {"identifiers"}}

// shared cuts lists to so many elements of all of them; 0: all. Each has a fair part, and
// what one does not need the first ones get.
func shared[T any](lists [][]T, limit int) [][]T {
	if limit == 0 {
		return lists
	}
	take := make([]int, len(lists))
	for left := limit; left > 0; {
		before := left
		for i, l := range lists {
			if left > 0 && take[i] < len(l) {
				take[i]++
				left--
			}
		}
		if left == before {
			break
		}
	}
	for i := range lists {
		lists[i] = lists[i][:take[i]]
	}
	return lists
}

// lostFacts asks for the lost facts of some kinds, so many at most; 0: all.
func (e *env) lostFacts(ctx context.Context, p place, r api.ListLost, limit int) (facts []api.LostFact, last *api.LostList, err error) {
	for {
		r.Limit = 1000
		if limit > 0 {
			r.Limit = min(limit-len(facts), 1000)
		}
		if last, err = p.c.LostFacts(ctx, p.s.ID, r); err != nil {
			if coded(err, api.Unprocessable) {
				err = hinted{err, "ledgerctl tree " + short(p.s.ID) + " shows its compactions"}
			}
			return nil, nil, err
		}
		facts = append(facts, last.Facts...)
		if r.After = last.Next; r.After == "" || limit > 0 && len(facts) >= limit {
			return facts, last, nil
		}
	}
}

// printLost prints the facts that a context does not hold any more.
func (e *env) printLost(cmd *cobra.Command, name string, r api.ListLost, limit int) error {
	p, err := e.place(cmd, name)
	if err != nil {
		return err
	}
	if limit < 0 {
		return usageError{errors.New("--limit is below 0")}
	}
	r.ID = p.turn
	kinds := [][]string{r.Kinds}
	if len(r.Kinds) == 0 {
		kinds = missedFirst
	}
	var lists [][]api.LostFact
	var last api.LostList
	for _, k := range kinds {
		r.Kinds = k
		list, l, err := e.lostFacts(cmd.Context(), p, r, limit)
		if err != nil {
			return err
		}
		lists, last.Count, last.Survival, last.Partial = append(lists, list), last.Count+l.Count, l.Survival, last.Partial || l.Partial
	}
	facts := slices.Concat(shared(lists, limit)...)
	if e.json {
		for _, f := range facts {
			if err := e.print(f); err != nil {
				return err
			}
		}
		return nil
	}
	if last.Partial {
		e.say("only the first 20,000 facts of the path were considered, or the newest 48 MiB of content")
	}
	if len(facts) == 0 {
		e.say("the context holds every fact that it was made of")
		return nil
	}
	rows := make([][]string, len(facts))
	for i, f := range facts {
		by := "shortened"
		if f.CoveredBy != nil {
			by = short(*f.CoveredBy)
		}
		rows[i] = []string{fmt.Sprint(f.Uses), f.Kind, idStyle.Render(fmt.Sprintf("%s@t%d", short(p.s.ID), f.Depth)), by, clip(f.Text, 200)}
	}
	cols := []column{{head: "uses", right: true}, {head: "kind", drop: 2}, {head: "newest in"}, {head: "covered by", drop: 1}, {head: "fact", least: 20}}
	if _, err := io.WriteString(e.out, e.table(cols, rows)); err != nil {
		return err
	}
	e.say("%s of %s shown; survival: %s", grouped(uint64(len(facts))), grouped(last.Count), printable(string(last.Survival)))
	if len(facts) > 0 {
		e.say("next: ledgerctl expand %s@t%d", short(p.s.ID), facts[0].Depth)
	}
	return nil
}
