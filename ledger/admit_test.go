package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// history is what is stored before an event, in maps.
type history struct {
	*lineage.Forest
	sessions map[turns.ID]ledger.Session
	labels   map[string]ledger.Label
	channels map[string]ledger.Channel
	received map[turns.Ref]bool // Session is the first bytes of the channel's id
	policies map[string]ledger.Policies
	names    map[turns.Hash]ledger.PolicyName
	agents   map[string]ledger.Memories
	memories map[string]ledger.NamedMemory
	saved    map[string]bool // ids on chains of agents
	hashes   map[turns.Ref]turns.Hash
	fails    error // of every look-up of an event
	ledger   turns.ID
}

func (h *history) Session(id turns.ID) (ledger.Session, error) {
	if s, ok := h.sessions[id]; ok {
		return s, nil
	}
	return ledger.Session{}, fmt.Errorf("%w: session %s", ledger.ErrNotFound, id)
}

func (h *history) Ledger() turns.ID { return h.ledger }

func (h *history) Label(tenant, id string) (ledger.Label, error) { return h.labels[tenant+"/"+id], nil }

func (h *history) Channel(tenant, id string) (ledger.Channel, error) {
	return h.channels[tenant+"/"+id], h.fails
}

func (h *history) HasReceived(tenant, channel string, event turns.ID) (bool, error) {
	return h.received[receivedRef(tenant, channel, event)], h.fails
}

func receivedRef(tenant, channel string, event turns.ID) (r turns.Ref) {
	copy(r.Session[:], tenant+"/"+channel)
	r.Turn = event
	return r
}

func (h *history) Policies(tenant string) (ledger.Policies, error) { return h.policies[tenant], nil }

func (h *history) PolicyName(_ string, name turns.Hash) (ledger.PolicyName, error) {
	return h.names[name], h.fails
}

func (h *history) Memories(tenant, agent string) (ledger.Memories, error) {
	return h.agents[tenant+"/"+agent], nil
}

func (h *history) Memory(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	m, ok := h.memories[tenant+"/"+agent+"/"+id.String()]
	if !ok {
		return m, fmt.Errorf("%w: memory %s", ledger.ErrNotFound, id)
	}
	return m, h.fails
}

func (h *history) HasMemoryEvent(tenant, agent string, id turns.ID) (bool, error) {
	return h.saved[tenant+"/"+agent+"/"+id.String()], h.fails
}

func (h *history) Hash(ref turns.Ref) (turns.Hash, error) {
	if hash, ok := h.hashes[ref]; ok {
		return hash, nil
	}
	return turns.Hash{}, fmt.Errorf("%w: turn %s", lineage.ErrUnknown, ref)
}

func (h *history) HasEvent(session, event turns.ID) (bool, error) {
	_, ok := h.hashes[turns.Ref{Session: session, Turn: event}]
	return ok, h.fails
}

// admit decides on an event on the subject of its chain, and stores it if it is
// admitted.
func (h *history) admit(tenant, key string, seq uint64, e *turns.Event) (ledger.Admitted, error) {
	hash := turns.Hash{byte(seq)}
	a, err := ledger.Admit(h, ledger.Subject(tenant, key, e.Chain), seq, hash, e)
	if err != nil {
		return a, err
	}
	if e.Chain.Entity == turns.LabelEntity {
		h.labels[tenant+"/"+e.Chain.ID] = a.Label
		return a, nil
	}
	if e.Chain.Entity == turns.ChannelEntity {
		h.channels[tenant+"/"+e.Chain.ID], h.received[receivedRef(tenant, e.Chain.ID, e.ID)] = a.Channel, true
		return a, nil
	}
	if e.Chain.Entity == turns.TenantEntity {
		h.policies[tenant] = a.Policies
		if !e.Policy.Name.IsZero() {
			h.names[e.Policy.Name] = a.PolicyName
		}
		return a, nil
	}
	if e.Chain.Entity == turns.AgentEntity {
		name := tenant + "/" + e.Chain.ID
		h.agents[name], h.saved[name+"/"+e.ID.String()] = a.Memories, true
		for _, m := range a.Changed {
			h.memories[name+"/"+m.ID.String()] = m
		}
		return a, nil
	}
	h.sessions[a.Session.ID] = a.Session
	if e.Kind.IsTurn() {
		h.hashes[e.Ref()] = hash
		return a, h.Add(a.Node)
	}
	return a, nil
}

