package engine_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/tokens"
)

// defects is a session with an own turn, a compaction and turns behind it, a fork
// of it, and a session of the same agent next to both.
type defects struct {
	w           *world
	e           *Engine
	log         *bytes.Buffer
	owner       turns.ID
	turns       []turns.Ref // of own; the third is a compaction of the first
	fork        turns.ID    // at the first turn of own
	other       turns.ID
	otherTurn   turns.Ref
	branchPoint turns.Ref
}

func newDefects(t *testing.T) *defects {
	d := &defects{w: newWorld(), log: new(bytes.Buffer)}
	d.e = d.w.Engine(t)
	d.e.Writer.Logger = slog.New(slog.NewTextHandler(d.log, nil))
	d.owner = create(t, d.e, 0, "nexus").ID
	for range 2 {
		d.turns = append(d.turns, turns.Ref{Session: d.owner, Turn: add(t, d.e, d.owner, say("question", "answer")).ID})
	}
	d.fork = must(d.e.Forks.Fork(t.Context(), alice, d.owner, api.CreateFork{Turn: d.turns[0].Turn}, []byte("{}")))(t).ID
	d.branchPoint = turns.Ref{Session: d.fork, Turn: add(t, d.e, d.fork, say("on the fork", "answer")).ID}
	err := d.draft(t, d.owner, func(s *ledger.Session) *writer.Draft {
		return compactionOf(t, s, &turns.Span{Provenance: turns.ByNexus, Through: d.turns[0], FirstKept: d.turns[1], Covered: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
	row := must(d.e.Reader.Projections.Session(d.owner))(t)
	d.turns = append(d.turns, row.Head)
	d.turns = append(d.turns, turns.Ref{Session: d.owner, Turn: add(t, d.e, d.owner, say("more", "answer")).ID})
	d.other = create(t, d.e, 0, "nexus").ID
	d.otherTurn = turns.Ref{Session: d.other, Turn: add(t, d.e, d.other, say("elsewhere", "answer")).ID}
	d.settle(t)
	return d
}

// draft stores a draft of an event behind a session's tail, as the engine does.
func (d *defects) draft(t *testing.T, session turns.ID, draw func(s *ledger.Session) *writer.Draft) error {
	t.Helper()
	err := d.e.Writer.Mutate(t.Context(), alice, session, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) { return draw(s), nil })
	if err == nil {
		d.settle(t)
	}
	return err
}

// settle waits until the projections have the whole log.
func (d *defects) settle(t *testing.T) {
	t.Helper()
	if err := d.e.Reader.Projections.WaitFor(t.Context(), lastSeq(t, d.w)); err != nil {
		t.Fatal(err)
	}
}

// refused checks that err is the answer to a defect, that nothing is stored, and
// that the daemon's log has the reason under the id of the event.
func (d *defects) refused(t *testing.T, err error, before uint64, ev *turns.Event, why string) {
	t.Helper()
	if code(err) != api.Internal || !strings.Contains(err.Error(), ev.ID.String()) {
		t.Errorf("the answer is %v, want an internal error that names event %s", err, ev.ID)
	}
	if now := lastSeq(t, d.w); now != before {
		t.Errorf("%d records were stored", now-before)
	}
	found := false
	for line := range strings.Lines(d.log.String()) {
		found = found || strings.Contains(line, ev.ID.String()) && strings.Contains(line, why)
	}
	if !found {
		t.Errorf("the log has no reason %q for event %s:\n%s", why, ev.ID, d.log)
	}
}

// aside puts the event on the log past every check, and checks that the
// projections refuse what the engine refused.
func (d *defects) aside(t *testing.T, subject string, ev *turns.Event, why string) {
	t.Helper()
	raw(t, d.w, d.e, subject, ev)
	got, err := d.e.Reader.Projections.WhyAside(subject)
	if err != nil || got == "" || !strings.Contains(got, why) {
		t.Errorf("set aside because of %q, %v; want %q", got, err, why)
	}
}

func turnOf(t *testing.T, s *ledger.Session, depth uint64) *writer.Draft {
	id := newID(t)
	return &writer.Draft{Body: oneTurn(), Event: &turns.Event{Kind: turns.KindTurn, ID: id, Parent: s.Head, Depth: depth, Segment: s.SegmentFor(id, s.Head), Halves: 1,
		UserTexts: 1, Tokens: turns.Tokens{Counter: "approx-1", Messages: 1}}}
}

func compactionOf(t *testing.T, s *ledger.Session, span *turns.Span) *writer.Draft {
	d := turnOf(t, s, 0)
	d.Event.Depth = map[bool]uint64{true: 3, false: 5}[s.Compactions == 0]
	d.Event.Kind, d.Event.Halves, d.Event.UserTexts, d.Event.Span = turns.KindCompaction, 0, 0, span
	replacement := []turns.Message{turns.TextMessage(turns.User, "before")}
	d.Event.Tokens = turns.Tokens{Counter: "approx-1", Messages: tokens.Messages(tokens.Approx{}, replacement)}
	d.Body = &turns.CompactionBody{Replacement: replacement}
	return d
}

// A defect of the engine refuses its request with an internal error and stores
// nothing: it does not set the session aside. What is refused is what the
// projections would refuse.
func TestBadEventIsRefusedBeforeAppend(t *testing.T) {
	moved := func(to turns.Ref) *writer.Draft {
		return &writer.Draft{Event: &turns.Event{Kind: turns.KindMoved, To: to}}
	}
	flush := func(f turns.Flush) *writer.Draft {
		return &writer.Draft{Event: &turns.Event{Kind: turns.KindFlush, Flush: &f}}
	}
	turn := func(change func(d *defects, ev *turns.Event)) func(*testing.T, *defects, *ledger.Session) *writer.Draft {
		return func(t *testing.T, d *defects, s *ledger.Session) *writer.Draft {
			dr := turnOf(t, s, 5)
			change(d, dr.Event)
			return dr
		}
	}
	span := func(change func(d *defects, sp *turns.Span)) func(*testing.T, *defects, *ledger.Session) *writer.Draft {
		return func(t *testing.T, d *defects, s *ledger.Session) *writer.Draft {
			sp := &turns.Span{Provenance: turns.ByNexus, Previous: d.turns[2], Through: d.turns[1], FirstKept: d.turns[3], Covered: 1}
			change(d, sp)
			return compactionOf(t, s, sp)
		}
	}
	for name, tc := range map[string]struct {
		on    func(d *defects) turns.ID // nil: own
		draft func(t *testing.T, d *defects, s *ledger.Session) *writer.Draft
		why   string
	}{
		"a turn beside the head":      {why: "the head is", draft: turn(func(d *defects, ev *turns.Event) { ev.Parent, ev.Depth = d.turns[1], 3 })},
		"a turn of another's segment": {why: "belongs in", draft: turn(func(_ *defects, ev *turns.Event) { ev.Segment = ev.ID })},
		"a turn at another depth":     {why: "depth 7 below a parent at depth 4", draft: turn(func(_ *defects, ev *turns.Event) { ev.Depth = 7 })},
		"an id that is used":          {why: "two events with the id", draft: turn(func(d *defects, ev *turns.Event) { ev.ID = d.turns[0].Turn })},
		"a head to no turn": {why: "not stored", draft: func(t *testing.T, d *defects, _ *ledger.Session) *writer.Draft {
			return moved(turns.Ref{Session: d.owner, Turn: newID(t)})
		}},
		"a head to another session":    {why: "not its own", draft: func(_ *testing.T, d *defects, _ *ledger.Session) *writer.Draft { return moved(d.otherTurn) }},
		"a fork's head beside its way": {why: "neither its own nor on the path", on: func(d *defects) turns.ID { return d.fork }, draft: func(_ *testing.T, d *defects, _ *ledger.Session) *writer.Draft { return moved(d.turns[1]) }},
		"a fork's head before all":     {why: "before what it inherits", on: func(d *defects) turns.ID { return d.fork }, draft: func(*testing.T, *defects, *ledger.Session) *writer.Draft { return moved(turns.Ref{}) }},
		"a flush of another cycle": {why: "is in cycle 2", draft: func(*testing.T, *defects, *ledger.Session) *writer.Draft {
			return flush(turns.Flush{State: turns.FlushBegun, Cycle: 1, Try: 1, Lease: 1})
		}},
		"a flush that ends unbegun": {why: "follows flush(0)", draft: func(_ *testing.T, d *defects, _ *ledger.Session) *writer.Draft {
			return flush(turns.Flush{State: turns.FlushDone, Cycle: 2, After: d.turns[2], Try: 1})
		}},
		"a second try at once": {why: "try 2", draft: func(_ *testing.T, d *defects, _ *ledger.Session) *writer.Draft {
			return flush(turns.Flush{State: turns.FlushBegun, Cycle: 2, After: d.turns[2], Try: 2, Lease: 1})
		}},
		"a compaction that forgets the last": {why: "follows compaction none", draft: span(func(_ *defects, sp *turns.Span) { sp.Previous = turns.Ref{} })},
		"a compaction that leaves a gap":     {why: "last turn before its cut", draft: span(func(d *defects, sp *turns.Span) { sp.Through = d.turns[0] })},
		"a compaction that keeps again":      {why: "can't be kept again", draft: span(func(d *defects, sp *turns.Span) { sp.Through, sp.FirstKept, sp.Covered = turns.Ref{}, d.turns[0], 0 })},
		"a compaction of another session":    {why: "not on its path", draft: span(func(d *defects, sp *turns.Span) { sp.FirstKept = d.otherTurn })},
		"a compaction from a compaction on":  {why: "not a normal turn", draft: span(func(d *defects, sp *turns.Span) { sp.FirstKept = d.turns[2] })},
		"a compaction that covers for one call": {why: "one call only", draft: span(func(_ *defects, sp *turns.Span) {
			sp.Call, sp.Through, sp.Covered = true, turns.Ref{}, 0
		})},
		"an elision of another session's part": {why: "not on its path", draft: span(func(d *defects, sp *turns.Span) {
			sp.Elisions = []turns.Elision{{Turn: d.otherTurn, Half: turns.MessagesHalf}}
		})},
		"an elision of what it covers": {why: "which it covers", draft: span(func(d *defects, sp *turns.Span) {
			sp.Elisions = []turns.Elision{{Turn: d.turns[1], Half: turns.MessagesHalf}}
		})},
		"an event behind the end": {why: "follows its end", on: func(d *defects) turns.ID { return d.other }, draft: func(t *testing.T, d *defects, s *ledger.Session) *writer.Draft {
			if s.State != turns.Closed {
				return &writer.Draft{Event: &turns.Event{Kind: turns.KindState, ID: newID(t), State: turns.Closed}}
			}
			return moved(d.otherTurn)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDefects(t)
			session := d.owner
			if tc.on != nil {
				session = tc.on(d)
			}
			if name == "an event behind the end" {
				if err := d.draft(t, session, func(s *ledger.Session) *writer.Draft { return tc.draft(t, d, s) }); err != nil {
					t.Fatal(err)
				}
			}
			before := lastSeq(t, d.w)
			var ev *turns.Event
			err := d.draft(t, session, func(s *ledger.Session) *writer.Draft {
				dr := tc.draft(t, d, s)
				if ev = dr.Event; ev.ID.IsZero() {
					ev.ID = newID(t)
				}
				return dr
			})
			d.refused(t, err, before, ev, tc.why)
			row := must(d.e.Reader.Projections.Session(session))(t)
			if !row.Final() {
				add(t, d.e, session, say("it goes on", "yes")) // the session is as it was
				d.settle(t)
			}
			if n := d.e.Reader.Projections.SetAside(); n != 0 {
				t.Fatalf("%d chains are set aside", n)
			}
			if row.Final() {
				verified(t, d.e)
			}
		})
		t.Run("projections refuse "+name, func(t *testing.T) {
			d := newDefects(t)
			session := d.owner
			if tc.on != nil {
				session = tc.on(d)
			}
			if name == "an event behind the end" {
				if err := d.draft(t, session, func(s *ledger.Session) *writer.Draft { return tc.draft(t, d, s) }); err != nil {
					t.Fatal(err)
				}
			}
			row := must(d.e.Reader.Projections.Session(session))(t)
			dr := tc.draft(t, d, &row)
			ev := dr.Event
			if ev.ID.IsZero() {
				ev.ID = newID(t)
			}
			ev.Version, ev.Chain, ev.Recorded = turns.Version, turns.SessionChain(row.ID), 1
			ev.Index, ev.Prev = row.Tail.Index+1, row.Tail.Hash
			d.aside(t, row.Subject(), ev, tc.why)
		})
	}
}

// An opening that the engine must not make is refused before its label is
// claimed, and leaves the id free.
func TestBadOpeningIsRefusedBeforeAppend(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(d *defects, ev *turns.Event)
		why    string
	}{
		"a fork with another hash":   {func(_ *defects, ev *turns.Event) { ev.ForkOf.Hash = turns.Hash{1} }, "with hash"},
		"a fork in another tree":     {func(d *defects, ev *turns.Event) { ev.Root = d.other }, "in the tree of"},
		"a fork of another agent":    {func(_ *defects, ev *turns.Event) { ev.Agent = "bob" }, "of another agent"},
		"a fork of a wider kind":     {func(_ *defects, ev *turns.Event) { ev.Role = turns.Main }, "of kind"},
		"a fork of no turn":          {func(d *defects, ev *turns.Event) { ev.ForkOf.At.Turn = d.owner }, "not stored"},
		"a root of a tree elsewhere": {func(d *defects, ev *turns.Event) { ev.ForkOf.At = d.otherTurn }, "with hash"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDefects(t)
			at := must(d.e.Reader.Projections.Turn(d.turns[0]))(t)
			id := newID(t)
			opening := func() *turns.Event {
				return &turns.Event{ID: id, Kind: turns.KindOpened, Root: d.owner, Agent: "alice", Role: turns.Peer,
					ForkOf: &turns.ForkOf{At: d.turns[0], Hash: at.Hash, Mode: turns.AsSeen}, Origin: &turns.Origin{Ledger: d.w.ID, Tenant: "default", Session: id}}
			}
			ev := opening()
			tc.change(d, ev)
			row := must(d.e.Reader.Projections.Session(d.owner))(t)
			_, _, set, err := d.e.Reader.StoredSettings(&row)
			if err != nil {
				t.Fatal(err)
			}
			before := lastSeq(t, d.w)
			r := writer.Request{ID: id, Verb: "fork.create", Canonical: []byte("{}")}
			_, err = d.e.Sessions.OpenSession(t.Context(), alice, r, ev, "a-label", set)
			d.refused(t, err, before, ev, tc.why)
			if _, err := d.e.Sessions.OpenSession(t.Context(), alice, r, opening(), "a-label", set); err != nil {
				t.Errorf("the same id, as it should be: %v", err)
			}
			verified(t, d.e)

			d = newDefects(t)
			at = must(d.e.Reader.Projections.Turn(d.turns[0]))(t)
			ev = opening()
			tc.change(d, ev)
			ev.Version, ev.Recorded, ev.Chain = turns.Version, 1, turns.SessionChain(id)
			d.aside(t, ledger.SessionSubject("default", ev.Root, id), ev, tc.why)
		})
	}
}

// A claim that does not follow the label's chain is refused before it is stored.
func TestBadClaimIsRefusedBeforeAppend(t *testing.T) {
	d := newDefects(t)
	l, release, err := d.e.Sessions.HoldLabel(t.Context(), alice, "a-label", d.owner)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := l.Claim(t.Context(), d.owner); err != nil {
		t.Fatal(err)
	}
	d.settle(t)
	row := must(d.e.Reader.Projections.Label("default", l.Chain.ID))(t)
	for name, change := range map[string]func(){
		"an ordinal that is not next": func() { l.Row.Tail.Index++ },
		"another hash before":         func() { l.Row.Tail.Hash = turns.Hash{1} },
		"another chain's subject":     func() { l.Subject = ledger.Subject("default", "x", l.Chain) },
	} {
		l.Row, l.Subject = row, ledger.Subject("default", l.Chain.ID, l.Chain)
		change()
		if l.Subject != ledger.Subject("default", l.Chain.ID, l.Chain) {
			l.Row.Tail.Seq = 0
		}
		before := lastSeq(t, d.w)
		if err := l.Claim(t.Context(), d.owner); code(err) != api.Internal {
			t.Errorf("%s: %v, want an internal error", name, err)
		}
		if now := lastSeq(t, d.w); now != before {
			t.Errorf("%s: %d records were stored", name, now-before)
		}
	}
	if l.Row, l.Subject = row, ledger.Subject("default", l.Chain.ID, l.Chain); l.Claim(t.Context(), d.other) != nil {
		t.Error("the label takes no claim any more")
	}
	verified(t, d.e)
}

// The engine writes to the log in one place, which stores only what was admitted.
func TestTheEngineAppendsInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") && bytes.Contains(b, []byte("Log.Append(")) {
			found = append(found, fmt.Sprint(name, " ", bytes.Count(b, []byte("Log.Append("))))
		}
	}
	if !slices.Equal(found, []string{"writer/admit.go 1"}) {
		t.Errorf("the log is appended to by %v", found)
	}
}

