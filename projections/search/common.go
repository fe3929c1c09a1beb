package search

import (
	"context"
	"errors"
	"slices"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"
	index "github.com/blevesearch/bleve_index_api"

	"nexus/projections/search/ranking"
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
				n, err := countOf(ctx, r, t.Field, t.Text)
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

// newest returns the newest documents that match all of the queries, [maxNewest] at most; total is
// larger than their number if there are more. It looks at the last blocks of positions first, and
// each time at twice as many.
func (x opened) newest(ctx context.Context, all []query.Query, f Filter) (hits []Hit, total uint64, err error) {
	r, err := x.reader()
	if err != nil {
		return nil, 0, err
	}
	blocks, err := ranking.TermsOf(r, fieldBlock)
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

// isOfAll reports whether each document of an index passes a filter, as far as counts of terms say it.
func isOfAll(ctx context.Context, r index.IndexReader, f Filter) (bool, error) {
	terms := map[string]string{"tenant": f.Tenant, "agent": f.Agent}
	if f.Agent == "" {
		delete(terms, "agent")
	}
	if f.Tenant, f.Agent = "", ""; !f.isZero() {
		return false, nil
	}
	all, err := r.DocCount()
	if err != nil {
		return false, err
	}
	for field, term := range terms {
		if n, err := countOf(ctx, r, field, term); err != nil || n < all {
			return false, err
		}
	}
	return true, nil
}

// countOf returns how many documents have a term.
func countOf(ctx context.Context, r index.IndexReader, field, term string) (n uint64, err error) {
	docs, err := r.TermFieldReader(ctx, []byte(term), field, false, false, false)
	if err != nil {
		return 0, err
	}
	n = docs.Count()
	return n, docs.Close()
}

// isOfMany reports whether a query is a word of more documents than it has hits, and all documents pass the filter.
func (x opened) isOfMany(ctx context.Context, want []wanted, f Filter) (many bool, err error) {
	if len(want) != 1 || len(want[0]) != 1 {
		return false, nil
	}
	r, err := x.reader()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if all, err := isOfAll(ctx, r, f); err != nil || !all {
		return false, err
	}
	for _, t := range want[0][0] {
		if n, err := countOf(ctx, r, t.Field, t.Text); err != nil || n > MaxHits {
			return err == nil, err
		}
	}
	return false, nil
}
