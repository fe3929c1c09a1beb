package history

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// ListCompactions is compaction.list: the compactions that are in force at the head, or at the
// turn that the request names, newest first.
func (hs *History) ListCompactions(ctx context.Context, c reader.Caller, session turns.ID, req api.ListCompactions) (*api.TurnList, error) {
	s, head, err := hs.reader.SessionAt(ctx, c, session, req.At, req.Read)
	if err != nil {
		return nil, err
	}
	limit, err := req.Page.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	cur, err := hs.reader.ParseTurnCursor(s, head, req.After, true)
	if errors.Is(err, ledger.ErrNotFound) {
		err = api.FieldErrorf("/after", "not a compaction of this list")
	}
	if err != nil {
		return nil, err
	}
	out := &api.TurnList{Turns: []api.Turn{}}
	if head = cur.Head; head.Ref.IsZero() {
		return out, nil
	}
	if head.Compaction, err = hs.reader.CompactionAt(s, head); err != nil {
		return nil, err
	}
	size := 0
	for n, err := range lineage.Compactions(hs.reader.Projections, head) {
		if err != nil {
			return nil, err
		}
		if n.Depth > cur.Hi {
			continue
		}
		if len(out.Turns) == limit {
			out.Next = cur.Next(out.Turns[limit-1].Depth)
			break
		}
		t, ev, err := hs.reader.TurnEvent(n.Ref)
		if err != nil {
			return nil, err
		}
		v, k, err := hs.reader.DescribeListedTurn(t, ev, !req.Outline)
		if err != nil {
			return nil, err
		}
		if size += k; len(out.Turns) > 0 && size > hs.page.PageBytes() {
			out.Next = cur.Next(out.Turns[len(out.Turns)-1].Depth)
			break
		}
		out.Turns = append(out.Turns, *v)
	}
	return out, nil
}

// GetCompaction is compaction.get: a compaction, and the usage of the calls since.
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

// maxSinceEvents bounds the events that are read for the calls since a compaction.
const maxSinceEvents = 10_000

// since returns the usage of the calls on the way to head while compaction n was in
// force, nil if there was none.
func (hs *History) since(ctx context.Context, n, head lineage.Node) (*api.Since, error) {
	if head.Depth <= n.Depth {
		return nil, nil
	}
	if last := n.Depth + maxSinceEvents; head.Depth > last {
		var err error
		if head, err = lineage.At(hs.reader.Projections, head, last); err != nil {
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
			if ev.Usage == nil || out.Calls == 0 && hs.wasUnderWay(ev, n) {
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

// wasUnderWay reports whether a turn came with the recipe of a context in which a compaction
// above it was not in force yet: its call was under way when that was committed.
func (hs *History) wasUnderWay(ev *turns.Event, compaction lineage.Node) bool {
	var b turns.TurnBody
	if ev.Kind != turns.KindTurn || hs.content.Open(ev, &b) != nil || b.Context == nil {
		return false
	}
	r, err := view.ParseRecipe(b.Context.Recipe)
	return err == nil && r.Compaction.Ref() != compaction.Ref && r.Head.Ref() != compaction.Ref
}
