package client

import (
	"context"
	"slices"

	"nexus/ledger/api"
	"nexus/turns"
)

// Spawner is the session that started s; zero: none did.
func Spawner(s *api.Session) (id turns.ID) {
	if s.SpawnedBy != nil {
		id = s.SpawnedBy.Session
	}
	return id
}

// Origin is the session that s was forked from; zero: it is no fork.
func Origin(s *api.Session) (id turns.ID) {
	if s.ForkedFrom != nil {
		id = s.ForkedFrom.Session
	}
	return id
}

// Descendants returns the sessions that come from some, and those that come from them, hidden ones among them, as
// session.list has them. Each of from says whom one comes from: [Spawner], [Origin]. It reads the whole list.
func (c *Client) Descendants(ctx context.Context, of []turns.ID, from ...func(*api.Session) turns.ID) (out []api.Session, err error) {
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
