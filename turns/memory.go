package turns

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// MemoryKind says what a memory is for.
type MemoryKind uint8

// The kinds of memories.
const (
	Daily    MemoryKind = 1 // what was learned on a day
	LongTerm MemoryKind = 2
	Episodic MemoryKind = 3 // what happened
	Semantic MemoryKind = 4 // a fact
)

var memoryKinds = [...]string{Daily: "daily", LongTerm: "long_term", Episodic: "episodic", Semantic: "semantic"}

// String is the word of protocol JSON.
func (k MemoryKind) String() string {
	if k >= Daily && k <= Semantic {
		return memoryKinds[k]
	}
	return fmt.Sprintf("memory(%d)", uint8(k))
}

// ParseMemoryKind is the inverse of String.
func ParseMemoryKind(s string) (MemoryKind, error) {
	for k := Daily; k <= Semantic; k++ {
		if memoryKinds[k] == s {
			return k, nil
		}
	}
	return 0, malformed("/kind", "%q is not one of daily, long_term, episodic, semantic", clip(s, 40))
}

// Trust says who stated a memory, as the agent that saves it claims.
type Trust uint8

// Who states a memory.
const (
	ByAgent  Trust = 1
	ByPerson Trust = 2
	ByTool   Trust = 3 // it comes from the output of a tool, which anybody may have written
)

var trusts = [...]string{ByAgent: "agent", ByPerson: "person", ByTool: "tool"}

// String is the word of protocol JSON.
func (t Trust) String() string {
	if t >= ByAgent && t <= ByTool {
		return trusts[t]
	}
	return fmt.Sprintf("trust(%d)", uint8(t))
}

// ParseTrust is the inverse of String.
func ParseTrust(s string) (Trust, error) {
	for t := ByAgent; t <= ByTool; t++ {
		if trusts[t] == s {
			return t, nil
		}
	}
	return 0, malformed("/trust", "%q is not one of agent, person, tool", clip(s, 40))
}

// MemoryState is what a memory event puts a memory in.
type MemoryState uint8

// The states of a memory. A superseded memory keeps the state of its event: that
// another memory supersedes it is in the other one's event.
const (
	Proposed  MemoryState = 1 // in no context until it is promoted
	Accepted  MemoryState = 2
	Withdrawn MemoryState = 3
)

