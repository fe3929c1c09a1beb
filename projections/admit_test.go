package projections

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Each event that reaches for what is not its session's own, or breaks its chain,
// sets its chain aside: none of it is in a row, its bytes are kept, and every other
// chain goes on. The same code refuses such an event before it is imported.
func TestAnEventThatBreaksARuleSetsItsChainAside(t *testing.T) {
	for name, tc := range map[string]struct {
		event func(a *author, own, other *session) *turns.Event
		why   string // "": it is admitted
	}{
		"a head to its own turn": {event: func(a *author, own, _ *session) *turns.Event {
			return &turns.Event{Kind: turns.KindMoved, To: own.turns[0]}
		}},
		"a head to before the first": {event: func(*author, *session, *session) *turns.Event {
			return &turns.Event{Kind: turns.KindMoved}
		}},
		"a head to another session's turn": {why: "not its own", event: func(_ *author, _, other *session) *turns.Event {
			return &turns.Event{Kind: turns.KindMoved, To: other.turns[0]}
		}},
		"a head to no turn": {why: "not stored", event: func(a *author, own, _ *session) *turns.Event {
			return &turns.Event{Kind: turns.KindMoved, To: turns.Ref{Session: own.ID, Turn: a.id()}}
		}},
		"an id that is used": {why: "two events with the id", event: func(_ *author, own, _ *session) *turns.Event {
			return &turns.Event{Kind: turns.KindMoved, ID: own.turns[0].Turn, To: own.turns[0]}
		}},
		"a depth of its own": {why: "depth", event: func(a *author, own, _ *session) *turns.Event {
			return &turns.Event{Kind: turns.KindTurn, Parent: own.Head, Depth: 9, Segment: own.Segment, Halves: 1}
		}},
		"an elision in another session's turn": {why: "not on its path", event: func(_ *author, own, other *session) *turns.Event {
			return &turns.Event{Kind: turns.KindCompaction, Parent: own.Head, Depth: 3, Segment: own.Segment, Span: &turns.Span{
				Provenance: turns.ByNexus, Elisions: []turns.Elision{{Turn: other.turns[0], Half: turns.MessagesHalf}}}}
		}},
		"an elision of its own": {event: func(_ *author, own, _ *session) *turns.Event {
			return &turns.Event{Kind: turns.KindCompaction, Parent: own.Head, Depth: 3, Segment: own.Segment, Span: &turns.Span{
				Provenance: turns.ByNexus, Elisions: []turns.Elision{{Turn: own.turns[0], Half: turns.MessagesHalf}}}}
		}},
		"an elision twice": {why: "out of order or there twice", event: func(_ *author, own, _ *session) *turns.Event {
			el := turns.Elision{Turn: own.turns[1], Half: turns.MessagesHalf}
			return &turns.Event{Kind: turns.KindCompaction, Parent: own.Head, Depth: 3, Segment: own.Segment, Span: &turns.Span{
				Provenance: turns.ByNexus, Elisions: []turns.Elision{el, el}}}
		}},
		"a flush of the first cycle": {event: func(*author, *session, *session) *turns.Event {
			return &turns.Event{Kind: turns.KindFlush, Flush: &turns.Flush{State: turns.FlushBegun, Cycle: 1, Try: 1, Lease: 1}}
		}},
		"a flush of a cycle to come": {why: "in cycle 1", event: func(_ *author, own, _ *session) *turns.Event {
			return &turns.Event{Kind: turns.KindFlush, Flush: &turns.Flush{State: turns.FlushBegun, Cycle: 2, After: own.turns[0], Try: 1, Lease: 1}}
		}},
		"the end of a flush that was not begun": {why: "follows flush(0)", event: func(*author, *session, *session) *turns.Event {
			return &turns.Event{Kind: turns.KindFlush, Flush: &turns.Flush{State: turns.FlushDone, Cycle: 1, Try: 1}}
		}},
		"elisions out of order": {why: "out of order", event: func(_ *author, own, _ *session) *turns.Event {
			return &turns.Event{Kind: turns.KindCompaction, Parent: own.Head, Depth: 3, Segment: own.Segment, Span: &turns.Span{
				Provenance: turns.ByNexus, Elisions: []turns.Elision{{Turn: own.turns[1], Half: turns.MessagesHalf}, {Turn: own.turns[0], Half: turns.MessagesHalf}}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthor(t, 1)
			own, other := a.open(nil), a.open(nil)
			for _, s := range []*session{own, own, other, other} {
				a.turn(s)
			}
			e := tc.event(a, own, other)
			if e.ID.IsZero() {
				e.ID = a.id()
			}
			e.Chain, e.Index, e.Prev = turns.SessionChain(own.ID), own.Tail.Index+1, own.Tail.Hash
			a.admits(own.Subject(), own.Tail.Seq, e, tc.why)
		})
	}
}

// What a session opens with is held to the same.
func TestAnOpenedEventThatBreaksARuleSetsItsChainAside(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(e *turns.Event, of, other *session)
		tenant string // "": that of all
		why    string
	}{
		"a fork":                       {change: func(*turns.Event, *session, *session) {}},
		"a fork of another agent":      {why: "of another agent", change: func(e *turns.Event, _, _ *session) { e.Agent = "other" }},
		"a fork of another tenant":     {why: "of another agent", tenant: "other", change: func(*turns.Event, *session, *session) {}},
		"a fork with another hash":     {why: "with hash", change: func(e *turns.Event, _, _ *session) { e.ForkOf.Hash = turns.Hash{1} }},
		"a fork in another tree":       {why: "in the tree of", change: func(e *turns.Event, _, other *session) { e.Root = other.ID }},
		"a fork of a wider kind":       {why: "of kind", change: func(e *turns.Event, _, _ *session) { e.Role = turns.Main }},
		"a fork of no turn":            {why: "not stored", change: func(e *turns.Event, of, _ *session) { e.ForkOf.At.Turn = of.ID }},
		"a session that is there":      {why: "second time", change: func(e *turns.Event, of, _ *session) { *e = *again(e, of.ID) }},
		"one that is there, as a fork": {why: "taken", change: func(e *turns.Event, _, other *session) { e.ID = other.ID }},
		"one that is another tenant's": {why: "taken", tenant: "other", change: func(e *turns.Event, of, _ *session) { *e = *again(e, of.ID) }},
		"a root of the session's own":  {change: func(e *turns.Event, _, _ *session) { *e = *again(e, e.ID) }},
		"a root on a fork's own branch": {why: "in the tree of", change: func(e *turns.Event, of, other *session) {
			e.ForkOf.At, e.ForkOf.Hash = other.turns[0], other.hash[other.turns[0]]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthor(t, 2)
			of, other := a.open(nil), a.open(nil)
			// Two trees in different shards, as it mostly is.
			for other.Subject()[:12] == of.Subject()[:12] {
				other = a.open(nil)
			}
			a.turn(of)
			a.turn(other)
			id := a.id()
			e := &turns.Event{Kind: turns.KindOpened, ID: id, Root: of.Root, Agent: "main",
				ForkOf: &turns.ForkOf{At: of.Head, Hash: of.hash[of.Head], Mode: turns.AsSeen}}
			tc.change(e, of, other)
			tenant := "default"
			if tc.tenant != "" {
				tenant = tc.tenant
			}
			e.Chain = turns.SessionChain(e.ID)
			e.Origin = &turns.Origin{Ledger: [16]byte{1}, Tenant: tenant, Session: e.ID}
			expect := uint64(0)
			subject := ledger.SessionSubject(tenant, e.Root, e.ID)
			if r, err := a.log.Last(t.Context(), subject); err == nil {
				expect = r.Seq
			}
			a.admits(subject, expect, e, tc.why)
		})
	}
}

// again returns the opening of a root session of this id.
func again(e *turns.Event, id turns.ID) *turns.Event {
	return &turns.Event{Kind: e.Kind, ID: id, Root: id, Agent: e.Agent}
}

// admits puts e on the log and checks what the projections make of it.
func (a *author) admits(subject string, expect uint64, e *turns.Event, why string) {
	a.t.Helper()
	e.Version, e.Recorded = turns.Version, 1
	payload, err := e.Encode()
	if err != nil {
		a.t.Fatal(err)
	}
	before := openStore(a.t, vfs.NewMem())
	defer before.Close()
	run(a.t, before, a.log, last(a.t, a.log))
	_, refused := ledger.Admit(before.History(), subject, last(a.t, a.log)+1, turns.HashEvent(payload), e)
	n := 0
	for range db.Scan(before.db(), rows.EventIDs.Key(), rows.Records.Key()) { // any row but those of the tree, and the events' own
		n++
	}

	seq, err := a.log.Append(a.t.Context(), subject, expect, payload)
	if err != nil {
		a.t.Fatal(err)
	}
	s := openStore(a.t, vfs.NewMem())
	defer s.Close()
	run(a.t, s, a.log, seq)
	got, err := s.WhyAside(subject)
	aside := why
	if errors.Is(refused, ledger.ErrDuplicateOpening) { // it opens nothing, and there is no chain to set aside
		if aside = ""; why == "" || got != "" || !strings.Contains(refused.Error(), why) {
			a.t.Errorf("refused: %v; want %q", refused, why)
		}
		got = refused.Error()
	} else if err != nil || (got == "") != (why == "") || !strings.Contains(got, why) {
		a.t.Errorf("aside: %q, %v; want %q", got, err, why)
	}
	if (refused == nil) != (why == "") || refused != nil && refused.Error() != got {
		a.t.Errorf("before it was stored: %v; after: %q", refused, got)
	}
	if n := s.SetAside(); (n == 1) != (aside != "") {
		a.t.Errorf("%d chains are aside", n)
	}
	if why != "" {
		for range db.Scan(s.db(), rows.EventIDs.Key(), rows.Records.Key()) {
			n--
		}
		if n != 0 {
			a.t.Errorf("%d rows were made of it", -n)
		}
	}
	if r, err := s.Record(seq); err != nil || r.Subject != subject || r.Hash != turns.HashEvent(payload) {
		a.t.Errorf("its copy: %+v, %v", r, err)
	}
	good := a.open(nil)
	a.turn(good)
	run(a.t, s, a.log, last(a.t, a.log))
	if row, err := s.Session(good.ID); err != nil || row.Turns != 1 {
		a.t.Errorf("another session: %+v, %v", row, err)
	}
	for _, other := range a.all {
		if other.Subject() == subject {
			continue
		}
		if row, err := s.Session(other.ID); err != nil || row.Tail != other.Tail {
			a.t.Errorf("session %s: %+v, %v", other.ID, row.Tail, err)
		}
		if why, err := s.WhyAside(other.Subject()); err != nil || why != "" {
			a.t.Errorf("session %s is aside: %q, %v", other.ID, why, err)
		}
	}
}
