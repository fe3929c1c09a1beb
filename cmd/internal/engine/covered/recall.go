package covered

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"nexus/compactor/evidence"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

const (
	// maxCandidates bounds the turns of which a query reads pieces.
	maxCandidates = 24
	// A query that the index can't serve reads the newest covered turns: so many at most,
	// and so much of their content.
	maxScanTurns = 4096
	maxScanBytes = 16 << 20
	scanStep     = 64
	// maxShortened bounds the content of shortened halves that a query looks through.
	maxShortened = 8 << 20
	inShortened  = "in what is shown shortened"
)

// Recall returns the pieces of turns on a path that answer a query and that context cx
// of the path does not show: of covered turns, and of halves that are shown shortened.
// The best come first. how says where it looked.
func (cv *Covered) Recall(ctx context.Context, s *ledger.Session, p view.Path, cx view.Context, query string) (out []view.Excerpt, how string, err error) {
	q := evidence.ParseQuery(query)
	if q.IsEmpty() {
		return nil, "", api.FieldErrorf("/query", "it has no word")
	}
	cut := lineage.Cut(0)
	if p.InForce != nil {
		cut = p.InForce.Node.Cut
	}
	hidden, how, err := cv.candidates(ctx, s, p, cut, q, query)
	if err != nil {
		return nil, "", err
	}
	ranking := evidence.NewRanking(q)
	for _, k := range hidden {
		ranking.Add(k.halves[0].Ref, k.halves...)
	}
	shown, q := newTextOf(cx), ranking.Query()
	for _, k := range hidden {
		for i := range k.halves {
			h := &k.halves[i]
			for _, x := range q.Passages(h) {
				if !shown.has(x.Text) {
					out = append(out, excerpt(h, x, "matches the query; found "+k.found))
				}
			}
		}
	}
	return out, how, nil
}

// candidate is halves of a turn that may answer a query.
type candidate struct {
	halves []summary.HalfTurn
	found  string // how
}

// candidates returns what may answer a query, the best turn first, and where it looked.
// Turns that are covered and those that are shortened take turns.
func (cv *Covered) candidates(ctx context.Context, s *ledger.Session, p view.Path, cut lineage.Cut, q evidence.Query, query string) (out []candidate, how string, err error) {
	shortened, err := cv.shortened(ctx, p, q)
	if err != nil {
		return nil, "", err
	}
	var best []turns.Ref
	how = inShortened + ": nothing is covered"
	if last := min(cut.Last(), p.Head.Depth); last > 0 {
		end, err := lineage.At(cv.reader.Projections, p.Head, last)
		if err != nil {
			return nil, "", err
		}
		if best, how, err = cv.bestCovered(ctx, s, end, q, query); err != nil {
			return nil, "", err
		}
	}
	for i := 0; len(out) < maxCandidates && i < max(len(best), len(shortened)); i++ {
		if i < len(best) {
			halves, err := cv.turnHalves(ctx, s, best[i])
			if err != nil {
				return nil, "", err
			}
			halves = slices.DeleteFunc(halves, func(h summary.HalfTurn) bool { return lineage.CutBefore(h.Depth, h.Half) >= cut || h.Erased })
			if len(halves) > 0 {
				out = append(out, candidate{halves, how})
			}
		}
		if i < len(shortened) {
			halves, err := cv.whole(ctx, s, shortened[i])
			if err != nil {
				return nil, "", err
			}
			out = append(out, candidate{halves, inShortened})
		}
	}
	return out, how, nil
}

// whole returns halves of a turn with the content that had no room where its path was
// loaded: as a recipe reads them again.
func (cv *Covered) whole(ctx context.Context, s *ledger.Session, halves []summary.HalfTurn) ([]summary.HalfTurn, error) {
	if !slices.ContainsFunc(halves, func(h summary.HalfTurn) bool { return isClipped(h.Messages) }) {
		return halves, nil
	}
	all, err := cv.turnHalves(ctx, s, halves[0].Ref)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(h summary.HalfTurn) bool {
		return !slices.ContainsFunc(halves, func(k summary.HalfTurn) bool { return k.Half == h.Half })
	}), nil
}

// bestCovered returns the turns on the path to a node that answer a query, best first.
func (cv *Covered) bestCovered(ctx context.Context, s *ledger.Session, end lineage.Node, q evidence.Query, query string) (out []turns.Ref, how string, err error) {
	found, ok, err := cv.search.Above(ctx, s, end, query, maxCandidates)
	if err != nil && !errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil {
		return nil, "", err
	}
	if ok && err == nil {
		for _, n := range found {
			out = append(out, n.Ref)
		}
		return out, "by the search index", nil
	}
	ranking, n, err := cv.scan(ctx, s, end, q)
	return ranking.Best(maxCandidates), fmt.Sprintf("by reading the newest %d covered turns, since the search index is off or behind", n), err
}

// scan ranks the newest turns on the path to a node, and returns how many it read.
func (cv *Covered) scan(ctx context.Context, s *ledger.Session, end lineage.Node, q evidence.Query) (*evidence.Ranking, int, error) {
	ranking := evidence.NewRanking(q)
	n, size := 0, 0
	for hi := end.Depth; hi > 0 && n < maxScanTurns && size < maxScanBytes; {
		lo := max(hi, scanStep) - scanStep + 1
		halves, _, err := cv.halvesBetween(ctx, s, end, lineage.CutBefore(lo, turns.MessagesHalf), lineage.CutBefore(hi+1, turns.MessagesHalf))
		if err != nil {
			return ranking, n, err
		}
		for i := len(halves) - 1; i >= 0; {
			if err := ended(ctx); err != nil {
				return ranking, n, err
			}
			from := i
			for from > 0 && halves[from-1].Ref == halves[i].Ref {
				from--
			}
			for k := from; k <= i; k++ {
				for _, m := range halves[k].Messages {
					for j := range m.Parts {
						size += len(m.Parts[j].ContentBytes())
					}
				}
			}
			ranking.Add(halves[i].Ref, halves[from:i+1]...)
			n, i = n+1, from-1
			if n == maxScanTurns || size >= maxScanBytes {
				break
			}
		}
		hi = lo - 1
	}
	return ranking, n, nil
}

