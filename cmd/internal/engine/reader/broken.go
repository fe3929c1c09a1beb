package reader

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// BrokenChainError says that the chain of a session was set aside: an event of it is
// lost, or breaks a rule. What is before that event can be read, and a fork can begin
// there. It is [ledger.ErrCorrupt].
type BrokenChainError struct {
	Session turns.ID
	Subject string
	Why     string
	Loss    rows.Loss
	Last    turns.Ref // the head before the event; zero if there is none
}

// Error returns the text of the error.
func (e *BrokenChainError) Error() string { return e.contract().Message }

// Unwrap returns the error as the contract has it, and [ledger.ErrCorrupt].
func (e *BrokenChainError) Unwrap() []error { return []error{e.contract(), ledger.ErrCorrupt} }

func (e *BrokenChainError) contract() *api.Error {
	details := map[string]any{}
	if !e.Last.IsZero() {
		details["last_turn"] = e.Last.Turn.String()
	}
	if e.Loss.Number == 0 {
		return api.Errorf(api.Corrupt, details, "session %s is read-only here: %s", e.Session, e.Why)
	}
	var events []any
	for _, l := range e.Loss.Events {
		event := map[string]any{"index": l.Index}
		if l.Seq != 0 {
			event["position"] = page.FormatPosition(l.Seq)
		}
		if !l.Hash.IsZero() {
			event["hash"] = l.Hash.String()
		}
		events = append(events, event)
	}
	details["lost_events"], details["lost"] = events, e.Loss.Number
	if len(e.Loss.Turns) > 0 {
		var ids []any
		for _, t := range e.Loss.Turns {
			ids = append(ids, t.String())
		}
		details["lost_turns"] = ids
	}
	said := "the session is readable up to there, and a fork can go on from there"
	if e.Last.IsZero() {
		said = "no turn is before it"
	}
	return api.Errorf(api.Corrupt, details, "session %s has lost %s, the first at index %d of its chain: %s",
		e.Session, countEvents(e.Loss.Number), e.Loss.Events[0].Index, said)
}

func countEvents(n uint64) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

// AsideError returns the [*BrokenChainError] of a session of a tenant whose chain the
// projections set aside, nil if they did not.
func (rd *Reader) AsideError(tenant string, id turns.ID) error {
	if rd.Projections.SetAside() == 0 {
		return nil
	}
	subject := ledger.AnyShard(tenant, turns.SessionChain(id))
	s, err := rd.Projections.Session(id)
	isKnown := err == nil && s.Tenant == tenant
	if isKnown {
		subject = s.Subject()
	}
	why, err := rd.Projections.WhyAside(subject)
	if err != nil || why == "" {
		return err
	}
	broken := &BrokenChainError{Session: id, Subject: subject, Why: why}
	if isKnown {
		broken.Last = s.Head
		if broken.Loss, err = rd.Projections.Lost(subject); err != nil {
			return err
		}
	}
	return broken
}

// FindSessionBeforeLoss is FindSession with fresh set, but for a session whose chain was
// set aside: of that it returns the fold before the event that is lost or breaks a rule.
// The session takes no more events, so the fold is final. Only what names a turn may
// rely on it: nobody knows the head.
func (rd *Reader) FindSessionBeforeLoss(ctx context.Context, c Caller, id turns.ID) (*ledger.Session, error) {
	s, err := rd.FindSession(ctx, c, id, true)
	if broken := (*BrokenChainError)(nil); errors.As(err, &broken) && !broken.Last.IsZero() {
		return rd.FindSession(ctx, c, id, false)
	}
	return s, err
}

// turnAfterLoss returns the turn that follows a loss, as the contract shows it. ok is
// false if err is no loss, or what is left of the chain has no such turn.
func (rd *Reader) turnAfterLoss(err error, id turns.ID) (out *api.Turn, ok bool, _ error) {
	broken := (*BrokenChainError)(nil)
	if !errors.As(err, &broken) || broken.Loss.Number == 0 {
		return nil, false, nil
	}
	r, hasChildren, err := rd.Projections.AfterLoss(broken.Subject, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	ev, err := turns.Decode(r.Payload)
	if err != nil {
		return nil, false, fmt.Errorf("turn %s: %w", id, err)
	}
	out, err = rd.describeTurn(rows.Turn{Node: lineage.Node{Ref: ev.Ref()}, Seq: r.Seq, Hash: r.Hash}, ev, true)
	if out != nil {
		out.HasChildren, out.AfterLoss = hasChildren, true
	}
	return out, err == nil, err
}
