package apply

import (
	"sync"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// recent holds in memory what the rows of the newest records say, so that the next
// append to a session reads nothing of the database, and the rows that walks over the
// lineage read last. Only the applier fills chains and turns. Safe for concurrent use.
//
// Invariant: what recent holds is what the database answers. The applier removes the
// chains of a batch before the batch commits and puts them back after. So nobody reads
// an old fold here after a newer row there. A turn's row never changes. A database
// that is opened again begins with an empty recent.
type recent struct {
	mu     sync.Mutex
	chains generations[turns.ID, *chain]
	turns  generations[turns.Ref, *rows.Turn]
	walked generations[turns.Ref, *rows.Turn] // apart, so that walks push out no row of an append
	clears uint64
	events generations[turns.Hash, *expected] // that this process made, by the hash of their payload
}

// expected is an event that this process appends, and what [ledger.Admit] made of it before.
type expected struct {
	event   turns.Event // without its body
	subject string
	chain   *chain // with it, but for the position of its tail, and the newest id
	node    lineage.Node
}

// chain is the state of a session's chain. It is not changed once others can see it.
type chain struct {
	session ledger.Session
	newest  turns.ID // the greatest id of an event of the chain: a greater id is new
}

// Rows that a generation of recent holds: some 1 KB for a chain, 0.5 KB for a turn, in
// two generations.
const recentChains, recentTurns = 4096, 8192

// recentWalked is how many rows of walks a generation holds, some 0.5 KB each. Paths go
// from fork to fork, so that a tree of as many forks is walked in memory.
const recentWalked = 16_384

// recentEvents is how many events a generation holds, some 3 KB each. An append is in
// flight at most 1,024 times.
const recentEvents = 1024

func newRecent() *recent {
	return &recent{chains: generations[turns.ID, *chain]{max: recentChains}, turns: generations[turns.Ref, *rows.Turn]{max: recentTurns},
		walked: generations[turns.Ref, *rows.Turn]{max: recentWalked}, events: generations[turns.Hash, *expected]{max: recentEvents}}
}

// chain returns the state of a session's chain, nil if it is not held.
func (r *recent) chain(id turns.ID) *chain {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chains.get(id)
}

// turn returns the row of a turn, nil if it is not held.
func (r *recent) turn(ref turns.Ref) *rows.Turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.get(ref)
}

// step returns the row of a turn, of the newest ones or of those that walks have read;
// nil if it is not held. clears is for addWalked.
func (r *recent) step(ref turns.Ref) (t *rows.Turn, clears uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t = r.turns.get(ref); t == nil {
		t = r.walked.get(ref)
	}
	return t, r.clears
}

// addWalked takes in a row that a walk has read from the database, unless recent was
// cleared since.
func (r *recent) addWalked(t *rows.Turn, clears uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clears == clears {
		r.walked.add(t.Ref, t)
	}
}

// drop removes the chains that a batch changes.
func (r *recent) drop(c *changes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range c.chains {
		r.chains.remove(id)
	}
}

// add takes in what a batch has changed, once it is committed.
func (r *recent) add(c *changes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, x := range c.chains {
		r.chains.add(id, x)
	}
	for ref, t := range c.turns {
		r.turns.add(ref, t)
	}
}

// clear removes everything.
func (r *recent) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chains.clear()
	r.turns.clear()
	r.walked.clear()
	r.clears++
	r.events.clear()
}

// takeEvent returns the event whose payload has a hash, and forgets it; nil if it is not
// held.
func (r *recent) takeEvent(hash turns.Hash) *expected {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.events.get(hash)
	if e != nil {
		r.events.remove(hash)
	}
	return e
}

// changes is what a batch has changed so far.
type changes struct {
	chains map[turns.ID]*chain
	turns  map[turns.Ref]*rows.Turn
	rows   map[string][]byte // other rows that a later record may read, by key
}

// generations holds the entries that were used last: at least max of them, and at most
// twice as many.
type generations[K comparable, V any] struct {
	max        int
	young, old map[K]V
}

// get returns the value of k, the zero V if there is none.
func (g *generations[K, V]) get(k K) V {
	v, ok := g.young[k]
	if ok {
		return v
	}
	if v, ok = g.old[k]; ok {
		g.add(k, v)
	}
	return v
}

func (g *generations[K, V]) add(k K, v V) {
	if len(g.young) >= g.max {
		g.old, g.young = g.young, nil
	}
	if g.young == nil {
		g.young = make(map[K]V)
	}
	g.young[k] = v
}

func (g *generations[K, V]) remove(k K) {
	delete(g.young, k)
	delete(g.old, k)
}

func (g *generations[K, V]) clear() { g.young, g.old = nil, nil }
