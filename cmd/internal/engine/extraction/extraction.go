package extraction

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"nexus/cmd/internal/engine/events"
	"nexus/cmd/internal/engine/memories"
	"nexus/cmd/internal/engine/paths"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/sessions"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Channel is the channel of the agent's events on which extractions are recorded.
const Channel = "memory-extraction"

// The kinds of the events on the channel.
const (
	begun  = "extraction.begun"
	failed = "extraction.failed"
	done   = "extraction.done"
)

const (
	// Tries is how often the model is asked about one session, by all daemons together.
	Tries = 3
	// Lease is how long after the begin of a try the next one may begin.
	Lease = 15 * time.Minute
	// timeout ends a try. It is shorter than Lease, so two tries never overlap.
	timeout = 10 * time.Minute
	// Window is how long after a reset its extraction may begin: what a daemon with no
	// model left open is not made up for.
	Window = 7 * 24 * time.Hour
	// parallel is how many models are asked at a time.
	parallel = 4
)

// Extraction extracts memories from sessions that were reset. One goroutine uses it.
type Extraction struct {
	logger   *slog.Logger
	paths    *paths.Loader
	reader   *reader.Reader
	writer   *writer.Writer
	events   *events.Events
	memories *memories.Memories
	sessions *sessions.Sessions

	looked uint64                 // position up to which resets were looked for
	open   map[turns.ID]time.Time // sessions that were reset and whose extraction has not ended; when to look at each again
}

// New returns the extractions of the sessions that r finds. A nil logger is silent.
func New(logger *slog.Logger, pl *paths.Loader, r *reader.Reader, w *writer.Writer, es *events.Events, ms *memories.Memories, ss *sessions.Sessions) *Extraction {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Extraction{logger: logger, paths: pl, reader: r, writer: w, events: es, memories: ms, sessions: ss, open: make(map[turns.ID]time.Time)}
}

// RunExtractions extracts until ctx ends.
func (x *Extraction) RunExtractions(ctx context.Context) {
	if !slices.ContainsFunc(x.paths.Tiers, func(t compactor.Tier) bool { return !t.Local }) {
		return // nobody to ask: no reset is looked at
	}
	for ctx.Err() == nil {
		_ = x.ExtractDue(ctx) // it has logged each error
		timer := time.NewTimer(time.Second)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// ExtractDue looks at the sessions that were reset since the last call, and at those whose
// extraction has not ended, and makes the tries that are due. While the disk takes no writes
// it does nothing.
func (x *Extraction) ExtractDue(ctx context.Context) error {
	if x.reader.AccessNow().Writes != nil {
		return nil
	}
	to := x.reader.Projections.Applied().Seq
	if to < x.looked {
		x.looked = 0 // the projections are made again
	}
	now, looked := x.reader.Now(), make(map[turns.ID]bool)
	changed := x.reader.Projections.Touched(x.looked, to)
	if x.looked == 0 { // a start: the sessions that may be due, not the whole log
		changed = x.reader.Projections.UpdatedSince(now.Add(-Window - Tries*Lease))
	}
	for id, err := range changed {
		if err != nil {
			return err
		}
		if looked[id] {
			continue
		}
		looked[id] = true
		if s, err := x.reader.Projections.Session(id); err == nil && s.State == turns.Reset && s.Turns > 0 && now.Sub(time.Unix(0, s.Updated)) <= Window+Tries*Lease {
			x.open[id] = time.Time{}
		}
	}
	x.looked = to
	// Chosen before a try begins: tries change x.open.
	due := slices.DeleteFunc(slices.SortedFunc(maps.Keys(x.open), turns.ID.Compare), func(id turns.ID) bool { return now.Before(x.open[id]) })
	var mu sync.Mutex // over x.open and errs
	var group sync.WaitGroup
	var errs error
	room := make(chan struct{}, parallel)
	for _, id := range due {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			again, ended, err := x.attempt(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ended:
				delete(x.open, id)
			case err != nil:
				x.open[id] = now.Add(afterError)
			default:
				x.open[id] = again
			}
			if err != nil && ctx.Err() == nil {
				x.logger.Error("an extraction of memories can't be made now; it is looked at again", "session", id, "err", err)
				errs = errors.Join(errs, fmt.Errorf("session %s: %w", id, err))
			}
		})
	}
	group.Wait()
	return errs
}

