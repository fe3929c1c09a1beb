package ledger

import (
	"errors"
	"fmt"
	"slices"

	"nexus/lineage"
	"nexus/turns"
)

// Memories is the state of an agent's chain: the fold over its events. The zero
// Memories is the state before the first.
type Memories struct {
	Stored   uint64   `cbor:"1,keyasint"` // events on the chain
	Tail     Tail     `cbor:"2,keyasint"`
	Document Document `cbor:"3,keyasint"`
}

// Document is the newest version of an agent's document. The zero Document: it has none.
type Document struct {
	Version uint64     `cbor:"1,keyasint"`
	Text    turns.Hash `cbor:"2,keyasint"` // keyed digest
	Seq     uint64     `cbor:"3,keyasint"` // of the event that holds it
}

// Memory is a memory of an agent: what its event says, and what became of it since. It
// comes from an event of the agent's chain, or from a compaction.
type Memory struct {
	Kind       turns.MemoryKind `cbor:"1,keyasint"`
	Trust      turns.Trust      `cbor:"2,keyasint"`
	Text       turns.Hash       `cbor:"3,keyasint"`           // keyed digest, as of the newest status
	Seq        uint64           `cbor:"4,keyasint"`           // of the event that holds it
	Item       uint64           `cbor:"5,keyasint,omitzero"`  // 1 + its index in a compaction's list; 0: an event of its own
	Recorded   int64            `cbor:"6,keyasint"`           // Unix ns
	ValidFrom  int64            `cbor:"7,keyasint,omitempty"` // Unix ns
	Supersedes turns.ID         `cbor:"8,keyasint,omitzero"`
	From       []turns.ID       `cbor:"9,keyasint,omitempty"` // the memories that it derives from
	Statuses   []MemoryStatus   `cbor:"10,keyasint"`          // oldest first, never empty
	Same       turns.ID         `cbor:"11,keyasint,omitzero"` // the memory that said the same before; then this one is evidence of it
	Evidence   uint64           `cbor:"12,keyasint,omitzero"` // events that said the same after it
}

// MemoryStatus is what a memory is in from a position of the log on.
type MemoryStatus struct {
	Seq          uint64            `cbor:"1,keyasint"`
	State        turns.MemoryState `cbor:"2,keyasint"`
	Private      bool              `cbor:"3,keyasint,omitempty"`
	Branch       turns.Ref         `cbor:"4,keyasint,omitzero"`
	SupersededBy turns.ID          `cbor:"5,keyasint,omitzero"`
	With         turns.ID          `cbor:"6,keyasint,omitzero"` // withdrawn because it derives from this memory
	Changed      uint64            `cbor:"7,keyasint,omitzero"` // position of the event that withdrew or promoted it
}

// InForce reports whether the memory can be in a context.
func (s *MemoryStatus) InForce() bool {
	return s.State == turns.Accepted && s.SupersededBy.IsZero()
}

// Now returns the newest status.
func (m *Memory) Now() MemoryStatus { return m.Statuses[len(m.Statuses)-1] }

// At returns the status at a position of the log. ok is false if the memory was not
// there yet.
func (m *Memory) At(seq uint64) (s MemoryStatus, ok bool) {
	for _, s := range slices.Backward(m.Statuses) {
		if s.Seq <= seq {
			return s, true
		}
	}
	return s, false
}

// Set adds a status from seq on.
func (m *Memory) Set(seq uint64, change func(*MemoryStatus)) {
	s := m.Now()
	s.Seq = seq
	change(&s)
	m.Statuses = append(slices.Clip(m.Statuses), s)
}

// NamedMemory is a memory with its id.
type NamedMemory struct {
	ID turns.ID
	Memory
}

// MaxMemoryStatuses bounds the statuses of a memory: how often it is promoted. A
// withdrawal, and that another memory supersedes it, come on top.
const MaxMemoryStatuses = 16

// MaxMemoryBody bounds the stored body of an event of an agent's chain, in bytes: the
// document and the seal.
const MaxMemoryBody = turns.MaxDocument + 4<<10

// LearnedMemories returns the memories of a compaction, which is stored at seq of the
// log on the chain of s. They follow from the event's header, so nothing can come
// between the compaction and its memories.
func LearnedMemories(s *Session, e *turns.Event, seq uint64) []NamedMemory {
	if len(e.Learned) == 0 {
		return nil
	}
	out := make([]NamedMemory, len(e.Learned))
	for i, l := range e.Learned {
		st := MemoryStatus{Seq: seq, State: turns.Accepted, Private: s.Kind == turns.Main}
		if s.ForkOf != nil {
			st.Branch = LearnedBranch(e)
		}
		out[i] = NamedMemory{turns.LearnedID(e.Ref(), i), Memory{Kind: l.Kind, Trust: turns.ByAgent, Text: l.Text, Seq: seq, Item: uint64(i) + 1,
			Recorded: e.Recorded, Statuses: []MemoryStatus{st}}}
	}
	return out
}

