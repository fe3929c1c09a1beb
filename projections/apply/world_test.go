package apply

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// world is a database, and the records of sessions. The records of all kinds of events are those of
// package projections' tests.
type world struct {
	t        *testing.T
	d        *Database
	rng      *rand.Rand
	records  []ledger.Record
	sessions []*session
	turns    []turns.Ref
	applied  uint64
}

type session struct {
	ledger.Session
	events []turns.ID
	depth  uint64 // of its head
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	folder, d, err := db.Open(db.Config{Dir: "p", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := folder.Close(d.DB, true); err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, d: NewDatabase(d.DB), rng: rand.New(rand.NewPCG(seed, 1))}
}

func (w *world) id() turns.ID {
	n := len(w.records) + 1
	return turns.DeriveID(time.UnixMilli(int64(n)), fmt.Sprint(n))
}

func (w *world) append(s *session, e *turns.Event) {
	w.t.Helper()
	e.Version, e.Recorded = turns.Version, int64(len(w.records)+1)*4e8
	if e.Kind != turns.KindOpened {
		e.Chain = turns.SessionChain(s.ID)
		e.Index, e.Prev = s.Tail.Index+1, s.Tail.Hash
	}
	payload, err := e.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	r := ledger.Record{Seq: uint64(len(w.records)) + 1, Payload: payload, Hash: turns.HashEvent(payload)}
	if err := s.Apply("default", r.Seq, r.Hash, e); err != nil {
		w.t.Fatal(err)
	}
	r.Subject = s.Subject()
	w.records, s.events = append(w.records, r), append(s.events, e.ID)
}

func (w *world) open() *session {
	id, s := w.id(), new(session)
	w.append(s, &turns.Event{Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Root: id, Agent: "main",
		Origin: &turns.Origin{Ledger: [16]byte{1}, Tenant: "default", Session: id}})
	w.sessions = append(w.sessions, s)
	return s
}

func (w *world) turn(s *session) {
	s.depth++
	e := &turns.Event{Kind: turns.KindTurn, ID: w.id(), Parent: s.Head, Depth: s.depth, Halves: 3,
		Tokens: turns.Tokens{Counter: "approx-1", Messages: 3, Response: 5}}
	e.Segment = s.SegmentFor(e.ID, s.Head)
	w.append(s, e)
	w.turns = append(w.turns, e.Ref())
}

// apply makes the rows of the records up to a position, in one batch.
func (w *world) apply(to uint64) {
	w.t.Helper()
	b, err := Begin(w.d, turns.ID{}, 0, w.applied)
	if err != nil {
		w.t.Fatal(err)
	}
	defer b.Close()
	for _, r := range w.records[w.applied:to] {
		if err := b.Apply(w.d.Parse(r)); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := b.Commit(w.checkpoint(to)); err != nil || len(b.Aside()) > 0 {
		w.t.Fatal(err, b.Aside())
	}
	w.applied = to
	if n := w.d.tree.Size(); n != to {
		w.t.Errorf("the edge in memory has %d leaves of %d", n, to)
	}
}

func (w *world) checkpoint(at uint64) rows.Checkpoint {
	return rows.Checkpoint{Identity: "log", Seq: at, Hash: w.records[at-1].Hash, Schema: rows.Schema}
}
