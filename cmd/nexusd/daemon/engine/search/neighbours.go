package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/projections/search"
	"nexus/turns"
)

const (
	// neighbourRate is how much of the scores of the turns before and after it a turn gets.
	// In a talk the answer to a question is the next turn, and repeats few of its words.
	neighbourRate = 0.5
	// maxNeighbours bounds the hits that are looked at for it.
	maxNeighbours = 300
	// summaryRate marks summaries down: they say again what the turns say.
	summaryRate = 0.5
)

// withNeighbours ranks hits again: by what is said in the turns around them, too. Errors:
// [ledger.ErrUnavailable] when ctx ends.
func (se *Search) withNeighbours(ctx context.Context, hits []search.Hit) error {
	hits = hits[:min(len(hits), maxNeighbours)]
	type place struct {
		session, segment turns.ID
		depth            uint64
	}
	places, scores := make([]place, len(hits)), make(map[place]float64)
	for i, h := range hits {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: search: %w", ledger.ErrUnavailable, ctx.Err())
		}
		seq, item, err := search.ParseDocumentID(h.ID)
		if err != nil || item > 0 {
			continue
		}
		ev, _, err := se.eventAt(seq)
		if err != nil || !ev.Kind.IsTurn() {
			continue
		}
		row, err := se.reader.Projections.Turn(ev.Ref())
		if err != nil {
			continue
		}
		if ev.Kind == turns.KindCompaction {
			hits[i].Score *= summaryRate
		}
		places[i] = place{row.Ref.Session, row.Segment, row.Depth}
		scores[places[i]] = hits[i].Score
	}
	for i, p := range places {
		if p.depth > 0 {
			before, after := p, p
			before.depth--
			after.depth++
			hits[i].Score += neighbourRate * (scores[before] + scores[after])
		}
	}
	slices.SortStableFunc(hits, func(a, b search.Hit) int { return cmp.Compare(b.Score, a.Score) })
	return nil
}
