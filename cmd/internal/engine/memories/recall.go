package memories

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
)

// RecallQuery is what a context needs of an agent's memories.
type RecallQuery struct {
	// At is the position of the log at which the memories are read: what came later does
	// not count, so that a context is made again as it was. 0: what the projections have
	// applied.
	At uint64
	// From and To bound the time of daily memories, [From, To). Zero times: none.
	From, To time.Time
	// Document asks for the agent's document. Sessions that are not main get none.
	Document bool
	// Facts asks for the newest semantic memories, at most so many.
	Facts int
	// Text, if not empty, asks for up to Limit memories of any kind but daily, by words,
	// each counting half after HalfLife days (0: never). Episodes of the session itself, and of
	// turns of its path, are not among them: its own context stands for them.
	Text     string
	Limit    int
	HalfLife uint64
	// Now is when the age of those is measured. The zero time: To, or if that is zero too,
	// the clock.
	Now time.Time
	// IDs, if not nil, are the memories that are wanted in place of the Limit best.
	IDs []turns.ID
}

// Recalled is what a session sees of its agent's memories. All of it is data: a text
// may hold anything, also what looks like a section, a tag or a path.
type Recalled struct {
	At       uint64          // the position that was read; a recipe pins it
	Daily    []api.Memory    // by time, oldest first
	Document *api.Document   // nil: none
	Hits     []api.MemoryHit // the newest facts, newest first; then the best by words
	Cut      bool            // older memories were not looked at
}

// CatchUp waits until the projections have applied the end of the chain of a session's
// agent. A chain that is set aside before its end is no error: what came before counts.
func (ms *Memories) CatchUp(ctx context.Context, s *ledger.Session) error {
	_, err := ms.catchUp(ctx, s.Tenant, s.Agent)
	if errors.Is(err, ledger.ErrCorrupt) {
		return nil
	}
	return err
}

// Recall returns the memories that are in force for a session at a turn: accepted, not
// superseded, not withdrawn, and seen there. A memory that can't be read is left out, and so is a
// fact or a hit of hidden sessions alone, unless IDs names it: a recipe makes again what was shown.
// Daily memories and the document do not depend on what is hidden, since a recipe reads them anew.
func (ms *Memories) Recall(ctx context.Context, s *ledger.Session, at lineage.Node, q RecallQuery) (*Recalled, error) {
	applied := ms.reader.Projections.Applied().Seq
	if q.At == 0 {
		q.At = applied
	}
	if q.At > applied {
		if err := ms.reader.Projections.WaitFor(ctx, q.At); err != nil {
			return nil, err
		}
	}
	v := newViewer(s, at)
	out := &Recalled{At: q.At}
	if q.To.After(q.From) {
		op, scanned, said := ms.opener(), 0, sayings{}
		for m, err := range ms.reader.Projections.DailyMemories(s.Tenant, s.Agent, q.From.UnixNano(), q.To.UnixNano()) {
			if err != nil {
				return nil, err
			}
			if m.Seq > q.At {
				continue // so that what comes later leaves nothing out
			}
			if scanned++; scanned > ms.MaxScan {
				out.Cut = true
				break
			}
			st, ok, err := ms.inForce(v, &m.Memory, q.At)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if x := ms.describe(op, s.Tenant, s.Agent, m, st); x.Error == "" && said.add(m.Kind, x.Text) {
				out.Daily = append(out.Daily, *x)
			}
		}
	}
	if q.Document && v.seesPrivate() {
		seq, ok, err := ms.reader.Projections.DocumentAt(s.Tenant, s.Agent, q.At)
		if err != nil {
			return nil, err
		}
		if ok {
			out.Document, err = ms.documentAt(s.Agent, seq)
			var missing *content.MissingKeyError
			if err != nil && !errors.Is(err, turns.ErrErased) && !errors.As(err, &missing) {
				return nil, err
			}
		}
	}
	if q.IDs != nil {
		op := ms.opener()
		for _, id := range q.IDs {
			m, err := ms.reader.Projections.Memory(s.Tenant, s.Agent, id)
			if errors.Is(err, ledger.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			st, ok, err := ms.inForce(v, &m.Memory, q.At)
			if err != nil {
				return nil, err
			}
			if x := ms.describe(op, s.Tenant, s.Agent, m, st); ok && x.Error == "" {
				out.Hits = append(out.Hits, api.MemoryHit{Memory: *x})
			}
		}
		return out, nil
	}
	if q.Facts > 0 {
		facts, cut, err := ms.newestFacts(ctx, s, v, q)
		if err != nil {
			return nil, err
		}
		out.Hits, out.Cut = facts, out.Cut || cut
	}
	if q.Text == "" || len(words(q.Text)) == 0 || q.Limit <= 0 {
		return out, nil
	}
	now := cmp.Or(q.Now, q.To)
	if now.IsZero() {
		now = ms.reader.Now()
	}
	hits, cut, err := ms.search(ctx, s.Tenant, s.Agent, v, searchQuery{text: q.Text, limit: q.Limit, halfLife: q.HalfLife, at: q.At, now: now, notDaily: true, others: true})
	for _, h := range hits {
		if !slices.ContainsFunc(out.Hits, func(f api.MemoryHit) bool { return f.ID == h.ID }) {
			out.Hits = append(out.Hits, h)
		}
	}
	out.Cut = out.Cut || cut
	return out, err
}

// newestFacts returns the newest semantic memories in force for a viewer, at most q.Facts,
// newest first. cut says that older memories were not looked at.
func (ms *Memories) newestFacts(ctx context.Context, s *ledger.Session, v *viewer, q RecallQuery) (out []api.MemoryHit, cut bool, err error) {
	op, scanned, said := ms.opener(), 0, sayings{}
	for m, err := range ms.reader.Projections.ListMemories(s.Tenant, s.Agent, projections.MemoryPlace{}) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, false, err
		}
		if len(out) == q.Facts {
			break
		}
		if m.Seq > q.At {
			continue // so that what comes later leaves nothing out
		}
		if scanned++; scanned > ms.MaxScan {
			cut = true
			break
		}
		if m.Kind != turns.Semantic {
			continue
		}
		st, ok, err := ms.inForce(v, &m.Memory, q.At)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			continue
		}
		x := ms.describe(op, s.Tenant, s.Agent, m, st)
		if x.Error != "" {
			continue
		}
		if hidden, err := ms.allHidden(v, namedIn(x)); err != nil {
			return nil, false, err
		} else if hidden {
			continue
		}
		if said.add(m.Kind, x.Text) {
			out = append(out, api.MemoryHit{Memory: *x})
		}
	}
	return out, cut, nil
}