// afterError is how long a session waits whose extraction could not be looked at.
const afterError = time.Minute

// extraction is the one of a session.
type extraction struct {
	session *ledger.Session
	caller  reader.Caller
	policy  policy.Policy
	set     turns.Settings
	tiers   []compactor.Tier
	reset   turns.Hash // of the event that reset the session
}

// attempt makes the try that is due for a session, and reports whether its extraction has
// ended: it is done, has failed as often as it may, or there is nothing to extract. Else
// again is when to look again; zero: soon.
func (x *Extraction) attempt(ctx context.Context, id turns.ID) (again time.Time, ended bool, err error) {
	e, err := x.plan(ctx, id)
	if e == nil || err != nil {
		return again, err == nil || errors.Is(err, ledger.ErrErased) || errors.Is(err, ledger.ErrNotFound), err
	}
	if ev, err := x.find(ctx, e, done, 0); ev != nil || err != nil {
		return again, ev != nil, err
	}
	try, now := 1, x.reader.Now()
	for ; ; try++ {
		ev, err := x.find(ctx, e, begun, try)
		if err != nil {
			return again, false, err
		}
		if ev == nil {
			break
		}
		if end := time.Time(ev.Recorded).Add(Lease); now.Before(end) {
			return end, false, nil // it may be under way
		}
		if try == Tries {
			return again, true, nil
		}
	}
	if try == 1 && now.Sub(time.Unix(0, e.session.Updated)) > Window {
		return again, true, nil
	}
	halves, previous, known, err := x.load(ctx, e)
	if err == nil && len(halves) == 0 {
		return again, true, nil
	}
	if mine, berr := x.note(ctx, e, begun, try, nil); !mine || berr != nil {
		return again, false, berr // another daemon was faster
	}
	n, spent := 0, map[string]any{"asked": err == nil}
	if err == nil {
		var out summary.Output
		n, out, err = x.extract(ctx, e, previous, known, halves)
		addSpent(spent, &out)
	}
	if err == nil {
		spent["memories"] = n
		_, err = x.note(ctx, e, done, 0, spent)
		x.writer.Metrics.Extracted("done")
		return again, err == nil, err
	}
	if ctx.Err() != nil {
		return again, false, nil // the daemon ends; another try follows
	}
	code := api.FromError(err).Code
	x.logger.Warn("the extraction of memories at a reset failed", "session", id, "try", try, "tries", Tries, "code", code)
	x.writer.Metrics.Extracted("failed")
	spent["code"] = code
	_, err = x.note(ctx, e, failed, try, spent)
	return again, try == Tries && err == nil, err
}

// addSpent adds what the models of a try used to its record, so far as they counted it:
// nothing else in the ledger says it.
func addSpent(record map[string]any, out *summary.Output) {
	if out.Usage != nil {
		record["usage"] = *out.Usage
	}
	if out.CostMicros > 0 {
		record["cost_micros"] = out.CostMicros
	}
	if out.Model != "" {
		record["model"] = out.Model
	}
}

// plan returns the extraction of a session; nil if none is to be made: its policy asks for
// no memories, no tier asks a model, or another ledger reset it.
func (x *Extraction) plan(ctx context.Context, id turns.ID) (*extraction, error) {
	s, err := x.reader.Projections.Session(id)
	if err != nil {
		return nil, err
	}
	if here, err := x.sessions.IsResetHere(&s); err != nil || !here {
		return nil, err
	}
	e := &extraction{session: &s, caller: reader.Caller{Tenant: s.Tenant, Agent: s.Agent}, reset: s.Tail.Hash}
	if _, e.set, err = x.reader.SettingsInForce(ctx, &s); err != nil {
		return nil, err
	}
	if e.policy, err = x.reader.ResolvePolicy(ctx, s.Tenant, e.set.Policy); err != nil {
		return nil, err
	}
	if e.tiers = compactor.Extractors(e.policy, x.paths.TiersFor(e.policy, e.set.Model)); len(e.tiers) == 0 {
		return nil, nil
	}
	return e, nil
}

