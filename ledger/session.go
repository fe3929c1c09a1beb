package ledger

import (
	"fmt"
	"math"

	"nexus/turns"
)

// Tail is where a chain ends.
type Tail struct {
	Seq   uint64     `cbor:"1,keyasint"` // position in the log of the last event; what a compare-and-set expects
	Index uint64     `cbor:"2,keyasint"` // its ordinal on the chain, from 0
	Hash  turns.Hash `cbor:"3,keyasint"`
}

// Session is the state of a session: the fold over the events of its chain.
// The zero Session is the state before the first. It has a fixed size: what
// needs the turns themselves is looked up in the lineage.
//
// Invariant: after Apply of the event at Tail.Index, every decision on this
// session can be taken from the fold and the node of Head.
type Session struct {
	ID       turns.ID          `cbor:"1,keyasint"`
	Tenant   string            `cbor:"2,keyasint"`
	Agent    string            `cbor:"3,keyasint"`
	Kind     turns.SessionKind `cbor:"4,keyasint,omitempty"`
	Root     turns.ID          `cbor:"5,keyasint"`
	Origin   turns.Origin      `cbor:"6,keyasint"`
	ForkOf   *turns.ForkOf     `cbor:"7,keyasint,omitempty"`
	Spawned  turns.Ref         `cbor:"8,keyasint,omitzero"`
	Recorded int64             `cbor:"9,keyasint"` // when it was opened, Unix ns
	Tail     Tail              `cbor:"10,keyasint"`

	Head      turns.Ref   `cbor:"11,keyasint,omitzero"` // the turn that the next one continues; none: before the first
	Last      turns.Ref   `cbor:"12,keyasint,omitzero"` // the last turn on this chain
	Segment   turns.ID    `cbor:"20,keyasint,omitzero"` // its segment, the only one that can grow
	State     turns.State `cbor:"13,keyasint,omitzero"`
	Successor turns.ID    `cbor:"14,keyasint,omitzero"`
	Settings  uint64      `cbor:"15,keyasint,omitzero"` // chain index of the event that holds the settings in force

	Turns       uint64      `cbor:"16,keyasint,omitzero"` // normal turns on this chain
	Compactions uint64      `cbor:"17,keyasint,omitzero"` // compactions on this chain
	Updated     int64       `cbor:"18,keyasint"`          // recorded time of the last event, Unix ns
	Usage       turns.Usage `cbor:"19,keyasint"`          // summed over this chain, compactions and flushes included

	Uncounted Uncounted `cbor:"25,keyasint,omitzero"` // estimates of the calls without usage on this chain

	Ended     uint64 `cbor:"26,keyasint,omitzero"` // chain index of the event that put the session in its state; 0: it is open
	Described uint64 `cbor:"27,keyasint,omitzero"` // chain index of the event that holds the description in force; 0: none
	Notes     uint64 `cbor:"28,keyasint,omitzero"` // events that noted something on a turn
	Hidden    bool   `cbor:"29,keyasint,omitempty"`
	HiddenAt  uint64 `cbor:"30,keyasint,omitzero"` // chain index of the event that hid the session, or showed it again; 0: none

	Timed  bool  `cbor:"22,keyasint,omitempty"` // the settings in force reset the session by time
	First  int64 `cbor:"23,keyasint,omitzero"`  // recorded time of the first normal turn on this chain, Unix ns
	Latest int64 `cbor:"24,keyasint,omitzero"`  // the same of the newest

	Flushes [keptFlushes]turns.Flush `cbor:"21,keyasint,omitzero"` // of the last cycles that one was begun in, newest first
}

// Uncounted is an estimate of the calls of which nobody told the usage: of turns with a response
// on a session's chain. Tokens are those of the ledger's counter.
type Uncounted struct {
	_      struct{} `cbor:",toarray"`
	Calls  uint64
	Input  uint64 // the messages on the path before each response, as compactions in force leave them; no system part, no tools
	Output uint64
}

// keptFlushes is how many cycles back a head can go and find the flush that
// ran there: before that it is due again.
const keptFlushes = 8

