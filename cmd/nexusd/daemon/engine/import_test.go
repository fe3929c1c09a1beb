package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

var (
	bob      = Caller{Tenant: "default", Agent: "bob"}
	mallory  = Caller{Tenant: "other", Agent: "mallory"}
	operator = Caller{Tenant: "default", Agent: "_"}
)

func eventRecord(t *testing.T, ev *turns.Event) api.ExportRecord {
	t.Helper()
	p := must(ev.Encode())(t)
	return api.ExportRecord{Event: &api.ExportEvent{Payload: p, Hash: turns.HashEvent(p)}}
}

func importAs(t *testing.T, e *Engine, c Caller, records ...api.ExportRecord) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := e.Import(ctx, c, api.ImportRecords{Records: records})
	if ctx.Err() != nil {
		t.Error("the import did not end by itself")
	}
	return err
}

func lastSeq(t *testing.T, w *world) uint64 {
	t.Helper()
	return must(w.log.State(t.Context()))(t).Last
}

// abroad is a session of an agent in a ledger of its own, and what it takes to
// write events of it that this ledger never decided on.
type abroad struct {
	c    Caller
	w    *world
	e    *Engine
	id   turns.ID
	turn []turns.Ref
}

func newAbroad(t *testing.T, c Caller) *abroad {
	t.Helper()
	w := newWorld()
	x := &abroad{c: c, w: w, e: w.engine(t)}
	x.id = must(x.e.Create(t.Context(), c, api.CreateSession{}, []byte("{}")))(t).ID
	for _, q := range []string{"one", "two", "three"} {
		a := must(x.e.Append(t.Context(), c, x.id, say(q, "yes"), nil))(t)
		x.turn = append(x.turn, turns.Ref{Session: x.id, Turn: a.ID})
	}
	return x
}

// records is the whole export.
func (x *abroad) records(t *testing.T) []api.ExportRecord {
	t.Helper()
	return must(x.e.Export(t.Context(), x.c, x.id, api.ExportSession{}))(t).Records
}

// forge is ev as the next event of the session, sealed under keys.
func (x *abroad) forge(t *testing.T, ev *turns.Event, body any, keys ...turns.ID) *turns.Event {
	t.Helper()
	s := must(x.e.Store.Session(x.id))(t)
	ev.Version, ev.ID, ev.Chain, ev.Recorded = turns.Version, orID(t, ev.ID), turns.SessionChain(x.id), 1
	ev.Index, ev.Prev = s.Tail.Index+1, s.Tail.Hash
	if ev.Kind.IsTurn() {
		if ev.Parent.IsZero() {
			ev.Parent = s.Head
		}
		if ev.Depth == 0 {
			ev.Depth = 4
		}
		ev.Segment = s.SegmentFor(ev.ID, s.Head)
	}
	if len(keys) == 0 {
		keys = []turns.ID{x.id}
	}
	return sealedUnder(t, x.w.keys, ev, body, keys...)
}

func orID(t *testing.T, id turns.ID) turns.ID {
	if id.IsZero() {
		return newID(t)
	}
	return id
}

func sealedUnder(t *testing.T, ring seal.Keyring, ev *turns.Event, body any, keys ...turns.ID) *turns.Event {
	t.Helper()
	b, ok := body.([]byte)
	if !ok {
		b = must(turns.EncodeBody(body))(t)
	}
	if err := seal.Seal(ev, b, ring, keys, rand.Reader); err != nil {
		t.Fatal(err)
	}
	return ev
}

func oneTurn() *turns.TurnBody { return &turns.TurnBody{Messages: say("four", "").Messages} }

