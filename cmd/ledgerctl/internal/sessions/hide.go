package sessions

import (
	"context"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// Hiding is which sessions are hidden, or shown again.
type Hiding struct {
	Hidden bool // else they are shown again
	Cause  string
	DryRun bool
	Alone  bool // not the sub-agents that they started
}

// Hide leaves sessions out of lists, or shows them again.
func Hide(ctx context.Context, e *cli.Env, names []string, o Hiding) error {
	done := "shown again"
	if o.Hidden {
		done = "hidden"
	}
	type chosen struct {
		c *client.Client
		s *api.Session
	}
	var list []chosen
	for _, name := range names { // before anything is changed
		c, s, err := e.Session(ctx, name)
		if err != nil {
			return err
		}
		list = append(list, chosen{c, s})
		if o.Alone {
			continue
		}
		parts, err := subAgents(ctx, c, s.ID)
		if err != nil {
			return err
		}
		for i := range parts {
			list = append(list, chosen{c, &parts[i]})
		}
	}
	if o.DryRun {
		for _, x := range list {
			if err := e.Result(x.s, "session %s would be %s", x.s.ID, done); err != nil {
				return err
			}
		}
		return nil
	}
	for _, x := range list {
		s, err := SetHidden(ctx, x.c, x.s.ID, o.Hidden, o.Cause)
		if err != nil {
			return err
		}
		if err := e.Result(s, "session %s is %s", s.ID, done); err != nil {
			return err
		}
	}
	if o.Hidden {
		e.Say("nothing is deleted; ledgerctl session unhide %s shows it again, sessions --hidden lists it", prose.Short(list[0].s.ID))
	}
	return nil
}

// SetHidden hides a session, or shows it again.
func SetHidden(ctx context.Context, c *client.Client, id turns.ID, hidden bool, cause string) (*api.Session, error) {
	if hidden {
		return c.Hide(ctx, id, api.HideSession{Cause: cause})
	}
	return c.Unhide(ctx, id, api.HideSession{Cause: cause})
}

// subAgents returns the sessions that a session started, and those that they started.
func subAgents(ctx context.Context, c *client.Client, id turns.ID) ([]api.Session, error) {
	return c.Descendants(ctx, []turns.ID{id}, client.SubAgents)
}
