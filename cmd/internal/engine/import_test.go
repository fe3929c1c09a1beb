package engine_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/keyring"
)

var (
	bob      = reader.Caller{Tenant: "default", Agent: "bob"}
	mallory  = reader.Caller{Tenant: "other", Agent: "mallory"}
	operator = reader.Caller{Tenant: "default", Agent: "_"}
)

func eventRecord(t *testing.T, ev *turns.Event) api.ExportRecord {
	t.Helper()
	p := must(ev.Encode())(t)
	return api.ExportRecord{Event: &api.ExportEvent{Payload: p, Hash: turns.HashEvent(p)}}
}

func importAs(t *testing.T, e *Engine, c reader.Caller, records ...api.ExportRecord) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := e.Transfer.Import(ctx, c, api.ImportRecords{Records: records})
	if ctx.Err() != nil {
		t.Error("the import did not end by itself")
	}
	return err
}

func lastSeq(t *testing.T, w *world) uint64 {
	t.Helper()
	return must(w.Log.State(t.Context()))(t).Last
}

// abroad is a session of an agent in a ledger of its own, and what it takes to
// write events of it that this ledger never decided on.
type abroad struct {
	c    reader.Caller
	w    *world
	e    *Engine
	id   turns.ID
	turn []turns.Ref
}

func newAbroad(t *testing.T, c reader.Caller) *abroad {
	t.Helper()
	w := newWorld()
	x := &abroad{c: c, w: w, e: w.Engine(t)}
	x.id = must(x.e.Sessions.Create(t.Context(), c, api.CreateSession{}, []byte("{}")))(t).ID
	for _, q := range []string{"one", "two", "three"} {
		a := must(x.e.Sessions.Append(t.Context(), c, x.id, say(q, "yes"), nil))(t)
		x.turn = append(x.turn, turns.Ref{Session: x.id, Turn: a.ID})
	}
	return x
}

// records returns the whole export.
func (x *abroad) records(t *testing.T) []api.ExportRecord {
	t.Helper()
	return must(x.e.Transfer.Export(t.Context(), x.c, x.id, api.ExportSession{}))(t).Records
}

// forge is ev as the next event of the session, sealed under keys.
func (x *abroad) forge(t *testing.T, ev *turns.Event, body any, keys ...turns.ID) *turns.Event {
	t.Helper()
	s := must(x.e.Reader.Projections.Session(x.id))(t)
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
	return sealedUnder(t, x.w.Keys, ev, body, keys...)
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
	e := w.Engine(t)
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
		"a body that is none": {want: api.Corrupt, body: []byte("\xa1\x03\x01"), // a number as the model
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Halves: 1} }},
		"a blob that the header does not link to": {want: api.Corrupt,
			body: &turns.TurnBody{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{
				{Type: turns.Text, Ref: &turns.BlobRef{Digest: turns.Hash{1}, Size: 9}}}}}},
			event: func(*abroad) *turns.Event { return &turns.Event{Kind: turns.KindTurn, Halves: 1} }},
		"a blob that is not here": {want: api.Conflict, body: oneTurn(),
			event: func(*abroad) *turns.Event {
				return &turns.Event{Kind: turns.KindTurn, Halves: 1, Blobs: []turns.BlobLink{{Address: turns.Hash{1}, Size: 9}}}
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
			if tc.event == nil {
				t.Fatal("the case has no event")
			}
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
			if now := lastSeq(t, w); now != before || e.Reader.Projections.SetAside() != 0 {
				t.Errorf("%d records were stored, %d chains are aside", now-before, e.Reader.Projections.SetAside())
			}
			must(e.Sessions.Append(t.Context(), bob, x.id, say("four", "yes"), nil))(t)
		})
	}
	verified(t, e)
}

