package sessionview

import (
	"fmt"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/turns"
)

// PrintTree draws sessions as branches: each with its length, its compactions
// and the turn it was forked at. here is marked.
func PrintTree(term *terminal.Terminal, t *api.Tree, here turns.ID) {
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
	p := treePrinter{term, kids, here}
	for _, r := range roots {
		p.session(r, "", "", "")
	}
}

type treePrinter struct {
	e    *terminal.Terminal
	kids map[turns.ID][]api.TreeSession
	here turns.ID
}

func (p treePrinter) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.e.Width > 0 {
		text = terminal.Cut(text, p.e.Width)
	}
	fmt.Fprintln(p.e.Out, text)
}

// session draws s and what was forked from it. lead comes before its own
// line with branch, under before those below it. Every id is one that can be typed.
func (p treePrinter) session(s api.TreeSession, lead, branch, under string) {
	name := terminal.ID.Render(prose.Short(s.ID))
	if s.Label != "" {
		name += " " + terminal.Bold.Render(prose.Printable(s.Label))
	}
	if s.ID == p.here {
		name += terminal.Bold.Render(" ◀")
	}
	about := fmt.Sprintf("%s, depth %s, %s", prose.Plural(s.Turns, "turn"), prose.Grouped(s.Depth), s.State)
	if s.Error != "" {
		about += ", " + prose.Unreadable("session", s.Error, s.MissingKey)
	}
	if f := s.ForkedFrom; f != nil {
		about += fmt.Sprintf(", forked at depth %s (%s)", prose.Grouped(s.ForkDepth), f.Mode)
	}
	p.line("%s%s %s  %s", terminal.Faint.Render(lead+branch), terminal.Bold.Render("●"), name, terminal.Faint.Render(about))
	kids := p.kids[s.ID]
	stem := "  "
	if len(kids) > 0 {
		stem = "│ "
	}
	for i, b := range s.Branches {
		if s.BranchCount > 1 {
			p.line("%s %s %s", terminal.Faint.Render(fmt.Sprintf("%s%s╌ branch %d: depth %s to %s, ends with", under, stem, i+1, prose.Grouped(b.From), prose.Grouped(b.To))), terminal.ID.Render(prose.Short(b.Tip)), p.head(&s, &b))
		}
		for _, k := range b.Compactions {
			p.line("%s%s %s %s", terminal.Faint.Render(under+stem), terminal.Folded.Render("◆ compaction"), terminal.ID.Render(prose.Short(k.ID)), terminal.Faint.Render("at depth "+prose.Grouped(k.Depth)))
		}
		if n := b.CompactionCount - min(b.CompactionCount, uint64(len(b.Compactions))); n > 0 {
			p.line("%s", terminal.Faint.Render(fmt.Sprintf("%s%s◆ %s more", under, stem, prose.Plural(n, "compaction"))))
		}
	}
	if n := s.BranchCount - min(s.BranchCount, uint64(len(s.Branches))); n > 0 {
		p.line("%s", terminal.Faint.Render(fmt.Sprintf("%s%s╌ %s more", under, stem, prose.Grouped(n))))
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
		return terminal.Bold.Render("the head")
	}
	return ""
}
