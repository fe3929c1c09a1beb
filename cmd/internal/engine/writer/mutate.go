package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Draft is an event that a decision made and that is not stored yet.
type Draft struct {
	Event *turns.Event
	Body  any          // nil if the event has none
	Keys  []turns.ID   // content keys to seal under; nil means the session's own
	Actor string       // who does it; "": the caller
	Head  lineage.Node // the node of the session's head, zero if decide did not read it

	// Before, if not nil, is called after the event is admitted and before it is
	// stored. Its error stops the append.
	Before func(ledger.Admitted) error
	// After, if not nil, is called when the event is stored.
	After func(seq uint64, hash turns.Hash)

	Claimed bool   // the log has a claim of a label for this event already
	Release func() // if not nil, called when the draft is stored or dropped
}

// ErrUnchanged: the session is already what the request asks for. A decision returns
// it instead of a nil draft where another daemon may have changed the session since
// the fold. Mutate then decides again on the end of the log, and returns nil if the
// answer is the same.
var ErrUnchanged = errors.New("the session is already so")

// Mutate runs decide on the fold of the session's tail, and appends the draft that
// it returns, expecting that tail. If another daemon was faster, or decide refused
// on a fold that may be old, Mutate folds again and calls decide again. A nil draft
// appends nothing: the request is on the log already. See [ErrUnchanged].
//
// Crash states: before the append nothing is stored. After it the event is on the
// log; a caller that did not get the answer retries with the same id, on any daemon,
// and gets the stored event.
func (wr *Writer) Mutate(ctx context.Context, c reader.Caller, id turns.ID, decide func(ch *Chain, s *ledger.Session) (*Draft, error)) (err error) {
	if c.Operator() {
		return &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name the session's agent"}
	}
	ch, release, err := wr.Hold(ctx, c.Tenant+"/"+id.String())
	if err != nil {
		return err
	}
	defer release()
	fresh, claimed := ch.Seq == 0, false
	defer func() {
		if claimed {
			err = AfterCommit(err)
		}
	}()
	for {
		s, err := wr.fold(ctx, c, id, ch, fresh)
		if err != nil {
			return err
		}
		if !ch.sealChecked {
			if err := wr.checkSeal(s); err != nil {
				return err
			}
			ch.sealChecked = true
		}
		if reset, err := wr.resetFirst(ctx, c, ch, s); err != nil {
			return err
		} else if reset {
			fresh = true
			continue
		}
		fold := *s // decide may change its copy; commit admits the draft on s
		d, err := decide(ch, &fold)
		if err != nil && !fresh && mayBeStale(err) {
			fresh = true
			continue
		}
		if errors.Is(err, ledger.ErrClosed) {
			if err := wr.OnClosed(ctx, s); err != nil {
				return err
			}
		}
		if errors.Is(err, ErrUnchanged) {
			return nil
		}
		if err != nil || d == nil {
			return err
		}
		claimed = claimed || d.Claimed
		_, err = wr.commit(ctx, c, ch, s, d)
		if !errors.Is(err, ledger.ErrConflict) {
			return err
		}
		wr.Metrics.Conflict()
		fresh = true
		if ctx.Err() != nil {
			return fmt.Errorf("%w: the session kept moving: %w", ledger.ErrUnavailable, ctx.Err())
		}
	}
}

// checkSeal refuses a change of a sealed session by a daemon with seal off, before
// anything of it is stored in the clear. Errors: [*content.SealOffError].
func (wr *Writer) checkSeal(s *ledger.Session) error {
	if wr.content.Keys != nil {
		return nil
	}
	payload, err := wr.reader.Projections.EventAt(s.ID, 0)
	if err != nil {
		return err
	}
	ev, err := turns.Decode(payload)
	if err == nil && len(ev.Keys) > 0 {
		return &content.SealOffError{ID: ev.Keys[0]}
	}
	return err
}