func newHistory() *history {
	return &history{Forest: new(lineage.Forest), sessions: map[turns.ID]ledger.Session{}, labels: map[string]ledger.Label{}, channels: map[string]ledger.Channel{}, received: map[turns.Ref]bool{}, policies: map[string]ledger.Policies{}, names: map[turns.Hash]ledger.PolicyName{},
		agents: map[string]ledger.Memories{}, memories: map[string]ledger.NamedMemory{}, saved: map[string]bool{}, hashes: map[turns.Ref]turns.Hash{}}
}

// Admit returns the state that an event of each kind of chain leads to.
func TestAdmitReturnsTheNextState(t *testing.T) {
	h, id := newHistory(), turns.ID{1}
	opened := &turns.Event{Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: "a", Origin: &turns.Origin{}}
	a, err := h.admit("t", id.String(), 1, opened)
	if err != nil || a.Session.ID != id || a.Session.Tenant != "t" || a.Session.Tail != (ledger.Tail{Seq: 1, Hash: turns.Hash{1}}) {
		t.Fatalf("opened: %+v, %v", a.Session, err)
	}
	turn := &turns.Event{Kind: turns.KindTurn, ID: turns.ID{2}, Chain: opened.Chain, Index: 1, Prev: turns.Hash{1}, Depth: 1, Segment: turns.ID{2}, Halves: 1}
	a, err = h.admit("t", id.String(), 2, turn)
	if err != nil || a.Node.Ref != turn.Ref() || a.Node.Depth != 1 || a.Session.Head != turn.Ref() || a.Session.Tail.Hash != (turns.Hash{2}) {
		t.Fatalf("turn: %+v, %v", a, err)
	}
	chain := turns.Chain{Entity: turns.LabelEntity, ID: "x"}
	claim := &turns.Event{Kind: turns.KindClaimed, ID: turns.ID{3}, Chain: chain, To: turns.Ref{Session: id}}
	a, err = h.admit("t", "x", 3, claim)
	if want := (ledger.Label{Session: id, Tail: ledger.Tail{Seq: 3, Hash: turns.Hash{3}}}); err != nil || a.Label != want {
		t.Fatalf("claim: %+v, %v; want %+v", a.Label, err, want)
	}
	claim = &turns.Event{Kind: turns.KindClaimed, ID: turns.ID{4}, Chain: chain, Index: 1, Prev: turns.Hash{3}, To: turns.Ref{Session: turns.ID{9}}}
	if a, err = h.admit("t", "x", 4, claim); err != nil || a.Label.Session != (turns.ID{9}) || a.Label.Tail.Index != 1 {
		t.Fatalf("the next claim: %+v, %v", a.Label, err)
	}
}

// The ledger's own key is stored under its id, so no session may have that id.
func TestAdmitRefusesASessionWithTheLedgersID(t *testing.T) {
	h, id := newHistory(), turns.ID{1}
	h.ledger = id
	opened := &turns.Event{Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: "a", Origin: &turns.Origin{}}
	if _, err := h.admit("t", id.String(), 1, opened); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("%v, want a refusal", err)
	}
	h.ledger = turns.ID{2}
	if _, err := h.admit("t", id.String(), 1, opened); err != nil {
		t.Errorf("a session with another id: %v", err)
	}
}

