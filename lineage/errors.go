package lineage

import (
	"errors"
	"fmt"

	"nexus/turns"
)

// The decisions of this package, for errors.Is.
var (
	// ErrUnknown: a turn that the reader does not hold.
	ErrUnknown = errors.New("unknown turn")
	// ErrCorrupt: stored nodes contradict each other.
	ErrCorrupt = turns.ErrCorrupt
	// ErrUnfit: an event that can't stand where it says it does. It is an
	// ErrCorrupt too, which is what it means of a stored event; whoever decides
	// on an append asks for ErrUnfit first and refuses the request.
	ErrUnfit = fmt.Errorf("%w lineage: unfit", turns.ErrCorrupt)
)

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnfit, fmt.Sprintf(format, args...))
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w lineage: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
