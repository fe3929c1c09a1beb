package ledger

import (
	"fmt"

	"nexus/turns"
)

// Channel is the state of a channel of external events: the fold over its chain. The
// zero Channel is the state before the first event.
type Channel struct {
	Agent string `cbor:"1,keyasint"` // the agent whose channel it is
	Count uint64 `cbor:"2,keyasint"` // events on the chain
	Tail  Tail   `cbor:"3,keyasint"`

	Updated int64 `cbor:"4,keyasint"` // recorded time of the last event, Unix ns
}

// Apply folds in the chain's next event, which is stored on subject at seq and has
// this hash. An event that breaks a rule is [ErrCorrupt].
func (c *Channel) Apply(subject string, seq uint64, hash turns.Hash, e *turns.Event) error {
	tenant, _, err := ParseSubject(subject)
	if err != nil {
		return err
	}
	first := c.Count == 0
	switch {
	case e.Kind != turns.KindReceived:
		return fmt.Errorf("%w: event %s of kind %s on a channel's chain", ErrUnsupported, e.ID, e.Kind)
	case Subject(tenant, e.Chain.ID, e.Chain) != subject:
		return fmt.Errorf("%w: event %s of chain %s is on subject %s", ErrCorrupt, e.ID, e.Chain, subject)
	case e.Index != c.Count:
		return fmt.Errorf("%w: event %s of chain %s has index %d, %d events are before it", ErrCorrupt, e.ID, e.Chain, e.Index, c.Count)
	case !first && e.Prev != c.Tail.Hash:
		return fmt.Errorf("%w: event %s of chain %s follows %v, the tail is %v", ErrCorrupt, e.ID, e.Chain, e.Prev, c.Tail.Hash)
	case !first && seq <= c.Tail.Seq:
		return fmt.Errorf("%w: event %s of chain %s is at %d, its predecessor at %d", ErrCorrupt, e.ID, e.Chain, seq, c.Tail.Seq)
	case !first && e.Agent != c.Agent:
		return fmt.Errorf("%w: event %s of agent %s on a channel of agent %s", ErrCorrupt, e.ID, e.Agent, c.Agent)
	case len(e.Body) == 0:
		return fmt.Errorf("%w: event %s of chain %s has no body", ErrCorrupt, e.ID, e.Chain)
	}
	*c = Channel{Agent: e.Agent, Count: c.Count + 1, Tail: Tail{Seq: seq, Index: e.Index, Hash: hash}, Updated: e.Recorded}
	return nil
}

// admitReceived admits an event of a channel's chain.
func admitReceived(h History, tenant, subject string, seq uint64, hash turns.Hash, e *turns.Event) (a Admitted, err error) {
	if a.Channel, err = h.Channel(tenant, e.Chain.ID); err != nil {
		return a, err
	}
	if err := a.Channel.Apply(subject, seq, hash, e); err != nil {
		return a, err
	}
	has, err := h.HasReceived(tenant, e.Chain.ID, e.ID)
	if err == nil && has {
		err = fmt.Errorf("%w: channel %s has two events with the id %s", ErrCorrupt, e.Chain.ID, e.ID)
	}
	return a, err
}