// A refusal is told from a history that cannot be read, and leads to no state.
func TestAdmitRefuses(t *testing.T) {
	label := turns.Chain{Entity: turns.LabelEntity, ID: "x"}
	session := turns.SessionChain(turns.ID{1})
	broken := errors.New("the disk is gone")
	for name, tc := range map[string]struct {
		subject string // "": that of the event's chain
		event   turns.Event
		opened  bool // the session is there
		fails   error
		is      error // a refusal, or what the history said
		why     string
	}{
		"a subject of no chain":         {subject: "agents.zz", is: ledger.ErrMalformed, why: "subject"},
		"another chain's subject":       {event: turns.Event{Chain: label}, subject: ledger.Subject("t", "y", turns.Chain{Entity: turns.LabelEntity, ID: "y"}), is: ledger.ErrCorrupt, why: "on subject"},
		"a chain of another kind":       {event: turns.Event{Chain: turns.Chain{Entity: "x", ID: "x"}}, is: ledger.ErrUnsupported, why: "a chain of"},
		"a label in another shard":      {event: turns.Event{Kind: turns.KindClaimed, Chain: label}, subject: ledger.Subject("t", "y", label), is: ledger.ErrCorrupt, why: "is on subject"},
		"a first claim that is not":     {event: turns.Event{Kind: turns.KindClaimed, Chain: label, Index: 1}, is: ledger.ErrCorrupt, why: "index 1"},
		"a label's chain without claim": {event: turns.Event{Kind: turns.KindMoved, Chain: label}, is: ledger.ErrUnsupported, why: "on a label's chain"},
		"a session that is no id":       {event: turns.Event{Kind: turns.KindOpened, Chain: turns.Chain{Entity: turns.SessionEntity, ID: "x"}}, is: ledger.ErrCorrupt, why: "no session's"},
		"an event before the first":     {event: turns.Event{Kind: turns.KindMoved, Chain: session, Index: 1}, is: ledger.ErrCorrupt, why: "in the fold of session"},
		"a tree that is another's": {event: turns.Event{Kind: turns.KindOpened, ID: turns.ID{1}, Chain: session, Root: turns.ID{1}, Origin: &turns.Origin{}},
			subject: ledger.SessionSubject("t", turns.ID{7}, turns.ID{1}), is: ledger.ErrCorrupt, why: "it belongs on"},
		"a session of a reserved id": {event: turns.Event{Kind: turns.KindOpened, ID: turns.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
			Chain: turns.SessionChain(turns.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}), Origin: &turns.Origin{}}, is: ledger.ErrCorrupt, why: "reserved"},
		"a fork of what is not there": {event: turns.Event{Kind: turns.KindOpened, ID: turns.ID{1}, Chain: session, Root: turns.ID{1}, Origin: &turns.Origin{},
			ForkOf: &turns.ForkOf{At: turns.Ref{Session: turns.ID{8}, Turn: turns.ID{9}}}}, is: ledger.ErrCorrupt, why: "not stored before it"},
		"a history that fails": {opened: true, event: turns.Event{Kind: turns.KindTurn, ID: turns.ID{2}, Chain: session, Index: 1, Prev: turns.Hash{1}, Depth: 1, Segment: turns.ID{2}, Halves: 1},
			fails: broken, is: broken, why: "disk"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			if tc.opened {
				opened := &turns.Event{Kind: turns.KindOpened, ID: turns.ID{1}, Chain: session, Root: turns.ID{1}, Origin: &turns.Origin{}}
				if _, err := h.admit("t", turns.ID{1}.String(), 1, opened); err != nil {
					t.Fatal(err)
				}
			}
			h.fails = tc.fails
			subject := tc.subject
			if subject == "" {
				key := tc.event.Chain.ID
				if id, ok := tc.event.Chain.Session(); ok {
					key = id.String()
				}
				subject = ledger.Subject("t", key, tc.event.Chain)
			}
			a, err := ledger.Admit(h, subject, 2, turns.Hash{2}, &tc.event)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("error %v, want %v that says %q", err, tc.is, tc.why)
			}
			if ledger.IsRefusal(err) != (tc.fails == nil) {
				t.Errorf("%v: a refusal is %v", err, ledger.IsRefusal(err))
			}
			if !reflect.DeepEqual(a, ledger.Admitted{}) {
				t.Errorf("it leads to %+v", a)
			}
		})
	}
}

