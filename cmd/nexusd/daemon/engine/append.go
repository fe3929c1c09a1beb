package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Append is turn.append.
func (e *Engine) Append(ctx context.Context, c Caller, session turns.ID, req api.AppendTurn, canonical []byte) (*api.Appended, error) {
	began := time.Now()
	ctx = forAppend(ctx)
	if err := validateAppend(&req); err != nil {
		return nil, err
	}
	sent := &turns.TurnBody{Messages: req.Messages, Response: req.Response}
	if err := e.adopt(ctx, c, session, sent); err != nil {
		return nil, err
	}
	req.Messages, req.Response = sent.Messages, sent.Response
	r := request{id: req.ID, what: "turn.append", canonical: canonical}
	var ack *api.Appended
	made := &madeCalls{e: e}
	err := e.mutate(ctx, c, session, func(ch *chain, s *ledger.Session) (*draft, error) {
		ev, done, err := e.begin(s, r, turns.KindTurn)
		if err != nil {
			return nil, err
		}
		if done {
			ack, err = e.ackAgain(ctx, c, s, ev)
			return nil, written(err)
		}
		d, a, err := e.draftTurn(ctx, c, ch, s, ev, req, made)
		ack = a
		return d, err
	})
	if err != nil {
		return nil, err
	}
	e.Metrics.observeAppend(time.Since(began))
	if !ack.Duplicate && e.Notify != nil {
		e.Notify(c.Tenant, c.Agent, api.Notification{What: "turn.appended", Session: session, Turn: ack.ID, Position: ack.Position})
		if ack.Flush.Due {
			e.notify(c, session, "flush.requested", ack.ID, ack.Position, map[string]any{"cycle": ack.Flush.Cycle})
		}
	}
	return ack, nil
}

func validateAppend(req *api.AppendTurn) error {
	if err := turns.ValidateMessages("/messages", req.Messages); err != nil {
		return err
	}
	if err := turns.ValidateResponse("/response", req.Response); err != nil {
		return err
	}
	switch {
	case len(req.Messages) == 0 && req.Response == nil:
		return fieldErr("/messages", "a turn has messages, a response, or both")
	case len(req.Model) > turns.MaxName:
		return fieldErr("/model", "longer than %d bytes", turns.MaxName)
	case req.Meta != nil && req.Meta.Kind() != '{':
		return fieldErr("/meta", "not a JSON object")
	}
	_, err := claimed(req.Time)
	return err
}

// draftTurn decides where a turn goes and what it does to the open calls.
func (e *Engine) draftTurn(ctx context.Context, c Caller, ch *chain, s *ledger.Session, ev *turns.Event, req api.AppendTurn, made *madeCalls) (*draft, *api.Appended, error) {
	head, err := e.headNode(s)
	if err != nil {
		return nil, nil, err
	}
	if err := e.attaches(s, head, req.Parent); err != nil {
		return nil, nil, err
	}
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	open, err := e.openCalls(ctx, c.Tenant, s, ch, head)
	if err != nil {
		return nil, nil, err
	}
	turned, err := open.After(req.Messages, req.Response, func(ids []string) (map[string]bool, error) { return made.on(ctx, head, ids) })
	if err != nil {
		return nil, nil, err
	}

	ev.Parent, ev.Depth = s.Head, head.Depth+1
	ev.Segment = s.SegmentFor(ev.ID, s.Head)
	ev.Open, ev.Late, ev.Left = uint64(len(turned.Open)), uint64(len(turned.Late)), uint64(len(turned.Left))
	ev.Usage = req.Usage
	if ev.Claimed, err = claimed(req.Time); err != nil {
		return nil, nil, err
	}
	ev.Tokens.Counter = e.Counter.Name()
	if len(req.Messages) > 0 {
		ev.Halves |= turns.Halves(turns.MessagesHalf)
		ev.Tokens.Messages = tokens.Messages(e.Counter, req.Messages)
		ev.Said = turns.Said(req.Messages)
	}
	if req.Response != nil {
		ev.Halves |= turns.Halves(turns.ResponseHalf)
		ev.Tokens.Response = e.Counter.Message(req.Response)
		ev.Calls = uint64(len(req.Response.Calls(nil)))
	}
	body := &turns.TurnBody{Messages: req.Messages, Response: req.Response, Model: req.Model, Meta: req.Meta}
	if body.Preamble, err = e.preambleDigest(&set); err != nil {
		return nil, nil, err
	}
	if u := req.Context; u != nil {
		body.Context = &turns.ContextRef{Recipe: u.Recipe, Fingerprint: u.Fingerprint}
	}

	ack := &api.Appended{ID: ev.ID, Session: s.ID, Depth: ev.Depth, Open: turned.Open, Abandoned: turned.Left, Late: turned.Late}
	e.fitCalls(ack)
	if !ev.Parent.IsZero() {
		ack.Parent = &ev.Parent.Turn
	}
	var next *measured
	gauge := func(a ledger.Admitted) (err error) {
		next, err = e.fillGauge(ack, s, &set, a.Node, &req)
		return err
	}
	return &draft{event: ev, body: body, head: head, before: gauge, after: func(seq uint64, hash turns.Hash) {
		ack.Hash, ack.Position = hash, position(seq)
		ch.open, ch.openAt = turned.Open, ev.Ref()
		if next != nil {
			e.measures.put(s.ID, *next, measuredBytes)
		}
	}}, ack, nil
}

