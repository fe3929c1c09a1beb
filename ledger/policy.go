package ledger

import (
	"fmt"

	"nexus/turns"
)

// Policies is the state of a tenant's chain, on which the contents of compaction
// policies are stored. The zero Policies is the state before the first.
type Policies struct {
	Stored uint64 `cbor:"1,keyasint"` // events on the chain
	Tail   Tail   `cbor:"2,keyasint"`
}

// PolicyName is the state of the name of an agent's policy. The zero PolicyName is a
// name under which no agent put a policy.
type PolicyName struct {
	Agent   string `cbor:"1,keyasint"` // the agent that put the first version; only it puts more
	Version uint64 `cbor:"2,keyasint"` // the newest
	Seq     uint64 `cbor:"3,keyasint"` // of the event that holds it
}

// Apply folds in the chain's next event, which is stored on subject at seq and has
// this hash. An event that breaks a rule is [ErrCorrupt].
func (p *Policies) Apply(subject string, seq uint64, hash turns.Hash, e *turns.Event) error {
	tenant, _, err := ParseSubject(subject)
	if err != nil {
		return err
	}
	first := p.Stored == 0
	switch {
	case e.Kind != turns.KindPolicy:
		return fmt.Errorf("%w: event %s of kind %s on a tenant's chain", ErrUnsupported, e.ID, e.Kind)
	case e.Chain.ID != tenant || Subject(tenant, tenant, e.Chain) != subject:
		return fmt.Errorf("%w: event %s of chain %s is on subject %s", ErrCorrupt, e.ID, e.Chain, subject)
	case e.Index != p.Stored:
		return fmt.Errorf("%w: event %s of chain %s has index %d, %d events are before it", ErrCorrupt, e.ID, e.Chain, e.Index, p.Stored)
	case !first && e.Prev != p.Tail.Hash:
		return fmt.Errorf("%w: event %s of chain %s follows %v, the tail is %v", ErrCorrupt, e.ID, e.Chain, e.Prev, p.Tail.Hash)
	case e.Policy == nil || e.Policy.Digest.IsZero():
		return fmt.Errorf("%w: event %s of chain %s has no digest of a policy", ErrCorrupt, e.ID, e.Chain)
	case len(e.Body) == 0 || len(e.Body) > MaxPolicyBody:
		return fmt.Errorf("%w: event %s of chain %s has a body of %d bytes, the limit is %d", ErrCorrupt, e.ID, e.Chain, len(e.Body), MaxPolicyBody)
	}
	*p = Policies{Stored: p.Stored + 1, Tail: Tail{Seq: seq, Index: e.Index, Hash: hash}}
	return nil
}

// MaxPolicyBody bounds the stored body of a policy event, in bytes: the content, its
// name and the seal.
const MaxPolicyBody = turns.MaxPolicy + 1<<10

// apply folds in the version that e, stored at seq, puts under the name.
func (n *PolicyName) apply(seq uint64, e *turns.Event) error {
	switch p := e.Policy; {
	case p.Version != n.Version+1:
		return fmt.Errorf("%w: event %s puts version %d of a policy, the newest is %d", ErrCorrupt, e.ID, p.Version, n.Version)
	case n.Agent != "" && e.Agent != n.Agent:
		return fmt.Errorf("%w: event %s of agent %s puts version %d of a policy of agent %s", ErrCorrupt, e.ID, e.Agent, p.Version, n.Agent)
	}
	*n = PolicyName{Agent: e.Agent, Version: e.Policy.Version, Seq: seq}
	return nil
}

// admitPolicy admits an event of a tenant's chain.
func admitPolicy(h History, tenant, subject string, seq uint64, hash turns.Hash, e *turns.Event) (a Admitted, err error) {
	if a.Policies, err = h.Policies(tenant); err != nil {
		return a, err
	}
	if err := a.Policies.Apply(subject, seq, hash, e); err != nil || e.Policy.Name.IsZero() {
		return a, err
	}
	if a.PolicyName, err = h.PolicyName(tenant, e.Policy.Name); err != nil {
		return a, err
	}
	return a, a.PolicyName.apply(seq, e)
}
