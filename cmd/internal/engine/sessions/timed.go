package sessions

import (
	"context"
	"time"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/turns"
)

// A reset by time is a state event like that of session.reset, with the rule's mode as its
// cause and the instant at which it was due. Whoever finds it due stores it: a timer of any
// daemon, or the first request after that instant, before it is decided. The
// compare-and-set lets one of them; the others find a session that has ended.

// isTimed reports whether time resets a session under these settings.
func (ss *Sessions) isTimed(ctx context.Context, tenant string, set *turns.Settings) (bool, error) {
	rule, err := ss.reader.ResetRule(ctx, tenant, set)
	return rule.Timed(), err
}

// resetDue reports whether the reset of a session is due now, and since when.
func (ss *Sessions) resetDue(ctx context.Context, s *ledger.Session) (since time.Time, due bool, err error) {
	since, _, ok, err := ss.reader.ResetDue(ctx, s)
	return since, ok && err == nil && !ss.reader.Now().Before(since), err
}

// dueReset returns the draft of the event that resets a session whose reset is due, nil for
// any other session. See [writer.Writer.DueReset].
func (ss *Sessions) dueReset(ctx context.Context, s *ledger.Session) (*writer.Draft, error) {
	since, rule, ok, err := ss.reader.ResetDue(ctx, s)
	if err != nil || !ok || ss.reader.Now().Before(since) {
		return nil, err
	}
	ev := &turns.Event{Kind: turns.KindState, State: turns.Reset}
	if ev.ID, err = ss.writer.NewID(turns.ID{}); err != nil {
		return nil, err
	}
	if ev.Successor, err = ss.NewSuccessorID(s.ID); err != nil {
		return nil, err
	}
	c := reader.Caller{Tenant: s.Tenant, Agent: s.Agent}
	id, cause := s.ID, string(rule.Mode)
	return &writer.Draft{Event: ev, Body: &turns.StateBody{Cause: cause, Due: since.UnixNano()}, After: func(seq uint64, _ turns.Hash) {
		ss.writer.Announce(c, id, "session.reset", turns.ID{}, page.FormatPosition(seq),
			map[string]any{"successor": ev.Successor.String(), "cause": cause, "due": since.UTC().Format(time.RFC3339Nano)})
	}}, nil
}

// ResetIfDue resets a session if its reset is due, and opens its successor.
//
// Crash states: those of [Sessions.Reset].
func (ss *Sessions) ResetIfDue(ctx context.Context, s *ledger.Session) error {
	var after ledger.Session
	c := reader.Caller{Tenant: s.Tenant, Agent: s.Agent}
	err := ss.writer.Mutate(ctx, c, s.ID, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		after = *s
		return nil, nil
	})
	if err != nil {
		return err
	}
	return ss.FinishReset(ctx, &after)
}
