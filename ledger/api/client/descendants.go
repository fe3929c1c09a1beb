package client

import (
	"context"
	"slices"

	"nexus/ledger/api"
	"nexus/turns"
)

// Kin says how a session comes from another.
type Kin int

const (
	SubAgents Kin = 1 << iota // the other one started it
	Forks                     // it was forked from the other one
)

// Descendants returns the sessions that come from some, and those that come from them, hidden ones among them, as
// session.list has them. kin is [SubAgents], [Forks], or both.
func (c *Client) Descendants(ctx context.Context, of []turns.ID, kin Kin) (out []api.Session, err error) {
	seen := make(map[turns.ID]bool)
	for _, id := range of {
		seen[id] = true
	}
	for next := of; len(next) > 0; {
		var found []turns.ID
		for some := range slices.Chunk(next, api.MaxKin) {
			for _, r := range []struct {
				asked   Kin
				request api.ListSessions
			}{{SubAgents, api.ListSessions{SpawnedBy: some}}, {Forks, api.ListSessions{ForkedFrom: some}}} {
				if kin&r.asked == 0 {
					continue
				}
				r.request.Hidden, r.request.Superseded = true, true
				for s, err := range c.ListSessions(ctx, r.request) {
					if err != nil {
						return nil, err
					}
					if !seen[s.ID] {
						seen[s.ID], out, found = true, append(out, s), append(found, s.ID)
					}
				}
			}
		}
		next = found
	}
	return out, nil
}
