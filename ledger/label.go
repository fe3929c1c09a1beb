package ledger

import (
	"fmt"

	"nexus/turns"
)

// Label is the state of a label: the fold over the claims on its chain. The
// zero Label is the state before the first.
type Label struct {
	Session turns.ID `cbor:"1,keyasint"` // what the label resolves to
	Tail    Tail     `cbor:"2,keyasint"`
}

// Apply folds in the chain's next event, stored on subject at seq under hash.
// A chain that breaks a rule was not written by this code: [ErrCorrupt].
func (l *Label) Apply(subject string, seq uint64, hash turns.Hash, e *turns.Event) error {
	tenant, _, err := ParseSubject(subject)
	if err != nil {
		return err
	}
	first := l.Session.IsZero()
	switch {
	case e.Kind != turns.KindClaimed:
		return fmt.Errorf("%w: event %s of kind %s on a label's chain", ErrUnsupported, e.ID, e.Kind)
	case Subject(tenant, e.Chain.ID, e.Chain) != subject:
		return fmt.Errorf("%w: event %s of chain %s is on subject %s", ErrCorrupt, e.ID, e.Chain, subject)
	case first && e.Index != 0, !first && e.Index != l.Tail.Index+1:
		return fmt.Errorf("%w: event %s of chain %s has index %d after %d", ErrCorrupt, e.ID, e.Chain, e.Index, l.Tail.Index)
	case !first && e.Prev != l.Tail.Hash:
		return fmt.Errorf("%w: event %s of chain %s follows %v, the tail is %v", ErrCorrupt, e.ID, e.Chain, e.Prev, l.Tail.Hash)
	}
	*l = Label{Session: e.To.Session, Tail: Tail{Seq: seq, Index: e.Index, Hash: hash}}
	return nil
}
