package covered

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// maxExpandTurns bounds the turns that are looked through for a call.
const maxExpandTurns = 4096

// Expand is compaction.expand: the turns behind what a context shows. Of a compaction one
// level is the turns that it covered itself and the compaction that its summary includes;
// all levels are every normal turn before its cut. Of another turn it is the turn itself,
// whatever the context shows of it. With a line it says what that line rests on.
func (cv *Covered) Expand(ctx context.Context, c reader.Caller, session turns.ID, req api.ExpandCompaction) (*api.Expanded, error) {
	all := false
	switch l := string(req.Levels); l {
	case "", "1":
	case `"all"`:
		all = true
	default:
		return nil, api.FieldErrorf("/levels", "%.20s is not one of 1, \"all\"", l)
	}
	if (req.Line > 0 || req.Lines) && (req.Handle != "" || req.Call != "") {
		return nil, api.FieldErrorf("/line", "the lines of a compaction: name it with id alone")
	}
	if req.Handle != "" && req.Call != "" {
		return nil, api.FieldErrorf("/call", "handle and call name two turns: give one of them")
	}
	if req.ID.IsZero() && req.Handle == "" && req.Call == "" {
		return nil, api.FieldErrorf("/id", "missing: name a compaction or a turn")
	}
	limit, err := req.Page.LimitOf(100, 10_000)
	if err != nil {
		return nil, err
	}
	s, n, err := cv.named(ctx, c, session, req)
	if err != nil {
		return nil, err
	}
	switch {
	case req.Line > 0 || req.Lines:
		return cv.lines(ctx, s, n, req)
	case req.Call != "":
		return cv.expandCall(ctx, s, n, req.Call)
	case n.Kind != turns.KindCompaction:
		return cv.expandTurn(ctx, s, n)
	}
	return cv.expandCompaction(ctx, n, all, req.After, limit)
}

// named returns the session and the node that a request names: that of its id, or the one
// that its handle cites on the path to it. Without an id the path is that of the head.
func (cv *Covered) named(ctx context.Context, c reader.Caller, session turns.ID, req api.ExpandCompaction) (*ledger.Session, lineage.Node, error) {
	s, n, err := cv.reader.SessionAt(ctx, c, session, req.ID, req.Read)
	if err != nil || req.Handle == "" {
		if err == nil && n.Ref.IsZero() {
			err = &api.Error{Code: api.NotFound, Message: fmt.Sprintf("session %s has no turn yet", session)}
		}
		return s, n, err
	}
	depth, err := strconv.ParseUint(strings.TrimPrefix(req.Handle, "t"), 10, 64)
	if err != nil || !strings.HasPrefix(req.Handle, "t") || depth == 0 {
		return nil, n, api.FieldErrorf("/handle", "%.40q is not a turn as summaries cite it, as in t12", req.Handle)
	}
	if depth > n.Depth {
		return nil, n, &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no turn %s: the path of session %s ends at depth %d", req.Handle, session, n.Depth)}
	}
	n, err = lineage.At(cv.reader.Projections, n, depth)
	return s, n, err
}

// expandCompaction returns the turns that compaction n covers.
func (cv *Covered) expandCompaction(ctx context.Context, n lineage.Node, all bool, after string, limit int) (*api.Expanded, error) {
	out := &api.Expanded{Turns: []api.Turn{}}
	lo, err := cv.expandFrom(n, all, after)
	if err != nil || lo == 0 {
		return out, err
	}
	size := 0
	err = cv.reader.PathTurns(ctx, n, lo, min(n.Cut.Last(), n.Depth-1), func(t rows.Turn, ev *turns.Event) (bool, error) {
		if t.Kind == turns.KindCompaction && (all || t.Ref != n.Previous) {
			return true, nil
		}
		v, k, err := cv.reader.DescribeListedTurn(t, ev, true)
		if err != nil {
			return false, err
		}
		if len(out.Turns) == limit || (len(out.Turns) > 0 && size+k > cv.page.PageBytes()) {
			out.Next = out.Turns[len(out.Turns)-1].ID.String()
			return false, nil
		}
		out.Turns, size = append(out.Turns, *v), size+k
		return true, nil
	})
	return out, err
}

// expandFrom returns the depth at which an expansion begins, 0 if it is empty.
func (cv *Covered) expandFrom(n lineage.Node, all bool, after string) (uint64, error) {
	lo := uint64(1)
	if !all && !n.Previous.IsZero() {
		up, err := cv.reader.Projections.Node(n.Previous)
		if err != nil {
			return 0, err
		}
		if up.Cut == n.Cut {
			return 0, nil
		}
		lo = up.Cut.Depth()
	}
	if after != "" {
		id, err := page.OptionalID("/after", after)
		if err != nil {
			return 0, err
		}
		a, err := cv.onPath(n, id)
		if err != nil {
			return 0, err
		}
		lo = max(lo, a+1)
	}
	return lo, nil
}

// onPath returns the depth of a turn on the path of n.
func (cv *Covered) onPath(n lineage.Node, id turns.ID) (uint64, error) {
	s, err := cv.reader.Projections.Session(n.Ref.Session)
	if err != nil {
		return 0, err
	}
	t, err := cv.reader.FindTurn(&s, id)
	if err != nil {
		return 0, api.FieldErrorf("/after", "not a turn of this list")
	}
	ok, err := lineage.IsAncestor(cv.reader.Projections, t, n)
	if err != nil || !ok {
		return 0, errors.Join(api.FieldErrorf("/after", "not a turn of this list"), err)
	}
	return t.Depth, nil
}

