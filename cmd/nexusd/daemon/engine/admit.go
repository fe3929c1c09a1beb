package engine

import (
	"context"
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// admitted is an event that may be stored. Only [Engine.admit] makes one, and
// [Engine.append] stores nothing else: so no writer appends what a reader of the
// log would refuse.
type admitted struct {
	ledger.Admitted
	subject string
	expect  uint64 // position of the chain's tail; 0: the chain is empty
	kind    turns.Kind
	payload []byte
	hash    turns.Hash
}

// admit asks [ledger.Admit] whether ev, encoded as payload, may follow the event
// at expect on subject.
//
// Errors: [ledger.ErrConflict] where the chain goes on behind expect, so that
// the refusal may be of an old fold; those of [ledger.Admit].
func (e *Engine) admit(ctx context.Context, h ledger.History, subject string, expect uint64, ev *turns.Event, payload []byte) (*admitted, error) {
	hash := turns.HashEvent(payload)
	a, err := ledger.Admit(h, subject, expect+1, hash, ev)
	if err == nil {
		return &admitted{a, subject, expect, ev.Kind, payload, hash}, nil
	}
	if !ledger.IsRefusal(err) {
		return nil, err
	}
	last, lerr := e.Log.Last(ctx, subject)
	switch {
	case lerr != nil && !errors.Is(lerr, ledger.ErrNotFound):
		return nil, lerr
	case last.Seq > expect:
		return nil, &ledger.ConflictError{Subject: subject, Want: expect, Got: last.Seq}
	}
	return nil, err
}

// append appends an admitted event. It is the one place where the engine writes
// to the log. Errors: those of [ledger.Log.Append].
func (e *Engine) append(ctx context.Context, a *admitted) (seq uint64, err error) {
	if seq, err = e.Log.Append(ctx, a.subject, a.expect, a.payload); err == nil {
		e.Metrics.appended(a.kind)
	}
	return seq, err
}

// defect is the answer to an event of the engine's own making that [Engine.admit]
// refused: no request is wrong, and nothing is stored. The log has the reason,
// under the event's id.
func (e *Engine) defect(ev *turns.Event, err error) error {
	if !ledger.IsRefusal(err) {
		return err
	}
	if e.Logger != nil { // the reason names ids, hashes and numbers, never content
		e.Logger.Error("a defect: an event was refused before it was stored", "id", ev.ID, "kind", ev.Kind, "chain", ev.Chain, "err", err)
	}
	return &api.Error{Code: api.Internal, Message: fmt.Sprintf("internal error: nothing is stored; the daemon's log has the reason under the id %s", ev.ID)}
}

// read is the store's history, with what the decision on an event has read of it
// already. Its fold and its node are not read again.
type read struct {
	ledger.History
	session *ledger.Session // before the event
	head    lineage.Node    // of its head; zero: not read
}

func (r read) Session(id turns.ID) (ledger.Session, error) {
	if id == r.session.ID {
		return *r.session, nil
	}
	return r.History.Session(id)
}

func (r read) Nodes(refs ...turns.Ref) ([]lineage.Node, error) {
	if len(refs) == 1 && refs[0] == r.head.Ref && !r.head.Ref.IsZero() {
		return []lineage.Node{r.head}, nil
	}
	return r.History.Nodes(refs...)
}