// A closed session takes an erasure and nothing else; an erased one nothing.
func TestAnImportDoesNotReopenASession(t *testing.T) {
	e := newWorld().Engine(t)
	x := newAbroad(t, bob)
	must(x.e.Sessions.CloseSession(t.Context(), bob, x.id, api.CloseSession{}, nil))(t)
	if err := importAs(t, e, bob, x.records(t)...); err != nil {
		t.Fatal(err)
	}
	paused := x.forge(t, &turns.Event{Kind: turns.KindState, State: turns.Paused}, &turns.StateBody{})
	if err := importAs(t, e, bob, eventRecord(t, paused)); code(err) != api.Corrupt {
		t.Errorf("a pause after the close: %v, want corrupt", err)
	}
	if _, err := e.Sessions.Append(t.Context(), bob, x.id, say("again", ""), nil); code(err) != api.Closed {
		t.Errorf("append: %v, want closed", err)
	}
	verified(t, e)
}

// No event erases a session: who has the keys destroys one. So no agent can say of a session, in another
// ledger's name, that it was erased.
func TestAnAgentImportsNoErasure(t *testing.T) {
	e := newWorld().Engine(t)
	x := newAbroad(t, bob)
	if err := importAs(t, e, bob, x.records(t)...); err != nil {
		t.Fatal(err)
	}
	erased := x.forge(t, &turns.Event{Kind: turns.KindState, State: turns.Erased}, &turns.StateBody{})
	if err := importAs(t, e, bob, eventRecord(t, erased)); code(err) != api.Denied {
		t.Errorf("by the agent: %v, want denied", err)
	}
	must(e.Sessions.Append(t.Context(), bob, x.id, say("again", ""), nil))(t)
	verified(t, e)
}