// Apply folds in the chain's next event, stored at seq under hash.
//
// It checks what the chain alone can tell: ordinal, previous hash, that a turn
// continues the head, that nothing but a remark or an erasure follows a close, and nothing an
// erasure. A chain that breaks one of these was not written by this code:
// [ErrCorrupt].
func (s *Session) Apply(tenant string, seq uint64, hash turns.Hash, e *turns.Event) error {
	id, ok := e.Chain.Session()
	if !ok {
		return fmt.Errorf("%w: event %s of chain %s in the fold of a session", ErrCorrupt, e.ID, e.Chain)
	}
	if e.Index == 0 {
		if !s.ID.IsZero() {
			return fmt.Errorf("%w: chain %s is opened a second time by %s", ErrCorrupt, e.Chain, e.ID)
		}
		*s = Session{
			ID: id, Tenant: tenant, Agent: e.Agent, Kind: e.Role, Root: e.Root, Origin: *e.Origin, ForkOf: e.ForkOf,
			Spawned: e.SpawnedBy, Recorded: e.Recorded, Updated: e.Recorded, Tail: Tail{Seq: seq, Hash: hash}, Timed: e.Timed,
		}
		if f := e.ForkOf; f != nil {
			s.Head = f.At
		}
		return nil
	}
	switch {
	case id != s.ID:
		return fmt.Errorf("%w: event %s of chain %s in the fold of session %s", ErrCorrupt, e.ID, e.Chain, s.ID)
	case e.Index != s.Tail.Index+1:
		return fmt.Errorf("%w: event %s of chain %s has index %d after %d", ErrCorrupt, e.ID, e.Chain, e.Index, s.Tail.Index)
	case e.Prev != s.Tail.Hash:
		return fmt.Errorf("%w: event %s of chain %s follows %v, the tail is %v", ErrCorrupt, e.ID, e.Chain, e.Prev, s.Tail.Hash)
	case seq <= s.Tail.Seq:
		return fmt.Errorf("%w: event %s of chain %s is at %d, its predecessor at %d", ErrCorrupt, e.ID, e.Chain, seq, s.Tail.Seq)
	}
	if s.State == turns.Erased || s.Final() && e.State != turns.Erased && !e.Kind.IsRemark() {
		return fmt.Errorf("%w: event %s (%s) of chain %s follows its end", ErrCorrupt, e.ID, e.Kind, e.Chain)
	}
	switch e.Kind {
	case turns.KindTurn, turns.KindCompaction:
		if e.Parent != s.Head {
			return fmt.Errorf("%w: turn %s has parent %v, the head is %v", ErrCorrupt, e.Ref(), e.Parent, s.Head)
		}
		if want := s.SegmentFor(e.ID, e.Parent); e.Segment != want {
			return fmt.Errorf("%w: turn %s is in segment %s, it belongs in %s", ErrCorrupt, e.Ref(), e.Segment, want)
		}
		s.Head, s.Last, s.Segment = e.Ref(), e.Ref(), e.Segment
		if e.Kind == turns.KindTurn {
			if s.Turns++; s.First == 0 {
				s.First = e.Recorded
			}
			s.Latest = e.Recorded
		} else {
			s.Compactions++
		}
		s.addUsage(e.Usage)
	case turns.KindMoved:
		s.Head = e.To
	case turns.KindChanged:
		s.Settings, s.Timed = e.Index, e.Timed
	case turns.KindState:
		s.State, s.Successor, s.Ended = e.State, e.Successor, e.Index
	case turns.KindHidden:
		s.Hidden, s.HiddenAt = e.Hidden, e.Index
	case turns.KindDescribed:
		s.Described = e.Index
	case turns.KindNoted:
		s.Notes++
	case turns.KindRedacted: // what it says is its event's
	case turns.KindFlush:
		if err := s.applyFlush(e); err != nil {
			return err
		}
		s.addUsage(e.Usage)
	default:
		return fmt.Errorf("%w: event %s of kind %s on a session's chain", ErrUnsupported, e.ID, e.Kind)
	}
	s.Tail = Tail{Seq: seq, Index: e.Index, Hash: hash}
	s.Updated = e.Recorded
	return nil
}

// applyFlush folds in a flush event. The one that it follows moves to the front.
func (s *Session) applyFlush(e *turns.Event) error {
	f, at := *e.Flush, 0
	for at < len(s.Flushes)-1 && !s.Flushes[at].SameCycle(&f) {
		at++
	}
	was := s.FlushOf(f.Cycle, f.After)
	ok := was.State == turns.FlushBegun && f.Try == was.Try
	if f.State == turns.FlushBegun {
		ok = was.State == 0 && f.Try == 1 || was.State == turns.FlushBegun && f.Try == was.Try+1
	}
	if !ok {
		return fmt.Errorf("%w: flush %s of chain %s: %s, try %d of cycle %d, follows %s, try %d", ErrCorrupt, e.ID, e.Chain, f.State, f.Try, f.Cycle, was.State, was.Try)
	}
	copy(s.Flushes[1:at+1], s.Flushes[:at])
	s.Flushes[0] = f
	return nil
}

// FlushOf is the last flush event of a cycle, which began with compaction after;
// the zero Flush: none of the last cycles that one was begun in.
func (s *Session) FlushOf(cycle uint64, after turns.Ref) turns.Flush {
	for i := range s.Flushes {
		if f := &s.Flushes[i]; f.SameCycle(&turns.Flush{Cycle: cycle, After: after}) {
			return *f
		}
	}
	return turns.Flush{}
}

func (s *Session) addUsage(u *turns.Usage) {
	if u == nil {
		return
	}
	add(&s.Usage.InputTokens, u.InputTokens)
	add(&s.Usage.OutputTokens, u.OutputTokens)
	add(&s.Usage.CacheRead, u.CacheRead)
	add(&s.Usage.CacheCreation, u.CacheCreation)
}

// add adds up claims of clients: a sum that would overflow stays at its most.
func add(sum *uint64, n uint64) {
	if *sum += n; *sum < n {
		*sum = math.MaxUint64
	}
}

// Final reports whether the session takes no more turns.
func (s *Session) Final() bool {
	return s.State == turns.Closed || s.State == turns.Reset || s.State == turns.Erased
}

// SegmentFor is the segment of turn id when it follows parent. Only the last
// turn of the chain can be continued; a fork's first turn, and the first after
// a head move to anywhere else, open a segment, so that a position in a segment
// is never taken twice.
func (s *Session) SegmentFor(id turns.ID, parent turns.Ref) turns.ID {
	if !s.Last.IsZero() && parent == s.Last {
		return s.Segment
	}
	return id
}

// Subject is where the session's chain lives.
func (s *Session) Subject() string { return SessionSubject(s.Tenant, s.Root, s.ID) }

// Ignores reports whether s, with its head at a turn of session at, leaves the
// compactions above that turn aside: the turn is inherited, and a fork of mode
// full lies on the way to it. up gives a session by its id; it is asked once for
// each fork on the way but the last.
func (s *Session) Ignores(at turns.ID, up func(turns.ID) (Session, error)) (bool, error) {
	for !at.IsZero() && s.ID != at && s.ForkOf != nil {
		if s.ForkOf.Mode == turns.Full {
			return true, nil
		}
		if s.ForkOf.At.Session == at {
			break
		}
		parent, err := up(s.ForkOf.At.Session)
		if err != nil {
			return false, err
		}
		s = &parent
	}
	return false, nil
}