// expandTurn returns a turn as it is stored, and what stands for it in the session's
// context.
func (cv *Covered) expandTurn(ctx context.Context, s *ledger.Session, n lineage.Node) (*api.Expanded, error) {
	t, ev, err := cv.reader.TurnEvent(n.Ref)
	if err != nil {
		return nil, err
	}
	v, _, err := cv.reader.DescribeListedTurn(t, ev, true)
	if err != nil {
		return nil, err
	}
	out := &api.Expanded{Turns: []api.Turn{*v}}
	head, err := cv.reader.HeadNode(s)
	if err != nil {
		return nil, err
	}
	on, err := lineage.IsAncestor(cv.reader.Projections, n, head)
	if err != nil && !errors.Is(err, lineage.ErrUnknown) {
		return nil, err
	}
	if !on || head.Ref.IsZero() {
		out.State = "other_branch"
		return out, nil
	}
	all, err := cv.compactionsAt(s, head)
	if err != nil {
		return nil, err
	}
	out.State = "live"
	for _, k := range covering(all, n.Depth, turns.MessagesHalf) {
		out.State, out.CoveredBy = "compacted", append(out.CoveredBy, k.Ref.Turn)
	}
	if len(all) > 0 && out.State == "live" {
		_, ev, err := cv.reader.TurnEvent(all[0].Ref)
		if err != nil {
			return nil, err
		}
		for _, e := range ev.Span.Elisions {
			if e.Turn == n.Ref {
				out.State = "elided"
			}
		}
	}
	if out.State == "live" {
		short, err := cv.isPruned(ctx, s, n, head)
		if err != nil {
			return nil, err
		}
		if short {
			out.State = "shortened"
		}
	}
	return out, nil
}

// isPruned reports whether the session's policy shortens something of a turn in each context
// at its head, without a compaction. It reads the path behind the turn, which decides on that.
func (cv *Covered) isPruned(ctx context.Context, s *ledger.Session, n, head lineage.Node) (bool, error) {
	p, err := cv.pruned(ctx, s, view.Path{Session: s.ID, Head: head}, head)
	if err != nil || p.View.When == "" {
		return false, err
	}
	if p.Halves, _, err = cv.halvesBetween(ctx, s, head, lineage.CutBefore(n.Depth, turns.MessagesHalf), lineage.CutBefore(head.Depth, turns.ResponseHalf)+1); err != nil {
		return false, err
	}
	shown, err := p.ShownHalves()
	return slices.ContainsFunc(shown, func(h view.ShownHalf) bool {
		return h.Ref == n.Ref && h.Source.Status != view.Verbatim && h.Source.Status != view.Erased
	}), err
}

// expandCall returns the turns on the path of n that hold a tool call and its results, as
// they are stored, oldest first; of two calls with one id the newest. It looks from n
// upwards, through a bounded number of turns, and ends at the call.
func (cv *Covered) expandCall(ctx context.Context, s *ledger.Session, n lineage.Node, call string) (*api.Expanded, error) {
	out := &api.Expanded{Turns: []api.Turn{}}
	const step = 64
	size, made := 0, false
	for hi, left := n.Depth, maxExpandTurns; hi > 0 && left > 0 && !made; left -= step {
		lo := max(hi, step) - step + 1
		var found []api.Turn
		foundSize := 0
		err := cv.reader.PathTurns(ctx, n, lo, hi, func(t rows.Turn, ev *turns.Event) (bool, error) {
			if t.Kind != turns.KindTurn {
				return true, nil
			}
			v, k, err := cv.reader.DescribeListedTurn(t, ev, true)
			if err != nil {
				return false, err
			}
			makes, has := holdsCall(v, call)
			if makes { // what is older belongs to another call of the same id
				found, foundSize = nil, 0
			}
			if makes || has {
				found, foundSize = append(found, *v), foundSize+k
			}
			made = made || makes
			return true, nil
		})
		if err != nil {
			return nil, err
		}
		out.Turns, size = append(found, out.Turns...), size+foundSize
		hi = lo - 1
	}
	if len(out.Turns) == 0 {
		return nil, &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no call %.80q in the %d newest turns of the path of session %s", call, maxExpandTurns, s.ID)}
	}
	if size > cv.page.PageBytes() && len(out.Turns) > 1 { // both can't be in one reply: by their ids
		for i := range out.Turns {
			out.Turns[i].Messages, out.Turns[i].Response, out.Turns[i].Error = nil, nil, api.TooLarge
		}
	}
	return out, nil
}

// holdsCall reports whether a turn makes a call, and whether it has a result of it.
func holdsCall(t *api.Turn, id string) (makes, has bool) {
	ms := t.Messages
	if t.Response != nil {
		ms = append(ms[:len(ms):len(ms)], *t.Response)
	}
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			makes = makes || p.Type == turns.ToolCall && p.ID == id
			has = has || p.Type == turns.ToolCallResponse && p.ID == id
		}
	}
	return makes, has
}
