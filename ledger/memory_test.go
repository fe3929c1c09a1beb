package ledger_test

import (
	"reflect"
	"strings"
	"testing"

	"nexus/ledger"
	"nexus/turns"
)

// agentEvent is an event of the chain of the agent of a story, after what is there.
func (s *story) agentEvent(kind turns.Kind, id byte) *turns.Event {
	fold := s.agents["t/main"]
	return &turns.Event{Kind: kind, ID: turns.ID{15: id}, Chain: turns.Chain{Entity: turns.AgentEntity, ID: "main"},
		Index: fold.Stored, Prev: fold.Tail.Hash, Recorded: 1, Body: []byte("x"), Commitment: turns.Hash{1}}
}

func (s *story) saved(id, text byte) *turns.Event {
	e := s.agentEvent(turns.KindMemory, id)
	e.Memory = &turns.Memory{State: turns.Accepted, Kind: turns.Daily, Trust: turns.ByAgent, Text: turns.Hash{text}}
	return e
}

func (s *story) changed(id byte, m turns.Memory) *turns.Event {
	e := s.agentEvent(turns.KindMemoryChanged, id)
	e.Memory = &m
	return e
}

func (s *story) document(id byte, version uint64) *turns.Event {
	e := s.agentEvent(turns.KindDocument, id)
	e.Document = &turns.StoredDocument{Version: version, Text: turns.Hash{byte(version)}}
	return e
}

// admitNext admits an event of the agent's chain.
func (s *story) admitNext(e *turns.Event) (ledger.Admitted, error) {
	s.seq++
	return s.admit("t", e.Chain.ID, s.seq, e)
}

