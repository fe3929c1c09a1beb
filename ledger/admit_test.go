package ledger_test

import (
	"errors"
	"fmt"
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
	hashes   map[turns.Ref]turns.Hash
	fails    error // of every look-up of an event
}

func (h *history) Session(id turns.ID) (ledger.Session, error) {
	if s, ok := h.sessions[id]; ok {
		return s, nil
	}
	return ledger.Session{}, fmt.Errorf("%w: session %s", ledger.ErrNotFound, id)
}

func (h *history) Label(tenant, id string) (ledger.Label, error) { return h.labels[tenant+"/"+id], nil }

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
	h.sessions[a.Session.ID] = a.Session
	if e.Kind.IsTurn() {
		h.hashes[e.Ref()] = hash
		return a, h.Add(a.Node)
	}
	return a, nil
}

func newHistory() *history {
	return &history{Forest: new(lineage.Forest), sessions: map[turns.ID]ledger.Session{}, labels: map[string]ledger.Label{}, hashes: map[turns.Ref]turns.Hash{}}
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

// A refusal is told from a history that cannot be read, and leads to no state.
func TestAdmitRefuses(t *testing.T) {
	label := turns.Chain{Entity: turns.LabelEntity, ID: "x"}
	session := turns.SessionChain(turns.ID{1})
	broken := errors.New("the disk is gone")
	for name, tc := range map[string]struct {
		subject string // "": that of the event's chain
		event   turns.Event
		fails   error
		is      error // a refusal, or what the history said
		why     string
	}{
		"a subject of no chain":         {subject: "agents.zz", is: ledger.ErrMalformed, why: "subject"},
		"another chain's subject":       {event: turns.Event{Chain: label}, subject: ledger.Subject("t", "y", turns.Chain{Entity: turns.LabelEntity, ID: "y"}), is: ledger.ErrCorrupt, why: "on subject"},
		"a chain of another kind":       {event: turns.Event{Chain: turns.Chain{Entity: turns.ChannelEntity, ID: "x"}}, is: ledger.ErrUnsupported, why: "a chain of"},
		"a label in another shard":      {event: turns.Event{Kind: turns.KindClaimed, Chain: label}, subject: ledger.Subject("t", "y", label), is: ledger.ErrCorrupt, why: "is on subject"},
		"a first claim that is not":     {event: turns.Event{Kind: turns.KindClaimed, Chain: label, Index: 1}, is: ledger.ErrCorrupt, why: "index 1"},
		"a label's chain without claim": {event: turns.Event{Kind: turns.KindMoved, Chain: label}, is: ledger.ErrUnsupported, why: "on a label's chain"},
		"a session that is no id":       {event: turns.Event{Kind: turns.KindOpened, Chain: turns.Chain{Entity: turns.SessionEntity, ID: "x"}}, is: ledger.ErrCorrupt, why: "no session's"},
		"an event before the first":     {event: turns.Event{Kind: turns.KindMoved, Chain: session, Index: 1}, is: ledger.ErrCorrupt, why: "in the fold of session"},
		"a tree that is another's": {event: turns.Event{Kind: turns.KindOpened, ID: turns.ID{1}, Chain: session, Root: turns.ID{1}, Origin: &turns.Origin{}},
			subject: ledger.SessionSubject("t", turns.ID{7}, turns.ID{1}), is: ledger.ErrCorrupt, why: "it belongs on"},
		"a fork of what is not there": {event: turns.Event{Kind: turns.KindOpened, ID: turns.ID{1}, Chain: session, Root: turns.ID{1}, Origin: &turns.Origin{},
			ForkOf: &turns.ForkOf{At: turns.Ref{Session: turns.ID{8}, Turn: turns.ID{9}}}}, is: ledger.ErrCorrupt, why: "not stored before it"},
		"a history that fails": {event: turns.Event{Kind: turns.KindOpened, ID: turns.ID{1}, Chain: session, Root: turns.ID{1}, Origin: &turns.Origin{}},
			fails: broken, is: broken, why: "disk"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			h.fails = tc.fails
			subject := tc.subject
			if subject == "" {
				key := tc.event.Chain.ID
				if id, ok := tc.event.Chain.Session(); ok {
					key = id.String()
				}
				subject = ledger.Subject("t", key, tc.event.Chain)
			}
			a, err := ledger.Admit(h, subject, 1, turns.Hash{1}, &tc.event)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("error %v, want %v that says %q", err, tc.is, tc.why)
			}
			if ledger.IsRefusal(err) != (tc.fails == nil) {
				t.Errorf("%v: a refusal is %v", err, ledger.IsRefusal(err))
			}
			if a != (ledger.Admitted{}) {
				t.Errorf("it leads to %+v", a)
			}
		})
	}
}
