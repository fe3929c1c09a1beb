package projections

import (
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Before is what is stored before an event, as far as an event can name it.
type Before interface {
	lineage.Reader
	// Session is a session's fold. [ledger.ErrNotFound]: not opened.
	Session(id turns.ID) (ledger.Session, error)
	// Hash is that of the event which holds a turn. [lineage.ErrUnknown]: none.
	Hash(ref turns.Ref) (turns.Hash, error)
	// Has reports whether a session's chain has an event of this id.
	Has(session, event turns.ID) (bool, error)
}

// Step is what an event of a session's chain makes of it.
type Step struct {
	Session ledger.Session // the fold, with the event
	Node    lineage.Node   // of a turn or compaction
}

// Admit decides whether e may stand on subject, at seq and under hash, behind
// what is stored. It is the one check of all that read events: the projections',
// the verification's, and the one before an import; so nothing is imported that
// the others would refuse. It reads headers only and changes nothing.
//
// Invariant: every turn that an admitted session reaches, by its head, its
// parents, its fork point or a compaction, is of its own tenant and agent.
//
// Errors: those of [ledger.Session.Apply] and [lineage.Grow];
// [ledger.ErrCorrupt] for anything else that is not as this code writes it; b's.
func Admit(b Before, subject string, seq uint64, hash turns.Hash, e *turns.Event) (Step, error) {
	tenant, chain, err := ledger.ParseSubject(subject)
	if err != nil {
		return Step{}, err
	}
	id, ok := e.Chain.Session()
	if !ok || e.Chain != chain {
		return Step{}, fmt.Errorf("%w: an event of chain %s on subject %s", ledger.ErrCorrupt, e.Chain, subject)
	}
	s, err := b.Session(id)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return Step{}, err
	}
	if err == nil && s.Subject() != subject {
		// An id belongs to who opened it first. The other's subject is not named:
		// it may be another tenant's.
		return Step{}, fmt.Errorf("%w: the id of session %s was taken before it was opened on %s", ledger.ErrCorrupt, id, subject)
	}
	if err := s.Apply(tenant, seq, hash, e); err != nil {
		return Step{}, err
	}
	if s.Subject() != subject {
		return Step{}, fmt.Errorf("%w: session %s is on subject %s, it belongs on %s", ledger.ErrCorrupt, id, subject, s.Subject())
	}
	if has, err := b.Has(id, e.ID); err != nil || has {
		if err == nil {
			err = fmt.Errorf("%w: session %s has two events with the id %s", ledger.ErrCorrupt, id, e.ID)
		}
		return Step{}, err
	}
	step := Step{Session: s}
	switch e.Kind {
	case turns.KindOpened:
		err = admitFork(b, &s, e)
	case turns.KindMoved:
		err = admitHead(b, &s, e.To)
	case turns.KindFlush:
		err = admitFlush(b, &s, e.Flush)
	case turns.KindTurn, turns.KindCompaction:
		step.Node, err = admitTurn(b, &s, e)
	}
	if errors.Is(err, lineage.ErrUnknown) {
		err = fmt.Errorf("%w: event %s of chain %s names what is not stored before it: %v", ledger.ErrCorrupt, e.ID, e.Chain, err)
	}
	return step, err
}

// admitFork checks that a fork is of a session of the same tenant, agent and
// tree, at a turn that has the bytes it says, and is of no wider kind.
func admitFork(b Before, s *ledger.Session, e *turns.Event) error {
	f := e.ForkOf
	if f == nil {
		return nil
	}
	hash, err := b.Hash(f.At)
	if err != nil {
		return err
	}
	up, err := b.Session(f.At.Session)
	if err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: session %s forks from %s %s", ledger.ErrCorrupt, s.ID, f.At, fmt.Sprintf(format, args...))
	}
	switch {
	case up.Tenant != s.Tenant || up.Agent != s.Agent:
		return bad("of another agent")
	case hash != f.Hash:
		return bad("with hash %v, stored is %v", f.Hash, hash)
	case up.Root != s.Root:
		return bad("in the tree of %s, but says that its tree is that of %s", up.Root, s.Root)
	case s.Kind == turns.Main && up.Kind != turns.Main:
		return bad("of kind %q, and is of kind %q", up.Kind, s.Kind)
	}
	return nil
}

// admitHead checks that a head goes to a turn that is the session's own, on any
// branch, or inherited; or, where nothing is inherited, to before the first.
func admitHead(b Before, s *ledger.Session, to turns.Ref) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: the head of session %s goes to %s, %s", ledger.ErrCorrupt, s.ID, to, why)
	}
	if to.IsZero() {
		if s.ForkOf != nil {
			return bad("before what it inherits")
		}
		return nil
	}
	if s.ForkOf == nil && to.Session != s.ID {
		return bad("which is not its own")
	}
	ns, err := b.Nodes(to)
	if err != nil || to.Session == s.ID {
		return err
	}
	point, err := b.Nodes(s.ForkOf.At)
	if err != nil {
		return err
	}
	ok, err := lineage.IsAncestor(b, ns[0], point[0])
	if err == nil && !ok {
		err = bad("which is neither its own nor on the path of its fork point")
	}
	return err
}

// admitFlush checks that a flush that is begun is of the cycle that the head is
// in. It may end later; which one it ends, the fold has checked.
func admitFlush(b Before, s *ledger.Session, f *turns.Flush) error {
	if f.State != turns.FlushBegun {
		return nil
	}
	var head lineage.Node
	if !s.Head.IsZero() {
		ns, err := b.Nodes(s.Head)
		if err != nil {
			return err
		}
		head = ns[0]
	}
	forget, err := s.Ignores(s.Head.Session, b.Session)
	if err != nil {
		return err
	}
	cycle, after, err := lineage.Cycle(b, head, forget)
	if err == nil && !f.SameCycle(&turns.Flush{Cycle: cycle, After: after}) {
		err = fmt.Errorf("%w: a flush of cycle %d after %s, the head of session %s is in cycle %d after %s", ledger.ErrCorrupt, f.Cycle, f.After, s.ID, cycle, after)
	}
	return err
}

func admitTurn(b Before, s *ledger.Session, e *turns.Event) (lineage.Node, error) {
	var parent lineage.Node
	if !e.Parent.IsZero() {
		ns, err := b.Nodes(e.Parent)
		if err != nil {
			return lineage.Node{}, err
		}
		parent = ns[0]
	}
	forget, err := s.Ignores(e.Parent.Session, b.Session)
	if err != nil {
		return lineage.Node{}, err
	}
	return lineage.Grow(b, parent, e, forget)
}
