package history

import (
	"context"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// ListTurns is turn.list: the turns of a path, inherited ones and compactions
// included.
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
		return nil, api.FieldErrorf("/order", "%q is not one of asc, desc", req.Order)
	}
	cur, err := hs.reader.ParseTurnCursor(s, head, req.After, desc)
	if err != nil {
		return nil, err
	}
	lo, hi := cur.Lo, cur.Hi
	switch {
	case req.From == 0 || req.After != "":
	case desc:
		hi = min(hi, req.From)
	default:
		lo = req.From
	}
	out := &api.TurnList{Turns: []api.Turn{}}
	size := 0
	add := func(t rows.Turn, ev *turns.Event) (bool, error) {
		v, n, err := hs.reader.DescribeListedTurn(t, ev, req.Full)
		if err != nil {
			return false, err
		}
		if s.Notes > 0 {
			if err := hs.reader.AddNote(s, v); err != nil {
				return false, err
			}
			if v.Note != nil {
				n += 2*len(v.Note.Text) + 128
			}
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
