package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/seal"
)

// maxProblems is how many problems one verification lists; fewer where that is
// more than half a message. problemBytes is how long the text of one is.
const maxProblems, problemBytes = 1000, 512

// Verify is audit.verify: the whole log, or the chains of some sessions, read
// from the stream and checked against everything that can be checked: bytes and
// hashes, chains, lineage, coverage, calls, bodies, blobs, and the projections'
// copies. It believes nothing that the projections derived.
func (e *Engine) Verify(ctx context.Context, c Caller, req api.Verify) (*api.Verified, error) {
	began := e.Now()
	leave, err := e.enterVerify(len(req.Sessions) > 0)
	if err != nil {
		return nil, err
	}
	defer leave()
	st, err := e.Log.State(ctx)
	if err != nil {
		return nil, err
	}
	v := &verifier{e: e, c: c, out: &api.Verified{Last: st.Last, Problems: []api.Problem{}}, forest: new(lineage.Forest),
		sessions: make(map[turns.ID]ledger.Session), labels: make(map[string]ledger.Label), hashes: make(map[turns.Ref]turns.Hash),
		others: make(map[turns.Ref]bool), open: make(map[turns.Ref]ledger.Calls), leaves: make(map[turns.Ref]*turns.Event), broken: make(map[string]bool)}
	if len(req.Sessions) > 0 {
		if v.chains, err = v.needed(ctx, req.Sessions); err != nil {
			return nil, err
		}
	} else if !c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "only the operator verifies the whole ledger; name sessions"}
	}
	if err := st.Sound(); err != nil {
		v.problem("", api.Problem{Code: api.Corrupt, Message: err.Error()})
	}
	if err := e.Store.WaitFor(ctx, st.Last); err != nil {
		return nil, err
	}
	if err := v.read(ctx, st.Last); err != nil {
		return nil, err
	}
	if err := v.coverage(ctx); err != nil {
		return nil, err
	}
	if err := v.aside(); err != nil {
		return nil, err
	}
	v.out.OK = len(v.out.Problems) == 0
	v.out.DurationMS = uint64(e.Now().Sub(began) / time.Millisecond)
	return v.out, nil
}

// verifier folds the log a second time, in memory, by the same pure rules as
// everything else, and compares. It is the [ledger.History] of each event.
type verifier struct {
	e        *Engine
	c        Caller
	out      *api.Verified
	chains   []string // subjects, those of ancestors first; nil: the whole log
	sessions map[turns.ID]ledger.Session
	labels   map[string]ledger.Label // by subject
	forest   *lineage.Forest
	hashes   map[turns.Ref]turns.Hash   // of turns
	others   map[turns.Ref]bool         // events that are no turns
	open     map[turns.Ref]ledger.Calls // calls open behind a turn, where they are known
	leaves   map[turns.Ref]*turns.Event // compactions that no later one includes
	broken   map[string]bool            // subjects whose chains can't be followed further
}

func (v *verifier) Nodes(refs ...turns.Ref) ([]lineage.Node, error) { return v.forest.Nodes(refs...) }

func (v *verifier) Session(id turns.ID) (ledger.Session, error) {
	s, ok := v.sessions[id]
	if !ok {
		return s, fmt.Errorf("%w: session %s", ledger.ErrNotFound, id)
	}
	return s, nil
}

func (v *verifier) Label(tenant, id string) (ledger.Label, error) {
	return v.labels[ledger.Subject(tenant, id, turns.Chain{Entity: turns.LabelEntity, ID: id})], nil
}

func (v *verifier) Hash(ref turns.Ref) (turns.Hash, error) {
	h, ok := v.hashes[ref]
	if !ok {
		return h, fmt.Errorf("%w: turn %s", lineage.ErrUnknown, ref)
	}
	return h, nil
}

func (v *verifier) HasEvent(session, event turns.ID) (bool, error) {
	ref := turns.Ref{Session: session, Turn: event}
	_, turn := v.hashes[ref]
	return turn || v.others[ref], nil
}

// problem notes a problem of a chain of a tenant. Of another tenant's it says
// only where.
func (v *verifier) problem(tenant string, p api.Problem) {
	if tenant != v.c.Tenant && tenant != "" {
		p = api.Problem{Code: p.Code, Seq: p.Seq, Message: "an event of another tenant"}
	}
	p.Message = clipJSON(p.Message, problemBytes)
	if len(v.out.Problems) < min(maxProblems, v.e.payload()/2/(2*problemBytes)) {
		v.out.Problems = append(v.out.Problems, p)
	}
}

func (v *verifier) record(ctx context.Context, r ledger.Record) error {
	v.out.Events++
	tenant, chain, err := ledger.ParseSubject(r.Subject)
	if err == nil {
		if got := turns.HashEvent(r.Payload); got != r.Hash {
			err = fmt.Errorf("%w: its hash is %v, stored beside it is %v", ledger.ErrCorrupt, got, r.Hash)
		}
	}
	var ev *turns.Event
	if err == nil {
		ev, err = turns.Decode(r.Payload)
	}
	if err == nil && ev.Chain != chain {
		err = fmt.Errorf("%w: an event of chain %s on subject %s", ledger.ErrCorrupt, ev.Chain, r.Subject)
	}
	p := api.Problem{Code: api.Corrupt, Seq: r.Seq}
	p.Session, _ = chain.Session()
	if err != nil {
		v.broken[r.Subject] = true
		p.Message = err.Error()
		v.problem(tenant, p)
		return nil
	}
	p.Event = ev.ID
	if copied, err := v.e.Store.Record(r.Seq); err != nil || turns.HashEvent(copied.Payload) != r.Hash {
		v.problem(tenant, api.Problem{Code: api.Corrupt, Session: p.Session, Seq: r.Seq, Event: ev.ID, Message: fmt.Sprintf("the projections' copy differs: %v", err)})
	}
	if v.broken[r.Subject] {
		return nil // said once
	}
	switch chain.Entity {
	case turns.SessionEntity:
		err = v.session(ctx, r, ev)
	case turns.LabelEntity:
		err = v.label(tenant, r, ev)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		p.Code, p.Message = api.FromError(err).Code, err.Error()
		if p.Code == api.Internal {
			p.Code = api.Corrupt
		}
		v.problem(tenant, p)
	}
	return nil
}