// String is the word of protocol JSON.
func (s MemoryState) String() string {
	switch s {
	case Proposed:
		return "proposed"
	case Accepted:
		return "accepted"
	case Withdrawn:
		return "withdrawn"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Limits of memories.
const (
	MaxMemory        = 16 << 10  // bytes of the text of a memory
	MaxDocument      = 256 << 10 // bytes of an agent's document
	MaxMemorySources = 64        // turns that a memory names; also the memories that it derives from
	MaxLearned       = 1000      // memories of a compaction
)

// Memory is the header of a memory that is saved, or of a change of its state.
type Memory struct {
	State      MemoryState `cbor:"1,keyasint"`            // saved: proposed or accepted; changed: accepted (promoted) or withdrawn
	Kind       MemoryKind  `cbor:"2,keyasint,omitzero"`   // saved only
	Trust      Trust       `cbor:"3,keyasint,omitzero"`   // saved only
	Text       Hash        `cbor:"4,keyasint,omitzero"`   // keyed digest of kind, visibility and text; none: withdrawn
	Private    bool        `cbor:"5,keyasint,omitempty"`  // seen by main sessions only
	Branch     Ref         `cbor:"6,keyasint,omitzero"`   // saved only: seen where the path has this turn; none: on every path
	Sources    []Source    `cbor:"7,keyasint,omitempty"`  // saved only: the turns that it comes from
	From       []ID        `cbor:"8,keyasint,omitempty"`  // saved only: the memories that it derives from
	Supersedes ID          `cbor:"9,keyasint,omitzero"`   // saved only: the memory that it replaces
	Of         ID          `cbor:"10,keyasint,omitzero"`  // changed only: which memory
	ValidFrom  int64       `cbor:"11,keyasint,omitempty"` // saved only: Unix ns
}

// Source is a turn that a memory comes from. It binds the turn's bytes.
type Source struct {
	_    struct{} `cbor:",toarray"`
	Turn Ref
	Hash Hash // of the turn's event
}

// Learned is the header of one memory of a compaction. The text is in the compaction's
// body, at the same position of its list.
type Learned struct {
	_    struct{} `cbor:",toarray"`
	Kind MemoryKind
	Text Hash // as of a [Memory]
}

// StoredDocument is the header of a version of an agent's document.
type StoredDocument struct {
	Version uint64   `cbor:"1,keyasint"` // from 1
	Text    Hash     `cbor:"2,keyasint"` // keyed digest
	Sources []Source `cbor:"3,keyasint,omitempty"`
}

// LearnedID is the id of the memory at an index of a compaction's list. It has the
// compaction's time.
func LearnedID(compaction Ref, index int) (id ID) {
	h := sha256.New()
	h.Write([]byte("nexus.memory.v1\x00"))
	h.Write(compaction.Session[:])
	h.Write(compaction.Turn[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(index)))
	copy(id[:6], compaction.Turn[:6])
	copy(id[6:], h.Sum(nil))
	return id
}

// EpisodeID is the id of the episode of a session at a turn: the memory of what became of the
// session up to there. It has the turn's time.
func EpisodeID(at Ref) (id ID) {
	h := sha256.New()
	h.Write([]byte("nexus.episode.v1\x00"))
	h.Write(at.Session[:])
	h.Write(at.Turn[:])
	copy(id[:6], at.Turn[:6])
	copy(id[6:], h.Sum(nil))
	return id
}

// NormalMemory returns what two memories of the same text have in common: the text's
// words, one space between them, without a full stop at the end.
func NormalMemory(text string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
}

// IsReserved reports whether an id is in the range of the ids of agents' keys: its first
// six bytes are 0xff. No session and no event has such an id, so that nobody gets the
// key of an agent by a session of its id.
func (id ID) IsReserved() bool { return [6]byte(id[:6]) == [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }

func (m *Memory) validate(e *Event, bad refusal) error {
	saved := e.Kind == KindMemory
	switch {
	case saved && (m.State < Proposed || m.State > Accepted), !saved && m.State != Accepted && m.State != Withdrawn:
		return bad("memory state %d", m.State)
	case saved != (m.Kind != 0) || m.Kind > Semantic:
		return bad("memory kind %d", m.Kind)
	case saved != (m.Trust != 0) || m.Trust > ByTool:
		return bad("trust %d", m.Trust)
	case m.Text.IsZero() != (m.State == Withdrawn):
		return bad("%s with the digest %v", m.State, m.Text)
	case saved != m.Of.IsZero():
		return bad("of memory %s", m.Of)
	case m.Of == e.ID || m.Supersedes == e.ID:
		return bad("it names itself")
	case !saved && (!m.Branch.IsZero() || len(m.Sources) > 0 || len(m.From) > 0 || !m.Supersedes.IsZero() || m.ValidFrom != 0):
		return bad("a change of state with fields of a memory")
	case m.State == Withdrawn && m.Private:
		return bad("withdrawn, but private")
	case !m.Branch.IsZero() && !m.Branch.whole():
		return bad("branch %s", m.Branch)
	case len(m.From) > MaxMemorySources || !ascending(m.From, ID.Compare) || len(m.From) > 0 && m.From[0].IsZero():
		return bad("the memories that it derives from are not sorted, distinct and set, or over %d", MaxMemorySources)
	}
	return checkSources(m.Sources, bad)
}

func (d *StoredDocument) validate(bad refusal) error {
	if d.Version == 0 || d.Text.IsZero() {
		return bad("version %d with the digest %v", d.Version, d.Text)
	}
	return checkSources(d.Sources, bad)
}

// checkSources checks that sources name whole turns, sorted and distinct.
func checkSources(sources []Source, bad refusal) error {
	if len(sources) > MaxMemorySources {
		return bad("%d sources", len(sources))
	}
	for _, s := range sources {
		if !s.Turn.whole() || s.Hash.IsZero() {
			return bad("source %s with hash %v", s.Turn, s.Hash)
		}
	}
	if !ascending(sources, CompareSources) {
		return bad("its sources are not sorted and distinct")
	}
	return nil
}

// CompareSources orders sources as an event has them: by session, then turn.
func CompareSources(a, b Source) int {
	if c := a.Turn.Session.Compare(b.Turn.Session); c != 0 {
		return c
	}
	return a.Turn.Turn.Compare(b.Turn.Turn)
}

func checkLearned(learned []Learned, bad refusal) error {
	if len(learned) > MaxLearned {
		return bad("%d memories", len(learned))
	}
	for i, l := range learned {
		if l.Kind < Daily || l.Kind > Semantic || l.Text.IsZero() {
			return bad("memory %d: kind %d with the digest %v", i, l.Kind, l.Text)
		}
	}
	return nil
}
