package memories

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/projections"
	"nexus/projections/rows"
	"nexus/turns"
)

const (
	defaultHalfLife = 30
	maxHalfLife     = 100_000
	maxQuery        = 4 << 10
)

// Search is memory.search: the memories in force that have words of a text, ranked by
// BM25 and by their age. It looks at the newest [Memories.MaxScan] memories for each
// request: no index holds their words, so nothing that is sealed stands on a disk in the
// clear, and what is erased is found by nobody. What it opened stays in memory for the next
// search, within the budget of the caches, until a key is destroyed.
func (ms *Memories) Search(ctx context.Context, c reader.Caller, req api.SearchMemories) (*api.MemoryHits, error) {
	limit, err := (api.Page{Limit: req.Limit}).LimitOf(10, 100)
	if err != nil {
		return nil, err
	}
	if len(req.Text) > maxQuery {
		return nil, &turns.FieldError{Field: "/text", Reason: fmt.Sprintf("%d bytes, the limit is %d", len(req.Text), maxQuery), Kind: ledger.ErrTooLarge}
	}
	if len(words(req.Text)) == 0 {
		return nil, api.FieldErrorf("/text", "it has no word")
	}
	f, err := newFilter(req.Kind, "", req.Trust, nil)
	if err != nil {
		return nil, err
	}
	q := searchQuery{text: req.Text, limit: limit, filter: f, hidden: req.Hidden, halfLife: defaultHalfLife, now: ms.reader.Now()}
	if req.HalfLife != nil {
		if q.halfLife = *req.HalfLife; q.halfLife > maxHalfLife {
			return nil, api.FieldErrorf("/half_life_days", "%d is over %d", q.halfLife, maxHalfLife)
		}
	}
	agent, err := agentOf(c, req.Agent)
	if err != nil {
		return nil, err
	}
	v, err := ms.viewerOf(ctx, c, req.Session, req.Read)
	if err != nil {
		return nil, err
	}
	if s := v.session; s != nil {
		agent = s.Agent
	}
	if agent == "" {
		return nil, api.FieldErrorf("/agent", "missing: the operator names the agent")
	}
	if !req.StaleOK {
		if _, err := ms.catchUp(ctx, c.Tenant, agent); err != nil {
			return nil, err
		}
	}
	q.at = ms.reader.Projections.Applied().Seq
	hits, cut, err := ms.search(ctx, c.Tenant, agent, v, q)
	if err != nil {
		return nil, err
	}
	return &api.MemoryHits{Hits: hits, Cut: cut}, nil
}

// place is where the text of a memory is: the position of its event, and its item there.
type place struct{ seq, item uint64 }

// text is the text of a memory and its words, in order.
type text struct {
	text    string
	words   []string
	episode turns.Ref  // of which turn it is the episode; zero: it is none
	from    []turns.ID // the sessions of its sources
}

// maxKept bounds the bytes of a text that searches keep. Longer ones are rare, and would
// take the room of many.
const maxKept = 2 << 10

// wordsOf returns the text of a memory and its words.
func (op *opener) wordsOf(m ledger.NamedMemory) (text, error) {
	texts, at := op.ms.texts, place{m.Seq, m.Item}
	if t, ok := texts.Get(at); ok {
		return t, nil
	}
	epoch := texts.Epoch()
	o, ev, err := op.textOf(m)
	if err != nil {
		return text{}, err
	}
	t := text{text: o.Text, words: words(o.Text), from: sessionsOf(ev, o.sources)}
	if m.Item == 0 {
		t.episode = episodeTurn(ev)
	}
	if len(t.text) <= maxKept {
		texts.PutIn(epoch, at, t, 256+len(t.text)+40*len(t.words)+16*len(t.from))
	}
	return t, nil
}

// searchQuery is what a search looks for, at a position of the log.
type searchQuery struct {
	text     string
	limit    int
	filter   filter
	notDaily bool
	hidden   bool   // those of hidden sessions too
	others   bool   // no episode for which the viewer's own context stands
	halfLife uint64 // days
	at       uint64
	now      time.Time
}

// search returns the best hits. cut is set if older memories, or hits that fit into no
// reply, were left out.
func (ms *Memories) search(ctx context.Context, tenant, agent string, v *viewer, q searchQuery) (hits []api.MemoryHit, cut bool, err error) {
	type found struct {
		ledger.NamedMemory
		ledger.MemoryStatus
		score float64
	}
	var all []found
	texts := newCorpus(q.text)
	op, scanned, said := ms.opener(), 0, sayings{}
	for m, err := range ms.reader.Projections.ListMemories(tenant, agent, projections.MemoryPlace{Seq: q.at + 1}) {
		if err != nil {
			return nil, false, err
		}
		if ctx.Err() != nil {
			return nil, false, fmt.Errorf("%w: search the memories: %w", ledger.ErrUnavailable, ctx.Err())
		}
		if scanned++; scanned > ms.MaxScan {
			cut = true
			break
		}
		st, ok, err := ms.inForce(v, &m.Memory, q.at)
		if err != nil {
			return nil, false, err
		}
		if !ok || q.notDaily && m.Kind == turns.Daily || !q.filter.takes(&m.Memory, st) {
			continue
		}
		t, err := op.wordsOf(m)
		if err != nil {
			continue // erased, or unreadable; lists say so
		}
		if q.others {
			known, err := v.knows(ms.reader.Projections, t.episode)
			if err != nil {
				return nil, false, err
			}
			if known {
				continue
			}
		}
		if !q.hidden && texts.has(t.words) { // another is no hit; whether its sessions are hidden is a read of each
			hidden, err := ms.ofHidden(v, tenant, agent, m, t.from)
			if err != nil {
				return nil, false, err
			}
			if hidden {
				continue
			}
		}
		if !said.add(m.Kind, t.text) {
			continue
		}
		texts.add(t.words)
		all = append(all, found{NamedMemory: m, MemoryStatus: st})
	}
	for i := range all {
		age := q.now.Sub(time.Unix(0, rows.MemoryTime(&all[i].Memory)))
		all[i].score = texts.score(i) * decay(age.Hours()/24, float64(q.halfLife))
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.score, a.score) }) // of one score the newest is first
	hits, size := []api.MemoryHit{}, 0
	for _, m := range all {
		if m.score == 0 || len(hits) == q.limit {
			break
		}
		x := api.MemoryHit{Memory: *ms.describe(op, tenant, agent, m.NamedMemory, m.MemoryStatus), Score: m.score}
		n, err := page.EncodedSize(x)
		if err != nil {
			return nil, false, err
		}
		if size += n; size > ms.page.Payload()/2 && len(hits) > 0 {
			return hits, true, nil
		}
		hits = append(hits, x)
	}
	return hits, cut, nil
}
