package projections

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/apply"
	"nexus/projections/rows"
	"nexus/turns"
)

// book is the memories of an agent, made of its events the slow and obvious way: in
// lists that are searched from the start.
type book struct {
	fold   ledger.Memories
	all    []*page // in the order of the log
	says   map[turns.Hash]*page
	events map[turns.ID]uint64
	docs   []uint64
	forest *lineage.Forest // of the turns that were stored before
}

type page struct {
	ledger.NamedMemory
	same *page // the memory that this is evidence of
}

func newBook(forest *lineage.Forest) *book {
	return &book{forest: forest, says: map[turns.Hash]*page{}, events: map[turns.ID]uint64{}}
}

func (b *book) find(id turns.ID) *page {
	for _, p := range b.all {
		if p.ID == id && p.same != nil {
			return p.same
		}
		if p.ID == id {
			return p
		}
	}
	return nil
}

func (b *book) listed() (out []ledger.NamedMemory) {
	for _, p := range slices.Backward(b.all) {
		if p.same == nil {
			out = append(out, p.NamedMemory)
		}
	}
	return out
}

func (b *book) evidence(id turns.ID) (out []MemoryPlace) {
	for _, p := range b.all {
		if p.same != nil && p.same.ID == id {
			out = append(out, MemoryPlace{p.Seq, p.Item})
		}
	}
	return out
}

func (b *book) dependents(id turns.ID) (out []turns.ID) {
	for _, p := range b.all {
		for _, from := range p.From {
			if p.same == nil && b.find(from).ID == id {
				out = append(out, p.ID)
			}
		}
	}
	slices.SortFunc(out, turns.ID.Compare)
	return slices.Compact(out)
}

func (b *book) add(m ledger.NamedMemory, saved bool) *page {
	p := &page{NamedMemory: m}
	b.all = append(b.all, p)
	old := b.says[m.Text]
	if old != nil && b.saysFor(old.Now(), m.Now(), saved) {
		p.same, p.Same = old, old.ID
		old.Evidence++
		if old.Now().State == turns.Proposed && m.Now().State == turns.Accepted {
			old.Set(m.Seq, func(s *ledger.MemoryStatus) { s.State = turns.Accepted })
		}
		return old
	}
	b.says[m.Text] = p
	return p
}

// saysFor reports whether m is evidence of a memory of the same digest that is in state old:
// everybody who would see m must see that one.
func (b *book) saysFor(old, m ledger.MemoryStatus, saved bool) bool {
	if old.State == turns.Withdrawn {
		return !saved
	}
	if saved && !old.SupersededBy.IsZero() || old.Private && !m.Private {
		return false
	}
	return old.Branch.IsZero() || !m.Branch.IsZero() && b.isAbove(old.Branch, m.Branch)
}

// isAbove reports whether a turn is on the path of another, by a walk up from that.
func (b *book) isAbove(a, of turns.Ref) bool {
	for at := of; at != a; {
		ns, err := b.forest.Node(at)
		if err != nil || ns.Parent.IsZero() {
			return false
		}
		at = ns.Parent
	}
	return true
}

func (b *book) withdraw(id, root turns.ID, seq uint64) {
	for _, d := range b.dependents(id) {
		if p := b.find(d); p.Now().State != turns.Withdrawn {
			p.Set(seq, func(s *ledger.MemoryStatus) { s.State, s.With = turns.Withdrawn, root })
			b.withdraw(d, root, seq)
		}
	}
}

// event folds in an event of the agent's chain.
func (b *book) event(t testing.TB, r ledger.Record, e *turns.Event) {
	t.Helper()
	if err := b.fold.Apply(r.Subject, r.Seq, r.Hash, e); err != nil {
		t.Fatal(err)
	}
	b.events[e.ID] = r.Seq
	switch m := e.Memory; e.Kind {
	case turns.KindDocument:
		b.docs = append(b.docs, r.Seq)
	case turns.KindMemory:
		p := b.add(ledger.NamedMemory{ID: e.ID, Memory: ledger.Memory{Kind: m.Kind, Trust: m.Trust, Text: m.Text, Seq: r.Seq, Recorded: e.Recorded, ValidFrom: m.ValidFrom, Supersedes: m.Supersedes, From: m.From,
			Statuses: []ledger.MemoryStatus{{Seq: r.Seq, State: m.State, Private: m.Private, Branch: m.Branch}}}}, true)
		if old := b.find(m.Supersedes); old != nil && old != p {
			old.Set(r.Seq, func(s *ledger.MemoryStatus) { s.SupersededBy = p.ID })
		}
	case turns.KindMemoryChanged:
		p := b.find(m.Of)
		p.Set(r.Seq, func(s *ledger.MemoryStatus) { s.State, s.Changed = m.State, r.Seq })
		if m.State == turns.Withdrawn {
			b.withdraw(p.ID, p.ID, r.Seq)
			return
		}
		now := &p.Statuses[len(p.Statuses)-1]
		now.Private, now.Branch, p.Text = m.Private, turns.Ref{}, m.Text
		if by := b.says[m.Text]; by == nil || by.Text != m.Text || by.Now().State != turns.Accepted || !by.Now().SupersededBy.IsZero() {
			b.says[m.Text] = p
		}
	}
}

