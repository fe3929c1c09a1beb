package writer

import (
	"context"
	"errors"

	"nexus/cmd/internal/engine/request"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Admitted is an event that may be stored. Only [Writer.Admit] makes one, and
// [Writer.AppendAdmitted] stores nothing else. So no writer appends an event that a
// reader of the log would refuse.
type Admitted struct {
	ledger.Admitted
	subject string
	expect  uint64 // position of the chain's tail, 0 if the chain is empty
	event   *turns.Event
	payload []byte
	hash    turns.Hash
}

// Admit asks [ledger.Admit] whether ev, encoded as payload, may follow the event at
// position expect on subject.
//
// Errors: [ledger.ErrConflict] if the chain continues after expect, since then the
// refusal may come from an old fold; those of [ledger.Admit].
func (wr *Writer) Admit(ctx context.Context, h ledger.History, subject string, expect uint64, ev *turns.Event, payload []byte) (*Admitted, error) {
	hash := turns.HashEvent(payload)
	a, err := ledger.Admit(h, subject, expect+1, hash, ev)
	if err == nil {
		return &Admitted{a, subject, expect, ev, payload, hash}, nil
	}
	if !ledger.IsRefusal(err) {
		return nil, err
	}
	last, lerr := wr.reader.Log.Last(ctx, subject)
	switch {
	case lerr != nil && !errors.Is(lerr, ledger.ErrNotFound):
		return nil, lerr
	case last.Seq > expect:
		return nil, &ledger.ConflictError{Subject: subject, Want: expect, Got: last.Seq}
	}
	return nil, refusedError{err}
}

// refusedError is the refusal of an event by [Writer.Admit]. The log refuses an append with errors of
// the same kinds, where it is damaged.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// AppendAdmitted appends an admitted event. It is the only place where the engine
// writes to the log. Errors: those of [ledger.Log.Append], and that of
// [request.MayDecide].
//
// Invariant: what is stored was decided on a tail that was read before a moment at which
// the request could be decided still. The request is asked once more after that tail was
// read, here. A pause of any length may follow: then the event is stored only if the
// tail is still the one that the decision was made on, so no other daemon has refused
// the request on a later one. If the tail has moved, the caller decides again, and comes
// here again.
func (wr *Writer) AppendAdmitted(ctx context.Context, a *Admitted) (seq uint64, err error) {
	if err := request.MayDecide(ctx); err != nil {
		return 0, err
	}
	request.LeavePlace(ctx)
	wr.reader.Projections.Expect(a.subject, a.hash, a.event, &a.Admitted)
	if seq, err = wr.reader.Log.Append(ctx, a.subject, a.expect, a.payload); err == nil {
		wr.Metrics.Appended(a.event.Kind)
	}
	return seq, err
}

// InternalError returns the answer to an event that the engine made and
// [Writer.Admit] refused. No request is wrong, and nothing is stored. The daemon's
// log has the reason under the id of the event.
func (wr *Writer) InternalError(ev *turns.Event, err error) error {
	if !errors.As(err, new(refusedError)) || wr.reader.AccessNow().Lost != nil { // then the log refuses, and says why
		return err
	}
	if wr.Logger != nil { // the reason names ids, hashes and numbers, never content
		wr.Logger.Error("a defect: an event was refused before it was stored", "id", ev.ID, "kind", ev.Kind, "chain", ev.Chain, "err", err)
	}
	return api.InternalError(ev.ID, "nothing is stored")
}

// knownHistory is the history of the projections. It answers from the fold and the
// node that the decision has read already, so they are not read twice.
type knownHistory struct {
	ledger.History
	session *ledger.Session // the session before the event
	head    lineage.Node    // the node of its head, zero if it was not read
}

// Session implements [ledger.History].
func (r knownHistory) Session(id turns.ID) (ledger.Session, error) {
	if id == r.session.ID {
		return *r.session, nil
	}
	return r.History.Session(id)
}

// Node implements [ledger.History].
func (r knownHistory) Node(ref turns.Ref) (lineage.Node, error) {
	if ref == r.head.Ref && !ref.IsZero() {
		return r.head, nil
	}
	return r.History.Node(ref)
}
