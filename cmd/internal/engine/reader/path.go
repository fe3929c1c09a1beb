package reader

import (
	"context"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// PathTurns yields the rows and the events of the path to head from depth lo to hi,
// root first, until yield returns false.
func (rd *Reader) PathTurns(ctx context.Context, head lineage.Node, lo, hi uint64, yield func(rows.Turn, *turns.Event) (bool, error)) error {
	if head.Ref.IsZero() || lo > hi {
		return nil
	}
	ranges, err := lineage.Segments(rd.Projections, head, max(lo, 1))
	if err != nil {
		return err
	}
	for _, r := range ranges {
		r.Lo, r.Hi = max(r.Lo, lo), min(r.Hi, hi)
		if r.Lo > r.Hi {
			continue
		}
		for payload, err := range rd.Projections.Range(r) {
			if err != nil {
				return err
			}
			ev, err := turns.Decode(payload)
			if err != nil {
				return err
			}
			t, err := rd.Projections.Turn(ev.Ref())
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%w: read the path: %w", ledger.ErrUnavailable, ctx.Err())
			}
			if more, err := yield(t, ev); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// PathNodes yields the nodes of the path to head from depth hi down to lo, until
// yield returns false. It reads rows only.
func (rd *Reader) PathNodes(ctx context.Context, head lineage.Node, lo, hi uint64, yield func(lineage.Node) (bool, error)) error {
	if head.Ref.IsZero() || lo > hi {
		return nil
	}
	n, err := lineage.At(rd.Projections, head, hi)
	if err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: read the path: %w", ledger.ErrUnavailable, ctx.Err())
		}
		if more, err := yield(n); err != nil || !more || n.Depth <= lo {
			return err
		}
		if n, err = rd.Projections.Node(n.Parent); err != nil {
			return err
		}
	}
}

// DescribeNode returns a node as lineage verbs show it.
func DescribeNode(n lineage.Node) api.PathTurn {
	p := api.PathTurn{ID: n.Ref.Turn, Session: n.Ref.Session, Depth: n.Depth, Type: "normal"}
	if n.Kind == turns.KindCompaction {
		p.Type = "compaction"
	}
	return p
}
