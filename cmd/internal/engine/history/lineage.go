package history

import (
	"context"
	"slices"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Base is lineage.base: the last turn that two paths have in common.
func (hs *History) Base(ctx context.Context, c reader.Caller, session turns.ID, req api.GetBase) (*api.Base, error) {
	if req.Other.Session.IsZero() {
		return nil, api.FieldErrorf("/other/session", "the other session is not named")
	}
	_, a, err := hs.reader.SessionAt(ctx, c, session, req.At, req.Read)
	if err != nil {
		return nil, err
	}
	_, b, err := hs.reader.SessionAt(ctx, c, req.Other.Session, req.Other.Turn, req.Read)
	if err != nil {
		return nil, err
	}
	out := new(api.Base)
	for _, x := range []struct {
		n  lineage.Node
		to **api.PathTurn
	}{{a, &out.Head}, {b, &out.Other}} {
		if !x.n.Ref.IsZero() {
			t := reader.DescribeNode(x.n)
			*x.to = &t
		}
	}
	if a.Ref.IsZero() || b.Ref.IsZero() {
		return out, nil
	}
	base, ok, err := lineage.MergeBase(hs.reader.Projections, a, b)
	if err == nil && ok {
		t := reader.DescribeNode(base)
		out.Base = &t
	}
	return out, err
}

// Path is lineage.path: the ids and depths of a path, root first.
func (hs *History) Path(ctx context.Context, c reader.Caller, session turns.ID, req api.GetPath) (*api.Path, error) {
	s, head, err := hs.reader.SessionAt(ctx, c, session, req.At, req.Read)
	if err != nil {
		return nil, err
	}
	limit, err := req.Page.LimitOf(1000, 2000)
	if err != nil {
		return nil, err
	}
	const turnBytes = 128 // bound on the JSON of one turn
	limit = min(limit, hs.page.PageBytes()/turnBytes)
	cur, err := hs.reader.ParseTurnCursor(s, head, req.After, false)
	if err != nil {
		return nil, err
	}
	out := &api.Path{Turns: []api.PathTurn{}}
	if cur.Lo > cur.Hi {
		return out, nil
	}
	last := min(cur.Hi, cur.Lo+uint64(limit)-1)
	err = hs.reader.PathNodes(ctx, cur.Head, cur.Lo, last, func(n lineage.Node) (bool, error) {
		out.Turns = append(out.Turns, reader.DescribeNode(n))
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(out.Turns)
	if last < cur.Hi {
		out.Next = cur.Next(last)
	}
	return out, nil
}
