package episodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

const (
	// Window is how old a session's last event may be when its episode is stored: what was
	// before the policy asked for episodes, and long ago, is left alone.
	Window = 7 * 24 * time.Hour
	// afterError is how long a session waits whose episode could not be stored, twice as long
	// after each further try, mostRest at most.
	afterError = time.Minute
	mostRest   = time.Hour
	// maxKnown bounds the sessions of which the last look is kept.
	maxKnown = 10_000
)

// Episodes stores the episodes of sessions. One goroutine uses it.
type Episodes struct {
	logger   *slog.Logger
	paths    *paths.Loader
	reader   *reader.Reader
	memories *memories.Memories

	blind  bool               // the sessions that changed could not be read, as was said
	looked uint64             // position up to which sessions were looked for
	again  map[turns.ID]rest  // sessions whose episode could not be stored
	known  map[turns.ID]known // what the last look at a session found; it saves reads only
}

// rest is how long a session waits after an error, and until when.
type rest struct {
	time.Duration
	until time.Time
}

// known is what decides whether there is something to do for a session.
type known struct {
	at       turns.Ref
	settings uint64
}

// New returns the episodes of the sessions that r finds. A nil logger is silent.
func New(logger *slog.Logger, pl *paths.Loader, r *reader.Reader, ms *memories.Memories) *Episodes {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Episodes{logger: logger, paths: pl, reader: r, memories: ms, again: make(map[turns.ID]rest), known: make(map[turns.ID]known)}
}

// RunEpisodes stores episodes until ctx ends.
func (ep *Episodes) RunEpisodes(ctx context.Context) {
	for ctx.Err() == nil {
		_ = ep.StoreEpisodes(ctx) // it has logged the first of each kind
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// StoreEpisodes stores the episodes of the sessions that changed since the last call, and of
// those whose episode could not be stored. These wait, though they change: a chain that is set
// aside, or a key that is missing, would cost a read of each path a second, and a line of the
// log. While the disk takes no writes it does nothing.
func (ep *Episodes) StoreEpisodes(ctx context.Context) (errs error) {
	if ep.reader.AccessNow().Writes != nil {
		return nil
	}
	to := ep.reader.Projections.Applied().Seq
	if to < ep.looked {
		ep.looked = 0 // the projections are made again
		clear(ep.known)
	}
	now, due := ep.reader.Now(), make(map[turns.ID]bool)
	changed := ep.reader.Projections.Touched(ep.looked, to)
	if ep.looked == 0 { // a start: the sessions that storeEpisode would not leave alone, not the whole log
		changed = ep.reader.Projections.UpdatedSince(now.Add(-Window))
	}
	for id, err := range changed {
		if err != nil {
			if !ep.blind {
				ep.logger.Error("the sessions that changed can't be read: no episode is stored", "err", err)
			}
			ep.blind = true
			return err
		}
		due[id] = true
	}
	ep.blind = false
	for id, r := range ep.again {
		if due[id] = !now.Before(r.until); !due[id] {
			delete(due, id)
		}
	}
	if len(ep.known) > maxKnown {
		clear(ep.known)
	}
	for _, id := range slices.SortedFunc(maps.Keys(due), turns.ID.Compare) { // the oldest first
		err := ep.storeEpisode(ctx, id, now)
		if ctx.Err() != nil {
			return ctx.Err() // ep.looked is as it was: the next call looks again
		}
		before, tried := ep.again[id]
		delete(ep.again, id)
		if err != nil {
			d := min(max(2*before.Duration, afterError), mostRest)
			ep.again[id] = rest{d, now.Add(d)}
			if !tried {
				ep.logger.Error("the episode of a session can't be stored now; it is looked at again", "session", id, "err", err)
			}
			errs = errors.Join(errs, fmt.Errorf("session %s: %w", id, err))
		}
	}
	ep.looked = to
	return errs
}

// storeEpisode stores the episode that a session lacks, if its policy asks for episodes.
func (ep *Episodes) storeEpisode(ctx context.Context, id turns.ID, now time.Time) error {
	s, err := ep.reader.Projections.Session(id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil || s.State == turns.Erased || now.Sub(time.Unix(0, s.Updated)) > Window {
		return err
	}
	head, at, err := ep.turnOf(&s)
	if err != nil || at.IsZero() || ep.known[id] == (known{at, s.Settings}) {
		return err
	}
	err = ep.store(ctx, &s, head, at)
	var missing *turns.FieldError
	if errors.Is(err, turns.ErrErased) || errors.Is(err, ledger.ErrNotFound) || errors.As(err, &missing) || api.FromError(err).Code == api.TooLarge {
		ep.logger.Debug("a session has no episode", "session", id, "err", err)
		err = nil // its content is gone, or the agent has no room for more: nothing helps
	}
	if err == nil {
		ep.known[id] = known{at, s.Settings}
	}
	return err
}

// turnOf returns the head of a session and the turn of which its episode is: its own
// compaction in force, or if the session has ended, its last turn. A zero at: there is none,
// as everything is of the session that it was forked from.
func (ep *Episodes) turnOf(s *ledger.Session) (head lineage.Node, at turns.Ref, err error) {
	if s.Compactions == 0 && (s.Turns == 0 || !hasEnded(s)) { // most sessions: a start looks at all that changed in Window
		return head, at, nil
	}
	head, err = ep.reader.HeadNode(s)
	if err != nil || head.Ref.IsZero() {
		return head, at, err
	}
	if at = head.Ref; !hasEnded(s) {
		at, err = ep.reader.CompactionAt(s, head)
	}
	if at.Session != s.ID {
		at = turns.Ref{}
	}
	return head, at, err
}

func hasEnded(s *ledger.Session) bool { return s.State == turns.Reset || s.State == turns.Closed }

// store stores the episode of a session at a turn.
func (ep *Episodes) store(ctx context.Context, s *ledger.Session, head lineage.Node, at turns.Ref) error {
	_, set, err := ep.reader.SettingsInForce(ctx, s)
	if err != nil {
		return err
	}
	pol, err := ep.reader.ResolvePolicy(ctx, s.Tenant, set.Policy)
	if err != nil || pol.Memory.EpisodeTokens == 0 {
		return err
	}
	e := memories.Episode{Turn: at}
	if _, err := ep.reader.Projections.Memory(s.Tenant, s.Agent, turns.EpisodeID(at)); err == nil {
		return nil // it is stored
	} else if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	ctx, end := ep.paths.Memory.Begin(ctx)
	defer end()
	p, err := ep.paths.Load(ctx, s, &set, pol, head)
	if err != nil {
		return err
	}
	if e.Text, err = ep.textOf(ctx, s, p, pol.Memory.EpisodeTokens); err != nil || e.Text == "" {
		return err
	}
	for _, h := range p.Halves {
		if !slices.Contains(e.Keys, h.Ref.Session) {
			e.Keys = append(e.Keys, h.Ref.Session)
		}
	}
	if p.InForce != nil {
		_, ev, err := ep.reader.TurnEvent(p.InForce.Node.Ref)
		if err != nil {
			return err
		}
		e.Keys = append(e.Keys, ev.Keys...)
		if t := ev.Span.Through; !t.IsZero() && !hasEnded(s) {
			e.Sources = append(e.Sources, api.TurnName{Session: t.Session, Turn: t.Turn})
		}
	}
	err = ep.memories.StoreEpisode(ctx, reader.Caller{Tenant: s.Tenant, Agent: s.Agent}, e)
	return err
}
