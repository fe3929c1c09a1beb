package sessions

import (
	"context"
	"slices"

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
	return Descendants(ctx, c, []turns.ID{id}, Spawner)
}

// Spawner is the session that started s.
func Spawner(s *api.Session) (id turns.ID) {
	if s.SpawnedBy != nil {
		id = s.SpawnedBy.Session
	}
	return id
}

// Descendants returns the sessions that come from some, and those that come from them; each of from says whom one comes from.
func Descendants(ctx context.Context, c *client.Client, of []turns.ID, from ...func(*api.Session) turns.ID) (out []api.Session, err error) {
	children := make(map[turns.ID][]api.Session)
	for s, err := range c.ListSessions(ctx, api.ListSessions{Hidden: true, Superseded: true}) {
		if err != nil {
			return nil, err
		}
		for _, f := range from {
			if id := f(&s); !id.IsZero() {
				children[id] = append(children[id], s)
			}
		}
	}
	seen := make(map[turns.ID]bool)
	for _, id := range of {
		seen[id] = true
	}
	for next := slices.Clone(of); len(next) > 0; next = next[1:] {
		for _, s := range children[next[0]] {
			if !seen[s.ID] {
				seen[s.ID], out, next = true, append(out, s), append(next, s.ID)
			}
		}
	}
	return out, nil
}