// An event that would not verify is refused before it is stored, whatever is wrong
// with it: it leaves no trace, and stops nobody.
func TestNothingIsImportedThatDoesNotVerify(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	secret := add(t, e, s.ID, say("alice's question", "alice's answer"))
	hers := turns.Ref{Session: s.ID, Turn: secret.ID}

	for name, tc := range map[string]struct {
		event func(x *abroad) *turns.Event
		body  any
		keys  []turns.ID
		want  api.Code
	}{
		"a head that goes to another agent's turn": {want: api.Corrupt, body: &turns.MovedBody{},
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindMoved, To: hers} }},
		"a head that goes nowhere": {want: api.Corrupt, body: &turns.MovedBody{},
			event: func(x *abroad) *turns.Event {
				return &turns.Event{Kind: turns.KindMoved, To: turns.Ref{Session: x.id, Turn: x.id}}
			}},
		"a turn below another agent's": {want: api.Corrupt, body: oneTurn(),
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Parent: hers, Halves: 1} }},
		"a depth that is not its own": {want: api.Corrupt, body: oneTurn(),
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Depth: 7, Halves: 1} }},
		"the id of an earlier turn": {want: api.Corrupt, body: oneTurn(),
			event: func(x *abroad) *turns.Event {
				return &turns.Event{Kind: turns.KindTurn, ID: x.turn[0].Turn, Halves: 1}
			}},
		"halves that the body does not have": {want: api.Corrupt, body: oneTurn(),
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Halves: 3} }},
		"open calls that nobody made": {want: api.Corrupt, body: oneTurn(),
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Halves: 1, Open: 3} }},
		"a message of no known role": {want: api.Corrupt, body: &turns.TurnBody{Messages: []turns.Message{{Role: "boss"}}},
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Halves: 1} }},
		"a body that is none": {want: api.Corrupt, body: []byte{0xff, 0xff},
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Halves: 1} }},
		"a blob that the header does not link to": {want: api.Corrupt,
			body: &turns.TurnBody{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{
				{Type: turns.Text, Ref: &turns.BlobRef{Digest: turns.Hash{1}, Size: 9}}}}}},
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Halves: 1} }},
		"a blob that is not here": {want: api.Conflict, body: oneTurn(),
			event: func(*abroad) *turns.Event {
				return &turns.Event{Kind: turns.KindTurn, Halves: 1, Blobs: []turns.BlobLink{{Digest: turns.Hash{1}, Size: 9}}}
			}},
		"an elision in another agent's turn": {want: api.Corrupt, body: &turns.CompactionBody{Elided: []turns.ElidedPart{{Method: "cleared"}}},
			event: func(*abroad) *turns.Event {
				return &turns.Event{Kind: turns.KindCompaction, Span: &turns.Span{Provenance: turns.ByNexus,
					Elisions: []turns.Elision{{Turn: hers, Half: turns.MessagesHalf}}}}
			}},
		"an actor that is another agent": {want: api.Corrupt, body: oneTurn(),
			event: func(*abroad) *turns.Event {
				return &turns.Event{Kind: turns.KindTurn, Halves: 1, Actor: "default/alice"}
			}},
		"settings that nobody knows": {want: api.Unsupported,
			body:  &turns.ChangedBody{Settings: turns.Settings{Policy: turns.PolicyRef{Name: "no-such"}}},
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindChanged} }},
	} {
		t.Run(name, func(t *testing.T) {
			x := newAbroad(t, bob)
			if err := importAs(t, e, bob, x.records(t)...); err != nil {
				t.Fatal(err)
			}
			before := lastSeq(t, w)
			ev := x.forge(t, tc.event(x), tc.body, tc.keys...)
			for range 2 { // the second try must end too
				if err := importAs(t, e, bob, eventRecord(t, ev)); code(err) != tc.want {
					t.Errorf("%v, want %s", err, tc.want)
				}
			}
			if now := lastSeq(t, w); now != before || e.Store.Aside() != 0 {
				t.Errorf("%d records were stored, %d chains are aside", now-before, e.Store.Aside())
			}
			must(e.Append(t.Context(), bob, x.id, say("four", "yes"), nil))(t)
		})
	}
	verified(t, e)
}

// A closed session takes an erasure and nothing else; an erased one nothing.
func TestAnImportDoesNotReopenASession(t *testing.T) {
	e := newWorld().engine(t)
	x := newAbroad(t, bob)
	must(x.e.CloseSession(t.Context(), bob, x.id, api.CloseSession{}, nil))(t)
	if err := importAs(t, e, bob, x.records(t)...); err != nil {
		t.Fatal(err)
	}
	paused := x.forge(t, &turns.Event{Kind: turns.KindState, State: turns.Paused}, &turns.StateBody{})
	if err := importAs(t, e, bob, eventRecord(t, paused)); code(err) != api.Corrupt {
		t.Errorf("a pause after the close: %v, want corrupt", err)
	}
	if _, err := e.Append(t.Context(), bob, x.id, say("again", ""), nil); code(err) != api.Closed {
		t.Errorf("append: %v, want closed", err)
	}
	verified(t, e)
}

