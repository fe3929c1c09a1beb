package history

import (
	"context"

	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/eventview"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
)

// Show prints a turn in full, or with part only this one of its parts.
func Show(ctx context.Context, e *cli.Env, name string, part *int) error {
	p, err := e.Turn(ctx, name)
	if err != nil {
		return err
	}
	t, err := p.Client.Turn(ctx, p.Session.ID, p.Turn)
	if (api.HasCode(err, api.Corrupt) || api.HasCode(err, api.Erased)) && part == nil {
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
