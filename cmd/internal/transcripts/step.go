package transcripts

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// Titles stores the titles of sessions in their meta, at the end: a transcript states
// them late and changes them. Each title is stored once, so that one which was set by
// hand later stays.
func (im *Importer) Titles(ctx context.Context, titles map[turns.ID]string, rep *Report) error {
	titles = maps.Clone(titles)
	for source, l := range im.lines {
		if t, ok := titles[source]; ok {
			titles[l.id] = t
		}
	}
	for _, id := range slices.Compact(slices.SortedFunc(slices.Values(rep.Sessions), turns.ID.Compare)) {
		title := titles[id]
		if title == "" {
			continue
		}
		s, err := im.Client.Session(ctx, id)
		if err != nil {
			return err
		}
		meta := make(map[string]turns.Raw)
		if err := json.Unmarshal(s.Meta, &meta); len(s.Meta) > 0 && err != nil {
			return err
		}
		if was, _ := meta["title"].Text(); was == title || s.State != "open" {
			continue
		}
		meta["title"] = turns.RawText(title)
		r := api.SetSession{ID: turns.DeriveID(id.Time(), "import", "title", id.String(), title)}
		if r.Meta, err = turns.EncodeJSON(meta); err != nil {
			return err
		}
		now, err := im.Client.Set(ctx, id, r)
		switch {
		case coded(err, api.IDReused): // this title was there, and meta is another since
		case err != nil:
			return err
		case now.Hash != s.Hash:
			rep.Stored++
		}
	}
	return nil
}

// step does one step. dup says that it was done before.
func (im *Importer) step(ctx context.Context, st transcript.Step, rep *Report) (dup bool, err error) {
	switch {
	case st.Open != nil:
		return im.open(ctx, st.Open, rep)
	case st.Fork != nil:
		im.countStep(st, rep)
		return im.fork(ctx, st.Fork, rep)
	case st.Append != nil:
		im.countStep(st, rep)
		dup, err := im.place(ctx, st.Append, rep)
		if p, split := im.splits[st.Append.ID]; split && p.first != p.last {
			rep.Split++
			rep.records[len(rep.records)-1].split = true
		}
		return dup, err
	default:
		im.countStep(st, rep)
		return im.compaction(ctx, st.Compaction, rep)
	}
}

// countStep counts what a step is, but for the opening of a session.
func (*Importer) countStep(st transcript.Step, rep *Report) {
	switch {
	case st.Fork != nil:
		rep.countRecord(st.Fork.ID, forksOf)
	case st.Append != nil:
		rep.countRecord(st.Append.ID, turnsOf)
	case st.Compaction != nil:
		rep.countRecord(st.Compaction.ID, compactionsOf)
	}
}

// otherAgentError says that another agent of the ledger has a session of a transcript.
// The ids of a transcript are the same for all agents, so only the first agent of
// the ledger that imports it, of any tenant, can have them.
type otherAgentError struct{ refused *api.Error }

func (e otherAgentError) Error() string { return e.refused.Error() }

func (e otherAgentError) Unwrap() error {
	return hinted{e.refused, "import it as that agent (--tenant and --agent), or into another ledger (--server)"}
}

// ownID returns err, or an otherAgentError if err says that the id of a session is used
// and the agent has no such session.
func (im *Importer) ownID(ctx context.Context, session turns.ID, err error) error {
	if !coded(err, api.IDReused) {
		return err
	}
	switch own, lookup := im.has(ctx, session); {
	case lookup != nil:
		return lookup
	case own:
		return err
	}
	return otherAgentError{api.Errorf(api.IDReused, nil, "session %s of this transcript belongs to another agent of the ledger", session)}
}

