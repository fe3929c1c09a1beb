package resets

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/sessions"
	"nexus/ledger"
)

// Resets fires what is due. Safe for concurrent use.
type Resets struct {
	logger   *slog.Logger
	reader   *reader.Reader
	sessions *sessions.Sessions
}

// New returns the timers of the sessions that r finds. A nil logger is silent.
func New(logger *slog.Logger, r *reader.Reader, ss *sessions.Sessions) *Resets {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Resets{logger: logger, reader: r, sessions: ss}
}

// A look at all timers comes when the next one is due: after longest at the latest, since
// rules and turns come and clocks are set, and after shortest at the earliest.
const longest, shortest = time.Minute, time.Second

// RunResets fires resets until ctx ends. A session that can't be reset is logged, and looked at
// again.
func (rs *Resets) RunResets(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := rs.FireDue(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ledger.ErrUnavailable) {
			rs.logger.Error("resets by time", "err", err)
		}
		pause := longest
		if !next.IsZero() {
			pause = min(max(next.Sub(rs.reader.Now()), shortest), longest)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// FireDue resets each session whose reset is due, and returns when the next one is; zero if
// there is none. While the disk takes no writes it does nothing.
func (rs *Resets) FireDue(ctx context.Context) (next time.Time, err error) {
	if rs.reader.AccessNow().Writes != nil {
		return next, nil
	}
	var due []ledger.Session
	for s, serr := range rs.reader.Projections.Timed() {
		if serr != nil {
			return next, serr
		}
		at, _, ok, derr := rs.reader.ResetDue(ctx, &s)
		switch {
		case derr != nil:
			rs.logger.Warn("the reset of a session by time can't be told", "session", s.ID, "err", derr)
		case !ok:
		case !rs.reader.Now().Before(at):
			due = append(due, s)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	for _, s := range due {
		if ctx.Err() != nil {
			break
		}
		err = errors.Join(err, rs.sessions.ResetIfDue(ctx, &s))
	}
	return next, err
}