// memory appends a random event to the chain of the agent of a session.
func (a *author) memory(s *session) {
	a.t.Helper()
	chain := turns.Chain{Entity: turns.AgentEntity, ID: s.Agent}
	b := a.book(s.Tenant, s.Agent)
	e := &turns.Event{Version: turns.Version, Recorded: int64(a.next + 1), ID: a.id(), Chain: chain, Index: b.fold.Stored, Prev: b.fold.Tail.Hash, Body: []byte("x"), Commitment: turns.Hash{1}}
	// The texts are few, so that memories say the same.
	text := turns.Hash{2, byte(a.rng.IntN(12))}
	var old *page
	if len(b.all) > 0 {
		old = b.all[a.rng.IntN(len(b.all))]
		if old.same != nil {
			old = old.same
		}
		if old.Now().State == turns.Withdrawn {
			old = nil
		}
	}
	switch k := a.rng.IntN(8); {
	case k == 0:
		e.Kind, e.Document = turns.KindDocument, &turns.StoredDocument{Version: b.fold.Document.Version + 1, Text: text}
	case k == 1 && old != nil:
		e.Kind, e.Memory = turns.KindMemoryChanged, &turns.Memory{State: turns.Withdrawn, Of: old.ID}
	case k == 2 && old != nil && old.Now().SupersededBy.IsZero() && len(old.Statuses) < ledger.MaxMemoryStatuses:
		e.Kind, e.Memory = turns.KindMemoryChanged, &turns.Memory{State: turns.Accepted, Of: old.ID, Text: text, Private: k == 2}
	default:
		e.Kind = turns.KindMemory
		e.Memory = &turns.Memory{State: turns.MemoryState(1 + a.rng.IntN(2)), Kind: turns.MemoryKind(1 + a.rng.IntN(4)), Trust: turns.ByAgent, Text: text}
		if a.rng.IntN(3) == 0 {
			e.Memory.ValidFrom = int64(a.rng.IntN(100)) - 50
		}
		if len(s.turns) > 0 && a.rng.IntN(2) == 0 {
			at := s.turns[a.rng.IntN(len(s.turns))]
			e.Memory.Branch, e.Memory.Sources = at, []turns.Source{{Turn: at, Hash: s.hash[at]}}
		}
		if old != nil && a.rng.IntN(2) == 0 {
			e.Memory.From = []turns.ID{old.ID}
		}
		if old != nil && a.rng.IntN(3) == 0 && old.Now().SupersededBy.IsZero() && old.Text != text {
			e.Memory.Supersedes = old.ID
		}
	}
	payload, err := e.Encode()
	if err != nil {
		a.t.Fatal(err)
	}
	subject := ledger.Subject(s.Tenant, s.Agent, chain)
	seq, err := a.log.Append(a.t.Context(), subject, b.fold.Tail.Seq, payload)
	if err != nil {
		a.t.Fatal(err)
	}
	b.event(a.t, ledger.Record{Seq: seq, Subject: subject, Payload: payload, Hash: turns.HashEvent(payload)}, e)
}

func (a *author) book(tenant, agent string) *book { return bookOf(a.books, &a.forest, tenant, agent) }

func bookOf(books map[string]*book, forest *lineage.Forest, tenant, agent string) *book {
	if books[tenant+"/"+agent] == nil {
		books[tenant+"/"+agent] = newBook(forest)
	}
	return books[tenant+"/"+agent]
}