// has reports whether the agent has a session.
func (im *Importer) has(ctx context.Context, id turns.ID) (bool, error) {
	_, err := im.Client.Session(ctx, id)
	if coded(err, api.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// open opens a session. had says that the ledger has it, or that it is not opened yet: see
// joined.go.
func (im *Importer) open(ctx context.Context, o *transcript.Open, rep *Report) (had bool, err error) {
	if had, ok, err := im.openRenewed(ctx, o, rep.Format); ok {
		rep.Sessions = append(rep.Sessions, o.ID)
		return had, im.ownID(ctx, o.ID, err)
	}
	l, err := im.sessionOf(ctx, o.ID)
	if err != nil {
		return false, err
	}
	if l.had == nil && !l.renamed && sharesIDs(rep.Format) {
		im.delay(o)
		return true, nil
	}
	rep.Sessions = append(rep.Sessions, o.ID)
	if l.had != nil {
		if l.had.ForkedFrom != nil && l.before == nil && sharesIDs(rep.Format) {
			im.join(o.ID, new(joined))
		}
		if done, err := im.openStandIn(ctx, o, rep.Format); done || err != nil {
			return true, err
		}
		return true, im.known(ctx, l, o.SpawnedBy, rep)
	}
	l.had, err = im.create(ctx, o, rep)
	return false, err
}

// create creates the session of a step.
func (im *Importer) create(ctx context.Context, o *transcript.Open, rep *Report) (*api.Session, error) {
	r := api.CreateSession{ID: o.ID, SpawnedBy: spawnedBy(o.SpawnedBy)}
	r.Meta, r.Model = im.ofRenewal(o.ID, im.opening(ctx, o.ID, o.Meta, rep.Format)), &o.Model
	if len(o.System) > 0 {
		r.System = (*api.System)(&o.System)
	}
	if len(o.Tools) > 0 {
		r.Tools = &o.Tools
	}
	if im.Window > 0 {
		r.Limits = &turns.Limits{ContextWindow: im.Window}
	}
	s, err := im.Client.Create(ctx, r)
	s, err = im.unlessOpened(ctx, o.ID, r.Meta, s, err)
	rep.countOpened(s, err)
	return s, im.ownID(ctx, o.ID, err)
}

// sessionOf returns what the ledger has of a session with an id of the ledger.
func (im *Importer) sessionOf(ctx context.Context, id turns.ID) (*line, error) {
	if l := im.byID[id]; l != nil {
		return l, nil
	}
	return im.lineOf(ctx, id)
}

// known counts a session that the ledger has, and links it to what started it.
func (im *Importer) known(ctx context.Context, l *line, by turns.Ref, rep *Report) error {
	if isOlder(l.had, rep.Format) && !im.Refresh {
		rep.Older++
	}
	if l.had.Hidden {
		rep.Hidden++
	}
	return im.linkSpawner(ctx, l.had, by, rep)
}

func spawnedBy(r turns.Ref) *api.SpawnedBy {
	if r.IsZero() {
		return nil
	}
	return &api.SpawnedBy{Session: r.Session, Turn: r.Turn}
}

func (im *Importer) compaction(ctx context.Context, k *transcript.Compaction, rep *Report) (dup bool, err error) {
	r := api.RecordCompaction{ID: k.ID, Parent: im.splits.last(k.Parent), Time: alike.ClaimedTime(k.Time), Trigger: k.Trigger, Model: k.Model, Usage: k.Usage, Replacement: k.Replacement, Summary: k.Summary,
		FirstKept: im.splits.first(k.FirstKept), TokensBefore: k.TokensBefore, Dropped: k.Dropped, Meta: k.Meta}
	for _, x := range k.Cleared {
		at, err := im.turnOfResult(ctx, k.Session, x)
		if err != nil {
			return false, err
		}
		r.Cleared = append(r.Cleared, api.ClearedResult{Turn: at, Call: x.Call})
	}
	to := im.placed.of(k.Parent, k.Session)
	if to != k.Session {
		if had, err := im.hasOwn(ctx, k.Session, k.ID); had || err != nil { // another file of the session begins with it
			return had, err
		}
		im.placed.record(k.ID, k.Session, to)
	}
	if k.Parent.IsZero() {
		to, err = im.olderPlace(ctx, to, k.ID, k.Time, true, false, rep)
	} else {
		to, err = im.beside(ctx, to, k.ID)
	}
	if err != nil {
		return false, err
	}
	if to != k.Session {
		placed := *k
		placed.Session = to
		k = &placed
	}
	t, err := im.Client.Record(ctx, to, r)
	if err == nil && !t.Duplicate {
		im.acked = t.Position
	}
	reason := ""
	switch {
	case err == nil:
		return t.Duplicate, nil
	case k.Parent.IsZero() && coded(err, api.IDReused) && im.hasCompaction(ctx, k):
		return true, nil
	case k.Parent.IsZero() && im.isFirst(ctx, k, err):
		if k.Usage != nil {
			rep.lose(transcript.Loss{Kind: "skipped", Reason: "usage of a compaction, which is stored as a turn", Record: k.ID.String(), Usage: k.Usage})
		}
		return im.append(ctx, replacementTurn(k), rep)
	case coded(err, api.IDReused) && im.isBounded(ctx, k, rep):
		return true, nil
	case errors.Is(err, api.ErrNothing):
		reason = "a recorded compaction that covers nothing"
	case coded(err, api.Conflict): // an earlier import skipped it, and went on
		reason = "a recorded compaction, after which something else follows in the ledger"
	default:
		return false, err
	}
	im.addSplit(k.ID, r.Parent, r.Parent) // what follows it follows its parent
	rep.lose(transcript.Loss{Kind: "skipped", Reason: reason, Record: k.ID.String()})
	return true, nil
}
