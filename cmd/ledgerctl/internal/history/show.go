package history

import (
	"context"
	"fmt"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/eventview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
)

// Show prints a turn in full, or with part only this one of its parts. A turn is named by itself, or by a session and
// its number.
func Show(ctx context.Context, e *cli.Env, args []string, part *int) error {
	name := args[0]
	if len(args) == 2 { // as people write it: the session, then the number of the turn
		if strings.ContainsAny(name, "@/") {
			return fault.Usage(fmt.Errorf("%s names a turn already; show takes one turn, or a session and a number", prose.Printable(name)))
		}
		name += "@" + args[1]
	}
	p, err := e.Turn(ctx, name)
	if err != nil {
		return err
	}
	t, err := p.Client.Turn(ctx, p.Session.ID, p.Turn)
	if (fault.HasCode(err, api.Corrupt) || fault.HasCode(err, api.Erased)) && part == nil {
		return turnview.ShowHeader(ctx, e.Terminal, p, err)
	}
	if err != nil {
		return err
	}
	if t.Compaction != nil { // which tells of the calls since, too
		if t, err = p.Client.Compaction(ctx, t.Session, t.ID); err != nil {
			return err
		}
	}
	switch {
	case part != nil:
		return turnview.ShowPart(ctx, e.Terminal, p.Client, t, *part)
	case e.JSON:
		return e.Print(t)
	}
	turnview.Show(e.Terminal, t)
	return eventview.ShowAnswered(ctx, e.Terminal, p, t)
}