// Whatever header the engine drafts, no chain is set aside: the event is stored
// and applied, or refused and not stored.
func TestNoDraftSetsAChainAside(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	d := newDefects(t)
	stored, refused := 0, 0
	for range 400 {
		session := []turns.ID{d.owner, d.fork, d.other}[rng.IntN(3)]
		refs := append([]turns.Ref{{}, {Session: session, Turn: newID(t)}, d.otherTurn, d.branchPoint}, d.turns...)
		ref := func() turns.Ref { return refs[rng.IntN(len(refs))] }
		var ev *turns.Event
		before := lastSeq(t, d.w)
		err := d.draft(t, session, func(s *ledger.Session) *writer.Draft {
			head := must(d.e.Reader.HeadNode(s))(t)
			dr := turnOf(t, s, head.Depth+1)
			switch rng.IntN(4) {
			case 0:
				dr = &writer.Draft{Event: &turns.Event{Kind: turns.KindMoved, To: ref()}}
			case 1:
				dr = compactionOf(t, s, &turns.Span{Provenance: turns.ByNexus, Previous: head.Compaction, Through: ref(), FirstKept: ref(), Split: rng.IntN(4) == 0, Call: rng.IntN(4) == 0})
				dr.Event.Depth = head.Depth + 1
			case 2:
				dr = &writer.Draft{Event: &turns.Event{Kind: turns.KindFlush, Flush: &turns.Flush{State: turns.FlushState(1 + rng.IntN(4)), Cycle: 1 + uint64(rng.IntN(3)), After: ref(), Try: 1 + uint64(rng.IntN(2))}}}
				if dr.Event.Flush.State == turns.FlushBegun {
					dr.Event.Flush.Lease = 1
				}
			}
			ev = dr.Event
			if ev.ID.IsZero() {
				ev.ID = newID(t)
			}
			switch rng.IntN(8) {
			case 0:
				ev.ID = ref().Turn
			case 1:
				if ev.Kind.IsTurn() {
					ev.Parent = ref()
				}
			case 2:
				if ev.Kind.IsTurn() {
					ev.Segment = ref().Turn
				}
			case 3:
				if ev.Kind.IsTurn() {
					ev.Depth = uint64(rng.IntN(9))
				}
			case 4: // its own copy of the fold is wrong
				s.Tail.Index, s.Tail.Hash, s.Head, s.Tail.Seq = math.MaxUint32, turns.Hash{1}, ref(), 1
			}
			return dr
		})
		if now := lastSeq(t, d.w); (now != before) != (err == nil) {
			t.Fatalf("%d records for an answer of %v", now-before, err)
		}
		if n := d.e.Reader.Projections.SetAside(); n != 0 {
			t.Fatalf("%+v set its chain aside", ev)
		}
		switch c := code(err); c {
		case "":
			stored++
			if ev.Kind.IsTurn() {
				d.turns = append(d.turns, ev.Ref())
			}
		case api.Internal, api.Malformed:
			refused++
		default:
			t.Fatalf("%+v: %v", ev, err)
		}
	}
	if stored == 0 || refused == 0 {
		t.Errorf("%d events were stored and %d refused: nothing was tried", stored, refused)
	}
}

