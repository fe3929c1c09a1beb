package compactor

import "errors"

// errOverBudget: a context does not fit its budget.
var errOverBudget = errors.New("over budget")

// Fit checks that a context fits budget, overhead included. The error is a
// [BudgetError] of kind errOverBudget, or [ErrOverhead] where overhead alone
// is over.
func Fit(p Path, ctx Context, budget uint64) error {
	if p.Overhead+ctx.Tokens <= budget {
		return nil
	}
	e := &BudgetError{Kind: errOverBudget, Budget: budget, Overhead: p.Overhead, Messages: ctx.Tokens}
	if p.Overhead >= budget {
		e.Kind = ErrOverhead
	}
	return e
}
