package history

import (
	"context"
	"fmt"
	"slices"

	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
)

// GetCompaction is compaction.get: a compaction, and the calls since.
func (hs *History) GetCompaction(ctx context.Context, c reader.Caller, session turns.ID, req api.GetTurn) (*api.Turn, error) {
	t, err := hs.reader.GetTurn(ctx, c, session, req)
	if err != nil {
		return nil, err
	}
	if t.Compaction == nil {
		return nil, &api.Error{Code: api.NotFound, Message: "turn " + req.ID.String() + " is not a compaction"}
	}
	s, err := hs.reader.FindSession(ctx, c, session, false)
	if err != nil {
		return nil, err
	}
	head, err := hs.reader.HeadNode(s)
	if err != nil {
		return nil, err
	}
	n, err := hs.reader.FindTurn(s, req.ID)
	if err != nil {
		return nil, err
	}
	if on, err := lineage.IsAncestor(hs.reader.Projections, n, head); !on || err != nil {
		return t, err // the head was moved back, before it
	}
	t.Compaction.Since, err = hs.since(ctx, n, head)
	return t, err
}

// maxSince is how many events are looked at for the calls since a compaction.
const maxSinceEvents = 10_000

// since is the calls with the compaction n in force on the way to head; nil for none.
func (hs *History) since(ctx context.Context, n, head lineage.Node) (*api.Since, error) {
	if head.Depth <= n.Depth {
		return nil, nil
	}
	if far := n.Depth + maxSinceEvents; head.Depth > far {
		var err error
		if head, err = lineage.At(hs.reader.Projections, head, far); err != nil {
			return nil, err
		}
	}
	ranges, err := lineage.Segments(hs.reader.Projections, head, n.Depth+1)
	if err != nil {
		return nil, err
	}
	out := new(api.Since)
scan:
	for _, r := range ranges {
		for payload, err := range hs.reader.Projections.Range(r) {
			if err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%w: read the path: %w", ledger.ErrUnavailable, ctx.Err())
			}
			ev, err := turns.Decode(payload)
			if err != nil {
				return nil, err
			}
			if ev.Kind == turns.KindCompaction {
				break scan
			}
			if ev.Usage == nil {
				continue
			}
			if out.Calls++; out.Calls == 1 {
				out.First = *ev.Usage
			}
			out.Total = *turns.AddUsage(&out.Total, ev.Usage)
		}
	}
	if out.Calls == 0 {
		return nil, nil
	}
	return out, nil
}

// ListTurns is turn.list: the path of the head, through forks and compactions.
// After is a depth or a turn's id; Next is the depth to go on from.
func (hs *History) ListTurns(ctx context.Context, c reader.Caller, session turns.ID, req api.ListTurns) (*api.TurnList, error) {
	s, head, err := hs.reader.SessionAt(ctx, c, session, req.At, req.Read)
	if err != nil {
		return nil, err
	}
	limit, err := req.Page.LimitOf(100, 10_000)
	if err != nil {
		return nil, err
	}
	desc := false
	switch req.Order {
	case "", "asc":
	case "desc":
		desc = true
	default:
		return nil, page.FieldErr("/order", "%q is not one of asc, desc", req.Order)
	}
	cur, err := hs.reader.ParseTurnCursor(s, head, req.After, desc)
	if err != nil {
		return nil, err
	}
	lo, hi := cur.Lo, cur.Hi
	out := &api.TurnList{Turns: []api.Turn{}}
	size := 0
	add := func(t projections.Turn, ev *turns.Event) (bool, error) {
		v, n, err := hs.reader.DescribeListedTurn(t, ev, req.Full)
		if err != nil {
			return false, err
		}
		if len(out.Turns) > 0 && size+n > hs.page.PageBytes() {
			out.Next = cur.Next(out.Turns[len(out.Turns)-1].Depth)
			return false, nil
		}
		out.Turns, size = append(out.Turns, *v), size+n
		if len(out.Turns) == limit {
			if (desc && t.Depth > 1) || (!desc && t.Depth < hi) {
				out.Next = cur.Next(t.Depth)
			}
			return false, nil
		}
		return true, nil
	}
	if !desc {
		return out, hs.reader.PathTurns(ctx, cur.Head, lo, hi, add)
	}
	return out, hs.reader.PathNodes(ctx, cur.Head, lo, hi, func(n lineage.Node) (bool, error) {
		t, ev, err := hs.reader.TurnEvent(n.Ref)
		if err != nil {
			return false, err
		}
		return add(t, ev)
	})
}

// Path is lineage.path: ids and depths, root first.
func (hs *History) Path(ctx context.Context, c reader.Caller, session turns.ID, req api.GetPath) (*api.Path, error) {
	s, head, err := hs.reader.SessionAt(ctx, c, session, req.At, req.Read)
	if err != nil {
		return nil, err
	}
	limit, err := req.Page.LimitOf(1000, 2000)
	if err != nil {
		return nil, err
	}
	const turnBytes = 128 // of one turn's JSON, at most
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