func (v *verifier) label(tenant string, r ledger.Record, ev *turns.Event) error {
	next, err := ledger.Admit(v, r.Subject, r.Seq, r.Hash, ev)
	if err != nil {
		v.broken[r.Subject] = true
		return err
	}
	v.labels[r.Subject] = next.Label
	if row, err := v.e.Store.Label(tenant, ev.Chain.ID); err != nil || row.Tail.Index < ev.Index {
		return fmt.Errorf("%w: the projections lack it (%v)", ledger.ErrCorrupt, err)
	}
	return nil
}

func (v *verifier) session(ctx context.Context, r ledger.Record, ev *turns.Event) error {
	next, err := ledger.Admit(v, r.Subject, r.Seq, r.Hash, ev)
	if err == nil && ev.Kind.IsTurn() {
		err = v.forest.Add(next.Node)
	}
	if err != nil {
		v.broken[r.Subject] = true
		return err
	}
	s := &next.Session
	if ev.Index == 0 {
		v.out.Sessions++
	}
	v.sessions[s.ID] = *s
	if ev.Kind.IsTurn() {
		v.hashes[ev.Ref()] = r.Hash
	} else {
		v.others[ev.Ref()] = true
	}
	if err := v.content(ctx, s, next.Node, ev); err != nil {
		return err
	}
	if row, err := v.e.Store.Session(s.ID); err != nil || row.Tail.Index < ev.Index {
		return fmt.Errorf("%w: the projections lack it (%v)", ledger.ErrCorrupt, err)
	}
	if ev.Kind.IsTurn() {
		return v.row(next.Node, r)
	}
	return nil
}

// content checks an event's body and blobs.
func (v *verifier) content(ctx context.Context, s *ledger.Session, node lineage.Node, ev *turns.Event) error {
	var open *ledger.Calls
	if calls, known := v.open[ev.Parent]; known || ev.Parent.IsZero() {
		open = &calls
	}
	body, after, err := checkBody(v.e.ring(), ev, node, open)
	if after != nil && ev.Kind.IsTurn() {
		v.open[ev.Ref()] = *after
	}
	switch ev.Kind {
	case turns.KindTurn:
		v.out.Turns++
	case turns.KindCompaction:
		v.out.Compactions++
		delete(v.leaves, ev.Span.Previous)
		v.leaves[ev.Ref()] = ev
	}
	v.out.Blobs += uint64(len(ev.Blobs))
	if err != nil {
		return err
	}
	var k seal.Key
	if len(ev.Blobs) > 0 {
		if k, err = v.e.blobKey(s.Root); err != nil {
			return err
		}
		if err := v.e.linked(ctx, s.Tenant, k, ev, body); err != nil {
			return err
		}
	}
	err = v.e.checkCounts(ctx, s.Tenant, k, ev, body)
	if wrong := (*countError)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("%w: %w", ledger.ErrCorrupt, err)
	}
	return err
}

// row compares the projections' row of a turn.
func (v *verifier) row(node lineage.Node, r ledger.Record) error {
	row, err := v.e.Store.Turn(node.Ref)
	if err != nil {
		return fmt.Errorf("%w: the projections lack turn %s: %w", ledger.ErrCorrupt, node.Ref, err)
	}
	if row.Node != node || row.Seq != r.Seq || row.Hash != r.Hash {
		return fmt.Errorf("%w: the projections' row of turn %s differs from the log", ledger.ErrCorrupt, node.Ref)
	}
	return nil
}

// aside adds the chains that the projections set aside and that are not among
// the problems yet.
func (v *verifier) aside() error {
	for a, err := range v.e.Store.AllAside() {
		if err != nil {
			return err
		}
		if v.broken[a.Subject] || (v.chains != nil && !slices.Contains(v.chains, a.Subject)) {
			continue
		}
		tenant, chain, _ := ledger.ParseSubject(a.Subject)
		p := api.Problem{Code: api.Corrupt, Seq: a.Seq, Message: "set aside: " + a.Why}
		p.Session, _ = chain.Session()
		v.problem(tenant, p)
	}
	return nil
}

// coverage checks whole root paths: each half of each normal turn is in
// exactly one state. It does so where no later compaction includes this one:
// each stretch of a path was checked when its own compaction was placed, and
// the last one of a chain sees them all.
func (v *verifier) coverage(ctx context.Context) error {
	for ref, ev := range v.leaves {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.covered(ref, ev); err != nil {
			v.problem(v.sessions[ref.Session].Tenant, api.Problem{Code: api.Corrupt, Session: ref.Session, Event: ref.Turn, Message: err.Error()})
		}
	}
	return nil
}

func (v *verifier) covered(ref turns.Ref, ev *turns.Event) error {
	ns, err := v.forest.Nodes(ref)
	if err != nil {
		return err
	}
	path, err := lineage.Path(v.forest, ns[0], 1)
	if err != nil {
		return err
	}
	chain, err := lineage.Chain(v.forest, ns[0])
	if err != nil {
		return err
	}
	return lineage.CheckCoverage(path, chain, ev.Span.Elisions)
}
