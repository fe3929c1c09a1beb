package search

import (
	"context"

	"github.com/blevesearch/bleve/v2"
)

type library = bleve.Index

// panicking is an index whose searches panic, as the library does over damaged files.
type panicking struct{ library }

func (panicking) SearchInContext(context.Context, *bleve.SearchRequest) (*bleve.SearchResult, error) {
	panic("slice bounds out of range")
}