// story is a session "a" of two turns, opened by agent "main" of tenant "t", and a
// fork "b" at its first turn with one turn of its own.
type story struct {
	*history
	seq  uint64
	a, b turns.ID
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{history: newHistory(), a: turns.ID{1}, b: turns.ID{2}}
	for _, e := range []*turns.Event{
		{Kind: turns.KindOpened, ID: s.a, Chain: turns.SessionChain(s.a), Root: s.a, Agent: "main", Role: turns.Main, Origin: &turns.Origin{}},
		s.turn(s.a, turns.Ref{}, 1, 11, 11), s.turn(s.a, s.ref(s.a, 11), 2, 12, 11),
		{Kind: turns.KindOpened, ID: s.b, Chain: turns.SessionChain(s.b), Root: s.a, Agent: "main", Origin: &turns.Origin{}, Role: turns.Main, ForkOf: s.forkAt(11)},
		s.turn(s.b, s.ref(s.a, 11), 2, 21, 21),
	} {
		if _, err := s.add(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *story) ref(session turns.ID, n byte) turns.Ref {
	return turns.Ref{Session: session, Turn: turns.ID{n}}
}

// forkAt names a turn of session a with the hash that is stored of it.
func (s *story) forkAt(n byte) *turns.ForkOf {
	at := s.ref(s.a, n)
	return &turns.ForkOf{At: at, Hash: s.hashes[at], Mode: turns.AsSeen}
}

func (s *story) turn(session turns.ID, parent turns.Ref, depth uint64, id, segment byte) *turns.Event {
	return &turns.Event{Kind: turns.KindTurn, ID: turns.ID{id}, Chain: turns.SessionChain(session), Parent: parent, Depth: depth, Segment: turns.ID{segment}, Halves: 1}
}

// add completes e with what follows from the chain's tail, and admits it.
func (s *story) add(e *turns.Event) (ledger.Admitted, error) {
	id, _ := e.Chain.Session()
	if e.Kind != turns.KindOpened {
		fold := s.sessions[id]
		e.Index, e.Prev = fold.Tail.Index+1, fold.Tail.Hash
	}
	if e.ForkOf != nil && e.ForkOf.Hash.IsZero() {
		e.ForkOf.Hash = s.hashes[e.ForkOf.At]
	}
	s.seq++
	return s.admit("t", s.a.String(), s.seq, e)
}

// A head goes to a turn of its own session, or to one that it inherits.
func TestHeadGoesOnlyToATurnOfItsPath(t *testing.T) {
	none := turns.Ref{}
	s := newStory(t)
	for name, c := range map[string]struct {
		session turns.ID
		to      turns.Ref
		why     string // "": it is admitted
	}{
		"a turn of its own":                {s.a, s.ref(s.a, 11), ""},
		"before the first turn":            {s.a, none, ""},
		"a turn that is not stored":        {s.a, s.ref(s.a, 99), "not stored before it"},
		"a turn of a fork":                 {s.a, s.ref(s.b, 21), "not its own"},
		"a fork's own turn":                {s.b, s.ref(s.b, 21), ""},
		"a fork's point":                   {s.b, s.ref(s.a, 11), ""},
		"a turn behind a fork's point":     {s.b, s.ref(s.a, 12), "neither its own"},
		"before what a fork inherits":      {s.b, none, "before what it inherits"},
		"a turn of a fork, not stored":     {s.b, s.ref(s.b, 99), "not stored before it"},
		"an inherited turn, not stored":    {s.b, s.ref(s.a, 99), "not stored before it"},
		"a turn of a session nobody knows": {s.b, s.ref(turns.ID{9}, 11), "not stored before it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			a, err := s.add(&turns.Event{Kind: turns.KindMoved, ID: turns.ID{50}, Chain: turns.SessionChain(c.session), To: c.to})
			if c.why == "" && (err != nil || a.Session.Head != c.to) {
				t.Errorf("head %v, %v", a.Session.Head, err)
			}
			if c.why != "" && (!errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), c.why)) {
				t.Errorf("error %v, want one that says %q", err, c.why)
			}
		})
	}
}