// attaches checks that a turn with the given parent continues the head: no
// parent named, the head itself, or the nearest normal ancestor of the head with
// only compactions between, since a background compaction must not make an
// agent's append fail.
func (e *Engine) attaches(s *ledger.Session, head lineage.Node, parent turns.ID) error {
	if parent.IsZero() {
		return nil
	}
	for n := head; !n.Ref.IsZero(); {
		if n.Ref.Turn == parent {
			return nil
		}
		if n.Kind != turns.KindCompaction {
			break
		}
		up, err := e.Store.Nodes(n.Parent)
		if err != nil {
			return err
		}
		n = up[0]
	}
	return headMoved(s, "parent is "+parent.String())
}

// fillGauge sets what an ack says of the context that the next call gets. Turn is
// what is about to be stored at head; nil: it is stored. Next is what the path
// comes to with it; nil: that is only estimated.
func (e *Engine) fillGauge(ack *api.Appended, s *ledger.Session, set *turns.Settings, head lineage.Node, turn *api.AppendTurn) (next *measured, err error) {
	g, pol, err := e.gauge(s, set, head)
	if err != nil {
		return nil, err
	}
	ack.Context = g
	ack.Compaction.State = "idle"
	l, err := e.load(s, g, head)
	if err != nil {
		return nil, err
	}
	p := e.emptyPath(s, set, pol, head)
	large := false
	if needs := plan.NeedsPath(pol, l); needs || plan.NeedsPath(pol, view.Load{Turns: math.MaxUint64}) { // or will
		m, ok := e.measuredAt(s, head, p, pol, turn)
		if ok {
			next = &m
		}
		if ok && needs {
			l, large = m.load, m.large && pol.Mode != policy.Manual
			p.Sums = &m.sums
			if !m.inForce.IsZero() {
				p.InForce = &view.InForce{Body: turns.CompactionBody{TokensAfter: m.after}}
			}
		}
	}
	if _, due := plan.DueAt(p, pol, l); due || large {
		ack.Compaction.State = e.dueState(s.ID, head.Ref.Turn)
	}
	if ack.Flush, err = e.flushState(s, pol, head, plan.FlushDue(p, pol, l)); err != nil {
		return nil, err
	}
	if e.preparing(s.ID) {
		ack.Compaction.State = "preparing"
	}
	var reported uint64
	if turn == nil {
		reported, err = e.reported(s, set, head)
	} else {
		reported, err = e.reportedNext(s, set, head, turn)
	}
	ack.Context = lead(g, p.Overhead, reported)
	return next, err
}

