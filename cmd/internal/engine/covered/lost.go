package covered

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/evidence"
	"nexus/compactor/facts"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// A request compares the newest turns that are covered: so many at most, and so much of
// their content, and reads them in steps. The list goes on in the next ones.
const (
	maxLostTurns = 4096
	maxLostBytes = 32 << 20
	lostStep     = 64
)

// Lost is compaction.lost: the facts of what a context does not show whole that it holds
// nowhere, by kind, most used first. Of a compaction: what its summarizer was to include,
// against the context that it left, as its survival counts it. Of a session: all that is
// covered or shortened now, against its context now. A long history is compared in spans
// of turns, the newest first.
func (cv *Covered) Lost(ctx context.Context, c reader.Caller, session turns.ID, req api.ListLost) (*api.LostList, error) {
	limit, err := req.Page.LimitOf(50, 1000)
	if err != nil {
		return nil, err
	}
	for _, k := range req.Kinds {
		if !slices.Contains(facts.Kinds(), k) {
			return nil, api.FieldErrorf("/kinds", "%.40q is not one of %s", k, strings.Join(facts.Kinds(), ", "))
		}
	}
	at, from, err := lostCursorOf(req)
	if err != nil {
		return nil, err
	}
	s, n, err := cv.reader.SessionAt(ctx, c, session, at, req.Read)
	if err != nil {
		return nil, err
	}
	if n.Ref.IsZero() {
		return &api.LostList{Facts: []api.LostFact{}, Survival: facts.Survival(nil, nil, nil)}, nil
	}
	hidden, err := cv.hiddenAt(ctx, s, n, !req.ID.IsZero(), from.below)
	if err != nil {
		return nil, err
	}
	survey := facts.NewSurvey(hidden.covered, hidden.shown, hidden.replacement)
	lost := evidence.LostFacts(hidden.covered, survey)
	lost = slices.DeleteFunc(lost, func(l evidence.Lost) bool { return len(req.Kinds) > 0 && !slices.Contains(req.Kinds, l.Kind) })
	if req.PerKind > 0 {
		lost = firstOfEach(lost, req.PerKind)
	}
	out := &api.LostList{Facts: []api.LostFact{}, Count: uint64(len(lost)), Survival: survey.Report(), Partial: survey.Partial || hidden.partial || hidden.from > 0, From: hidden.from, Dropped: hidden.dropped}
	if len(hidden.compactions) > 0 {
		out.Compaction = &hidden.compactions[0].Ref.Turn
	}
	size := 0
	for i := from.next; i < len(lost); i++ {
		x, err := cv.lostFact(&lost[i], hidden)
		if err != nil {
			return nil, err
		}
		k, err := page.EncodedSize(x)
		if err != nil {
			return nil, err
		}
		if size += k; len(out.Facts) == limit || size > cv.page.PageBytes() && len(out.Facts) > 0 {
			out.Next = lostCursor{i, from.below}.of(n)
			break
		}
		out.Facts = append(out.Facts, *x)
	}
	if out.Next == "" && hidden.from > 0 {
		out.Next = lostCursor{0, lineage.CutBefore(hidden.from, turns.MessagesHalf)}.of(n)
	}
	return out, nil
}

// firstOfEach returns the first facts of each kind, so many at most.
func firstOfEach(lost []evidence.Lost, limit int) []evidence.Lost {
	n := make(map[string]int)
	return slices.DeleteFunc(lost, func(l evidence.Lost) bool {
		n[l.Kind]++
		return n[l.Kind] > limit
	})
}

// lostCursor is where a page begins: at a fact of the turns below a cut; 0: all.
type lostCursor struct {
	next  int
	below lineage.Cut
}

func (k lostCursor) of(n lineage.Node) string {
	return fmt.Sprintf("%s~%d~%d", n.Ref.Turn, k.next, k.below)
}

// lostCursorOf returns the node that a request names, and where its page begins.
func lostCursorOf(req api.ListLost) (at turns.ID, k lostCursor, err error) {
	if req.After == "" {
		return req.ID, k, nil
	}
	bad := api.FieldErrorf("/after", "not what a page of this list gave as next")
	p := strings.Split(req.After, "~")
	if len(p) != 3 {
		return at, k, bad
	}
	at, err1 := turns.ParseID(p[0])
	next, err2 := strconv.ParseUint(p[1], 10, 31)
	below, err3 := strconv.ParseUint(p[2], 10, 63)
	if err1 != nil || err2 != nil || err3 != nil || !req.ID.IsZero() && at != req.ID {
		return at, k, bad
	}
	return at, lostCursor{int(next), lineage.Cut(below)}, nil
}

func (cv *Covered) lostFact(l *evidence.Lost, hidden *hiddenHalves) (*api.LostFact, error) {
	h := &hidden.covered[l.Newest]
	row, err := cv.reader.Projections.Turn(h.Ref)
	if err != nil {
		return nil, err
	}
	x := &api.LostFact{Kind: l.Kind, Text: strings.ToValidUTF8(l.Text, "\uFFFD"), Uses: uint64(l.Uses), Session: h.Ref.Session, Turn: h.Ref.Turn, Depth: h.Depth, Half: h.Half.String(), Hash: row.Hash}
	if by := covering(hidden.compactions, h.Depth, h.Half); len(by) > 0 {
		x.CoveredBy = &by[0].Ref.Turn
	}
	return x, nil
}

