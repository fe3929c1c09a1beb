package ledger

import (
	"errors"
	"fmt"

	"nexus/lineage"
	"nexus/turns"
)

// History is what is stored before an event, as far as an event can refer to it.
type History interface {
	lineage.Reader
	// Session returns a session's fold. [ErrNotFound]: the session is not opened.
	Session(id turns.ID) (Session, error)
	// Label returns the fold of a label's chain. The zero Label: it was never claimed.
	Label(tenant, id string) (Label, error)
	// Policies returns the fold of a tenant's chain, zero if the chain is empty.
	Policies(tenant string) (Policies, error)
	// PolicyName returns the state of a policy's name, by its digest; zero if no agent
	// put a policy under it.
	PolicyName(tenant string, name turns.Hash) (PolicyName, error)
	// Channel returns the fold of a channel's chain, by the chain's id; zero if the
	// chain is empty.
	Channel(tenant, id string) (Channel, error)
	// HasReceived reports whether a channel's chain has an event of this id.
	HasReceived(tenant, channel string, event turns.ID) (bool, error)
	// Memories returns the fold of an agent's chain, zero if the chain is empty.
	Memories(tenant, agent string) (Memories, error)
	// Memory returns a memory of an agent, by its id or by that of evidence of it.
	// [ErrNotFound]: the agent has none.
	Memory(tenant, agent string, id turns.ID) (NamedMemory, error)
	// HasMemoryEvent reports whether an agent's chain has an event of this id.
	HasMemoryEvent(tenant, agent string, event turns.ID) (bool, error)
	// Hash returns the hash of a turn's event. [lineage.ErrUnknown]: there is no such turn.
	Hash(turn turns.Ref) (turns.Hash, error)
	// HasEvent reports whether a session's chain has an event of this id.
	HasEvent(session, event turns.ID) (bool, error)
	// Ledger returns the ledger's own id, which no session may have: the ledger's own
	// key is stored under it. Zero if it is not known.
	Ledger() turns.ID
}

// Admitted is the state that an admitted event leads to.
type Admitted struct {
	Session Session      // the fold of a session's chain, with the event
	Node    lineage.Node // the place of a turn or compaction; zero for other events
	Label   Label        // the fold of a label's chain, with the event

	Channel Channel // the fold of a channel's chain, with the event

	Policies   Policies   // the fold of a tenant's chain, with the event
	PolicyName PolicyName // of the name that the event puts a version under; zero for other events

	Memories Memories      // the fold of an agent's chain, with the event
	Changed  []NamedMemory // what the event of an agent's chain makes of memories: the saved one first, if there is one
}