// ackAgain is the ack of a turn that is stored, as its first append got it.
func (e *Engine) ackAgain(ctx context.Context, c Caller, s *ledger.Session, ev *turns.Event) (*api.Appended, error) {
	t, err := e.Store.Turn(ev.Ref())
	if err != nil {
		return nil, err
	}
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return nil, err
	}
	ack := &api.Appended{ID: ev.ID, Session: s.ID, Depth: ev.Depth, Hash: t.Hash, Position: position(t.Seq), Duplicate: true}
	if !ev.Parent.IsZero() {
		ack.Parent = &ev.Parent.Turn
	}
	if ev.Open+ev.Late+ev.Left > 0 {
		turned, err := e.turned(ctx, c.Tenant, s, ev)
		if err != nil && !errors.Is(err, turns.ErrErased) { // of an erased ancestor nobody can tell
			return nil, err
		}
		ack.Open, ack.Abandoned, ack.Late = turned.Open, turned.Left, turned.Late
		e.fitCalls(ack)
	}
	_, err = e.fillGauge(ack, s, &set, t.Node, nil)
	return ack, err
}

// turned is what a stored turn did to the calls before it.
func (e *Engine) turned(ctx context.Context, tenant string, s *ledger.Session, ev *turns.Event) (ledger.Turned, error) {
	var up lineage.Node
	if !ev.Parent.IsZero() {
		ns, err := e.Store.Nodes(ev.Parent)
		if err != nil {
			return ledger.Turned{}, err
		}
		up = ns[0]
	}
	open, err := e.openCalls(ctx, tenant, s, nil, up)
	if err != nil {
		return ledger.Turned{}, err
	}
	var b turns.TurnBody
	if err := e.open(ev, &b); err != nil {
		return ledger.Turned{}, err
	}
	return open.After(b.Messages, b.Response, nil)
}

func preambleDigest(p turns.Preamble) (turns.Hash, error) {
	if len(p.System) == 0 && len(p.Tools) == 0 {
		return turns.Hash{}, nil
	}
	b, err := turns.EncodeBody(&p)
	if err != nil {
		return turns.Hash{}, err
	}
	return turns.HashEvent(b), nil
}

// openCalls is the calls that wait for their response at head: those of the
// nearest response up the path, less what pending turns below it answered.
func (e *Engine) openCalls(ctx context.Context, tenant string, s *ledger.Session, ch *chain, head lineage.Node) (ledger.Calls, error) {
	if ch != nil && ch.openAt == head.Ref && !head.Ref.IsZero() {
		return ch.open, nil
	}
	var path []*turns.TurnBody
	for n := head; !n.Ref.IsZero(); {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: looked for open calls: %w", ledger.ErrUnavailable, ctx.Err())
		}
		t, err := e.Store.Turn(n.Ref)
		if err != nil {
			return nil, err
		}
		if t.Open == 0 && len(path) == 0 {
			return nil, nil
		}
		if n.Kind == turns.KindTurn {
			b, err := e.turnBody(n.Ref)
			if err != nil {
				return nil, err
			}
			path = append(path, b)
			if n.Halves.Has(turns.ResponseHalf) || hasAssistant(b.Messages) {
				break
			}
		}
		if n.Parent.IsZero() {
			break
		}
		up, err := e.Store.Nodes(n.Parent)
		if err != nil {
			return nil, err
		}
		n = up[0]
	}
	var open ledger.Calls
	for _, b := range slices.Backward(path) {
		t, err := open.After(b.Messages, b.Response, nil)
		if err != nil {
			return nil, err
		}
		open = t.Open
	}
	return open, nil
}

func hasAssistant(ms []turns.Message) bool {
	return slices.ContainsFunc(ms, func(m turns.Message) bool { return m.Role == turns.Assistant })
}

// turnBody is the body of a normal turn.
func (e *Engine) turnBody(ref turns.Ref) (*turns.TurnBody, error) {
	_, ev, err := e.turnEvent(ref)
	if err != nil {
		return nil, err
	}
	b := new(turns.TurnBody)
	return b, e.open(ev, b)
}

// claimed is a time that a request claims, in ns since 1970; 0: none.
func claimed(t *api.Time) (int64, error) {
	if t == nil {
		return 0, nil
	}
	ns, ok := t.UnixNano()
	if !ok {
		return 0, fieldErr("/time", "before 1678, after 2261 or 1970-01-01T00:00:00Z, which can't be stored; leave out a time that is not known")
	}
	return ns, nil
}
