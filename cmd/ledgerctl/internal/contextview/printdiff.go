package contextview

import (
	"cmp"
	"context"
	"fmt"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// PrintDiff prints which pieces of two contexts are gone, added or changed.
func PrintDiff(ctx context.Context, term *terminal.Terminal, args []string, f Options, ask func(name string, f Options) (names.Place, *api.Context, error)) error {
	var pieces [2][]Piece
	var contexts [2]*api.Context
	depths := make(map[turns.ID]uint64)
	f.Explain = true
	for i, name := range args {
		p, cx, err := ask(name, f)
		if err != nil {
			return err
		}
		if pieces[i], err = PiecesOf(cx); err != nil {
			return err
		}
		contexts[i] = cx
		on, err := depthsOf(ctx, p)
		if err != nil {
			return err
		}
		for id, n := range on {
			depths[id] = n
		}
	}
	entries := Diff(pieces[0], pieces[1])
	sums := Sum(entries)
	if term.JSON {
		return term.Print(contextDiffJSON(args, contexts, entries, sums))
	}
	for i, cx := range contexts {
		more := ""
		if cx.Reported > 0 {
			more = fmt.Sprintf(", %s by the provider's count", prose.Grouped(cx.Reported))
		}
		how := map[bool]string{true: "as recorded", false: "as for the next call"}[cx.Recorded != ""]
		fmt.Fprintf(term.Out, "%s %s, %s: %s, %s tokens%s\n", []string{terminal.Bad.Render("-"), terminal.Good.Render("+")}[i], prose.Printable(args[i]), how,
			prose.Plural(uint64(len(cx.Messages)), "message"), prose.Grouped(cx.Tokens+cx.Overhead), more)
	}
	k := sums[Kept]
	fmt.Fprintf(term.Out, "  in both: %s, %s tokens\n", prose.Plural(k.Messages, "message"), prose.Grouped(k.Tokens))
	var rows [][]string
	for i := range entries {
		x := &entries[i]
		p := cmp.Or(x.New, x.Old)
		mark, tokens := "", prose.Grouped(p.Tokens)
		switch x.Change {
		case Kept:
			continue
		case Gone:
			mark = terminal.Bad.Render("- gone")
		case Added:
			mark = terminal.Good.Render("+ added")
		case Changed:
			mark, tokens = terminal.Tool.Render("~ changed"), prose.Grouped(x.Old.Tokens)+" → "+tokens
		}
		rows = append(rows, []string{mark, numberOf(depths, p), turnOf(p), halfOf(p), tokens, says(term, p, f.Secrets)})
	}
	if len(rows) == 0 {
		term.Say("the contexts show the same messages")
		return nil
	}
	fmt.Fprint(term.Out, term.Table([]terminal.Column{{Head: ""}, {Head: "n", Right: true, Drop: 1}, {Head: "turn"}, {Head: "half", Drop: 2}, {Head: "tokens", Right: true}, {Head: "says", Least: 20}}, rows))
	for _, c := range []Change{Gone, Added, Changed} {
		t, ok := sums[c]
		switch {
		case !ok:
		case c == Changed:
			fmt.Fprintf(term.Out, "changed: %s, %s → %s tokens\n", prose.Plural(t.Messages, "message"), prose.Grouped(t.Tokens), prose.Grouped(t.Now))
		default:
			fmt.Fprintf(term.Out, "%s: %s, %s tokens\n", c, prose.Plural(t.Messages, "message"), prose.Grouped(t.Tokens))
		}
	}
	return nil
}

// contextDiff is a comparison of contexts as JSON.
type contextDiff struct {
	Contexts [2]contextEnd     `json:"contexts"`
	Totals   map[Change]Totals `json:"totals"`
	Entries  []contextChange   `json:"entries"` // without those that are kept
}

// contextEnd is one of the contexts.
type contextEnd struct {
	Name     string `json:"name"`
	Messages int    `json:"messages"`
	Tokens   uint64 `json:"tokens"` // with those of system and tools
	Reported uint64 `json:"reported,omitzero"`
	Recorded string `json:"recorded,omitempty,omitzero"`
}

type contextChange struct {
	Change Change      `json:"change"`
	Old    *api.Source `json:"old,omitempty,omitzero"`
	New    *api.Source `json:"new,omitempty,omitzero"`
}

func contextDiffJSON(args []string, contexts [2]*api.Context, entries []Entry, sums map[Change]Totals) contextDiff {
	out := contextDiff{Totals: sums, Entries: []contextChange{}}
	for i, cx := range contexts {
		out.Contexts[i] = contextEnd{args[i], len(cx.Messages), cx.Tokens + cx.Overhead, cx.Reported, cx.Recorded}
	}
	for _, x := range entries {
		if x.Change == Kept {
			continue
		}
		c := contextChange{Change: x.Change}
		if x.Old != nil {
			c.Old = &x.Old.Source
		}
		if x.New != nil {
			c.New = &x.New.Source
		}
		out.Entries = append(out.Entries, c)
	}
	return out
}
