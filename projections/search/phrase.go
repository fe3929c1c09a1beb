package search

import (
	"context"
	"slices"

	"github.com/blevesearch/bleve/v2/mapping"
	match "github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	"github.com/blevesearch/bleve/v2/search/searcher"
	index "github.com/blevesearch/bleve_index_api"
)

// phrase is a query for documents that have terms at consecutive positions of a field.
//
// The library's own compares each place of a term with each place of the next: a document
// that says one word 100,000 times takes minutes. It also keeps the places of all hits. This
// one walks along the places once for each term, and keeps none.
type phrase struct {
	terms []string // at least two
	field string
	boost float64
}

// Searcher implements bleve's Query.
func (p *phrase) Searcher(ctx context.Context, r index.IndexReader, m mapping.IndexMapping, options match.SearcherOptions) (match.Searcher, error) {
	var each []query.Query
	for i, t := range p.terms {
		if !slices.Contains(p.terms[:i], t) {
			q := query.NewTermQuery(t)
			q.SetField(p.field)
			q.SetBoost(p.boost)
			each = append(each, q)
		}
	}
	options.IncludeTermVectors = true
	all, err := query.NewConjunctionQuery(each).Searcher(ctx, r, m, options)
	if err != nil {
		return nil, err
	}
	return searcher.NewFilteringSearcher(ctx, all, func(_ *match.SearchContext, d *match.DocumentMatch) bool {
		found := ctx.Err() == nil && p.isIn(d.FieldTermLocations)
		d.FieldTermLocations = d.FieldTermLocations[:0]
		return found
	}), nil
}

// spot is a place of a term: the position in one of the texts of a field.
type spot struct {
	text     uint64
	position uint64
}

func (a spot) compare(b spot) int {
	switch {
	case a.text < b.text || a.text == b.text && a.position < b.position:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// isIn reports whether the terms follow each other somewhere.
func (p *phrase) isIn(locations []match.FieldTermLocation) bool {
	places := make(map[string][]spot, len(p.terms))
	for _, l := range locations {
		if l.Field != p.field {
			continue
		}
		a := spot{position: l.Location.Pos}
		if n := len(l.Location.ArrayPositions); n > 0 {
			a.text = l.Location.ArrayPositions[n-1]
		}
		places[l.Term] = append(places[l.Term], a)
	}
	for _, list := range places {
		slices.SortFunc(list, spot.compare) // they come in order, mostly
	}
	ends := slices.Clone(places[p.terms[0]]) // of the terms so far
	for _, t := range p.terms[1:] {
		next, n := places[t], 0
		for _, a := range ends {
			a.position++
			for len(next) > 0 && next[0].compare(a) < 0 {
				next = next[1:]
			}
			if len(next) > 0 && next[0] == a {
				ends[n] = a
				n++
			}
		}
		if ends = ends[:n]; n == 0 {
			return false
		}
	}
	return len(ends) > 0
}