// resetFirst resets the session if its reset is due, so that no change lands in a session
// that should have ended. It reports whether the session has another end than s now.
func (wr *Writer) resetFirst(ctx context.Context, c reader.Caller, ch *Chain, s *ledger.Session) (bool, error) {
	if wr.DueReset == nil || request.Of(ctx).Ends {
		return false, nil
	}
	d, err := wr.DueReset(ctx, s)
	if err != nil || d == nil {
		return false, err
	}
	_, err = wr.commit(ctx, c, ch, s, d)
	if errors.Is(err, ledger.ErrConflict) && ctx.Err() == nil {
		wr.Metrics.Conflict()
		return true, nil
	}
	return true, err
}

// AfterCommit maps the error of a request of which something is on the log already.
// An error that says that nothing was written becomes [ledger.ErrIndeterminate]. A
// retry with the same id gets the answer of the request.
func AfterCommit(err error) error {
	if err == nil {
		return nil
	}
	if code := api.FromError(err).Code; code == api.Busy || code == api.Unavailable {
		return &api.Error{Code: api.Indeterminate, Message: "it is written, its answer is not ready: " + err.Error()}
	}
	return err
}

// mayBeStale reports whether an old fold can cause err.
func mayBeStale(err error) bool {
	for _, n := range []error{ledger.ErrConflict, ledger.ErrNotFound, ledger.ErrClosed, ledger.ErrUnprocessable, api.ErrNothing, ledger.ErrMalformed, ledger.ErrErased, ErrUnchanged} {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

// fold returns the session's fold at the last position that this daemon knows. If
// fresh is set, it first waits for the current end of the chain.
func (wr *Writer) fold(ctx context.Context, c reader.Caller, id turns.ID, ch *Chain, fresh bool) (*ledger.Session, error) {
	if fresh {
		seq, err := wr.reader.CatchUp(ctx, c.Tenant, id)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, reader.SessionNotFound(id)
		}
		if err != nil {
			return nil, err
		}
		ch.Seq = seq
	} else if err := wr.reader.Projections.WaitFor(ctx, ch.Seq); err != nil {
		return nil, err
	}
	s, err := wr.reader.Projections.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, cmp.Or(wr.reader.AsideError(c.Tenant, id), reader.SessionNotFound(id))
	}
	if err != nil {
		return nil, err
	}
	if err := reader.CheckVisible(c, &s); err != nil {
		return nil, err
	}
	if s.Tail.Seq < ch.Seq {
		return nil, wr.reader.BehindError(&s, ch.Seq)
	}
	ch.Seq = s.Tail.Seq
	return &s, nil
}

// commit seals the draft, admits it after the session's tail, and appends it there.
func (wr *Writer) commit(ctx context.Context, c reader.Caller, ch *Chain, s *ledger.Session, d *Draft) (uint64, error) {
	if d.Release != nil {
		defer d.Release()
	}
	ev := d.Event
	ev.Version, ev.Chain = turns.Version, turns.SessionChain(s.ID)
	ev.Index, ev.Prev = s.Tail.Index+1, s.Tail.Hash
	ev.Recorded, ev.Actor, ev.Sender = wr.reader.Now().UnixNano(), cmp.Or(d.Actor, c.Actor()), c.Key
	if d.Keys == nil {
		d.Keys = []turns.ID{s.ID}
	}
	payload, err := wr.content.Seal(ctx, c.Tenant, s.Root, ev, d.Body, d.Keys)
	if err != nil {
		return 0, err
	}
	next, err := wr.Admit(ctx, knownHistory{wr.reader.Projections.History(), s, d.Head}, s.Subject(), s.Tail.Seq, ev, payload)
	if err != nil {
		return 0, wr.InternalError(ev, err)
	}
	if d.Before != nil {
		if err := d.Before(next.Admitted); err != nil {
			return 0, err
		}
	}
	seq, err := wr.AppendAdmitted(ctx, next)
	if err != nil {
		return 0, err
	}
	ch.Seq = seq
	if d.After != nil {
		d.After(seq, next.hash)
	}
	return seq, nil
}