// load returns the session's own turns that no model has summarized, the summary of what one
// has, and what is on record already. What a fork inherits is its parent's to extract.
func (x *Extraction) load(ctx context.Context, e *extraction) (halves []summary.HalfTurn, previous string, known []string, err error) {
	ctx, end := x.paths.Memory.Begin(ctx)
	defer end()
	head, err := x.reader.HeadNode(e.session)
	if err != nil {
		return nil, "", nil, err
	}
	previous, all, err := x.paths.Unsummarized(ctx, e.session, head, 0)
	if err != nil {
		return nil, "", nil, err
	}
	for _, h := range all {
		if h.Ref.Session == e.session.ID && !h.Erased {
			halves = append(halves, h)
		}
	}
	known, err = x.memories.OnRecord(ctx, e.session, &e.set, head, e.policy)
	return halves, previous, known, err
}

// extract asks the model and stores the memories that it finds. It returns how many, and
// what the model answered and used, also with an error.
func (x *Extraction) extract(ctx context.Context, e *extraction, previous string, known []string, halves []summary.HalfTurn) (n int, out summary.Output, err error) {
	defer func() {
		if p := recover(); p != nil { // a summarizer's; it ends the try and not the daemon
			err = api.InternalError(api.NewID(), "")
			x.logger.Error("a defect in an extraction", "session", e.session.ID, "panic", fmt.Sprintf("%T", p))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err = compactor.Extract(ctx, e.policy, previous, known, halves, e.tiers)
	if err != nil {
		x.writer.Metrics.Summarized("lost", out.Usage, out.CostMicros)
		return 0, out, err
	}
	x.writer.Metrics.Summarized("kept", out.Usage, out.CostMicros)
	var all []turns.Ref // the turns, newest last
	for _, h := range halves {
		if len(all) == 0 || all[len(all)-1] != h.Ref {
			all = append(all, h.Ref)
		}
	}
	for _, m := range out.Memories[:min(len(out.Memories), turns.MaxLearned)] {
		sources := all
		if len(m.Source) > 0 {
			sources = m.Source
		}
		var names []api.TurnName
		for _, ref := range sources[max(0, len(sources)-turns.MaxMemorySources):] {
			names = append(names, api.TurnName{Session: ref.Session, Turn: ref.Turn})
		}
		stored, err := x.memories.Remember(ctx, e.caller, memories.Found{
			ID: e.id("memory\x00"+m.Kind+"\x00"+m.Text, 0), Session: e.session.ID, Kind: e.policy.MemoryKind(m.Kind), Text: m.Text, Sources: names})
		if err != nil {
			return n, out, err
		}
		if stored {
			n++
		}
	}
	return n, out, nil
}

// id returns the id of an event of the extraction. It is the same on every daemon, and
// follows from the event of the reset.
func (e *extraction) id(what string, try int) turns.ID {
	h := sha256.Sum256(fmt.Appendf(slices.Clone(e.reset[:]), "%s %d", what, try))
	id, err := turns.NewID(time.Unix(0, e.session.Updated), bytes.NewReader(h[:]))
	if err != nil {
		panic(err) // a hash has bytes enough
	}
	return id
}

// find returns a record of the extraction; nil if it is not stored.
func (x *Extraction) find(ctx context.Context, e *extraction, kind string, try int) (*api.Event, error) {
	ev, err := x.events.GetEvent(ctx, e.caller, api.GetEvent{Channel: Channel, ID: e.id(kind, try)})
	if err == nil && ev.Kind != kind || errors.Is(err, ledger.ErrNotFound) || api.FromError(err).Code == api.NotFound {
		return nil, nil
	}
	return ev, err
}

// note stores a record of the extraction, and reports whether this call stored it.
func (x *Extraction) note(ctx context.Context, e *extraction, kind string, try int, more map[string]any) (bool, error) {
	body := map[string]any{"session": e.session.ID.String()}
	if try > 0 {
		body["try"] = try
	}
	for k, v := range more {
		body[k] = v
	}
	req := api.AppendEvent{Channel: Channel, Kind: kind}
	var err error
	if req.Body, err = turns.EncodeJSON(body); err != nil {
		return false, err
	}
	canonical, err := turns.EncodeJSON(req)
	if err != nil {
		return false, err
	}
	req.ID = e.id(kind, try)
	out, err := x.events.AppendEvent(ctx, e.caller, req, canonical)
	if reused := new(api.Error); errors.As(err, &reused) && reused.Code == api.IDReused {
		return false, nil // another daemon ended it with another result
	}
	return err == nil && !out.Duplicate, err
}
