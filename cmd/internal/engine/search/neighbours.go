package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/search"
	"nexus/turns"
)

const (
	// maxNeighbours bounds the hits with some of the words whose places are read.
	maxNeighbours = 100
	// maxAnswers bounds the hits of a question beside which turns without its words are found.
	maxAnswers = 50
	// summaryRate marks summaries down: they say again what the turns say.
	summaryRate = 0.5
	// namedRate marks turns up that were said at a date that the query names.
	namedRate = 2
)

// A talk stays with a subject for some turns: a turn gets these parts of the scores of the
// turns before it and after it, the next one first. An answer repeats few words of its
// question, so what is before a turn tells more about it than what is after it.
var beforeRates, afterRates = [...]float64{0.6, 0.3}, [...]float64{0.4, 0.2}

// turnPlace is where a turn is in the lineage.
type turnPlace struct {
	session, segment turns.ID
	depth            uint64
}

// at returns the place so many turns further on, or back. No turn is where there is none.
func (p turnPlace) at(steps int) turnPlace {
	p.depth = uint64(int64(p.depth) + int64(steps))
	return p
}

// withNeighbours ranks what r has of some of the words again: by what is said in the turns
// around them, too. For a question it adds the turns beside the best ones. Errors:
// [ledger.ErrUnavailable] when ctx ends.
func (se *Search) withNeighbours(ctx context.Context, q search.Query, f search.Filter, r search.Result) (search.Result, error) {
	if r.All == len(r.Hits) {
		return r, nil
	}
	named := q.Named()
	places := make(map[int]turnPlace) // of r.Hits
	scores := make(map[turnPlace]float64)
	near := min(len(r.Hits), r.All+maxNeighbours)
	for i := range near {
		if ctx.Err() != nil {
			return r, fmt.Errorf("%w: search: %w", ledger.ErrUnavailable, ctx.Err())
		}
		switch p, kind, at := se.placeOf(r.Hits[i]); kind {
		case turns.KindTurn:
			if i >= r.All && named != nil && named(at) {
				r.Hits[i].Score *= namedRate
			}
			places[i], scores[p] = p, r.Hits[i].Score
		case turns.KindCompaction:
			if i >= r.All {
				r.Hits[i].Score *= summaryRate
			}
		}
	}
	if q.IsQuestion() && f.Model+f.Tool+f.Role+f.Source+f.Cwd+f.Branch == "" { // the index alone has these
		index := make(map[string]int, len(r.Hits))
		for i, h := range r.Hits {
			index[h.ID] = i
		}
		for i := range min(near, r.All+maxAnswers) {
			p, ok := places[i]
			if !ok {
				continue
			}
			for _, beside := range []turnPlace{p.at(-1), p.at(1)} {
				if _, ok := scores[beside]; ok {
					continue
				}
				id := se.documentAt(beside)
				if id == "" {
					continue
				}
				j, ok := index[id]
				if !ok {
					j = len(r.Hits)
					r.Hits = append(r.Hits, search.Hit{ID: id, Beside: true})
				}
				places[j], scores[beside] = beside, r.Hits[j].Score
			}
		}
	}
	for i, p := range places {
		if i < r.All {
			continue
		}
		for n, rate := range beforeRates {
			r.Hits[i].Score += rate * scores[p.at(-1-n)]
		}
		for n, rate := range afterRates {
			r.Hits[i].Score += rate * scores[p.at(1+n)]
		}
	}
	slices.SortStableFunc(r.Hits[r.All:], func(a, b search.Hit) int { return cmp.Compare(b.Score, a.Score) })
	r.Hits = r.Hits[:min(len(r.Hits), search.MaxHits)]
	return r, nil
}

// placeOf returns where the turn of a hit is, its kind and its time; 0 for what is no turn.
func (se *Search) placeOf(h search.Hit) (turnPlace, turns.Kind, int64) {
	seq, item, err := search.ParseDocumentID(h.ID)
	if err != nil || item > 0 {
		return turnPlace{}, 0, 0
	}
	ev, _, err := se.eventAt(seq)
	if err != nil || !ev.Kind.IsTurn() {
		return turnPlace{}, 0, 0
	}
	row, err := se.reader.Projections.Turn(ev.Ref())
	if err != nil {
		return turnPlace{}, 0, 0
	}
	return turnPlace{row.Ref.Session, row.Segment, row.Depth}, ev.Kind, timeOf(ev)
}

// documentAt returns the id of the document of a turn; "" if none is there, or it is a
// compaction.
func (se *Search) documentAt(p turnPlace) string {
	for payload, err := range se.reader.Projections.Range(lineage.Range{Session: p.session, Segment: p.segment, Lo: p.depth, Hi: p.depth}) {
		if err != nil {
			return ""
		}
		ev, err := turns.Decode(payload)
		if err != nil || ev.Kind != turns.KindTurn {
			return ""
		}
		row, err := se.reader.Projections.Turn(ev.Ref())
		if err != nil {
			return ""
		}
		return search.DocumentID(row.Seq, 0)
	}
	return ""
}
