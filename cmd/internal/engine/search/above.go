package search

import (
	"context"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/projections/search"
	"nexus/turns"
)

// Above returns the normal turns on the path to a node, the node included, that hold
// words of a text, best first and limit at most. ok is false if the index can't tell: it
// is off, or has not all of these turns yet.
func (se *Search) Above(ctx context.Context, s *ledger.Session, last lineage.Node, text string, limit int) (found []lineage.Node, ok bool, err error) {
	if se.index == nil {
		return nil, false, nil
	}
	row, err := se.reader.Projections.Turn(last.Ref)
	if err != nil {
		return nil, false, err
	}
	if se.index.Position() < row.Seq {
		return nil, false, nil
	}
	q, words := search.ParseAny(text)
	if !words {
		return nil, true, nil
	}
	f := search.Filter{Tenant: s.Tenant, Agent: s.Agent, Kinds: []string{"turn"}}
	var cut bool
	if f.In, cut, err = se.places(s, last, true); err != nil || cut {
		return nil, false, err // a path of so many segments is read
	}
	r, err := se.index.SearchAny(ctx, q, f)
	if err != nil || r.Position < row.Seq {
		return nil, false, err
	}
	for _, h := range r.Hits {
		if len(found) == limit {
			break
		}
		seq, item, err := search.ParseDocumentID(h.ID)
		if err != nil || item != 0 {
			continue
		}
		ev, _, err := se.eventAt(seq)
		if err != nil || ev.Kind != turns.KindTurn {
			if err = skip(err); err != nil {
				return nil, false, err
			}
			continue
		}
		row, err := se.reader.Projections.Turn(ev.Ref())
		if err != nil || row.Seq != seq {
			if err = skip(err); err != nil {
				return nil, false, err
			}
			continue
		}
		on, err := lineage.IsAncestor(se.reader.Projections, row.Node, last)
		if err != nil {
			return nil, false, err
		}
		if on {
			found = append(found, row.Node)
		}
	}
	return found, true, nil
}
