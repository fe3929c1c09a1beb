package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"nexus/ledger/api"
	"nexus/turns"
)

func treeCmd(e *env) *cobra.Command {
	var svg bool
	v := e.sessionVerb("tree SESSION", "forks and compactions, drawn", func(cmd *cobra.Command, c *api.Client, s *api.Session) error {
		t, err := c.Tree(cmd.Context(), s.ID)
		if err != nil {
			return err
		}
		switch {
		case svg && e.json:
			return usageError{errBothForms}
		case svg:
			ls, left, err := lanes(cmd.Context(), c, t)
			if err != nil {
				return err
			}
			return plotTree(e.raw, ls, left, s.ID)
		case e.json:
			return e.print(t)
		}
		e.printTree(t, s.ID)
		return nil
	})
	v.Flags().BoolVar(&svg, "svg", false, "print a picture, as SVG")
	return v
}

// printTree draws sessions as branches: each with its length, its compactions
// and the turn it was forked at. here is marked.
func (e *env) printTree(t *api.Tree, here turns.ID) {
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
	p := treePrinter{e, kids, here}
	for _, r := range roots {
		p.session(r, "", "", "")
	}
}

type treePrinter struct {
	e    *env
	kids map[turns.ID][]api.TreeSession
	here turns.ID
}

func (p treePrinter) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.e.width > 0 {
		text = cut(text, p.e.width)
	}
	fmt.Fprintln(p.e.out, text)
}

// session draws s and what was forked from it. lead comes before its own
// line with branch, under before those below it. Every id is one that can be typed.
func (p treePrinter) session(s api.TreeSession, lead, branch, under string) {
	name := idStyle.Render(short(s.ID))
	if s.Label != "" {
		name += " " + bold.Render(printable(s.Label))
	}
	if s.ID == p.here {
		name += bold.Render(" ◀")
	}
	about := fmt.Sprintf("%s, depth %s, %s", plural(s.Turns, "turn"), grouped(s.Depth), s.State)
	if s.Error != "" {
		about += ", " + unread("session", s.Error, s.MissingKey)
	}
	if f := s.ForkedFrom; f != nil {
		about += fmt.Sprintf(", forked at depth %s (%s)", grouped(s.ForkDepth), f.Mode)
	}
	p.line("%s%s %s  %s", faint.Render(lead+branch), bold.Render("●"), name, faint.Render(about))
	kids := p.kids[s.ID]
	stem := "  "
	if len(kids) > 0 {
		stem = "│ "
	}
	for i, b := range s.Branches {
		if s.BranchCount > 1 {
			p.line("%s %s %s", faint.Render(fmt.Sprintf("%s%s╌ branch %d: depth %s to %s, ends with", under, stem, i+1, grouped(b.From), grouped(b.To))), idStyle.Render(short(b.Tip)), p.head(&s, &b))
		}
		for _, k := range b.Compactions {
			p.line("%s%s %s %s", faint.Render(under+stem), folded.Render("◆ compaction"), idStyle.Render(short(k.ID)), faint.Render("at depth "+grouped(k.Depth)))
		}
		if n := b.CompactionCount - min(b.CompactionCount, uint64(len(b.Compactions))); n > 0 {
			p.line("%s", faint.Render(fmt.Sprintf("%s%s◆ %s more", under, stem, plural(n, "compaction"))))
		}
	}
	if n := s.BranchCount - min(s.BranchCount, uint64(len(s.Branches))); n > 0 {
		p.line("%s", faint.Render(fmt.Sprintf("%s%s╌ %s more", under, stem, grouped(n))))
	}
	for i, k := range kids {
		if i == len(kids)-1 {
			p.session(k, under, "└─", under+"  ")
		} else {
			p.session(k, under, "├─", under+"│ ")
		}
	}
}

// head marks the branch that a session's head ends.
func (p treePrinter) head(s *api.TreeSession, b *api.Branch) string {
	if s.Head != nil && *s.Head == b.Tip {
		return bold.Render("the head")
	}
	return ""
}

func plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}
