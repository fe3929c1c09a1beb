package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func treeCmd(e *env) *cobra.Command {
	return verb("tree SESSION", "forks and compactions, drawn", 1, 1, func(cmd *cobra.Command, args []string) error {
		c, s, err := e.session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		t, err := c.Tree(cmd.Context(), s.ID)
		if err != nil {
			return err
		}
		if e.json {
			return e.print(t)
		}
		printTree(e.out, t, s.ID)
		return nil
	})
}

// printTree draws sessions as branches: each with its length, its compactions
// and the turn it was forked at. here is marked.
func printTree(w io.Writer, t *api.Tree, here turns.ID) {
	kids := make(map[turns.ID][]api.TreeSession)
	known := make(map[turns.ID]bool)
	for _, s := range t.Sessions {
		known[s.ID] = true
	}
	var roots []api.TreeSession
	for _, s := range t.Sessions {
		if f := s.ForkedFrom; f != nil && known[f.Session] {
			kids[f.Session] = append(kids[f.Session], s)
		} else {
			roots = append(roots, s)
		}
	}
	p := treePrinter{w, kids, here}
	for _, r := range roots {
		p.session(r, "", "", "")
	}
}

type treePrinter struct {
	w    io.Writer
	kids map[turns.ID][]api.TreeSession
	here turns.ID
}

// session draws s and what was forked from it. lead stands before its own
// line with branch, under before those below it.
func (p treePrinter) session(s api.TreeSession, lead, branch, under string) {
	name := idStyle.Render(short(s.ID))
	if s.Label != "" {
		name += " " + bold.Render(s.Label)
	}
	about := fmt.Sprintf("%s, depth %d, %s", plural(s.Turns, "turn"), s.Depth, s.State)
	if f := s.ForkedFrom; f != nil {
		about += fmt.Sprintf(", forked at depth %d (%s)", s.ForkDepth, f.Mode)
	}
	mark := ""
	if s.ID == p.here {
		mark = bold.Render("  ◀")
	}
	fmt.Fprintf(p.w, "%s%s %s  %s%s\n", faint.Render(lead+branch), bold.Render("●"), name, faint.Render(about), mark)
	kids := p.kids[s.ID]
	stem := "  "
	if len(kids) > 0 {
		stem = "│ "
	}
	for i, b := range s.Branches {
		if len(s.Branches) > 1 {
			fmt.Fprintln(p.w, faint.Render(fmt.Sprintf("%s%s╌ branch %d: depth %d to %d", under, stem, i+1, b.From, b.To)))
		}
		for _, k := range b.Compactions {
			fmt.Fprintf(p.w, "%s%s %s %s\n", faint.Render(under+stem), folded.Render("◆ compaction"), idStyle.Render(short(k.ID)), faint.Render(fmt.Sprintf("at depth %d", k.Depth)))
		}
	}
	for i, k := range kids {
		if i == len(kids)-1 {
			p.session(k, under, "└─", under+"  ")
		} else {
			p.session(k, under, "├─", under+"│ ")
		}
	}
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
