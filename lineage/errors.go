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
	// ErrInvalid: an event breaks a rule of the lineage at its place. It is an
	// ErrCorrupt too, since a stored event that breaks a rule is corrupt.
	ErrInvalid = fmt.Errorf("%w lineage: invalid", turns.ErrCorrupt)
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w lineage: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
