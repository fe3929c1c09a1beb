package contextview

import (
	"context"
	"fmt"

	"nexus/cmd/ledgerctl/internal/cli"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/cmd/ledgerctl/internal/names"
	"nexus/ledger/api"
)

// Of asks for the context of a session or turn. A turn's is what was recorded of
// its call, unless the flags ask for another one; then the place is in the turn's own
// session, where that is known.
func Of(ctx context.Context, e *cli.Env, name string, f Options) (names.Place, *api.Context, error) {
	p, err := e.Find(ctx, name)
	if err != nil {
		return p, nil, err
	}
	text := !e.JSON && f.Format == "" && !f.SVG
	r := api.GetContext{At: p.Turn, Format: f.Format, Budget: f.Budget, Query: f.Query, QueryTokens: f.QueryTokens, Explain: f.Explain || text}
	if r.Policy, err = f.Policy.Policy(); err != nil {
		return p, nil, err
	}
	switch {
	case p.Turn.IsZero() && (f.Before || f.Next):
		return p, nil, fault.Usage(fmt.Errorf("--before and --next take a turn, as %s@head", name))
	case !p.Turn.IsZero() && !f.Next && !f.Simulates():
		r.Recorded, r.Before = true, f.Before
		t, err := p.Client.Turn(ctx, p.Session.ID, p.Turn)
		if err != nil {
			return p, nil, err
		}
		if t.Session != p.Session.ID { // inherited
			if p.Session, err = p.Client.As(api.Operator).Session(ctx, t.Session); err != nil {
				return p, nil, err
			}
			p.Client = p.Client.As(p.Session.Agent)
		}
	}
	c := p.Client
	if !e.AgentNamed {
		c = c.As(api.Operator) // a look commits nothing
	}
	cx, err := c.Context(ctx, p.Session.ID, r)
	return p, cx, err
}
