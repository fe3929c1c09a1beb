package expansion

import (
	"context"
	"fmt"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
)

// NewestCompaction finds the newest compaction on the path of a session's head, and says
// which that is.
func NewestCompaction(ctx context.Context, term *terminal.Terminal, p names.Place) (names.Place, error) {
	for t, err := range p.Client.Turns(ctx, p.Session.ID, api.ListTurns{Order: "desc", Page: api.Page{Limit: 1000}}) {
		if err != nil {
			return p, err
		}
		if t.Type == "compaction" {
			p.Turn, p.Depth = t.ID, t.Depth
			term.Say("the newest compaction of the session: %s@%d", prose.Short(p.Session.ID), t.Depth)
			return p, nil
		}
	}
	return p, fault.WithHint(api.Errorf(api.NotFound, nil, "session %s has no compaction: its context shows every turn", prose.Short(p.Session.ID)), "ledgerctl log "+prose.Short(p.Session.ID)+" shows them; expand SESSION@N shows one whole")
}

// Print prints the turns that a compaction covers, or one turn whole.
func Print(ctx context.Context, term *terminal.Terminal, p names.Place, r api.ExpandCompaction) error {
	x, err := p.Client.Expansion(ctx, p.Session.ID, r)
	if err != nil {
		return err
	}
	if x.State == "" && r.Call == "" {
		return turnview.Print(term, p.Client.Expand(ctx, p.Session.ID, r), 0, "")
	}
	if term.JSON {
		return term.Print(x)
	}
	for i := range x.Turns {
		t := &x.Turns[i]
		if i > 0 {
			fmt.Fprintln(term.Out)
		}
		if x.State != "" {
			term.Rows(8)("shown", "%s", shownAs(x))
		}
		turnview.Show(term, t)
	}
	return nil
}

// shownAs says what the context shows of an expanded turn.
func shownAs(x *api.Expanded) string {
	switch x.State {
	case "compacted":
		by := make([]string, len(x.CoveredBy))
		for i, id := range x.CoveredBy {
			by[i] = prose.Short(id)
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
