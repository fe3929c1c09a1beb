package search

import (
	"context"
	"errors"
	"slices"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"
)

const (
	// minCommon is from how many documents on a word may be common.
	minCommon = 10 * MaxHits
	// maxNewest is how many of the newest documents with common words are ranked. The others follow them.
	maxNewest = 256
)

// areCommon reports whether each unit of a query is a word that most documents have: it weighs
// next to nothing, and a score of each of its documents takes a time that grows with the ledger.
func (x opened) areCommon(ctx context.Context, want []wanted) (common bool, err error) {
	r, err := x.reader()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	docs, err := r.DocCount()
	if err != nil || docs < minCommon || len(want) == 0 {
		return false, err
	}
	for _, unit := range want {
		most := uint64(0)
		if len(unit) == 1 {
			for _, t := range unit[0] {
				n, err := countOf(ctx, r, t.field, t.text)
				if err != nil {
					return false, err
				}
				most = max(most, n)
			}
		}
		if most < minCommon || most <= docs/2 {
			return false, nil
		}
	}
	return true, nil
}

// newest returns the newest documents that match all of the queries, [maxNewest] at most, and more
// as their number where there are more. It looks at the last blocks of positions first, and each
// time at twice as many.
func (x opened) newest(ctx context.Context, all []query.Query, f Filter) (hits []Hit, total uint64, err error) {
	r, err := x.reader()
	if err != nil {
		return nil, 0, err
	}
	blocks, err := termsOf(r, fieldBlock)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, 0, err
	}
	all = append(slices.Clone(all), f.query())
	for n := 1; len(blocks) > 0 && len(hits) <= maxNewest; n *= 2 {
		last := blocks[max(0, len(blocks)-n):]
		blocks = blocks[:len(blocks)-len(last)]
		here := append(slices.Clone(all), within(fieldBlock, last[0], last[len(last)-1]))
		req := bleve.NewSearchRequestOptions(query.NewConjunctionQuery(here), maxNewest+1-len(hits), 0, false)
		req.Score = "none"
		req.SortBy([]string{"-_id"})
		res, err := x.idx.SearchInContext(ctx, req)
		if err != nil {
			return nil, 0, err
		}
		hits = append(hits, hitsOf(res)...)
	}
	return hits[:min(len(hits), maxNewest)], uint64(len(hits)), nil
}