// ended returns an error once the request is over: words are compared a turn at a time.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: look for what a query asks: %w", ledger.ErrUnavailable, ctx.Err())
	}
	return nil
}

// shortened returns the halves of a path of which the context shows something shortened,
// those that answer a query, by turn, best first. It looks through the newest; of content
// that had no room on the path, through the beginnings.
func (cv *Covered) shortened(ctx context.Context, p view.Path, q evidence.Query) (out [][]summary.HalfTurn, err error) {
	shown, err := p.ShownHalves()
	if err != nil {
		return nil, err
	}
	ranking, size := evidence.NewRanking(q), 0
	by := make(map[turns.Ref][]summary.HalfTurn)
	for i := len(shown) - 1; i >= 0 && size < maxShortened; i-- {
		switch shown[i].Source.Status {
		case view.Elided, view.Trimmed, view.Cleared:
		default:
			continue
		}
		if err := ended(ctx); err != nil {
			return nil, err
		}
		h := p.Halves[i]
		for _, m := range h.Messages {
			for j := range m.Parts {
				size += len(m.Parts[j].ContentBytes())
			}
		}
		by[h.Ref] = slices.Insert(by[h.Ref], 0, h)
		ranking.Add(h.Ref, h)
	}
	for _, ref := range ranking.Best(maxCandidates) {
		if halves := by[ref]; halves != nil {
			out = append(out, halves)
			delete(by, ref)
		}
	}
	return out, nil
}

// turnHalves returns the halves of a turn.
func (cv *Covered) turnHalves(ctx context.Context, s *ledger.Session, ref turns.Ref) ([]summary.HalfTurn, error) {
	t, err := cv.reader.Projections.Turn(ref)
	if err != nil {
		return nil, err
	}
	return cv.paths.Halves(ctx, s, t.Node, lineage.CutBefore(t.Depth, turns.MessagesHalf))
}

// excerpt returns a passage of a half as a context shows it.
func excerpt(h *summary.HalfTurn, x evidence.Passage, why string) view.Excerpt {
	return view.Excerpt{
		Place: view.RecalledPart{Session: h.Ref.Session, Turn: h.Ref.Turn, Half: h.Half.String(), Message: uint64(x.Message), Part: uint64(x.Part), From: uint64(x.From), To: uint64(x.To)},
		Depth: h.Depth, Half: h.Half, Role: x.Role, Tool: x.Tool, Text: x.Text, Whole: x.Whole, Why: why,
	}
}

// ReadExcerpts returns the pieces of turns on the path to head that a recipe names. A
// piece whose key was destroyed is left out.
func (cv *Covered) ReadExcerpts(ctx context.Context, s *ledger.Session, head lineage.Node, places []view.RecalledPart) (out []view.Excerpt, err error) {
	var halves []summary.HalfTurn
	for i, at := range places {
		bad := func(why string) error { return api.FieldErrorf(fmt.Sprintf("/recipe/recalled/%d", i), "%s", why) }
		if len(halves) == 0 || halves[0].Ref != at.Ref() {
			t, err := cv.reader.Projections.Turn(at.Ref())
			if errors.Is(err, lineage.ErrUnknown) || err == nil && head.Ref.IsZero() {
				return nil, bad("not a turn of the context's path")
			}
			if err != nil {
				return nil, err
			}
			on, err := lineage.IsAncestor(cv.reader.Projections, t.Node, head)
			if err != nil && !errors.Is(err, lineage.ErrUnknown) {
				return nil, err
			}
			if !on || t.Kind != turns.KindTurn {
				return nil, bad("not a turn of the context's path")
			}
			if halves, err = cv.turnHalves(ctx, s, at.Ref()); err != nil {
				return nil, err
			}
		}
		k := slices.IndexFunc(halves, func(h summary.HalfTurn) bool { return h.Half.String() == at.Half })
		if k < 0 {
			return nil, bad("the turn has no such half")
		}
		if halves[k].Erased {
			continue
		}
		const most = 1 << 40
		x, ok := evidence.PassageAt(&halves[k], evidence.PartAt{Message: int(min(at.Message, most)), Part: int(min(at.Part, most))}, int(min(at.From, most)), int(min(at.To, most)))
		if !ok {
			return nil, bad("the half has no such piece")
		}
		out = append(out, excerpt(&halves[k], x, "the recipe names it"))
	}
	return out, nil
}

// textOf is the text of a context, for what it shows already.
type textOf struct{ texts []string }

func newTextOf(cx view.Context) (t textOf) {
	for i := range cx.Messages {
		for j := range cx.Messages[i].Parts {
			if text := evidence.Text(&cx.Messages[i].Parts[j]); text != "" {
				t.texts = append(t.texts, text)
			}
		}
	}
	return t
}

// has reports whether the context shows a text word for word.
func (t textOf) has(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || slices.ContainsFunc(t.texts, func(s string) bool { return strings.Contains(s, text) })
}
