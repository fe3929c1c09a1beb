package compactor

import (
	"errors"

	"nexus/compactor/plan"
	"nexus/compactor/view"
)

// errOverBudget: a context does not fit its budget.
var errOverBudget = errors.New("over budget")

// Fit checks that a context fits budget, overhead included. The error is a
// [plan.BudgetError] of kind errOverBudget, or [plan.ErrOverhead] where overhead alone
// is over.
func Fit(p view.Path, ctx view.Context, budget uint64) error {
	if p.Overhead+ctx.Tokens <= budget {
		return nil
	}
	e := &plan.BudgetError{Kind: errOverBudget, Budget: budget, Overhead: p.Overhead, Messages: ctx.Tokens, Protected: p.ShownFrom(newestLegalCut(p))}
	if p.Overhead >= budget {
		e.Kind = plan.ErrOverhead
	}
	return e
}

// newestLegalCut returns the last position of p that no tool call is open across.
func newestLegalCut(p view.Path) int {
	legal := plan.LegalCuts(p.Halves)
	cut := len(p.Halves)
	for cut > 0 && !legal[cut] {
		cut--
	}
	return cut
}