// Admit decides whether e may be the next event of the chain on subject, behind
// what h holds. It is the only such rule. The engine asks it before each append,
// the import before it takes an event, the projections before they apply a
// record, unless the engine beside them has asked on the same chain, and the
// verification for each record that it reads. So no writer stores what a reader
// would refuse.
//
// Seq is the event's position in the log. Before an append the position is not
// known: seq is then any number above the chain's tail. Hash is that of the
// event's payload. Both go into the fold. Admit reads the event's header only and
// changes nothing. What the body must hold is the concern of who has its key.
//
// Admit checks the subject, the id, the index, the previous hash, and the order
// of events; where a turn, a fork, a head and a flush may stand; what a
// compaction covers; which version of a policy an agent may put under a name; that
// a channel is one agent's and has each id once; and which turns and memories a memory
// may name.
//
// Invariant: every turn that an admitted session reaches, by its head, its
// parents, its fork point or a compaction, is of its own tenant and agent. So is every
// turn and memory that an event of an agent's chain names.
//
// Limit: h can be older than the log. A compare-and-set on the chain's tail
// finds what follows on the same chain. If two daemons open sessions under one id at
// the same time, on two subjects, neither append finds the other. The opening that
// is first on the log has the id; the other one is an [ErrDuplicateOpening], and
// nothing may follow it.
//
// Errors: h's, and a refusal; [IsRefusal] tells them apart.
func Admit(h History, subject string, seq uint64, hash turns.Hash, e *turns.Event) (Admitted, error) {
	tenant, chain, err := ParseSubject(subject)
	if err != nil {
		return Admitted{}, err
	}
	if e.Chain != chain {
		return Admitted{}, fmt.Errorf("%w: an event of chain %s on subject %s", ErrCorrupt, e.Chain, subject)
	}
	var a Admitted
	switch chain.Entity {
	case turns.SessionEntity:
		a, err = admitSession(h, tenant, subject, seq, hash, e)
	case turns.LabelEntity:
		if a.Label, err = h.Label(tenant, chain.ID); err == nil {
			err = a.Label.Apply(subject, seq, hash, e)
		}
	case turns.TenantEntity:
		a, err = admitPolicy(h, tenant, subject, seq, hash, e)
	case turns.ChannelEntity:
		a, err = admitReceived(h, tenant, subject, seq, hash, e)
	case turns.AgentEntity:
		a, err = admitMemory(h, tenant, subject, seq, hash, e)
	default:
		err = fmt.Errorf("%w: a chain of %q", ErrUnsupported, chain.Entity)
	}
	if errors.Is(err, lineage.ErrUnknown) || errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w: event %s of chain %s names what is not stored before it: %v", ErrCorrupt, e.ID, e.Chain, err)
	}
	if err != nil {
		return Admitted{}, err
	}
	return a, nil
}

// IsRefusal reports whether an error of [Admit] says that the event breaks a
// rule: [ErrCorrupt], [ErrUnsupported] or [ErrMalformed]. Any other error is of the
// history, which could not be read, and so is one that is [ErrHistory] too.
func IsRefusal(err error) bool {
	return !errors.Is(err, ErrHistory) && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrMalformed))
}

func admitSession(h History, tenant, subject string, seq uint64, hash turns.Hash, e *turns.Event) (a Admitted, err error) {
	id, ok := e.Chain.Session()
	if !ok {
		return a, fmt.Errorf("%w: event %s of chain %s, which is no session's", ErrCorrupt, e.ID, e.Chain)
	}
	if id == h.Ledger() && !id.IsZero() || id.IsReserved() {
		return a, fmt.Errorf("%w: session %s has a reserved id", ErrCorrupt, id)
	}
	s, err := h.Session(id)
	opened := err == nil
	switch {
	case opened && s.Subject() != subject:
		// An id belongs to who opened it first. The other's subject is not named:
		// it may be another tenant's.
		var own Session
		if own.Apply(tenant, seq, hash, e) == nil && own.Subject() == subject {
			return a, fmt.Errorf("%w: session %s on %s", ErrDuplicateOpening, id, subject)
		}
		return a, fmt.Errorf("%w: the id of session %s was taken before it was opened on %s", ErrCorrupt, id, subject)
	case !opened && !errors.Is(err, ErrNotFound):
		return a, err
	}
	if err := s.Apply(tenant, seq, hash, e); err != nil {
		return a, err
	}
	if !opened && s.Subject() != subject { // no later event changes it
		return a, fmt.Errorf("%w: session %s is on subject %s, it belongs on %s", ErrCorrupt, id, subject, s.Subject())
	}
	if opened { // else the chain has no event yet
		has, err := h.HasEvent(id, e.ID)
		if err != nil {
			return a, err
		}
		if has {
			return a, fmt.Errorf("%w: session %s has two events with the id %s", ErrCorrupt, id, e.ID)
		}
	}
	a.Session = s
	switch e.Kind {
	case turns.KindOpened:
		err = admitFork(h, &s, e)
	case turns.KindMoved:
		err = admitHead(h, &s, e.To)
	case turns.KindNoted:
		err = admitHead(h, &s, e.To)
	case turns.KindRedacted:
		err = admitRedacted(h, &s, e)
	case turns.KindFlush:
		err = admitFlush(h, &s, e.Flush)
	case turns.KindTurn, turns.KindCompaction:
		if a.Node, err = admitTurn(h, &s, e); err == nil && e.Kind == turns.KindTurn && e.Usage == nil && a.Node.Halves.Has(turns.ResponseHalf) {
			err = a.Session.Uncounted.add(h, a.Node)
		}
	}
	return a, err
}