// newMemories is a story with an agent's chain: memory 1 of a turn; memory 2, which
// memory 3 supersedes; memory 4, withdrawn; memory 5, proposed, private, on a branch;
// a document of one version.
func newMemories(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	at := s.ref(s.a, 11)
	for _, event := range []func() *turns.Event{
		func() *turns.Event {
			e := s.saved(1, 1)
			e.Memory.Sources = []turns.Source{{Turn: at, Hash: s.hashes[at]}}
			return e
		},
		func() *turns.Event { return s.saved(2, 2) },
		func() *turns.Event {
			e := s.saved(3, 3)
			e.Memory.Supersedes, e.Memory.From = turns.ID{15: 2}, []turns.ID{{15: 1}}
			return e
		},
		func() *turns.Event { return s.saved(4, 4) },
		func() *turns.Event { return s.changed(40, turns.Memory{State: turns.Withdrawn, Of: turns.ID{15: 4}}) },
		func() *turns.Event {
			e := s.saved(5, 5)
			e.Memory.State, e.Memory.Private, e.Memory.Branch = turns.Proposed, true, s.ref(s.b, 21)
			return e
		},
		func() *turns.Event { return s.document(60, 1) },
	} {
		if _, err := s.admitNext(event()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *story) memory(t *testing.T, id byte) ledger.NamedMemory {
	t.Helper()
	m, err := s.Memory("t", "main", turns.ID{15: id})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoriesFollowTheirChain(t *testing.T) {
	s := newMemories(t)
	if got := s.agents["t/main"]; got.Stored != 7 || got.Document != (ledger.Document{Version: 1, Text: turns.Hash{1}, Seq: s.seq}) {
		t.Errorf("%+v", got)
	}
	two, three, four, five := s.memory(t, 2), s.memory(t, 3), s.memory(t, 4), s.memory(t, 5)
	if n := two.Now(); n.SupersededBy != three.ID || n.InForce() || two.Statuses[0].InForce() == false {
		t.Errorf("superseded: %+v", two)
	}
	if n := four.Now(); n.State != turns.Withdrawn || n.InForce() || n.Changed != n.Seq {
		t.Errorf("withdrawn: %+v", four)
	}
	if n := five.Now(); n.InForce() || !n.Private || n.Branch != s.ref(s.b, 21) {
		t.Errorf("proposed: %+v", five)
	}
	if _, err := s.admitNext(s.changed(50, turns.Memory{State: turns.Accepted, Of: five.ID, Text: turns.Hash{55}})); err != nil {
		t.Fatal(err)
	}
	now := s.memory(t, 5)
	if n := now.Now(); !n.InForce() || n.Private || !n.Branch.IsZero() || now.Text != (turns.Hash{55}) {
		t.Errorf("promoted: %+v", now)
	}
	// What was there at a position stays what it was.
	if before, ok := now.At(s.seq - 1); !ok || before != five.Now() {
		t.Errorf("before the promotion: %+v, %v; want %+v", before, ok, five.Now())
	}
	if _, ok := now.At(five.Seq - 1); ok {
		t.Error("it was there before it was saved")
	}
}

func TestAdmitRefusesMemories(t *testing.T) {
	id := func(n byte) turns.ID { return turns.ID{15: n} }
	for name, c := range map[string]struct {
		event func(*story) *turns.Event
		why   string
	}{
		"a gap":         {func(s *story) *turns.Event { e := s.saved(9, 9); e.Index++; return e }, "has index 8"},
		"another tail":  {func(s *story) *turns.Event { e := s.saved(9, 9); e.Prev = turns.Hash{99}; return e }, "the tail is"},
		"an id twice":   {func(s *story) *turns.Event { return s.saved(1, 9) }, "two events with the id"},
		"a reserved id": {func(s *story) *turns.Event { e := s.saved(9, 9); copy(e.ID[:], "\xff\xff\xff\xff\xff\xff"); return e }, "reserved"},
		"no body":       {func(s *story) *turns.Event { e := s.saved(9, 9); e.Body = nil; return e }, "a body of 0"},
		"a large body": {func(s *story) *turns.Event {
			e := s.saved(9, 9)
			e.Body = make([]byte, ledger.MaxMemoryBody+1)
			return e
		}, "the limit is"},
		"blobs":                {func(s *story) *turns.Event { e := s.saved(9, 9); e.Blobs = []turns.BlobLink{{}}; return e }, "names blobs"},
		"no memory":            {func(s *story) *turns.Event { return s.agentEvent(turns.KindMemory, 9) }, "lacks its memory"},
		"no document":          {func(s *story) *turns.Event { return s.agentEvent(turns.KindDocument, 9) }, "lacks its memory"},
		"a turn":               {func(s *story) *turns.Event { return s.agentEvent(turns.KindTurn, 9) }, "of kind turn"},
		"a version again":      {func(s *story) *turns.Event { return s.document(9, 1) }, "the newest is 1"},
		"a version left out":   {func(s *story) *turns.Event { return s.document(9, 3) }, "the newest is 1"},
		"of none":              {func(s *story) *turns.Event { return s.changed(9, turns.Memory{State: turns.Withdrawn, Of: id(99)}) }, "does not have"},
		"withdrawn twice":      {func(s *story) *turns.Event { return s.changed(9, turns.Memory{State: turns.Withdrawn, Of: id(4)}) }, "is withdrawn"},
		"withdrawn, promoted":  {func(s *story) *turns.Event { return s.changed(9, turns.Memory{State: turns.Accepted, Of: id(4)}) }, "is withdrawn"},
		"superseded, promoted": {func(s *story) *turns.Event { return s.changed(9, turns.Memory{State: turns.Accepted, Of: id(2)}) }, "supersedes"},
		"superseded twice":     {func(s *story) *turns.Event { e := s.saved(9, 9); e.Memory.Supersedes = id(2); return e }, "supersedes memory"},
		"supersedes the same":  {func(s *story) *turns.Event { e := s.saved(9, 1); e.Memory.Supersedes = id(1); return e }, "says the same"},
		"supersedes withdrawn": {func(s *story) *turns.Event { e := s.saved(9, 9); e.Memory.Supersedes = id(4); return e }, "is withdrawn"},
		"derives from none":    {func(s *story) *turns.Event { e := s.saved(9, 9); e.Memory.From = []turns.ID{id(99)}; return e }, "does not have"},
		"derives from withdrawn": {func(s *story) *turns.Event {
			e := s.saved(9, 9)
			e.Memory.From = []turns.ID{id(4)}
			return e
		}, "is withdrawn"},
		"a source of another hash": {func(s *story) *turns.Event {
			e := s.saved(9, 9)
			e.Memory.Sources = []turns.Source{{Turn: s.ref(s.a, 11), Hash: turns.Hash{99}}}
			return e
		}, "stored is"},
		"a document's source of another hash": {func(s *story) *turns.Event {
			e := s.document(9, 2)
			e.Document.Sources = []turns.Source{{Turn: s.ref(s.a, 11), Hash: turns.Hash{99}}}
			return e
		}, "stored is"},
		"a source that is not stored": {func(s *story) *turns.Event {
			e := s.saved(9, 9)
			e.Memory.Sources = []turns.Source{{Turn: s.ref(s.a, 99), Hash: turns.Hash{1}}}
			return e
		}, "not stored before it"},
		"a branch that is not stored": {func(s *story) *turns.Event { e := s.saved(9, 9); e.Memory.Branch = s.ref(s.b, 99); return e }, "not stored before it"},
		"another agent's source": {func(s *story) *turns.Event {
			e := s.saved(9, 9)
			e.Chain.ID, e.Index, e.Prev = "other", 0, turns.Hash{}
			e.Memory.Sources = []turns.Source{{Turn: s.ref(s.a, 11), Hash: s.hashes[s.ref(s.a, 11)]}}
			return e
		}, "of another agent"},
		"another agent's branch": {func(s *story) *turns.Event {
			e := s.saved(9, 9)
			e.Chain.ID, e.Index, e.Prev, e.Memory.Branch = "other", 0, turns.Hash{}, s.ref(s.b, 21)
			return e
		}, "of another agent"},
		"another agent's memory": {func(s *story) *turns.Event {
			e := s.changed(9, turns.Memory{State: turns.Withdrawn, Of: id(1)})
			e.Chain.ID, e.Index, e.Prev = "other", 0, turns.Hash{}
			return e
		}, "which agent other does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMemories(t)
			before := s.agents["t/main"]
			if _, err := s.admitNext(c.event(s)); !ledger.IsRefusal(err) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v; want a refusal that says %q", err, c.why)
			}
			if s.agents["t/main"] != before {
				t.Error("it changed the fold")
			}
		})
	}
	s := newMemories(t)
	e := s.saved(9, 9)
	if _, err := s.admit("t", "elsewhere", s.seq+1, e); !ledger.IsRefusal(err) {
		t.Errorf("in another shard: %v", err)
	}
	for n := byte(0); ; n++ {
		_, err := s.admitNext(s.changed(100+n, turns.Memory{State: turns.Accepted, Of: id(5), Text: turns.Hash{n}}))
		if int(n) < ledger.MaxMemoryStatuses-1 {
			if err != nil {
				t.Fatalf("promotion %d: %v", n, err)
			}
			continue
		}
		if !ledger.IsRefusal(err) {
			t.Errorf("promotion %d: %v", n, err)
		}
		break
	}
	if _, err := s.admitNext(s.changed(99, turns.Memory{State: turns.Withdrawn, Of: id(5)})); err != nil {
		t.Errorf("a memory that was promoted often can't be withdrawn: %v", err)
	}
}

// The memories of a compaction are seen where what it saw is on the path: everywhere if
// the session is no fork, by main sessions only if it is one.
func TestMemoriesOfACompactionFollowFromItsHeader(t *testing.T) {
	s := &ledger.Session{ID: turns.ID{1}, Kind: turns.Peer}
	e := &turns.Event{Kind: turns.KindCompaction, ID: turns.ID{2}, Chain: turns.SessionChain(s.ID), Recorded: 7, Parent: turns.Ref{Session: s.ID, Turn: turns.ID{9}}, Span: &turns.Span{},
		Learned: []turns.Learned{{Kind: turns.Daily, Text: turns.Hash{1}}, {Kind: turns.Semantic, Text: turns.Hash{2}}}}
	want := func(st ledger.MemoryStatus) (out []ledger.NamedMemory) {
		st.Seq, st.State = 5, turns.Accepted
		for i, l := range e.Learned {
			out = append(out, ledger.NamedMemory{ID: turns.LearnedID(e.Ref(), i), Memory: ledger.Memory{Kind: l.Kind, Trust: turns.ByAgent, Text: l.Text,
				Seq: 5, Item: uint64(i + 1), Recorded: 7, Statuses: []ledger.MemoryStatus{st}}})
		}
		return out
	}
	check := func(name string, st ledger.MemoryStatus) {
		t.Helper()
		if got := ledger.LearnedMemories(s, e, 5); !reflect.DeepEqual(got, want(st)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	check("a session", ledger.MemoryStatus{})
	s.Kind = turns.Main
	check("a main session", ledger.MemoryStatus{Private: true})
	s.Kind, s.ForkOf = turns.Peer, &turns.ForkOf{}
	check("a fork", ledger.MemoryStatus{Branch: e.Parent})
	e.Span.Through = turns.Ref{Session: s.ID, Turn: turns.ID{8}}
	check("a fork, with a summary", ledger.MemoryStatus{Branch: e.Span.Through})
	e.Span.SawThrough = turns.Ref{Session: s.ID, Turn: turns.ID{7}}
	check("a fork, that saw more", ledger.MemoryStatus{Branch: e.Span.SawThrough})
	if e.Learned = nil; ledger.LearnedMemories(s, e, 5) != nil {
		t.Error("a compaction without memories has some")
	}
}