// maxOnRecord bounds what [Memories.OnRecord] returns.
const maxOnRecord = 100

// OnRecord returns the texts of memories that a summarizer by a policy's template need not find
// again, as far as a session sees them at a turn, oldest first, at most 100: daily memories of
// today and yesterday, by the session's clock, where the template finds such; else the newest
// facts.
func (ms *Memories) OnRecord(ctx context.Context, s *ledger.Session, set *turns.Settings, at lineage.Node, p policy.Policy) (out []string, err error) {
	t, _ := summary.FindTemplate(p.Template)
	if t.Shape != summary.Blocks && t.Shape != summary.Facts {
		return nil, nil
	}
	q := RecallQuery{Facts: maxOnRecord}
	if p.MemoryKind("") == turns.Daily {
		zone, err := ms.reader.SessionZone(ctx, s.Tenant, set)
		if err != nil {
			return nil, err
		}
		loc, err := reader.Zone(zone)
		if err != nil {
			return nil, err
		}
		now := ms.reader.Now().In(loc)
		q = RecallQuery{From: policy.StartOfDay(now.Year(), now.Month(), now.Day()-1, loc), To: policy.StartOfDay(now.Year(), now.Month(), now.Day()+1, loc)}
	}
	got, err := ms.Recall(ctx, s, at, q)
	if err != nil {
		return nil, err
	}
	for _, m := range got.Daily[max(0, len(got.Daily)-maxOnRecord):] {
		out = append(out, m.Text)
	}
	for _, m := range slices.Backward(got.Hits) {
		out = append(out, m.Text)
	}
	return out, nil
}

// inForce reports whether a memory was in force and seen at a position, and its status
// there.
func (ms *Memories) inForce(v *viewer, m *ledger.Memory, at uint64) (ledger.MemoryStatus, bool, error) {
	st, ok := m.At(at)
	if !ok || !st.InForce() {
		return st, false, nil
	}
	ok, err := v.sees(ms.reader.Projections, st)
	return st, ok, err
}
