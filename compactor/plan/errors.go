package plan

import (
	"errors"
	"fmt"
)

// ErrNothing means that nothing can be compacted, or that it would not pay. The text
// says why.
var ErrNothing = errors.New("nothing to compact")

// ErrOverhead means that system part and tools alone fill the budget. See
// [BudgetError].
var ErrOverhead = errors.New("overhead over budget")

// ErrStale means that a plan no longer holds on the path. The caller plans again.
var ErrStale = errors.New("plan is stale")

// BudgetError is an [ErrOverhead] with its numbers, in tokens.
type BudgetError struct {
	Kind      error
	Budget    uint64
	Overhead  uint64 // system and tools
	Messages  uint64 // of the context
	Protected uint64 // of the messages: no legal cut removes these
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %d tokens, overhead %d and messages %d of which %d can't be compacted",
		e.Kind, e.Budget, e.Overhead, e.Messages, e.Protected)
}

func (e *BudgetError) Unwrap() error { return e.Kind }

// NothingError returns an [ErrNothing] with its reason.
func NothingError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNothing, fmt.Sprintf(format, args...))
}

func stale(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrStale, fmt.Sprintf(format, args...))
}