// LearnedBranch returns the turn whose branch sees the memories of a compaction, if its
// session is a fork: the last turn that its summarizer saw.
func LearnedBranch(e *turns.Event) turns.Ref {
	for _, ref := range []turns.Ref{e.Span.SawThrough, e.Span.Through} {
		if !ref.IsZero() {
			return ref
		}
	}
	return e.Parent
}

// Apply folds in the chain's next event, stored on subject at seq under hash. A chain
// that breaks a rule was not written by this code: [ErrCorrupt].
func (m *Memories) Apply(subject string, seq uint64, hash turns.Hash, e *turns.Event) error {
	tenant, _, err := ParseSubject(subject)
	if err != nil {
		return err
	}
	next := Memories{Stored: m.Stored + 1, Tail: Tail{Seq: seq, Index: e.Index, Hash: hash}, Document: m.Document}
	switch {
	case e.Kind != turns.KindMemory && e.Kind != turns.KindMemoryChanged && e.Kind != turns.KindDocument:
		return fmt.Errorf("%w: event %s of kind %s on an agent's chain", ErrUnsupported, e.ID, e.Kind)
	case Subject(tenant, e.Chain.ID, e.Chain) != subject || !turns.ValidName(e.Chain.ID):
		return fmt.Errorf("%w: event %s of chain %s is on subject %s", ErrCorrupt, e.ID, e.Chain, subject)
	case e.Index != m.Stored:
		return fmt.Errorf("%w: event %s of chain %s has index %d, %d events are before it", ErrCorrupt, e.ID, e.Chain, e.Index, m.Stored)
	case m.Stored > 0 && e.Prev != m.Tail.Hash:
		return fmt.Errorf("%w: event %s of chain %s follows %v, the tail is %v", ErrCorrupt, e.ID, e.Chain, e.Prev, m.Tail.Hash)
	case e.ID.IsReserved():
		return fmt.Errorf("%w: event %s of chain %s has a reserved id", ErrCorrupt, e.ID, e.Chain)
	case len(e.Body) == 0 || len(e.Body) > MaxMemoryBody:
		return fmt.Errorf("%w: event %s of chain %s has a body of %d bytes, the limit is %d", ErrCorrupt, e.ID, e.Chain, len(e.Body), MaxMemoryBody)
	case len(e.Blobs) > 0:
		return fmt.Errorf("%w: event %s of chain %s names blobs", ErrCorrupt, e.ID, e.Chain)
	case (e.Kind == turns.KindDocument) != (e.Document != nil) || (e.Kind != turns.KindDocument) != (e.Memory != nil):
		return fmt.Errorf("%w: event %s of chain %s lacks its memory or document", ErrCorrupt, e.ID, e.Chain)
	}
	if d := e.Document; d != nil {
		if d.Version != m.Document.Version+1 {
			return fmt.Errorf("%w: event %s has version %d of a document, the newest is %d", ErrCorrupt, e.ID, d.Version, m.Document.Version)
		}
		next.Document = Document{Version: d.Version, Text: d.Text, Seq: seq}
	}
	*m = next
	return nil
}

// admitMemory admits an event of an agent's chain. It returns the memories that the
// event makes or changes.
//
// That two memories say the same is no refusal: a compaction on another chain can say it
// at the same moment. The order of the log decides which one is evidence of the other.
func admitMemory(h History, tenant, subject string, seq uint64, hash turns.Hash, e *turns.Event) (a Admitted, err error) {
	agent := e.Chain.ID
	if a.Memories, err = h.Memories(tenant, agent); err != nil {
		return a, err
	}
	if err := a.Memories.Apply(subject, seq, hash, e); err != nil {
		return a, err
	}
	has, err := h.HasMemoryEvent(tenant, agent, e.ID)
	if err != nil {
		return a, err
	}
	if has {
		return a, fmt.Errorf("%w: chain %s has two events with the id %s", ErrCorrupt, e.Chain, e.ID)
	}
	if e.Document != nil {
		return a, admitSources(h, tenant, e, e.Document.Sources)
	}
	m := e.Memory
	if e.Kind == turns.KindMemoryChanged {
		return a, admitChange(h, tenant, seq, e, &a)
	}
	if err := admitSources(h, tenant, e, m.Sources); err != nil {
		return a, err
	}
	if !m.Branch.IsZero() {
		if err := admitTurnOf(h, tenant, e, m.Branch, turns.Hash{}); err != nil {
			return a, err
		}
	}
	for _, id := range m.From {
		if _, err := memoryOf(h, tenant, e, id); err != nil {
			return a, err
		}
	}
	saved := NamedMemory{e.ID, Memory{Kind: m.Kind, Trust: m.Trust, Text: m.Text, Seq: seq, Recorded: e.Recorded, ValidFrom: m.ValidFrom,
		Supersedes: m.Supersedes, From: m.From, Statuses: []MemoryStatus{{Seq: seq, State: m.State, Private: m.Private, Branch: m.Branch}}}}
	a.Changed = []NamedMemory{saved}
	if m.Supersedes.IsZero() {
		return a, nil
	}
	old, err := memoryOf(h, tenant, e, m.Supersedes)
	switch {
	case err != nil:
		return a, err
	case !old.Now().SupersededBy.IsZero():
		return a, fmt.Errorf("%w: event %s supersedes memory %s, which %s supersedes", ErrCorrupt, e.ID, m.Supersedes, old.Now().SupersededBy)
	case old.Text == m.Text:
		return a, fmt.Errorf("%w: event %s supersedes memory %s, which says the same", ErrCorrupt, e.ID, m.Supersedes)
	}
	old.Set(seq, func(s *MemoryStatus) { s.SupersededBy = e.ID })
	a.Changed = append(a.Changed, old)
	return a, nil
}

