package memories

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/cache"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Memories stores what agents remember. Safe for concurrent use.
type Memories struct {
	// MaxEvents bounds the events on an agent's chain. Withdrawals come on top: there are
	// at most as many as memories.
	MaxEvents uint64
	// MayErase refuses who may not take something out for ever, and where nothing can be.
	MayErase func(c reader.Caller, ground string) error
	// MaxScan bounds the memories that one page of a list, or a search, looks at.
	MaxScan int

	content *content.Store
	page    *page.Limits
	reader  *reader.Reader
	writer  *writer.Writer
	texts   *cache.Cache[place, text] // of what searches looked at
}

const (
	// maxEvents takes about 100 MB, as an event of usual size has 500 bytes in the log and
	// as many in the projections.
	maxEvents = 100_000
	maxScan   = 5000
	// maxShown bounds the ids in one list of a reply.
	maxShown = 1000
)

// New returns the memories that w stores. Searches keep texts within budget.
func New(cs *content.Store, limits *page.Limits, r *reader.Reader, w *writer.Writer, budget *cache.Budget) *Memories {
	return &Memories{MaxEvents: maxEvents, MaxScan: maxScan, content: cs, page: limits, reader: r, writer: w, texts: cache.New[place, text](budget, "memories")}
}

// subjectOf returns the subject and the name of an agent's chain.
func subjectOf(tenant, agent string) (string, turns.Chain) {
	c := turns.Chain{Entity: turns.AgentEntity, ID: agent}
	return ledger.Subject(tenant, agent, c), c
}

// catchUp waits until the projections have applied the agent's chain, and returns its
// fold. A chain that is set aside is [ledger.ErrCorrupt].
func (ms *Memories) catchUp(ctx context.Context, tenant, agent string) (ledger.Memories, error) {
	subject, _ := subjectOf(tenant, agent)
	had, err := ms.reader.Projections.Memories(tenant, agent)
	if err != nil {
		return had, err
	}
	last, err := ms.reader.CatchUpChain(ctx, subject, "the memories of agent "+agent, had.Stored > 0)
	if err != nil || last == 0 {
		return ledger.Memories{}, err
	}
	m, err := ms.reader.Projections.Memories(tenant, agent)
	if err == nil && m.Tail.Seq < last {
		why, _ := ms.reader.Projections.WhyAside(subject)
		err = fmt.Errorf("%w: the memories of agent %s are read-only here: %s", ledger.ErrCorrupt, agent, why)
	}
	return m, err
}

// draft is an event of an agent's chain that a decision made.
type draft struct {
	event *turns.Event
	body  any
	keys  []turns.ID // content keys of sessions; the agent's comes on top
}

// errOperator is the answer to a change of the operator's.
func errOperator() error {
	return &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name an agent"}
}

// append calls decide on the fold of the caller's chain, and appends the event that it
// drafts, expecting that tail. If another writer was faster, it decides again. If decide
// returns no draft, append stores nothing and returns 0.
//
// Crash states: before the append nothing is stored, but the agent's key may be. After
// it the event is on the log; a retry with the same id finds it, on any daemon.
func (ms *Memories) append(ctx context.Context, c reader.Caller, decide func(ledger.Memories) (*draft, error)) (uint64, error) {
	if c.Operator() {
		return 0, errOperator()
	}
	_, release, err := ms.writer.Hold(ctx, "memories "+c.Actor())
	if err != nil {
		return 0, err
	}
	defer release()
	key, err := ms.agentKey(c)
	if err != nil {
		return 0, err
	}
	subject, chain := subjectOf(c.Tenant, c.Agent)
	for {
		fold, err := ms.catchUp(ctx, c.Tenant, c.Agent)
		if err != nil {
			return 0, err
		}
		d, err := decide(fold)
		if err != nil || d == nil {
			return 0, err
		}
		if m := d.event.Memory; fold.Stored >= ms.MaxEvents && (m == nil || m.State != turns.Withdrawn) {
			return 0, api.Errorf(api.TooLarge, map[string]any{"limit": ms.MaxEvents}, "agent %s has %d events of memory stored, the limit is %d", c.Agent, fold.Stored, ms.MaxEvents)
		}
		ev := d.event
		ev.Version, ev.Chain, ev.Index, ev.Prev = turns.Version, chain, fold.Stored, fold.Tail.Hash
		ev.Recorded, ev.Actor, ev.Sender = ms.reader.Now().UnixNano(), c.Actor(), c.Key
		payload, err := ms.content.Seal(ctx, c.Tenant, turns.ID{}, ev, d.body, append([]turns.ID{key}, d.keys...))
		if err != nil {
			return 0, err
		}
		next, err := ms.writer.Admit(ctx, ms.reader.Projections.History(), subject, fold.Tail.Seq, ev, payload)
		var seq uint64
		if err == nil {
			seq, err = ms.writer.AppendAdmitted(ctx, next)
		}
		switch {
		case err == nil:
			return seq, writer.AfterCommit(ms.reader.Projections.WaitFor(ctx, seq))
		case !errors.Is(err, ledger.ErrConflict):
			return 0, ms.writer.InternalError(ev, err)
		case ctx.Err() != nil:
			return 0, fmt.Errorf("%w: the memories kept changing: %w", ledger.ErrUnavailable, ctx.Err())
		}
		ms.writer.Metrics.Conflict()
	}
}

// agentKey makes the content key of the caller durable, and returns its id.
func (ms *Memories) agentKey(c reader.Caller) (turns.ID, error) {
	if _, err := ms.content.AgentKey(c.Tenant, c.Agent); err != nil {
		return turns.ID{}, err
	}
	return ms.content.AgentKeyID(c.Tenant, c.Agent)
}

// stored returns the event that the same request stored, nil if its id is new.
// Another request of that id is [ledger.ErrIDReused].
func (ms *Memories) stored(c reader.Caller, id turns.ID, digest turns.Hash) (*turns.Event, uint64, error) {
	if id.IsZero() {
		return nil, 0, nil
	}
	seq, ok, err := ms.reader.Projections.MemoryEvent(c.Tenant, c.Agent, id)
	if err != nil {
		return nil, 0, err
	}
	if !ok {
		// The memory of a compaction may have the id.
		if _, err := ms.reader.Projections.Memory(c.Tenant, c.Agent, id); err == nil {
			return nil, 0, idReused(id)
		} else if !errors.Is(err, ledger.ErrNotFound) {
			return nil, 0, err
		}
		return nil, 0, nil
	}
	ev, err := ms.eventAt(seq)
	if err != nil {
		return nil, 0, err
	}
	same, err := ms.content.SameRequest(ev, digest)
	if err != nil {
		return nil, 0, err
	}
	if !same {
		return nil, 0, idReused(id)
	}
	return ev, seq, nil
}

func idReused(id turns.ID) error {
	return &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is stored with another request", id)}
}

// eventAt returns the event at a position of the log.
func (ms *Memories) eventAt(seq uint64) (*turns.Event, error) {
	r, err := ms.reader.Projections.Record(seq)
	if err != nil {
		return nil, err
	}
	return turns.Decode(r.Payload)
}

// notFound is the error for a memory that the agent does not have, or that the session
// which asks does not see: the two can't be told apart.
func notFound(id turns.ID) error {
	return &api.Error{Code: api.NotFound, Message: "no memory " + id.String()}
}