// A fork is of a session of the same tenant, agent, tree and kind, at a turn with
// the hash it says.
func TestForkIsOfTheSameOwnerTreeAndKind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *story, e *turns.Event)
		why    string
	}{
		"as it should be":  {func(*story, *turns.Event) {}, ""},
		"of another agent": {func(_ *story, e *turns.Event) { e.Agent = "other" }, "of another agent"},
		"of another tenant": {func(s *story, _ *turns.Event) {
			fold := s.sessions[s.a]
			fold.Tenant = "u"
			s.sessions[s.a] = fold
		}, "of another agent"},
		"with another hash": {func(_ *story, e *turns.Event) { e.ForkOf.Hash = turns.Hash{9} }, "stored is"},
		"in another tree": {func(s *story, _ *turns.Event) {
			fold := s.sessions[s.a]
			fold.Root = turns.ID{7}
			s.sessions[s.a] = fold
		}, "in the tree of"},
		"a main session of a task": {func(s *story, _ *turns.Event) {
			fold := s.sessions[s.a]
			fold.Kind = turns.Task
			s.sessions[s.a] = fold
		}, "and is of kind"},
		"at a turn that is not stored":    {func(s *story, e *turns.Event) { e.ForkOf.At = s.ref(s.a, 99) }, "not stored before it"},
		"of a session that is not opened": {func(s *story, _ *turns.Event) { delete(s.sessions, s.a) }, "not stored before it"},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := newStory(t), turns.ID{3}
			e := &turns.Event{Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: s.a, Agent: "main", Origin: &turns.Origin{}, Role: turns.Main, ForkOf: s.forkAt(11)}
			c.change(s, e)
			a, err := s.add(e)
			if c.why == "" && (err != nil || a.Session.Head != e.ForkOf.At) {
				t.Errorf("head %v, %v", a.Session.Head, err)
			}
			if c.why != "" && (!errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), c.why)) {
				t.Errorf("error %v, want one that says %q", err, c.why)
			}
		})
	}
}

// A flush is begun in the cycle that the head is in; the first one follows no
// compaction.
func TestFlushBeginsInTheCycleOfTheHead(t *testing.T) {
	for name, c := range map[string]struct {
		flush turns.Flush
		ok    bool
	}{
		"the first cycle": {flush: turns.Flush{State: turns.FlushBegun, Cycle: 1, Try: 1}, ok: true},
		"the next cycle":  {flush: turns.Flush{State: turns.FlushBegun, Cycle: 2, Try: 1}},
		"after a turn":    {flush: turns.Flush{State: turns.FlushBegun, Cycle: 1, Try: 1, After: turns.Ref{Session: turns.ID{1}, Turn: turns.ID{11}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			_, err := s.add(&turns.Event{Kind: turns.KindFlush, ID: turns.ID{60}, Chain: turns.SessionChain(s.a), Flush: &c.flush})
			if (err == nil) != c.ok || err != nil && !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("error %v", err)
			}
		})
	}
	empty, id := newHistory(), turns.ID{1}
	for i, e := range []*turns.Event{
		{Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: "main", Origin: &turns.Origin{}},
		{Kind: turns.KindFlush, ID: turns.ID{2}, Chain: turns.SessionChain(id), Index: 1, Prev: turns.Hash{1}, Flush: &turns.Flush{State: turns.FlushBegun, Cycle: 1, Try: 1}},
	} {
		if _, err := empty.admit("t", id.String(), uint64(i+1), e); err != nil {
			t.Errorf("a flush of a session without a turn: %v", err)
		}
	}
}

