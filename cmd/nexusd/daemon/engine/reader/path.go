package reader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
)

// PathTurns yields the rows and the events of the path to head from depth lo
// to hi, root first. What is behind the last one taken is not read.
func (rd *Reader) PathTurns(ctx context.Context, head lineage.Node, lo, hi uint64, yield func(projections.Turn, *turns.Event) (bool, error)) error {
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

// PathNodes yields the nodes of the path to head from depth hi up to lo. It reads
// rows only, and none behind the last one taken.
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
		up, err := rd.Projections.Nodes(n.Parent)
		if err != nil {
			return err
		}
		n = up[0]
	}
}

// TurnCursor is a place in a list of turns. It pins the head that the first page
// had, so that pages taken while turns are appended, or the head moves, are of
// one path.
type TurnCursor struct {
	Head   lineage.Node
	Lo, Hi uint64
	desc   bool
}

func (c TurnCursor) Next(depth uint64) string {
	return fmt.Sprintf("%d~%s~%s", depth, c.Head.Ref.Session, c.Head.Ref.Turn)
}

// ParseTurnCursor reads After: what next gave, or the id of a turn on the path.
func (rd *Reader) ParseTurnCursor(s *ledger.Session, head lineage.Node, after string, desc bool) (TurnCursor, error) {
	c := TurnCursor{Head: head, Lo: 1, Hi: head.Depth, desc: desc}
	if after == "" {
		return c, nil
	}
	bad := page.FieldErr("/after", "neither a turn of the path nor what a page gave as next")
	depth, ref, paged := strings.Cut(after, "~")
	var at uint64
	if paged {
		sess, turn, _ := strings.Cut(ref, "~")
		sid, err1 := turns.ParseID(sess)
		tid, err2 := turns.ParseID(turn)
		d, err3 := strconv.ParseUint(depth, 10, 64)
		if errors.Join(err1, err2, err3) != nil {
			return c, bad
		}
		n, err := rd.FindTurn(s, tid)
		if err != nil || n.Ref.Session != sid {
			return c, bad
		}
		c.Head, c.Hi, at = n, n.Depth, d
	} else {
		id, err := turns.ParseID(after)
		if err != nil {
			return c, bad
		}
		n, err := rd.FindTurn(s, id)
		if err != nil {
			return c, err
		}
		if ok, err := lineage.IsAncestor(rd.Projections, n, head); err != nil || !ok {
			return c, errors.Join(bad, err)
		}
		at = n.Depth
	}
	if at < 1 || at > c.Hi {
		return c, bad
	}
	if desc {
		c.Hi = at - 1
	} else {
		c.Lo = at + 1
	}
	return c, nil
}

func DescribeNode(n lineage.Node) api.PathTurn {
	p := api.PathTurn{ID: n.Ref.Turn, Session: n.Ref.Session, Depth: n.Depth, Type: "normal"}
	if n.Kind == turns.KindCompaction {
		p.Type = "compaction"
	}
	return p
}
