package contexts

import (
	"context"
	"fmt"

	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns/tokens"
)

// estimatedBudget returns the budget of v in tokens of the policy's counter.
func (v *contextView) estimatedBudget() uint64 {
	switch {
	case !v.bounded:
		return policy.MaxTokens
	case v.requestedBudget() == 0:
		return policy.EstimatedBudget(v.budget, v.path.Overhead, v.path.Ratio(v.policy))
	}
	return v.budget
}

// freeTokens returns what v leaves of its budget.
func (v *contextView) freeTokens() uint64 {
	return tokens.Sub(v.estimatedBudget(), v.path.Overhead+v.context.Tokens+v.added.Tokens)
}

// addExcerpts returns v with pieces of older turns that a query asks for, or that its recipe
// names, in what all else leaves of the budget. It is the last thing that is added, so it
// takes room from nothing, and nothing that decides on a compaction counts it. A context
// is the same without a query, and with one that finds nothing.
//
// The recipe names the pieces, not the query: another index, or more turns, would find
// others.
func (cx *Contexts) addExcerpts(ctx context.Context, s *ledger.Session, head lineage.Node, v *contextView, req api.GetContext) (*contextView, error) {
	var all []view.Excerpt
	var how string
	var err error
	room := v.freeTokens()
	switch {
	case req.Query != "":
		room = view.RecallRoom(v.path, req.QueryTokens, v.estimatedBudget(), room)
		all, how, err = cx.covered.Recall(ctx, s, v.path, v.context, req.Query)
	case v.source != nil && len(v.source.Recalled) > 0:
		all, err = cx.covered.ReadExcerpts(ctx, s, head, v.source.Recalled)
	default:
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	with := *v
	var shown []view.Excerpt
	with.context, shown = v.context.WithRecalled(v.path.Counter, all, room)
	for _, x := range shown {
		with.made.Recalled = append(with.made.Recalled, x.Place)
	}
	if n := len(all) - len(shown); req.Explain && req.Query != "" && (n > 0 || len(all) == 0) {
		note := api.Source{Half: "recalled", Status: string(view.Dropped), Why: fmt.Sprintf("no room for %d more pieces that match the query", n)}
		if len(all) == 0 {
			note.Why = "nothing that the context does not show matches the query; searched " + how
		}
		with.notes = append(with.notes, note)
	}
	return &with, nil
}
