package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"nexus/cmd/ledgerctl/contextview"
	"nexus/ledger/api"
	"nexus/turns"
)

// diffPieces prints which pieces of two contexts are gone, added or changed.
func (e *env) diffPieces(cmd *cobra.Command, names []string, f contextFlags) error {
	var pieces [2][]contextview.Piece
	var contexts [2]*api.Context
	depths := make(map[turns.ID]uint64)
	f.explain = true
	for i, name := range names {
		p, cx, err := e.contextOf(cmd, name, f)
		if err != nil {
			return err
		}
		if pieces[i], err = contextview.PiecesOf(cx); err != nil {
			return err
		}
		contexts[i] = cx
		on, err := depthsOf(cmd.Context(), p)
		if err != nil {
			return err
		}
		for id, n := range on {
			depths[id] = n
		}
	}
	entries := contextview.Diff(pieces[0], pieces[1])
	sums := contextview.Sum(entries)
	if e.json {
		return e.print(contextDiffJSON(names, contexts, entries, sums))
	}
	for i, cx := range contexts {
		more := ""
		if cx.Reported > 0 {
			more = fmt.Sprintf(", %s by the provider's count", grouped(cx.Reported))
		}
		how := map[bool]string{true: "as recorded", false: "as for the next call"}[cx.Recorded != ""]
		fmt.Fprintf(e.out, "%s %s, %s: %s, %s tokens%s\n", []string{bad.Render("-"), good.Render("+")}[i], printable(names[i]), how,
			plural(uint64(len(cx.Messages)), "message"), grouped(cx.Tokens+cx.Overhead), more)
	}
	k := sums[contextview.Kept]
	fmt.Fprintf(e.out, "  in both: %s, %s tokens\n", plural(k.Messages, "message"), grouped(k.Tokens))
	var rows [][]string
	for i := range entries {
		x := &entries[i]
		p := cmp.Or(x.New, x.Old)
		mark, tokens := "", grouped(p.Tokens)
		switch x.Change {
		case contextview.Kept:
			continue
		case contextview.Gone:
			mark = bad.Render("- gone")
		case contextview.Added:
			mark = good.Render("+ added")
		case contextview.Changed:
			mark, tokens = tool.Render("~ changed"), grouped(x.Old.Tokens)+" → "+tokens
		}
		rows = append(rows, []string{mark, numberOf(depths, p), turnOf(p), halfOf(p), tokens, e.says(p, f.secrets)})
	}
	if len(rows) == 0 {
		e.say("the contexts show the same messages")
		return nil
	}
	fmt.Fprint(e.out, e.table([]column{{head: ""}, {head: "n", right: true, drop: 1}, {head: "turn"}, {head: "half", drop: 2}, {head: "tokens", right: true}, {head: "says", least: 20}}, rows))
	for _, c := range []contextview.Change{contextview.Gone, contextview.Added, contextview.Changed} {
		t, ok := sums[c]
		switch {
		case !ok:
		case c == contextview.Changed:
			fmt.Fprintf(e.out, "changed: %s, %s → %s tokens\n", plural(t.Messages, "message"), grouped(t.Tokens), grouped(t.Now))
		default:
			fmt.Fprintf(e.out, "%s: %s, %s tokens\n", c, plural(t.Messages, "message"), grouped(t.Tokens))
		}
	}
	return nil
}

// contextDiff is a comparison of contexts as JSON.
type contextDiff struct {
	Contexts [2]contextEnd                             `json:"contexts"`
	Totals   map[contextview.Change]contextview.Totals `json:"totals"`
	Entries  []contextChange                           `json:"entries"` // without those that are kept
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
	Change contextview.Change `json:"change"`
	Old    *api.Source        `json:"old,omitempty,omitzero"`
	New    *api.Source        `json:"new,omitempty,omitzero"`
}

func contextDiffJSON(names []string, contexts [2]*api.Context, entries []contextview.Entry, sums map[contextview.Change]contextview.Totals) contextDiff {
	out := contextDiff{Totals: sums, Entries: []contextChange{}}
	for i, cx := range contexts {
		out.Contexts[i] = contextEnd{names[i], len(cx.Messages), cx.Tokens + cx.Overhead, cx.Reported, cx.Recorded}
	}
	for _, x := range entries {
		if x.Change == contextview.Kept {
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