// admitRedacted checks that a redacted event is for an event of its chain. Whether its body fits that one takes keys.
func admitRedacted(h History, s *Session, e *turns.Event) error {
	has, err := h.HasEvent(s.ID, e.To.Turn)
	if err == nil && !has {
		err = fmt.Errorf("%w: an event of session %s is for event %s, which the session has not", ErrCorrupt, s.ID, e.To.Turn)
	}
	return err
}

// add adds the call whose response is a node's.
func (u *Uncounted) add(h History, n lineage.Node) error {
	input := n.Sum
	if !n.Compaction.IsZero() {
		c, err := h.Node(n.Compaction)
		if err != nil {
			return err
		}
		kept, err := lineage.TokensFrom(h, n, c.Cut)
		if err != nil {
			return err
		}
		input = kept - min(kept, c.Saved) + c.Replaced
	}
	u.Calls++
	add(&u.Input, input-min(input, n.Response))
	add(&u.Output, n.Response)
	return nil
}

// admitFork checks that a fork is of a session of the same tenant, agent and
// tree, at a turn that has the bytes it says, and is of no wider kind.
func admitFork(h History, s *Session, e *turns.Event) error {
	f := e.ForkOf
	if f == nil {
		return nil
	}
	hash, err := h.Hash(f.At)
	if err != nil {
		return err
	}
	up, err := h.Session(f.At.Session)
	if err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: session %s forks from %s %s", ErrCorrupt, s.ID, f.At, fmt.Sprintf(format, args...))
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
// branch, or inherited; or, where nothing is inherited, to before the first. A note is on such
// a turn too.
func admitHead(h History, s *Session, to turns.Ref) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: an event of session %s names %s, %s", ErrCorrupt, s.ID, to, why)
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
	n, err := h.Node(to)
	if err != nil || to.Session == s.ID {
		return err
	}
	point, err := h.Node(s.ForkOf.At)
	if err != nil {
		return err
	}
	ok, err := lineage.IsAncestor(h, n, point)
	if err == nil && !ok {
		err = bad("which is neither its own nor on the path of its fork point")
	}
	return err
}

// admitFlush checks that a flush that is begun is of the cycle that the head is
// in. It may end later; which one it ends, the fold has checked.
func admitFlush(h History, s *Session, f *turns.Flush) error {
	if f.State != turns.FlushBegun {
		return nil
	}
	var head lineage.Node
	if !s.Head.IsZero() {
		var err error
		if head, err = h.Node(s.Head); err != nil {
			return err
		}
	}
	forget, err := s.Ignores(s.Head.Session, h.Session)
	if err != nil {
		return err
	}
	cycle, after, err := lineage.Cycle(h, head, forget)
	if err == nil && !f.SameCycle(&turns.Flush{Cycle: cycle, After: after}) {
		err = fmt.Errorf("%w: a flush of cycle %d after %s, the head of session %s is in cycle %d after %s", ErrCorrupt, f.Cycle, f.After, s.ID, cycle, after)
	}
	return err
}

func admitTurn(h History, s *Session, e *turns.Event) (lineage.Node, error) {
	var parent lineage.Node
	if !e.Parent.IsZero() {
		var err error
		if parent, err = h.Node(e.Parent); err != nil {
			return lineage.Node{}, err
		}
	}
	forget, err := s.Ignores(e.Parent.Session, h.Session)
	if err != nil {
		return lineage.Node{}, err
	}
	return lineage.Grow(h, parent, e, forget)
}
