package expansion

import (
	"context"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/turns"
)

// Run prints the turns behind what a context shows; with all also those behind older compactions inside it.
func Run(ctx context.Context, e *cli.Env, name string, r api.ExpandCompaction, all bool) error {
	p, err := e.Find(ctx, name)
	if err != nil {
		return err
	}
	if p.Turn.IsZero() && r.Call == "" {
		if p, err = NewestCompaction(ctx, e.Terminal, p); err != nil {
			return err
		}
	}
	if r.ID = p.Turn; all {
		r.Levels = turns.Raw(`"all"`)
	}
	switch {
	case r.Lines:
		err = PrintLines(ctx, e.Terminal, p, r)
	case r.Line > 0:
		err = PrintLine(ctx, e.Terminal, p, r)
	default:
		err = Print(ctx, e.Terminal, p, r)
	}
	if api.HasCode(err, api.NotFound) && r.Call != "" {
		err = fault.WithHint(err, "ledgerctl show TURN --json has the ids of its calls")
	}
	if api.HasCode(err, api.Unprocessable) {
		err = fault.WithHint(err, "ledgerctl tree "+prose.Short(p.Session.ID)+" shows its compactions")
	}
	return err
}
