package plan

import (
	"errors"
	"fmt"
)

// ErrNothing: nothing can be compacted, or it would not be worth it. The text
// says why.
var ErrNothing = errors.New("nothing to compact")

// ErrOverhead: system part and tools alone fill the budget. See [BudgetError].
var ErrOverhead = errors.New("overhead over budget")

// ErrStale: a plan does not hold on the path as it is now; plan again.
var ErrStale = errors.New("plan is stale")

// BudgetError is an [ErrOverhead] with its numbers, in
// tokens.
type BudgetError struct {
	Kind      error
	Budget    uint64
	Overhead  uint64 // system and tools
	Messages  uint64 // of the context
	Protected uint64 // of the messages, what no legal cut can take out
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %d tokens, overhead %d and messages %d of which %d can't be compacted",
		e.Kind, e.Budget, e.Overhead, e.Messages, e.Protected)
}

func (e *BudgetError) Unwrap() error { return e.Kind }

// NothingError is an [ErrNothing] with its reason.
func NothingError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNothing, fmt.Sprintf(format, args...))
}

func stale(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrStale, fmt.Sprintf(format, args...))
}
