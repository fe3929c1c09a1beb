package covered

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/compactor/evidence"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Lost is compaction.lost: the facts of what a context does not show whole that it holds
// nowhere, most used first. Of a compaction: what its summarizer was to include, against
// the context that it left, as its survival counts it. Of a session: all that is covered
// or shortened now, against its context now.
func (cv *Covered) Lost(ctx context.Context, c reader.Caller, session turns.ID, req api.ListLost) (*api.LostList, error) {
	limit, err := req.Page.LimitOf(50, 1000)
	if err != nil {
		return nil, err
	}
	for _, k := range req.Kinds {
		if !slices.Contains([]string{"paths", "identifiers", "numbers", "commands", "errors"}, k) {
			return nil, api.FieldErrorf("/kinds", "%.40q is not one of paths, identifiers, numbers, commands, errors", k)
		}
	}
	at, from := req.ID, 0
	if req.After != "" {
		id, n, ok := strings.Cut(req.After, "~")
		node, err1 := turns.ParseID(id)
		k, err2 := strconv.ParseUint(n, 10, 31)
		if !ok || err1 != nil || err2 != nil || !req.ID.IsZero() && node != req.ID {
			return nil, api.FieldErrorf("/after", "not what a page of this list gave as next")
		}
		at, from = node, int(k)
	}
	s, n, err := cv.reader.SessionAt(ctx, c, session, at, req.Read)
	if err != nil {
		return nil, err
	}
	if n.Ref.IsZero() {
		return &api.LostList{Facts: []api.LostFact{}, Survival: summary.Survival(nil, nil, nil)}, nil
	}
	hidden, err := cv.hiddenAt(ctx, s, n, !req.ID.IsZero())
	if err != nil {
		return nil, err
	}
	survey := summary.NewSurvey(hidden.covered, hidden.shown, hidden.replacement)
	lost := evidence.LostFacts(hidden.covered, survey)
	lost = slices.DeleteFunc(lost, func(l evidence.Lost) bool { return len(req.Kinds) > 0 && !slices.Contains(req.Kinds, l.Kind) })
	out := &api.LostList{Facts: []api.LostFact{}, Count: uint64(len(lost)), Survival: survey.Report(), Partial: survey.Partial || hidden.partial, Dropped: hidden.dropped}
	size := 0
	for i := from; i < len(lost); i++ {
		x, err := cv.lostFact(&lost[i], hidden)
		if err != nil {
			return nil, err
		}
		k, err := page.EncodedSize(x)
		if err != nil {
			return nil, err
		}
		if size += k; len(out.Facts) == limit || size > cv.page.PageBytes() && len(out.Facts) > 0 {
			out.Next = fmt.Sprintf("%s~%d", n.Ref.Turn, i)
			break
		}
		out.Facts = append(out.Facts, *x)
	}
	return out, nil
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
	dropped     bool               // the compaction of another system says that it dropped what it covers
}

// hiddenAt returns what the context at node n hides. own is set for a compaction by
// itself: then it is what the compaction was made of, not what those before it cover.
func (cv *Covered) hiddenAt(ctx context.Context, s *ledger.Session, n lineage.Node, own bool) (*hiddenHalves, error) {
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
	// Both parts of the path at once: the newest content has the room.
	all, partial, err := cv.halvesBetween(ctx, s, n, since, lineage.CutBefore(n.Depth, turns.ResponseHalf)+1)
	if err != nil {
		return nil, err
	}
	h.partial = partial
	for _, x := range all {
		if lineage.CutBefore(x.Depth, x.Half) < cut {
			h.covered = append(h.covered, x)
		} else {
			p.Halves = append(p.Halves, x)
		}
	}
	if !own {
		if p, err = cv.pruned(ctx, s, p, n); err != nil {
			return nil, err
		}
	}
	shown, err := p.ShownHalves()
	if err != nil {
		return nil, err
	}
	coversOnly := own && len(h.covered) > 0 // its survival counts what it covers alone
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