// An id names one event of a session.
func TestAnEventIdIsUsedOnce(t *testing.T) {
	s := newStory(t)
	if _, err := s.add(s.turn(s.a, s.ref(s.a, 12), 3, 11, 11)); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "two events with the id") {
		t.Errorf("a second turn of the same id: %v", err)
	}
}

// stored is the event that stores a policy at index of a tenant's chain.
func stored(index, prev byte, agent string, p turns.StoredPolicy) *turns.Event {
	e := &turns.Event{Kind: turns.KindPolicy, ID: turns.ID{15: index + 1}, Chain: turns.Chain{Entity: turns.TenantEntity, ID: "t"},
		Index: uint64(index), Agent: agent, Policy: &p, Body: []byte("x"), Commitment: turns.Hash{1}}
	if index > 0 {
		e.Prev = turns.Hash{prev}
	}
	return e
}

// A tenant's chain takes contents in order, and versions of a name from one agent,
// counting up by one.
func TestAdmitPolicies(t *testing.T) {
	digest, name, other := turns.Hash{1}, turns.Hash{2}, turns.Hash{3}
	h := newHistory()
	for i, e := range []*turns.Event{
		stored(0, 0, "", turns.StoredPolicy{Digest: digest}),
		stored(1, 1, "a", turns.StoredPolicy{Digest: digest, Name: name, Version: 1}),
		stored(2, 2, "b", turns.StoredPolicy{Digest: digest, Name: other, Version: 1}),
		stored(3, 3, "a", turns.StoredPolicy{Digest: digest, Name: name, Version: 2}),
	} {
		if _, err := h.admit("t", "t", uint64(i+1), e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if want := (ledger.PolicyName{Agent: "a", Version: 2, Seq: 4}); h.names[name] != want || h.policies["t"].Stored != 4 {
		t.Fatalf("%+v, %+v; want %+v", h.names[name], h.policies["t"], want)
	}
	large := stored(4, 4, "", turns.StoredPolicy{Digest: digest})
	large.Body = make([]byte, ledger.MaxPolicyBody+1)
	bare := stored(4, 4, "", turns.StoredPolicy{Digest: digest})
	bare.Body = nil
	elsewhere := stored(4, 4, "", turns.StoredPolicy{Digest: digest})
	elsewhere.Chain.ID = "u"
	for why, e := range map[string]*turns.Event{
		"has index 3":              stored(3, 4, "", turns.StoredPolicy{Digest: digest}),
		"has index 5":              stored(5, 4, "", turns.StoredPolicy{Digest: digest}),
		"the tail is":              stored(4, 3, "", turns.StoredPolicy{Digest: digest}),
		"no digest":                stored(4, 4, "", turns.StoredPolicy{}),
		"of a policy of agent a":   stored(4, 4, "b", turns.StoredPolicy{Digest: digest, Name: name, Version: 3}),
		"puts version 4":           stored(4, 4, "a", turns.StoredPolicy{Digest: digest, Name: name, Version: 4}),
		"puts version 2":           stored(4, 4, "a", turns.StoredPolicy{Digest: digest, Name: name, Version: 2}),
		"a body of 0 bytes":        bare,
		"the limit is":             large,
		"is on subject":            elsewhere,
		"kind moved on a tenant's": {Kind: turns.KindMoved, Chain: turns.Chain{Entity: turns.TenantEntity, ID: "t"}, Index: 4, Prev: turns.Hash{4}},
	} {
		key := e.Chain.ID
		if _, err := h.admit("t", key, 5, e); !ledger.IsRefusal(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want a refusal that says %q", err, why)
		}
	}
	if _, err := h.admit("t", "x", 5, stored(4, 4, "", turns.StoredPolicy{Digest: digest})); !ledger.IsRefusal(err) {
		t.Errorf("in another shard: %v", err)
	}
}
