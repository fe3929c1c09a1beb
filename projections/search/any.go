package search

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blevesearch/bleve/v2/search/query"

	"nexus/ledger"
)

// ParseAny reads a text of any form and length: each of its words is a unit, as many as a
// query may have. ok is false if it has no word.
func ParseAny(text string) (q Query, ok bool) {
	parts := 0
	for _, word := range strings.Fields(text) {
		u := unitOf(strings.Trim(word, `"*`), true, false)
		if parts += len(u.parts); len(q.units) == maxUnits || parts > maxParts {
			break
		}
		q.add(u)
	}
	return q, len(q.units) > 0
}

// SearchAny is Search for documents with any of the units; those with more of them, and
// with rarer ones, come first.
func (x *Index) SearchAny(ctx context.Context, q Query, f Filter) (r Result, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.idx == nil {
		return r, nil
	}
	r.Position = x.at.Seq
	err = protect(func() error {
		units := make([]query.Query, len(q.units))
		for i, u := range q.units {
			if units[i], err = x.unitQuery(ctx, u); err != nil {
				return err
			}
		}
		found, total, err := x.ask(ctx, query.NewDisjunctionQuery(units), f)
		r.Hits, r.Cut = found, total > uint64(len(found))
		return err
	})
	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, errDamaged):
		signal(x.broken)
	case ctx.Err() == nil:
		return r, fmt.Errorf("search: %w", err)
	}
	return r, fmt.Errorf("%w: search: %w", ledger.ErrUnavailable, err)
}
