package names

import (
	"context"

	"nexus/cmd/internal/prose"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// LaterTurn finds a turn by its number below a head that was moved back: on the branches
// of the session that go so deep. typed is what the error calls it.
func LaterTurn(ctx context.Context, c *client.Client, s *api.Session, n uint64, typed string) (Place, error) {
	t, err := c.Tree(ctx, s.ID)
	if err != nil {
		return Place{}, err
	}
	var found []Place
	for _, x := range t.Sessions {
		for _, b := range x.Branches {
			if x.ID != s.ID || b.From > n || b.To < n {
				continue
			}
			for turn, err := range c.Turns(ctx, s.ID, api.ListTurns{At: b.Tip, Order: "desc", Page: api.Page{Limit: int(min(b.To-n+1, 1000))}}) {
				if err != nil {
					return Place{}, err
				}
				if turn.Depth == n {
					found = append(found, Place{Client: c, Session: s, Turn: turn.ID, Depth: n})
					break
				}
			}
		}
	}
	return one(found, typed, " in session "+prose.Short(s.ID))
}
