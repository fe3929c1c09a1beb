package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// maxProblems is how many problems one verification lists.
const maxProblems = 1000

// Verify is audit.verify: the whole log, or the chains of some sessions, read
// from the stream and checked against everything that can be checked: bytes and
// hashes, chains, lineage, coverage, calls, bodies, blobs, and the projections'
// copies. It believes nothing that the projections derived.
func (e *Engine) Verify(ctx context.Context, c Caller, req api.Verify) (*api.Verified, error) {
	began := e.Now()
	st, err := e.Log.State(ctx)
	if err != nil {
		return nil, err
	}
	v := &verifier{e: e, c: c, out: &api.Verified{Last: st.Last, Problems: []api.Problem{}}, forest: new(lineage.Forest),
		sessions: make(map[turns.ID]*ledger.Session), open: make(map[turns.Ref]ledger.Calls), hashes: make(map[turns.Ref]turns.Hash), leaves: make(map[turns.Ref]*turns.Event)}
	if len(req.Sessions) > 0 {
		if v.only, err = v.needed(ctx, req.Sessions); err != nil {
			return nil, err
		}
	} else if !c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "only the operator verifies the whole ledger; name sessions"}
	}
	if err := st.Sound(); err != nil {
		v.problem(api.Problem{Code: api.Corrupt, Message: err.Error()})
	}
	if err := e.Store.WaitFor(ctx, st.Last); err != nil {
		return nil, err
	}
	if st.Last > 0 {
		for r, err := range e.Log.Read(ctx, 1, false) {
			if errors.Is(err, ledger.ErrCorrupt) {
				v.problem(api.Problem{Code: api.Corrupt, Seq: r.Seq, Message: err.Error()})
				break
			}
			if err != nil {
				return nil, err
			}
			if err := v.record(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	if err := v.coverage(ctx); err != nil {
		return nil, err
	}
	v.out.OK = len(v.out.Problems) == 0
	v.out.DurationMS = uint64(e.Now().Sub(began) / time.Millisecond)
	return v.out, nil
}

// verifier folds the log a second time, in memory, by the same pure rules as
// everything else, and compares.
type verifier struct {
	e        *Engine
	c        Caller
	out      *api.Verified
	only     map[string]bool // subjects; nil: all
	sessions map[turns.ID]*ledger.Session
	forest   *lineage.Forest
	hashes   map[turns.Ref]turns.Hash
	open     map[turns.Ref]ledger.Calls
	leaves   map[turns.Ref]*turns.Event // compactions that no later one includes
}

func (v *verifier) problem(p api.Problem) {
	if len(v.out.Problems) < maxProblems {
		v.out.Problems = append(v.out.Problems, p)
	}
}

// needed is the subjects of the sessions named and of what they inherit from.
func (v *verifier) needed(ctx context.Context, ids []turns.ID) (map[string]bool, error) {
	only := make(map[string]bool)
	for _, id := range ids {
		s, err := v.e.row(ctx, v.c, id, true)
		if err != nil {
			return nil, err
		}
		for {
			only[s.Subject()] = true
			if s.ForkOf == nil {
				break
			}
			up, err := v.e.Store.Session(s.ForkOf.At.Session)
			if err != nil {
				return nil, err
			}
			s = &up
		}
	}
	return only, nil
}

func (v *verifier) record(ctx context.Context, r ledger.Record) error {
	if v.only != nil && !v.only[r.Subject] {
		return nil
	}
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
	if err != nil {
		p.Message = err.Error()
		v.problem(p)
		return nil
	}
	p.Event = ev.ID
	if copied, err := v.e.Store.Record(r.Seq); err != nil || turns.HashEvent(copied.Payload) != r.Hash {
		v.problem(api.Problem{Code: api.Corrupt, Seq: r.Seq, Event: ev.ID, Message: fmt.Sprintf("the projections' copy differs: %v", err)})
	}
	id, ok := chain.Session()
	if !ok {
		return nil
	}
	p.Session = id
	if err := v.fold(ctx, tenant, id, r, ev); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.Code, p.Message = api.FromError(err).Code, err.Error()
		if p.Code == api.Internal {
			p.Code = api.Corrupt
		}
		v.problem(p)
	}
	return nil
}

func (v *verifier) fold(ctx context.Context, tenant string, id turns.ID, r ledger.Record, ev *turns.Event) error {
	s := v.sessions[id]
	if s == nil {
		s = new(ledger.Session)
		v.sessions[id] = s
		v.out.Sessions++
	}
	if err := s.Apply(tenant, r.Seq, r.Hash, ev); err != nil {
		return err
	}
	if s.Subject() != r.Subject {
		return fmt.Errorf("%w: on subject %s, it belongs on %s", ledger.ErrCorrupt, r.Subject, s.Subject())
	}
	if row, err := v.e.Store.Session(id); err != nil || row.Tail.Index < ev.Index {
		return fmt.Errorf("%w: the projections lack it (%v)", ledger.ErrCorrupt, err)
	}
	if f := ev.ForkOf; f != nil && v.hashes[f.At] != f.Hash {
		return fmt.Errorf("%w: it forks from %s with hash %v, stored is %v", ledger.ErrCorrupt, f.At, f.Hash, v.hashes[f.At])
	}
	for _, b := range ev.Blobs {
		v.out.Blobs++
		if _, err := v.e.Blobs.GetBlob(ctx, tenant, b.Digest); err != nil {
			return fmt.Errorf("blob %s: %w", b.Digest, err)
		}
	}
	if ev.Kind.IsTurn() {
		return v.turn(s, r, ev)
	}
	return nil
}

func (v *verifier) turn(s *ledger.Session, r ledger.Record, ev *turns.Event) error {
	forget, err := s.Ignores(ev.Parent.Session, func(id turns.ID) (ledger.Session, error) {
		if up := v.sessions[id]; up != nil {
			return *up, nil
		}
		return ledger.Session{}, fmt.Errorf("%w: session %s is not before its fork", ledger.ErrCorrupt, id)
	})
	if err != nil {
		return err
	}
	node, err := v.forest.AddEvent(ev, forget)
	if err != nil {
		return err
	}
	ref := ev.Ref()
	v.hashes[ref] = r.Hash
	row, err := v.e.Store.Turn(ref)
	if err != nil {
		return fmt.Errorf("%w: the projections lack turn %s: %w", ledger.ErrCorrupt, ref, err)
	}
	if row.Node != node || row.Seq != r.Seq || row.Hash != r.Hash {
		return fmt.Errorf("%w: the projections' row of turn %s differs from the log", ledger.ErrCorrupt, ref)
	}
	if ev.Kind == turns.KindCompaction {
		v.out.Compactions++
		return v.compaction(node, ev)
	}
	v.out.Turns++
	return v.calls(ref, ev)
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
			v.problem(api.Problem{Code: api.Corrupt, Session: ref.Session, Event: ref.Turn, Message: err.Error()})
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

// compaction checks a compaction's own claims; see coverage for the path's.
func (v *verifier) compaction(n lineage.Node, ev *turns.Event) error {
	v.open[n.Ref] = v.open[n.Parent]
	if uint64(len(v.open[n.Ref])) != ev.Open {
		return fmt.Errorf("%w: it says %d calls are open, %d are", ledger.ErrCorrupt, ev.Open, len(v.open[n.Ref]))
	}
	delete(v.leaves, n.Previous)
	v.leaves[n.Ref] = ev
	var b turns.CompactionBody
	if err := v.e.open(ev, &b); err != nil {
		return err
	}
	if len(b.Elided) != len(ev.Span.Elisions) {
		return fmt.Errorf("%w: %d elisions, %d of them described", ledger.ErrCorrupt, len(ev.Span.Elisions), len(b.Elided))
	}
	return nil
}

// calls checks that the calls which the header counts are those of the body.
func (v *verifier) calls(ref turns.Ref, ev *turns.Event) error {
	var b turns.TurnBody
	if err := v.e.open(ev, &b); err != nil {
		return err
	}
	t, err := v.open[ev.Parent].After(b.Messages, b.Response, nil)
	if err != nil {
		return err
	}
	v.open[ref] = t.Open
	if uint64(len(t.Open)) != ev.Open || uint64(len(t.Late)) != ev.Late || uint64(len(t.Left)) != ev.Left {
		return fmt.Errorf("%w: its header counts %d open, %d late, %d abandoned calls; its body has %d, %d, %d",
			ledger.ErrCorrupt, ev.Open, ev.Late, ev.Left, len(t.Open), len(t.Late), len(t.Left))
	}
	// Turns of before there was this count have none, and no compaction that it ends.
	if said := turns.Said(b.Messages); ev.Said != 0 && ev.Said != said {
		return fmt.Errorf("%w: its header counts %d messages with text of the user, its body has %d", ledger.ErrCorrupt, ev.Said, said)
	}
	return nil
}
