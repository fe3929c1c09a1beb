// Package ranking finds the documents of an index that the library scores best.
//
// A word may be in every document. Which are the best cannot be known without the library's
// score of each, since it keeps no bounds of scores. So a score costs no allocation and no id: the ids of
// documents, which decide between equal scores, are read for those that are returned, and of equal
// ones for the newest.
package ranking

import (
	blevesearch "github.com/blevesearch/bleve/v2/search"
	index "github.com/blevesearch/bleve_index_api"
)

// Hit is a document of an index.
type Hit struct {
	ID string
	At index.IndexInternalID
}

// Ranking is documents with the library's scores, in the order of the index.
type Ranking interface {
	// Next returns the next document; more is false behind the last one.
	Next() (score float64, doc uint64, more bool, err error)
	Close() error
}

// Of returns the documents of a searcher, which its Close closes.
func Of(r index.IndexReader, s blevesearch.Searcher) Ranking {
	return &libraryRanking{s, contextOf(r, s.DocumentMatchPoolSize()+2)}
}

type libraryRanking struct {
	blevesearch.Searcher
	ctx *blevesearch.SearchContext
}

func (l *libraryRanking) Next() (score float64, doc uint64, more bool, err error) {
	m, err := l.Searcher.Next(l.ctx)
	if err != nil || m == nil {
		return 0, 0, false, err
	}
	score, doc = m.Score, m.IndexInternalID.Value()
	l.ctx.DocumentMatchPool.Put(m)
	return score, doc, true, nil
}

func contextOf(r index.IndexReader, matches int) *blevesearch.SearchContext {
	return &blevesearch.SearchContext{DocumentMatchPool: blevesearch.NewDocumentMatchPool(matches, 0), IndexReader: r}
}