// admitChange admits a promotion or a withdrawal.
func admitChange(h History, tenant string, seq uint64, e *turns.Event, a *Admitted) error {
	m := e.Memory
	old, err := memoryOf(h, tenant, e, m.Of)
	if err != nil {
		return err
	}
	if m.State == turns.Accepted {
		switch now := old.Now(); {
		case !now.SupersededBy.IsZero():
			return fmt.Errorf("%w: event %s promotes memory %s, which %s supersedes", ErrCorrupt, e.ID, m.Of, now.SupersededBy)
		case len(old.Statuses) >= MaxMemoryStatuses:
			return fmt.Errorf("%w: event %s promotes memory %s, which was changed %d times", ErrCorrupt, e.ID, m.Of, len(old.Statuses)-1)
		}
		old.Text = m.Text
	}
	old.Set(seq, func(s *MemoryStatus) {
		s.Changed = seq
		if s.State = m.State; m.State == turns.Accepted {
			s.Private, s.Branch = m.Private, turns.Ref{}
		}
	})
	a.Changed = []NamedMemory{old}
	return nil
}

// memoryOf returns a memory that an event names. One that is not there, or that is
// withdrawn, is a refusal.
func memoryOf(h History, tenant string, e *turns.Event, id turns.ID) (NamedMemory, error) {
	m, err := h.Memory(tenant, e.Chain.ID, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return m, fmt.Errorf("%w: event %s names memory %s, which agent %s does not have", ErrCorrupt, e.ID, id, e.Chain.ID)
	case err != nil:
		return m, err
	case m.Now().State == turns.Withdrawn:
		return m, fmt.Errorf("%w: event %s names memory %s, which is withdrawn", ErrCorrupt, e.ID, id)
	}
	return m, nil
}

// admitSources checks that the sources of an event are turns of its own agent.
func admitSources(h History, tenant string, e *turns.Event, sources []turns.Source) error {
	for _, s := range sources {
		if err := admitTurnOf(h, tenant, e, s.Turn, s.Hash); err != nil {
			return err
		}
	}
	return nil
}

// admitTurnOf checks that a turn is of the chain's agent, and has a hash, if one is given.
func admitTurnOf(h History, tenant string, e *turns.Event, ref turns.Ref, hash turns.Hash) error {
	s, err := h.Session(ref.Session)
	if err != nil {
		return err
	}
	if s.Tenant != tenant || s.Agent != e.Chain.ID {
		return fmt.Errorf("%w: event %s of chain %s names turn %s of another agent", ErrCorrupt, e.ID, e.Chain, ref)
	}
	got, err := h.Hash(ref)
	if err == nil && !hash.IsZero() && got != hash {
		err = fmt.Errorf("%w: event %s names turn %s with hash %v, stored is %v", ErrCorrupt, e.ID, ref, hash, got)
	}
	return err
}

// SaysFor reports whether old, a memory with the digest of m, makes m evidence of it. It does
// where everybody who would see m sees old. A digest does not tell that: it has a branch's
// session but not its turn, and a promotion changes who sees a memory. saved says that an
// agent saves m, and no compaction learned it.
//
// What was withdrawn or superseded is new if an agent saves it again, and so is what
// supersedes a memory with its text before a promotion. What was withdrawn is not learned
// again.
func (old *NamedMemory) SaysFor(m *NamedMemory, saved bool, forest lineage.Reader) (bool, error) {
	was, is := old.Now(), m.Now()
	switch {
	case was.State == turns.Withdrawn:
		return !saved, nil
	case saved && (!was.SupersededBy.IsZero() || old.ID == m.Supersedes), was.Private && !is.Private:
		return false, nil
	case was.Branch.IsZero() || was.Branch == is.Branch:
		return true, nil
	case is.Branch.IsZero():
		return false, nil
	}
	var to lineage.Node
	from, err := forest.Node(was.Branch)
	if err == nil {
		to, err = forest.Node(is.Branch)
	}
	if errors.Is(err, lineage.ErrUnknown) { // a turn was lost
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return lineage.IsAncestor(forest, from, to)
}
