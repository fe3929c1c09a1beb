package history

import (
	"context"
	"errors"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/contextview"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/turnview"
	"nexus/ledger/api"
)

// Logging is which turns log lists.
type Logging struct {
	Limit        int    // 0: all
	Words        string // those with these words
	Since, Until string
	ShowSecrets  bool
}

// Log lists the turns of a session, newest first.
func Log(ctx context.Context, e *cli.Env, name string, o Logging) error {
	p, err := e.Find(ctx, name)
	if err != nil {
		return err
	}
	if o.Words != "" && !p.Turn.IsZero() {
		return fault.Usage(errors.New("--grep goes with a session, not with a turn"))
	}
	from, err := names.Day("since", o.Since)
	if err != nil {
		return err
	}
	to, err := names.Until("until", o.Until)
	if err != nil {
		return err
	}
	if o.Words != "" && (from != nil || to != nil) {
		return fault.WithHint(fault.Usage(errors.New("--since and --until go without --grep")), "ledgerctl search TEXT --session SESSION --since DAY")
	}
	e.SayTimes(from, to)
	if o.Words != "" {
		return searchview.InLog(ctx, e.Terminal, p, o.Words, o.Limit, o.ShowSecrets)
	}
	ts := p.Client.Turns(ctx, p.Session.ID, api.ListTurns{At: p.Turn, Order: "desc", Full: true, Page: api.Page{Limit: min(o.Limit, 1000)}})
	if !o.ShowSecrets {
		ts = turnview.Masked(ts)
	}
	if from != nil || to != nil {
		ts = turnview.Between(ts, from, to)
	}
	if err := turnview.Print(e.Terminal, ts, o.Limit, ""); err != nil {
		return err
	}
	if p.Session.Head == nil && p.Session.Error == "" {
		return sayNoTurn(ctx, e, p)
	}
	if p.Session.Error != "" {
		return nil // its policy is not known
	}
	if by := contextview.PolicyCounter(p.Session.Policy.Name, p.Session.Policy.Set); e.ErrIsTerminal && !e.JSON && by != contextview.DefaultCounter {
		e.Say("tokens of turns are counted by %s, those of the context by %s, as policy %s says", contextview.DefaultCounter, by, p.Session.Policy.Name)
	}
	return nil
}

// sayNoTurn says that a session has no turn, and which session a reset made it from.
func sayNoTurn(ctx context.Context, e *cli.Env, p names.Place) error {
	for s, err := range p.Client.Sessions(ctx) {
		if err != nil {
			return err
		}
		if s.Successor == p.Session.ID {
			e.Say("session %s has no turn yet; before its reset it was session %s: ledgerctl log %s", prose.Short(p.Session.ID), s.ID, s.ID)
			return nil
		}
	}
	e.Say("session %s has no turn yet", prose.Short(p.Session.ID))
	return nil
}