// What opens a session gives it nothing that is another's: no turn, no tree and so
// no key, no kind.
func TestAnImportedSessionReachesOnlyItsOwnAgent(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	hers := add(t, e, s.ID, say("alice's question", "alice's answer"))
	here := must(e.Create(t.Context(), bob, api.CreateSession{}, []byte("{}")))(t)

	x := newAbroad(t, bob)
	if err := importAs(t, e, bob, x.records(t)...); err != nil {
		t.Fatal(err)
	}
	own := must(x.e.GetTurn(t.Context(), bob, x.id, api.GetTurn{ID: x.turn[2].Turn}))(t)
	forkOfOwn := &turns.ForkOf{At: x.turn[2], Hash: own.Hash, Mode: turns.AsSeen}
	forkOfHers := &turns.ForkOf{At: turns.Ref{Session: s.ID, Turn: hers.ID}, Hash: hers.Hash, Mode: turns.AsSeen}

	for name, tc := range map[string]struct {
		c      Caller
		change func(ev *turns.Event)
		want   api.Code
	}{
		"as it should be":                     {c: bob, change: func(*turns.Event) {}},
		"a fork as it should be":              {c: bob, change: func(ev *turns.Event) { ev.ForkOf, ev.Root = forkOfOwn, x.id }},
		"a fork of another agent's turn":      {c: bob, want: api.Conflict, change: func(ev *turns.Event) { ev.ForkOf, ev.Root = forkOfHers, s.ID }},
		"a fork of another tenant's turn":     {c: mallory, want: api.Conflict, change: func(ev *turns.Event) { ev.ForkOf, ev.Root = forkOfHers, s.ID }},
		"a fork in another agent's tree":      {c: bob, want: api.Corrupt, change: func(ev *turns.Event) { ev.ForkOf, ev.Root = forkOfOwn, s.ID }},
		"a fork in another tree of its own":   {c: bob, want: api.Corrupt, change: func(ev *turns.Event) { ev.ForkOf, ev.Root = forkOfOwn, here.ID }},
		"kind main":                           {c: bob, want: api.Denied, change: func(ev *turns.Event) { ev.Role = turns.Main }},
		"a fork of kind main":                 {c: bob, want: api.Corrupt, change: func(ev *turns.Event) { ev.ForkOf, ev.Root, ev.Role = forkOfOwn, x.id, turns.Main }},
		"a session of another agent":          {c: bob, want: api.Denied, change: func(ev *turns.Event) { ev.Agent = "alice" }},
		"a session that began in this ledger": {c: bob, want: api.Denied, change: func(ev *turns.Event) { ev.Origin.Ledger = e.Ledger }},
	} {
		t.Run(name, func(t *testing.T) {
			id, keys := newID(t), new(seal.Memory)
			k := must(keys.Create(id, rand.Reader))(t)
			ev := &turns.Event{Version: turns.Version, Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: tc.c.Agent,
				Origin: &turns.Origin{Ledger: [16]byte{9}, Tenant: tc.c.Tenant, Session: id}, Recorded: 1}
			tc.change(ev)
			sealedUnder(t, keys, ev, &turns.OpenedBody{Settings: turns.Settings{Policy: turns.PolicyRef{Name: "nexus"}}}, id)
			before := lastSeq(t, w)
			err := importAs(t, e, tc.c, api.ExportRecord{Key: &api.ExportKey{ID: id, Key: k[:]}}, eventRecord(t, ev))
			if code(err) != tc.want {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if stored := lastSeq(t, w) - before; (stored != 0) != (tc.want == "") {
				t.Errorf("%d records stored", stored)
			}
			if _, err := w.keys.Key(id); (err == nil) != (tc.want == "") {
				t.Errorf("its key: %v", err)
			}
		})
	}
	verified(t, e)
}

// An agent brings in other ledgers' history, not this one's: what this ledger did
// not store, it did not say. The operator may bring it back.
func TestOnlyTheOperatorBringsThisLedgersHistoryBack(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("one", "two"))
	lost := newWorld() // the same ledger, its log and keys gone
	lost.id = w.id
	again := lost.engine(t)
	records := must(e.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records
	if err := importAs(t, again, alice, records...); code(err) != api.Denied {
		t.Errorf("by the agent: %v, want denied", err)
	}
	if err := importAs(t, again, operator, records...); err != nil {
		t.Errorf("by the operator: %v", err)
	}
	if err := importAs(t, again, alice, records...); err != nil {
		t.Errorf("what is stored, by the agent: %v", err)
	}
	verified(t, again)
}

// A ledger that seals takes nothing in the clear, and one that does not takes
// nothing sealed.
func TestAnImportIsSealedAsTheLedgerIs(t *testing.T) {
	clear := newWorld().engine(t)
	clear.Keys = nil
	s := create(t, clear, 0, "nexus")
	add(t, clear, s.ID, say("read this: "+long(900_000), "done"))
	sealing := newWorld()
	if err := copyTo(t, clear, sealing.engine(t), s.ID); code(err) != api.Unsupported {
		t.Errorf("in the clear, into a ledger that seals: %v, want unsupported", err)
	}
	if n := lastSeq(t, sealing); n != 0 {
		t.Errorf("%d records were stored", n)
	}
	other := newWorld().engine(t)
	other.Keys = nil
	if err := copyTo(t, clear, other, s.ID); err != nil {
		t.Errorf("in the clear, into a ledger that does not seal: %v", err)
	}
	x := newAbroad(t, alice)
	if err := copyTo(t, x.e, other, x.id); code(err) != api.Unsupported {
		t.Errorf("sealed, into a ledger that does not seal: %v, want unsupported", err)
	}
	verified(t, other)
}

// The key that comes with an import is kept only with the session that it opens:
// nobody chooses the key of a session to come.
func TestAnImportPlantsNoKey(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	id, planted := newID(t), make([]byte, 32)
	for _, c := range []Caller{bob, mallory} {
		if err := importAs(t, e, c, api.ExportRecord{Key: &api.ExportKey{ID: id, Key: planted}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.keys.Key(id); err == nil {
		t.Error("a key without a session was stored")
	}
	r := api.CreateSession{ID: id}
	must(e.Create(t.Context(), alice, r, canon(r)))(t)
	if k := must(w.keys.Key(id))(t); k == seal.Key(planted) {
		t.Error("alice's session is sealed under a key that another chose")
	}
	for _, c := range []Caller{bob, mallory} {
		err := importAs(t, e, c, api.ExportRecord{Key: &api.ExportKey{ID: id, Key: planted}})
		if code(err) != api.IDReused || strings.Contains(err.Error(), "alice") || strings.Contains(err.Error(), "agent") {
			t.Errorf("a key for her session: %v", err)
		}
	}
	if err := importAs(t, e, alice, api.ExportRecord{Key: &api.ExportKey{ID: id, Key: planted}}); code(err) != api.Conflict {
		t.Errorf("another key for her own session: %v, want conflict", err)
	}
	// A key that comes by one agent does not open what another brings.
	x := newAbroad(t, bob)
	var key, first api.ExportRecord
	for _, r := range x.records(t) {
		if r.Key != nil {
			key = r
		}
		if r.Event != nil && first.Event == nil {
			first = r
		}
	}
	if err := importAs(t, e, mallory, key); err != nil {
		t.Fatal(err)
	}
	if err := importAs(t, e, bob, first); code(err) != api.Conflict {
		t.Errorf("an event before its key: %v, want conflict", err)
	}
	if err := importAs(t, e, bob, key); err != nil {
		t.Fatal(err)
	}
	if err := importAs(t, e, bob, first); err != nil {
		t.Errorf("an event after its key, in a request of its own: %v", err)
	}
}

// A lost key comes back with the export, if it is the right one.
func TestAnImportRestoresAKey(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("one", "two"))
	records := must(e.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records
	bare := *w
	bare.keys = new(seal.Memory)
	e = bare.engine(t)
	wrong := api.ExportRecord{Key: &api.ExportKey{ID: s.ID, Key: make([]byte, 32)}}
	if err := importAs(t, e, alice, wrong); code(err) != api.Corrupt {
		t.Errorf("a wrong key: %v, want corrupt", err)
	}
	if err := importAs(t, e, alice, records...); err != nil {
		t.Fatal(err)
	}
	must(e.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	verified(t, e)
}

// failingKeys is a key store whose disk refuses what is put.
type failingKeys struct{ *seal.Memory }

func (failingKeys) Put(turns.ID, seal.Key) error { return errors.New("disk full") }

// A crash between a session's first event and its key is made good by the same
// import; an import that fails before leaves no key.
func TestAnImportThatEndsHalfWayIsMadeGood(t *testing.T) {
	x := newAbroad(t, bob)
	records := x.records(t)
	w := newWorld()
	e := w.engine(t)
	e.Log = refusing{w.log}
	if err := importAs(t, e, bob, records...); code(err) != api.Unavailable {
		t.Errorf("a log that takes nothing: %v, want unavailable", err)
	}
	if _, err := w.keys.Key(x.id); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("the key of a session that is not stored: %v", err)
	}
	e.Log, e.Keys = w.log, failingKeys{w.keys}
	if err := importAs(t, e, bob, records...); code(err) != api.Indeterminate {
		t.Errorf("a key store that takes nothing: %v, want indeterminate", err)
	}
	e.Keys = w.keys
	if err := importAs(t, e, bob, records...); err != nil {
		t.Errorf("again: %v", err)
	}
	verified(t, e)
	must(e.Append(t.Context(), bob, x.id, say("four", "yes"), nil))(t)
}

// refusing is a log that takes nothing.
type refusing struct{ ledger.Log }

func (refusing) Append(context.Context, string, uint64, []byte) (uint64, error) {
	return 0, ledger.ErrUnavailable
}

// A ledger whose messages are smaller than those of the ledger that an export is
// of takes what it can show, and refuses the rest; what it has anyway stops no list.
func TestAnImportThatNoReplyCanHoldIsRefused(t *testing.T) {
	x := newAbroad(t, bob)
	large := turns.Raw(`{"m":"` + long(900_000) + `"}`)
	set := must(x.e.Create(t.Context(), bob, api.CreateSession{SessionSettings: api.SessionSettings{Meta: large}}, []byte("{}")))(t)
	w := newWorld()
	e := w.engine(t)
	e.MaxPayload = 1 << 20
	if err := copyAs(t, bob, x.e, e, x.id); err != nil {
		t.Fatal(err)
	}
	r := say("four", "yes")
	r.Meta = large
	must(x.e.Append(t.Context(), bob, x.id, r, canon(r)))(t)
	last := lastSeq(t, w)
	for _, id := range []turns.ID{x.id, set.ID} {
		if err := copyAs(t, bob, x.e, e, id); code(err) != api.TooLarge {
			t.Errorf("%v, want too_large", err)
		}
	}
	if now := lastSeq(t, w); now != last {
		t.Errorf("%d records were stored", now-last)
	}
	// The other ledger, now behind a server of smaller messages.
	x.e.MaxPayload = 512 << 10
	l := must(x.e.List(t.Context(), operator, api.ListSessions{}))(t)
	if len(l.Sessions) != 2 || l.Sessions[0].Error != "" || l.Sessions[1].Error != api.TooLarge || len(canon(l)) > x.e.MaxPayload {
		t.Errorf("sessions: %.500s", canon(l))
	}
	for _, order := range []string{"asc", "desc"} {
		n, errors := 0, 0
		for after := ""; ; {
			p := must(x.e.ListTurns(t.Context(), bob, x.id, api.ListTurns{Order: order, Page: api.Page{After: after}}))(t)
			for _, v := range p.Turns {
				n++
				if v.Error == api.TooLarge {
					errors++
				}
			}
			if len(canon(p)) > x.e.MaxPayload {
				t.Errorf("a page of %d bytes", len(canon(p)))
			}
			if after = p.Next; after == "" {
				break
			}
		}
		if n != 4 || errors != 1 {
			t.Errorf("%d turns, %d of them too large", n, errors)
		}
	}
}

// copyAs is copyTo of an agent's session.
func copyAs(t *testing.T, c Caller, from, to *Engine, session turns.ID) error {
	t.Helper()
	for after := ""; ; {
		page := must(from.Export(t.Context(), c, session, api.ExportSession{Page: api.Page{After: after, Limit: 3}}))(t)
		if _, err := to.Import(t.Context(), c, api.ImportRecords{Records: page.Records}); err != nil {
			return err
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// A daemon whose projections lag imports a fork right behind its parent.
func TestImportOfAForkRightAfterItsParent(t *testing.T) {
	x := newAbroad(t, bob)
	f := must(x.e.Fork(t.Context(), bob, x.id, api.CreateFork{Turn: x.turn[1].Turn}, []byte("f")))(t)
	must(x.e.Append(t.Context(), bob, f.ID, say("on the fork", "yes"), nil))(t)
	records := must(x.e.Export(t.Context(), bob, f.ID, api.ExportSession{}))(t).Records
	w := newWorld()
	daemons := []*Engine{w.engine(t), w.engine(t)}
	for i := range records {
		if records[i].Key != nil {
			for _, e := range daemons {
				if err := importAs(t, e, bob, records[i]); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if err := importAs(t, daemons[i%2], bob, records[i]); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	verified(t, daemons[0])
}

// raw puts an event straight on the log, past every check, as a daemon with a
// defect would.
func raw(t *testing.T, w *world, e *Engine, subject string, ev *turns.Event) {
	t.Helper()
	expect := uint64(0)
	if last, err := w.log.Last(t.Context(), subject); err == nil {
		expect = last.Seq
	}
	seq := must(w.log.Append(t.Context(), subject, expect, must(ev.Encode())(t)))(t)
	if err := e.Store.WaitFor(t.Context(), seq); err != nil {
		t.Fatal(err)
	}
}

// A turn whose header hides that the user speaks in it would keep a compaction in
// force that ends with the user's word: it is not imported, and found where it stands.
// Where no such compaction is in force it is a turn of before there was the count.
func TestATurnThatHidesTheUsersWord(t *testing.T) {
	for name, tc := range map[string]struct {
		compacted bool
		want      api.Code
	}{"under a compaction for one call": {true, api.Corrupt}, "of before there was the count": {false, ""}} {
		t.Run(name, func(t *testing.T) {
			from := newWorld()
			src := from.engine(t)
			s := create(t, src, 40_000, "wolffish").ID
			add(t, src, s, say("read them all", ""))
			reads(t, src, s, "a", 9_000, 12_000, 6_000, 8_000, 5_000, 5_000, 5_000)
			if tc.compacted {
				cx := must(src.Context(t.Context(), alice, s, api.GetContext{}))(t)
				if cx.Compacted == nil {
					t.Fatal("not compacted")
				}
			}
			before := exports(t, src, s)
			add(t, src, s, say("the user's word", "and an answer"))
			all := exports(t, src, s)
			ev := must(turns.Decode(all[len(all)-1].Event.Payload))(t)
			body := must(seal.Open(ev, from.keys))(t)
			if ev.Said != 1 {
				t.Fatalf("%d said", ev.Said)
			}
			ev.Said = 0
			ev = sealedUnder(t, from.keys, ev, body, ev.Keys...)
			payload := must(ev.Encode())(t)

			w := newWorld()
			e := w.engine(t)
			if err := importAs(t, e, alice, before...); err != nil {
				t.Fatal(err)
			}
			err := importAs(t, e, alice, api.ExportRecord{Event: &api.ExportEvent{Payload: payload, Hash: turns.HashEvent(payload)}})
			if code(err) != tc.want {
				t.Errorf("imported: %v, want %q", err, tc.want)
			}
			if err != nil {
				row := must(e.Store.Session(s))(t)
				raw(t, w, e, row.Subject(), ev)
			}
			v := must(e.Verify(t.Context(), operator, api.Verify{}))(t)
			if v.OK != (tc.want == "") || len(v.Problems) > 1 || (!v.OK && v.Problems[0].Event != ev.ID) {
				t.Errorf("verified: %s", canon(v))
			}
		})
	}
}

// A head that was led to another agent's turn, by whatever way it came onto the
// log, shows nothing of it; the session is read-only, and says so; everybody
// else goes on.
func TestAChainThatReachesAnotherAgentIsSetAside(t *testing.T) {
	for _, thief := range []Caller{bob, mallory} {
		w := newWorld()
		e := w.engine(t)
		s := create(t, e, 0, "nexus")
		a := add(t, e, s.ID, say("alice's question", "alice's answer"))
		own := must(e.Create(t.Context(), thief, api.CreateSession{}, []byte("{}")))(t)
		raw(t, w, e, ledger.SessionSubject(thief.Tenant, own.ID, own.ID), &turns.Event{Version: turns.Version, Kind: turns.KindMoved, ID: newID(t),
			Chain: turns.SessionChain(own.ID), Index: 1, Prev: own.Hash, Recorded: 1, To: turns.Ref{Session: s.ID, Turn: a.ID}})
		for name, f := range map[string]func(stale bool) (any, error){
			"context": func(stale bool) (any, error) {
				return e.Context(t.Context(), thief, own.ID, api.GetContext{Read: api.Read{StaleOK: stale}})
			},
			"turns": func(stale bool) (any, error) {
				return e.ListTurns(t.Context(), thief, own.ID, api.ListTurns{Full: true, Read: api.Read{StaleOK: stale}})
			},
			"session": func(stale bool) (any, error) {
				return e.Get(t.Context(), thief, own.ID, api.Read{StaleOK: stale})
			},
		} {
			if v, err := f(false); code(err) != api.Corrupt {
				t.Errorf("%s: %s, %v; want corrupt", name, canon(v), err)
			}
			if v, err := f(true); name != "context" && err != nil || bytes.Contains(canon(v), []byte("alice's")) {
				t.Errorf("%s, stale: %s, %v", name, canon(v), err)
			}
		}
		if _, err := e.Append(t.Context(), thief, own.ID, say("go on", ""), nil); code(err) != api.Corrupt {
			t.Errorf("append: %v, want corrupt", err)
		}
		l := must(e.List(t.Context(), thief, api.ListSessions{}))(t)
		if len(l.Sessions) != 1 || l.Sessions[0].Error != api.Corrupt {
			t.Errorf("the list: %s", canon(l))
		}
		add(t, e, s.ID, say("go on", "yes"))
		v := must(e.Verify(t.Context(), thief, api.Verify{Sessions: []turns.ID{own.ID}}))(t)
		if v.OK || len(v.Problems) != 1 || v.Problems[0].Session != own.ID {
			t.Errorf("verify: %s", canon(v))
		}
		if v := must(e.Verify(t.Context(), alice, api.Verify{Sessions: []turns.ID{s.ID}}))(t); !v.OK {
			t.Errorf("verify of hers: %s", canon(v))
		}
		// The operator of one tenant hears that something is wrong in another, not of whom.
		all := must(e.Verify(t.Context(), operator, api.Verify{}))(t)
		if all.OK || len(all.Problems) != 1 || (thief.Tenant != "default") != (all.Problems[0].Session.IsZero()) {
			t.Errorf("verify of all: %s", canon(all))
		}
	}
}

// Two daemons open one id, in two tenants or as two kinds of session. Who was first
// on the log has it, and loses nothing by the other.
func TestASecondOpeningOfAnIDHurtsNobody(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	other := create(t, e, 0, "nexus")
	at := add(t, e, other.ID, say("one", "two"))
	lag := w.behind(t)
	id := newID(t)
	r := api.CreateSession{ID: id}
	must(e.Create(t.Context(), alice, r, canon(r)))(t)
	add(t, e, id, say("1", "a"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	before := lastSeq(t, w)
	if _, err := lag.Create(ctx, mallory, r, canon(r)); err == nil {
		t.Error("the id was given out twice")
	}
	if lastSeq(t, w) == before {
		t.Fatal("not the race that this test is about")
	}
	fork := &turns.Event{Version: turns.Version, Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: other.ID, Agent: "alice", Recorded: 1,
		Origin: &turns.Origin{Ledger: w.id, Tenant: "default", Session: id},
		ForkOf: &turns.ForkOf{At: turns.Ref{Session: other.ID, Turn: at.ID}, Hash: at.Hash, Mode: turns.AsSeen}}
	raw(t, w, e, ledger.SessionSubject("default", other.ID, id), fork)
	if e.Store.Aside() != 2 {
		t.Errorf("%d chains are aside, want the two that came second", e.Store.Aside())
	}
	for _, e := range []*Engine{e, w.engine(t)} {
		a := add(t, e, id, say("2", "b"))
		must(e.GetTurn(t.Context(), alice, id, api.GetTurn{ID: a.ID}))(t)
		must(e.Context(t.Context(), alice, id, api.GetContext{}))(t)
		if _, err := e.Get(t.Context(), mallory, id, api.Read{}); code(err) != api.NotFound {
			t.Errorf("to the other tenant: %v, want not_found", err)
		}
		l := must(e.List(t.Context(), mallory, api.ListSessions{}))(t)
		if len(l.Sessions) != 0 {
			t.Errorf("the other tenant's list: %s", canon(l))
		}
	}
	if v := must(e.Verify(t.Context(), alice, api.Verify{Sessions: []turns.ID{id}}))(t); !v.OK || v.Turns != 3 {
		t.Errorf("verify of the session: %s", canon(v))
	}
	if v := must(e.Verify(t.Context(), operator, api.Verify{}))(t); len(v.Problems) != 2 {
		t.Errorf("verify of all: %s", canon(v))
	}
}

// The chain of a label is verified like any other, and one that was set aside is
// an error to who needs it, at once.
func TestALabelsChainIsVerified(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	label := "main"
	s := must(e.Create(t.Context(), alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")))(t)
	verified(t, e)
	digest := must(e.labelDigest("default", "alice", label))(t)
	chain := turns.Chain{Entity: turns.LabelEntity, ID: digest}
	raw(t, w, e, ledger.Subject("default", digest, chain), &turns.Event{Version: turns.Version, Kind: turns.KindClaimed, ID: newID(t), Chain: chain, Index: 7,
		Prev: turns.Hash{9}, Recorded: 1, Agent: "alice", To: turns.Ref{Session: s.ID}})
	if v := must(e.Verify(t.Context(), operator, api.Verify{}))(t); v.OK || len(v.Problems) != 1 {
		t.Errorf("verify: %s", canon(v))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := e.Resolve(ctx, alice, label); code(err) != api.Corrupt {
		t.Errorf("resolve: %v, want corrupt", err)
	}
	if _, err := e.Create(ctx, alice, api.CreateSession{SessionSettings: api.SessionSettings{Label: &label}}, []byte("{}")); code(err) != api.Corrupt {
		t.Errorf("claim: %v, want corrupt", err)
	}
}

// A session that can't be read does not stop a list, and neither does the row that
// an opening which was set aside would have had.
func TestAnUnreadableSessionStopsNoList(t *testing.T) {
	w := newWorld()
	e := w.engine(t)
	s := create(t, e, 0, "nexus")
	a := add(t, e, s.ID, say("one", "two"))
	opened := func(id turns.ID, c Caller) *turns.Event {
		return &turns.Event{Version: turns.Version, Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: c.Agent, Recorded: 1,
			Origin: &turns.Origin{Ledger: [16]byte{9}, Tenant: c.Tenant, Session: id}}
	}
	want := map[turns.ID]api.Code{s.ID: ""}
	for _, tc := range []struct {
		body any
		want api.Code
	}{
		{[]byte{0xff}, api.Corrupt},
		{&turns.OpenedBody{Settings: turns.Settings{Policy: turns.PolicyRef{Name: "nexus", Digest: turns.Hash{1}}}}, api.Unsupported},
	} {
		id := newID(t)
		ev := opened(id, bob)
		must(w.keys.Create(id, rand.Reader))(t)
		raw(t, w, e, ledger.SessionSubject("default", id, id), sealedUnder(t, w.keys, ev, tc.body, id))
		want[id] = tc.want
	}
	fork := newID(t)
	ev := opened(fork, bob)
	ev.Root, ev.ForkOf = s.ID, &turns.ForkOf{At: turns.Ref{Session: s.ID, Turn: newID(t)}, Hash: turns.Hash{1}, Mode: turns.AsSeen}
	raw(t, w, e, ledger.SessionSubject("default", s.ID, fork), ev)

	got := make(map[turns.ID]api.Code)
	for after := ""; ; {
		l := must(e.List(t.Context(), operator, api.ListSessions{Page: api.Page{After: after, Limit: 1}}))(t)
		for _, s := range l.Sessions {
			got[s.ID] = s.Error
		}
		if after = l.Next; after == "" {
			break
		}
	}
	if len(got) != len(want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	for id, code := range want {
		if got[id] != code {
			t.Errorf("session %s: error %q, want %q", id, got[id], code)
		}
	}
	// Neither does a turn stop the list of its session's turns.
	row := must(e.Store.Session(s.ID))(t)
	x := &turns.Event{Version: turns.Version, Kind: turns.KindTurn, ID: newID(t), Chain: turns.SessionChain(s.ID), Index: row.Tail.Index + 1, Prev: row.Tail.Hash,
		Recorded: 1, Parent: row.Head, Depth: 2, Segment: row.Segment, Halves: 1}
	raw(t, w, e, row.Subject(), sealedUnder(t, w.keys, x, []byte{0xff}, s.ID))
	last := add(t, e, s.ID, say("three", "four"))
	for _, order := range []string{"asc", "desc"} {
		list := must(e.ListTurns(t.Context(), alice, s.ID, api.ListTurns{Order: order, Full: true}))(t).Turns
		if len(list) != 3 || list[1].Error != api.Corrupt || list[0].Error != "" || list[2].Error != "" {
			t.Errorf("turns, %s: %s", order, canon(list))
		}
	}
	if _, err := e.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: x.ID}); code(err) != api.Corrupt {
		t.Errorf("the turn itself: %v, want corrupt", err)
	}
	must(e.GetTurn(t.Context(), alice, s.ID, api.GetTurn{ID: last.ID}))(t)
	// And no session stops a tree.
	bad := newID(t)
	ev = opened(bad, alice)
	ev.Root, ev.ForkOf = s.ID, &turns.ForkOf{At: turns.Ref{Session: s.ID, Turn: a.ID}, Hash: a.Hash, Mode: turns.AsSeen}
	must(w.keys.Create(bad, rand.Reader))(t)
	raw(t, w, e, ledger.SessionSubject("default", s.ID, bad), sealedUnder(t, w.keys, ev, []byte{0xff}, bad))
	tree := must(e.Tree(t.Context(), alice, s.ID, api.GetTree{}))(t)
	if len(tree.Sessions) != 2 || tree.Sessions[1].Error != api.Corrupt {
		t.Errorf("tree: %s", canon(tree))
	}
}