// A refusal on a fold that another daemon has moved is no defect: the request is
// decided again, behind what that daemon stored.
func TestRefusalOnOldFoldIsDecidedAgain(t *testing.T) {
	w := newWorld()
	here, there := w.Engine(t), w.Engine(t)
	s := create(t, here, 0, "nexus").ID
	add(t, here, s, say("one", "two"))
	req := say("three", "four")
	req.ID = newID(t)
	raced := false
	err := here.Writer.Mutate(t.Context(), alice, s, func(_ *writer.Chain, fold *ledger.Session) (*writer.Draft, error) {
		if !raced {
			raced = true
			must(there.Sessions.Append(t.Context(), alice, s, req, canon(req)))(t)
			if err := here.Reader.Projections.WaitFor(t.Context(), lastSeq(t, w)); err != nil {
				t.Fatal(err)
			}
		}
		ev, done, err := here.Writer.BeginEvent(fold, writer.Request{ID: req.ID, Verb: "turn.append", Canonical: canon(req)}, turns.KindTurn)
		switch {
		case err == nil && done && fold.Turns == 1:
			// The store has moved on behind the fold: the draft is of before.
			dr := turnOf(t, fold, 2)
			dr.Event.ID = req.ID
			return dr, nil
		case err == nil && !done:
			t.Errorf("the other daemon's turn %s is not found", ev.ID)
		}
		return nil, err
	})
	if err != nil {
		t.Errorf("the request that another daemon stored: %v, want it to be found", err)
	}
	verified(t, here)
}
