package search

import (
	"context"
	"sync/atomic"

	"github.com/blevesearch/bleve/v2"
)

type library = bleve.Index

// panicking is an index whose searches panic, as the library does over damaged files.
type panicking struct{ library }

func (panicking) SearchInContext(context.Context, *bleve.SearchRequest) (*bleve.SearchResult, error) {
	panic("slice bounds out of range")
}

// blocking is an index whose first search waits.
type blocking struct {
	library
	began, end chan struct{}
	first      *atomic.Bool
}

func (b blocking) SearchInContext(ctx context.Context, r *bleve.SearchRequest) (*bleve.SearchResult, error) {
	if b.first.CompareAndSwap(true, false) {
		close(b.began)
		<-b.end
	}
	return b.library.SearchInContext(ctx, r)
}