func (w *twin) checkMemories(t *testing.T, s *Store) {
	t.Helper()
	saved, withdrawn, again, cascades := 0, 0, 0, 0
	for _, tenant := range []string{"default", "other", "none"} {
		var agents []string
		for _, agent := range []string{"main", "mainly", "none"} {
			b := w.books[tenant+"/"+agent]
			if b == nil {
				b = newBook(&w.forest)
			} else {
				agents = append(agents, agent)
			}
			fold, err := s.Memories(tenant, agent)
			same(t, "Memories", fold, b.fold, err)
			listed := b.listed()
			same(t, "ListMemories", all(t, s.ListMemories(tenant, agent, MemoryPlace{})), listed, nil)
			for i, m := range listed {
				same(t, "ListMemories before one", len(all(t, s.ListMemories(tenant, agent, MemoryPlace{m.Seq, m.Item}))), len(listed)-i-1, nil)
				deps, err := s.MemoryDependents(tenant, agent, m.ID, 1000)
				same(t, "MemoryDependents", deps, b.dependents(m.ID), err)
				evidence, err := s.MemoryEvidence(tenant, agent, m.ID, 1000)
				same(t, "MemoryEvidence", evidence, b.evidence(m.ID), err)
				same(t, "count of the evidence", uint64(len(evidence)), m.Evidence, nil)
			}
			for _, p := range b.all {
				got, err := s.Memory(tenant, agent, p.ID)
				same(t, "Memory", got, b.find(p.ID).NamedMemory, err)
				saved++
				switch now := p.Now(); {
				case p.same != nil:
					again++
				case !now.With.IsZero():
					cascades++
				case now.State == turns.Withdrawn:
					withdrawn++
				}
			}
			for text, p := range b.says {
				got, ok, err := s.MemoryOfText(tenant, agent, text)
				same(t, "MemoryOfText", got, p.NamedMemory, err)
				same(t, "MemoryOfText", ok, true, nil)
			}
			for id, seq := range b.events {
				got, ok, err := s.MemoryEvent(tenant, agent, id)
				same(t, "MemoryEvent", got, seq, err)
				same(t, "MemoryEvent", ok, true, nil)
			}
			for _, seq := range b.docs {
				at, ok, err := s.DocumentAt(tenant, agent, seq)
				same(t, "DocumentAt", at, seq, err)
				same(t, "DocumentAt", ok, true, nil)
			}
			for _, span := range [][2]int64{{-1 << 62, 1 << 62}, {-20, 20}, {5, 5}} {
				var want []ledger.NamedMemory
				for _, m := range slices.Backward(listed) {
					if at := rows.MemoryTime(&m.Memory); m.Kind == turns.Daily && at >= span[0] && at < span[1] {
						want = append(want, m)
					}
				}
				slices.SortStableFunc(want, func(a, b ledger.NamedMemory) int {
					return cmp.Compare(rows.MemoryTime(&a.Memory), rows.MemoryTime(&b.Memory))
				})
				same(t, "DailyMemories", all(t, s.DailyMemories(tenant, agent, span[0], span[1])), want, nil)
			}
		}
		same(t, "RememberingAgents", all(t, s.RememberingAgents(tenant, "")), agents, nil)
		if len(agents) > 1 {
			same(t, "RememberingAgents after one", all(t, s.RememberingAgents(tenant, agents[0])), agents[1:], nil)
		}
	}
	t.Logf("%d memories: %d say the same as another, %d are withdrawn, %d with another", saved, again, withdrawn, cascades)
}

// A memory that is set aside leaves no row; a memory that breaks no rule is applied.
func TestAnAgentsChainThatBreaksARuleIsSetAside(t *testing.T) {
	a := newAuthor(t, 3)
	s, other := a.open(nil), a.open(nil)
	a.turn(s)
	a.turn(other)
	a.memory(s)
	b := a.book("default", "main")
	chain := turns.Chain{Entity: turns.AgentEntity, ID: "main"}
	for why, change := range map[string]func(*turns.Event){
		"":              func(*turns.Event) {},
		"stored is":     func(e *turns.Event) { e.Memory.Sources[0].Hash = turns.Hash{1} },
		"does not have": func(e *turns.Event) { e.Memory.From = []turns.ID{a.id()} },
		"has index":     func(e *turns.Event) { e.Index += 2 },
		"two events":    func(e *turns.Event) { e.ID = b.all[0].ID },
	} {
		t.Run(why, func(t *testing.T) {
			fs := vfs.NewMem()
			store := openStore(t, fs)
			defer store.Close()
			run(t, store, a.log, b.fold.Tail.Seq)
			e := &turns.Event{Version: turns.Version, Recorded: 1, Kind: turns.KindMemory, ID: a.id(), Chain: chain, Index: b.fold.Stored, Prev: b.fold.Tail.Hash, Body: []byte("x"), Commitment: turns.Hash{1},
				Memory: &turns.Memory{State: turns.Accepted, Kind: turns.Daily, Trust: turns.ByAgent, Text: turns.Hash{7}, Sources: []turns.Source{{Turn: s.Head, Hash: s.hash[s.Head]}}}}
			change(e)
			payload, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			ap, err := apply.Begin(store.db(), turns.ID{}, 0, store.Applied().Seq)
			if err != nil {
				t.Fatal(err)
			}
			subject := ledger.Subject("default", "main", chain)
			r := ledger.Record{Seq: b.fold.Tail.Seq + 1, Subject: subject, Payload: payload, Hash: turns.HashEvent(payload)}
			if err := ap.Apply(store.db().Parse(r)); err != nil {
				t.Fatal(err)
			}
			if err := ap.Commit(rows.Checkpoint{Seq: r.Seq, Hash: r.Hash, Schema: rows.Schema}); err != nil {
				t.Fatal(err)
			}
			if aside := ap.Aside(); (len(aside) == 1) != (why != "") || why != "" && !strings.Contains(aside[0].Why, why) {
				t.Errorf("aside: %+v; want %q", aside, why)
			}
			if _, ok, err := store.MemoryOfText("default", "main", turns.Hash{7}); err != nil || ok != (why == "") {
				t.Errorf("it has a row: %v, %v", ok, err)
			}
		})
	}
}