// hiddenHalves is what a context does not show whole, and what it shows.
type hiddenHalves struct {
	covered     []summary.HalfTurn // as they are stored
	shown       []summary.HalfTurn // kept halves, as they are shown
	replacement []turns.Message    // what stands for the covered ones, and what a compaction adds
	compactions []lineage.Node     // as compactionsAt returns them
	partial     bool               // not all content was read
	from        uint64             // depth of the oldest covered turn that was read; 0: there is no older one
	dropped     bool               // the compaction of another system says that it dropped what it covers
}

// hiddenAt returns what the context at node n hides. own is set for a compaction by
// itself: then it is what the compaction was made of, not what those before it cover. Of
// what is covered it has the newest turns below a cut; 0: the newest of all.
func (cv *Covered) hiddenAt(ctx context.Context, s *ledger.Session, n lineage.Node, own bool, below lineage.Cut) (*hiddenHalves, error) {
	h := new(hiddenHalves)
	var err error
	if own && n.Kind != turns.KindCompaction {
		return nil, &api.Error{Code: api.Unprocessable, Message: fmt.Sprintf("turn %s is not a compaction", n.Ref.Turn)}
	}
	if h.compactions, err = cv.compactionsAt(s, n); err != nil {
		return nil, err
	}
	if own && (len(h.compactions) == 0 || h.compactions[0].Ref != n.Ref) { // a fork that shows every turn leaves it aside
		h.compactions = []lineage.Node{n}
	}
	p := view.Path{Session: s.ID, Head: n}
	cut, since := lineage.Cut(0), lineage.Cut(0)
	if len(h.compactions) > 0 {
		k := h.compactions[0]
		body, err := cv.compactionBody(ctx, s, k)
		if err != nil {
			return nil, err
		}
		_, ev, err := cv.reader.TurnEvent(k.Ref)
		if err != nil {
			return nil, err
		}
		p.InForce = &view.InForce{Node: k, Span: *ev.Span, Body: *body}
		h.replacement, h.dropped = slices.Concat(body.Replacement, body.Nudge), ev.Span.Dropped
		cut = k.Cut
		if own && !body.FromOriginals && len(h.compactions) > 1 {
			since = h.compactions[1].Cut
		}
	}
	if p.Halves, h.partial, err = cv.halvesBetween(ctx, s, n, cut, lineage.CutBefore(n.Depth, turns.ResponseHalf)+1); err != nil {
		return nil, err
	}
	older := below != 0 && below < cut
	if older {
		cut = below
	}
	partial := false
	if h.covered, h.from, partial, err = cv.newestHalves(ctx, s, n, since, cut); err != nil {
		return nil, err
	}
	h.partial = h.partial || partial
	if !own {
		if p, err = cv.pruned(ctx, s, p, n); err != nil {
			return nil, err
		}
	}
	shown, err := p.ShownHalves()
	if err != nil {
		return nil, err
	}
	coversOnly := own && len(h.covered) > 0 || older // its survival counts what it covers alone
	for i := range shown {
		h.shown = append(h.shown, shown[i].HalfTurn)
		switch shown[i].Source.Status {
		case view.Verbatim, view.Erased:
		default:
			if !coversOnly {
				h.covered = append(h.covered, p.Halves[i])
			}
		}
	}
	return h, nil
}

// newestHalves returns the halves between two cuts, of the newest turns there: maxLostTurns
// of them, and maxLostBytes of content, at most. from is the depth of the oldest, 0 if there
// is no older one. partial is as halvesBetween returns it.
func (cv *Covered) newestHalves(ctx context.Context, s *ledger.Session, head lineage.Node, lo, hi lineage.Cut) (out []summary.HalfTurn, from uint64, partial bool, err error) {
	var steps [][]summary.HalfTurn // the newest first
	size := 0
	for n := 0; lo < hi && hi.Last() > 0; n += lostStep {
		if n >= maxLostTurns || size >= maxLostBytes {
			from = hi.Depth()
			break
		}
		begin := max(lo, lineage.CutBefore(max(hi.Last(), lostStep)-lostStep+1, turns.MessagesHalf))
		halves, clipped, err := cv.halvesBetween(ctx, s, head, begin, hi)
		if err != nil {
			return nil, 0, false, err
		}
		for i := range halves {
			for _, m := range halves[i].Messages {
				for j := range m.Parts {
					size += len(m.Parts[j].ContentBytes())
				}
			}
		}
		steps, partial, hi = append(steps, halves), partial || clipped, begin
	}
	slices.Reverse(steps)
	return slices.Concat(steps...), from, partial, nil
}

// pruned returns p with what the session's policy shortens in each context.
func (cv *Covered) pruned(ctx context.Context, s *ledger.Session, p view.Path, n lineage.Node) (view.Path, error) {
	_, set, err := cv.reader.SettingsAt(ctx, s, s.Settings)
	if err != nil {
		return p, err
	}
	pol, err := cv.reader.FindPolicy(ctx, s.Tenant, set.Policy)
	if err != nil {
		return p, err
	}
	p.View, p.Idle = pol.Prune, cv.reader.IdleTime(n)
	p.Cold = pol.Cold(p.Idle)
	return p, nil
}
