package changes

import (
	"context"
	"time"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/cmd/internal/transcripts/written"
	"nexus/ledger/api"
	"nexus/turns"
)

// inherited notes the responses on the path of a turn: a fork that is placed there has them.
func (c *comparer) inherited(ctx context.Context, session, at turns.ID) error {
	for t, err := range c.w.Client.Turns(ctx, session, api.ListTurns{At: at, Full: true}) {
		if api.HasCode(err, api.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, response, err := c.sums(ctx, session, &t); err != nil {
			return err
		} else if response != (alike.Sum{}) {
			c.responses[response]++
		}
	}
	return nil
}

// load reads the turns of a session, on all branches.
func (c *comparer) load(ctx context.Context, x *comparison) error {
	tree, err := c.w.Client.Tree(ctx, x.line.ID)
	if err != nil {
		return err
	}
	for i := range tree.Sessions {
		s := &tree.Sessions[i]
		if s.ID != x.line.ID {
			continue
		}
		for _, b := range s.Branches {
			list := api.ListTurns{At: b.Tip, Full: true}
			if b.Parent != nil {
				list.After = b.Parent.String()
			}
			for t, err := range c.w.Client.Turns(ctx, s.ID, list) {
				if err != nil {
					return err
				}
				if err := c.note(ctx, x, &t); err != nil {
					return err
				}
			}
		}
	}
	for _, t := range x.turns {
		if up := x.turns[t.parent]; up != nil {
			up.child = true
		}
	}
	return nil
}

func (c *comparer) note(ctx context.Context, x *comparison, t *api.Turn) error {
	if t.Session != x.line.ID || x.turns[t.ID] != nil {
		return nil
	}
	s := &storedTurn{normal: t.Type == "normal", time: time.Time(t.Recorded)}
	if t.Time != nil {
		s.time = time.Time(*t.Time)
	}
	if t.Parent != nil {
		s.parent = *t.Parent
	}
	var err error
	s.sum, s.response, err = c.sums(ctx, x.line.ID, t)
	x.turns[t.ID] = s
	return err
}

// sums returns the sums of a turn of the ledger, and of its response.
func (c *comparer) sums(ctx context.Context, session turns.ID, t *api.Turn) (all, response alike.Sum, err error) {
	if t.Compaction != nil {
		summary := ""
		if t.Compaction.Summary != nil {
			summary = *t.Compaction.Summary
		}
		return alike.SumOf("compaction", summary), response, nil
	}
	if err := written.FetchContent(ctx, c.w.Client, session, t); err != nil {
		return all, response, err
	}
	if t.Time != nil {
		all = alike.TurnSum(t.Messages, t.Response, t.Model, t.Usage, time.Time(*t.Time), t.Meta)
	} else {
		all = alike.TurnSum(t.Messages, t.Response, t.Model, t.Usage, time.Time{}, t.Meta)
	}
	return all, alike.ResponseSum(t.Response), nil
}
