package sessions

import (
	"context"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/sessionview"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// Show prints a session with its settings.
func Show(ctx context.Context, e *cli.Env, c *client.Client, s *api.Session) error {
	full, err := c.GetSession(ctx, s.ID, api.GetSession{About: api.About{About: true}})
	if err != nil {
		if s.Error != "" { // what its headers say, and why there is no more
			if perr := sessionview.Print(e.Terminal, s); perr != nil {
				return perr
			}
		}
		return err
	}
	if err := sessionview.Print(e.Terminal, full); err != nil {
		return err
	}
	return sessionview.PrintPolicy(ctx, e.Terminal, c, full)
}

// Ending is how a session is closed or reset.
type Ending struct {
	Cause  string // for the record
	DryRun bool
}

// Close has a session accept no more turns.
func Close(ctx context.Context, e *cli.Env, c *client.Client, s *api.Session, o Ending) error {
	if o.DryRun {
		return e.Result(s, "would close session %s, which is %s and has %s", s.ID, s.State, prose.Plural(s.Depth, "turn"))
	}
	s, err := c.Close(ctx, s.ID, api.CloseSession{Cause: o.Cause})
	if err != nil {
		return err
	}
	return e.Result(s, "session %s is %s", s.ID, s.State)
}

// Reset closes a session, and opens a successor.
func Reset(ctx context.Context, e *cli.Env, c *client.Client, s *api.Session, o Ending) error {
	if o.DryRun {
		return e.Result(s, "would close session %s, which is %s and has %s, and open a successor", s.ID, s.State, prose.Plural(s.Depth, "turn"))
	}
	next, err := c.Reset(ctx, s.ID, api.ResetSession{Cause: o.Cause})
	if err != nil {
		return err
	}
	if old, err := c.Session(ctx, s.ID); err == nil && old.Ended != nil && e.ErrIsTerminal {
		e.Say("session %s was reset, %s", prose.Short(s.ID), sessionview.Ended(old.Ended))
	}
	return e.Result(next, "%s", next.ID)
}