// What opens a session gives it nothing that is another's: no turn, no tree and so
// no key, no kind.
func TestAnImportedSessionReachesOnlyItsOwnAgent(t *testing.T) {
	w := newWorld()
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	hers := add(t, e, s.ID, say("alice's question", "alice's answer"))
	here := must(e.Sessions.Create(t.Context(), bob, api.CreateSession{}, []byte("{}")))(t)

	x := newAbroad(t, bob)
	if err := importAs(t, e, bob, x.records(t)...); err != nil {
		t.Fatal(err)
	}
	own := must(x.e.Reader.GetTurn(t.Context(), bob, x.id, api.GetTurn{ID: x.turn[2].Turn}))(t)
	forkOfOwn := &turns.ForkOf{At: x.turn[2], Hash: own.Hash, Mode: turns.AsSeen}
	forkOfHers := &turns.ForkOf{At: turns.Ref{Session: s.ID, Turn: hers.ID}, Hash: hers.Hash, Mode: turns.AsSeen}

	for name, tc := range map[string]struct {
		c      reader.Caller
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
		"a session that began in this ledger": {c: bob, want: api.Denied, change: func(ev *turns.Event) { ev.Origin.Ledger = e.Store.Ledger }},
	} {
		t.Run(name, func(t *testing.T) {
			id, keys := newID(t), new(keyring.Memory)
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
			if _, err := w.Keys.Key(id); (err == nil) != (tc.want == "") {
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
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("one", "two"))
	lost := newWorld() // the same ledger, its log and keys gone
	lost.ID = w.ID
	again := lost.Engine(t)
	records := must(e.Transfer.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records
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
	clear := newWorld().Engine(t)
	clear.Store.Keys = nil
	s := create(t, clear, 0, "nexus")
	add(t, clear, s.ID, say("read this: "+long(900_000), "done"))
	sealing := newWorld()
	if err := copyTo(t, clear, sealing.Engine(t), s.ID); code(err) != api.Unsupported {
		t.Errorf("in the clear, into a ledger that seals: %v, want unsupported", err)
	}
	if n := lastSeq(t, sealing) - stored(t, sealing); n != 0 { // a policy that no session names is no session's content
		t.Errorf("%d records were stored", n)
	}
	other := newWorld().Engine(t)
	other.Store.Keys = nil
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
	e := w.Engine(t)
	id, planted := newID(t), make([]byte, 32)
	for _, c := range []reader.Caller{bob, mallory} {
		if err := importAs(t, e, c, api.ExportRecord{Key: &api.ExportKey{ID: id, Key: planted}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Keys.Key(id); err == nil {
		t.Error("a key without a session was stored")
	}
	r := api.CreateSession{ID: id}
	must(e.Sessions.Create(t.Context(), alice, r, canon(r)))(t)
	if k := must(w.Keys.Key(id))(t); k == seal.Key(planted) {
		t.Error("alice's session is sealed under a key that another chose")
	}
	for _, c := range []reader.Caller{bob, mallory} {
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
	e := w.Engine(t)
	s := create(t, e, 0, "nexus")
	add(t, e, s.ID, say("one", "two"))
	records := must(e.Transfer.Export(t.Context(), alice, s.ID, api.ExportSession{}))(t).Records
	bare := *w
	bare.Keys = new(keyring.Memory)
	if err := bare.Keys.Put(turns.ID(w.ID), must(w.Keys.Key(turns.ID(w.ID)))(t)); err != nil { // the ledger's own key is in no export
		t.Fatal(err)
	}
	e = bare.Engine(t)
	wrong := api.ExportRecord{Key: &api.ExportKey{ID: s.ID, Key: make([]byte, 32)}}
	if err := importAs(t, e, alice, wrong); code(err) != api.Corrupt {
		t.Errorf("a wrong key: %v, want corrupt", err)
	}
	if err := importAs(t, e, alice, records...); err != nil {
		t.Fatal(err)
	}
	must(e.Contexts.Context(t.Context(), alice, s.ID, api.GetContext{}))(t)
	verified(t, e)
}

// A session that was opened while nothing was sealed has no key, and takes none: whoever chose it could read what is
// sealed from then on.
func TestAnUnsealedSessionTakesNoKey(t *testing.T) {
	w := newWorld()
	clear := w.Engine(t)
	clear.Store.Keys = nil
	s := create(t, clear, 0, "nexus")
	sealing := w.Engine(t)
	chosen := api.ExportRecord{Key: &api.ExportKey{ID: s.ID, Key: make([]byte, 32)}}
	for name, c := range map[string]reader.Caller{"its agent": alice, "the operator": operator} {
		if err := importAs(t, sealing, c, chosen); code(err) != api.Conflict || !strings.Contains(err.Error(), "not sealed") {
			t.Errorf("%s: %v, want a conflict that says it is not sealed", name, err)
		}
	}
	if _, err := w.Keys.Key(s.ID); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("the key of the session: %v, want none", err)
	}
}

// A refused record ends an import. The events before it stay stored, those after it are
// not read, and the error says where and how much; the same import later takes the rest.
func TestARefusedImportKeepsTheRecordsBeforeIt(t *testing.T) {
	x := newAbroad(t, bob)
	records := x.records(t)
	w := newWorld()
	e := w.Engine(t)
	at := len(records) - 2 // the event before the last
	where := fmt.Sprintf("record %d (2 events before it are stored): ", at)
	for _, c := range []struct {
		name, want string
		code       api.Code
		record     api.ExportRecord
	}{
		{"another hash", where, api.Corrupt, api.ExportRecord{Event: &api.ExportEvent{Payload: records[at].Event.Payload}}},
		{"an event too early", where, api.Conflict, records[at+1]},
		{"no record", fmt.Sprintf("/records/%d: ", at), api.Malformed, api.ExportRecord{}},
	} {
		bad := slices.Clone(records)
		bad[at] = c.record
		err := importAs(t, e, bob, bad...)
		if got := api.FromError(err); got.Code != c.code || !strings.Contains(got.Message, c.want) || !strings.Contains(got.Message, "2 events before") {
			t.Errorf("%s: %v, want %s with %q", c.name, got, c.code, c.want)
		}
		if events := lastSeq(t, w); events != 3 { // the policy, the opening and the first turn
			t.Errorf("%s: %d events are stored", c.name, events)
		}
	}
	if err := importAs(t, e, bob, records...); err != nil {
		t.Errorf("the records as they were: %v", err)
	}
	if d := cmp.Diff(records[1:], must(e.Transfer.Export(t.Context(), bob, x.id, api.ExportSession{}))(t).Records[1:]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	verified(t, e)
}

// failingKeys is a key store whose disk refuses every write.
type failingKeys struct{ *keyring.Memory }

func (failingKeys) Put(turns.ID, seal.Key) error { return errors.New("disk full") }

// A crash between a session's first event and its key is made good by the same
// import; an import that fails before leaves no key.
func TestRetriedImportCompletesAHalfImport(t *testing.T) {
	x := newAbroad(t, bob)
	records := x.records(t)
	w := newWorld()
	e := w.Engine(t)
	e.Reader.Log = refusing{w.Log}
	if err := importAs(t, e, bob, records...); code(err) != api.Unavailable {
		t.Errorf("a log that takes nothing: %v, want unavailable", err)
	}
	if _, err := w.Keys.Key(x.id); !errors.Is(err, seal.ErrNoKey) {
		t.Errorf("the key of a session that is not stored: %v", err)
	}
	e.Reader.Log, e.Store.Keys = w.Log, failingKeys{w.Keys}
	if err := importAs(t, e, bob, records...); code(err) != api.Indeterminate {
		t.Errorf("a key store that takes nothing: %v, want indeterminate", err)
	}
	e.Store.Keys = w.Keys
	if err := importAs(t, e, bob, records...); err != nil {
		t.Errorf("again: %v", err)
	}
	verified(t, e)
	must(e.Sessions.Append(t.Context(), bob, x.id, say("four", "yes"), nil))(t)
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
	set := must(x.e.Sessions.Create(t.Context(), bob, api.CreateSession{SessionSettings: api.SessionSettings{Meta: large}}, []byte("{}")))(t)
	w := newWorld()
	e := w.Engine(t)
	e.Limits.MaxPayload = 1 << 20
	if err := copyAs(t, bob, x.e, e, x.id); err != nil {
		t.Fatal(err)
	}
	r := say("four", "yes")
	r.Meta = large
	must(x.e.Sessions.Append(t.Context(), bob, x.id, r, canon(r)))(t)
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
	x.e.Limits.MaxPayload = 512 << 10
	l := must(x.e.History.List(t.Context(), operator, api.ListSessions{}))(t)
	if len(l.Sessions) != 2 || l.Sessions[0].Error != "" || l.Sessions[1].Error != api.TooLarge || len(canon(l)) > x.e.Limits.MaxPayload {
		t.Errorf("sessions: %.500s", canon(l))
	}
	for _, order := range []string{"asc", "desc"} {
		n, errors := 0, 0
		for after := ""; ; {
			p := must(x.e.History.ListTurns(t.Context(), bob, x.id, api.ListTurns{Order: order, Page: api.Page{After: after}}))(t)
			for _, v := range p.Turns {
				n++
				if v.Error == api.TooLarge {
					errors++
				}
			}
			if len(canon(p)) > x.e.Limits.MaxPayload {
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
func copyAs(t *testing.T, c reader.Caller, from, to *Engine, session turns.ID) error {
	t.Helper()
	for after := ""; ; {
		page := must(from.Transfer.Export(t.Context(), c, session, api.ExportSession{Page: api.Page{After: after, Limit: 3}}))(t)
		if _, err := to.Transfer.Import(t.Context(), c, api.ImportRecords{Records: page.Records}); err != nil {
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
	f := must(x.e.Forks.Fork(t.Context(), bob, x.id, api.CreateFork{Turn: x.turn[1].Turn}, []byte("f")))(t)
	must(x.e.Sessions.Append(t.Context(), bob, f.ID, say("on the fork", "yes"), nil))(t)
	records := must(x.e.Transfer.Export(t.Context(), bob, f.ID, api.ExportSession{}))(t).Records
	w := newWorld()
	daemons := []*Engine{w.Engine(t), w.Engine(t)}
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
