package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
)

// GetTurn is turn.get, for own turns on any branch and inherited ones.
func (e *Engine) GetTurn(ctx context.Context, c Caller, session turns.ID, req api.GetTurn) (*api.Turn, error) {
	if err := e.ready(ctx, req.Read); err != nil {
		return nil, err
	}
	n, err := e.locate(ctx, c, session, req.ID, req.Read)
	if err != nil {
		return nil, err
	}
	t, ev, err := e.turnEvent(n.Ref)
	if err != nil {
		return nil, err
	}
	return e.turnOf(t, ev, true)
}

// GetCompaction is compaction.get: a compaction, and the calls since.
func (e *Engine) GetCompaction(ctx context.Context, c Caller, session turns.ID, req api.GetTurn) (*api.Turn, error) {
	t, err := e.GetTurn(ctx, c, session, req)
	if err != nil {
		return nil, err
	}
	if t.Compaction == nil {
		return nil, &api.Error{Code: api.NotFound, Message: "turn " + req.ID.String() + " is not a compaction"}
	}
	s, err := e.row(ctx, c, session, false)
	if err != nil {
		return nil, err
	}
	head, err := e.headNode(s)
	if err != nil {
		return nil, err
	}
	n, err := e.find(s, req.ID)
	if err != nil {
		return nil, err
	}
	if on, err := lineage.IsAncestor(e.Store, n, head); !on || err != nil {
		return t, err // the head was moved back, before it
	}
	t.Compaction.Since, err = e.since(ctx, n, head)
	return t, err
}

// maxSince is how many events are looked at for the calls since a compaction.
const maxSince = 10_000

// since is the calls with the compaction n in force on the way to head; nil for none.
func (e *Engine) since(ctx context.Context, n, head lineage.Node) (*api.Since, error) {
	if head.Depth <= n.Depth {
		return nil, nil
	}
	if far := n.Depth + maxSince; head.Depth > far {
		var err error
		if head, err = lineage.At(e.Store, head, far); err != nil {
			return nil, err
		}
	}
	ranges, err := lineage.Segments(e.Store, head, n.Depth+1)
	if err != nil {
		return nil, err
	}
	out := new(api.Since)
scan:
	for _, r := range ranges {
		for payload, err := range e.Store.Range(r) {
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

// turnEvent is the row of a turn and the event that it stands in.
func (e *Engine) turnEvent(ref turns.Ref) (projections.Turn, *turns.Event, error) {
	t, err := e.Store.Turn(ref)
	if err != nil {
		return t, nil, err
	}
	payload, err := e.Store.Payload(t)
	if err != nil {
		return t, nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return t, nil, fmt.Errorf("turn %s: %w", ref, err)
	}
	return t, ev, nil
}

// locate finds a turn; before it says not found the projections have passed
// the tail.
func (e *Engine) locate(ctx context.Context, c Caller, session, id turns.ID, r api.Read) (lineage.Node, error) {
	for fresh := false; ; fresh = true {
		s, err := e.row(ctx, c, session, fresh)
		if err != nil {
			return lineage.Node{}, err
		}
		n, err := e.find(s, id)
		if err == nil || fresh || r.StaleOK || !errors.Is(err, ledger.ErrNotFound) {
			return n, err
		}
	}
}

// turnOf is a turn as the contract shows it. One whose body
// can't be read comes with the error, by what its header says.
func (e *Engine) turnOf(t projections.Turn, ev *turns.Event, full bool) (*api.Turn, error) {
	has, err := e.Store.HasChildren(t.Ref)
	if err != nil {
		return nil, err
	}
	out := &api.Turn{
		ID: ev.ID, Session: t.Ref.Session, Type: "normal", Depth: ev.Depth, Recorded: api.UnixTime(ev.Recorded),
		Usage: ev.Usage, TokenCount: ev.Tokens.Messages + ev.Tokens.Response, ToolCalls: ev.Calls, OpenCalls: ev.Open,
		HasChildren: has, Hash: t.Hash, PrevHash: ev.Prev, Position: position(t.Seq),
	}
	if !ev.Parent.IsZero() {
		out.Parent = &ev.Parent.Turn
		if ev.Parent.Session != t.Ref.Session {
			out.ParentSession = ev.Parent.Session
		}
	}
	if ev.Claimed != 0 {
		at := api.UnixTime(ev.Claimed)
		out.Time = &at
	}
	if ev.Kind == turns.KindCompaction {
		out.Type, out.TokenCount = "compaction", ev.Tokens.Messages // the other number is what its elisions save
		return out, e.fillCompaction(out, ev, full)
	}
	out.Pending = !ev.Halves.Has(turns.ResponseHalf)
	var b turns.TurnBody
	if err := e.open(ev, &b); err != nil {
		return out, err
	}
	out.Model, out.Meta = b.Model, b.Meta
	if b.Context != nil {
		out.Context = &api.ContextUsed{Recipe: b.Context.Recipe, Fingerprint: b.Context.Fingerprint}
	}
	if full {
		out.Messages, out.Response = b.Messages, b.Response
		if out.Messages == nil {
			out.Messages = []turns.Message{}
		}
	}
	return out, nil
}

// listedTurn is a turn as a list shows it, and the bytes of JSON that it has. One
// that can't be read, or that no reply could hold, is there by what its header
// says, with the error: it stops no list.
func (e *Engine) listedTurn(t projections.Turn, ev *turns.Event, full bool) (*api.Turn, int, error) {
	v, err := e.turnOf(t, ev, full)
	if v == nil {
		return nil, 0, err
	}
	if err != nil {
		v.Error = api.FromError(err).Code
	}
	n, err := sizeOf(v)
	if err != nil {
		return nil, 0, err
	}
	if n > e.itemBytes() {
		v.Messages, v.Response, v.Meta, v.Context, v.Compaction = nil, nil, nil, nil, nil
		v.Error, n = api.TooLarge, outlineBytes
	}
	return v, n, nil
}

func (e *Engine) fillCompaction(out *api.Turn, ev *turns.Event, full bool) error {
	var b turns.CompactionBody
	if err := e.open(ev, &b); err != nil {
		return err
	}
	s := ev.Span
	opt := func(r turns.Ref) *turns.ID {
		if r.IsZero() {
			return nil
		}
		return &r.Turn
	}
	out.Meta = b.Meta
	scope := "lineage"
	if s.Call {
		scope = "call"
	}
	k := &api.Compaction{
		Policy: b.Policy.Name, PolicyDigest: b.Policy.Digest, Trigger: b.Trigger, Mode: b.Mode, Tier: b.Tier, Model: b.Model,
		Provenance: s.Provenance.String(), Scope: scope, Through: opt(s.Through), FirstKept: opt(s.FirstKept), Split: s.Split,
		SawThrough: opt(s.SawThrough), Dropped: s.Dropped, Covered: s.Covered, TokensBefore: b.TokensBefore,
		TokensAfter: b.TokensAfter, Survival: b.Survival, Usage: ev.Usage, CostMicros: b.CostMicros, Focus: b.Focus,
		FromOriginals: b.FromOriginals, Flush: b.Flush, DurationMS: b.DurationMS,
	}
	k.Elided = uint64(len(s.Elisions))
	const elisionBytes = 192 // of one's JSON, at most
	for i, el := range s.Elisions[:min(len(s.Elisions), e.wordBytes()/elisionBytes)] {
		x := api.Elision{Turn: el.Turn.Turn, Half: el.Half.String(), Message: el.Message, Part: el.Part}
		if i < len(b.Elided) {
			x.Method, x.Before, x.After = b.Elided[i].Method, b.Elided[i].Before, b.Elided[i].After
		}
		k.Elisions = append(k.Elisions, x)
	}
	if full {
		k.Memories = b.Memories
		k.Replacement, k.Nudge = b.Replacement, b.Nudge
		if b.Summary != "" {
			summary := clipJSON(b.Summary, e.summaryBytes())
			k.Summary = &summary
		}
	}
	out.Compaction = k
	return nil
}

// pathTurns yields the rows and the events of the path to head from depth lo
// to hi, root first. What is behind the last one taken is not read.
func (e *Engine) pathTurns(ctx context.Context, head lineage.Node, lo, hi uint64, yield func(projections.Turn, *turns.Event) (bool, error)) error {
	if head.Ref.IsZero() || lo > hi {
		return nil
	}
	ranges, err := lineage.Segments(e.Store, head, max(lo, 1))
	if err != nil {
		return err
	}
	for _, r := range ranges {
		r.Lo, r.Hi = max(r.Lo, lo), min(r.Hi, hi)
		if r.Lo > r.Hi {
			continue
		}
		for payload, err := range e.Store.Range(r) {
			if err != nil {
				return err
			}
			ev, err := turns.Decode(payload)
			if err != nil {
				return err
			}
			t, err := e.Store.Turn(ev.Ref())
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

// ListTurns is turn.list: the path of the head, through forks and compactions.
// After is a depth or a turn's id; Next is the depth to go on from.
func (e *Engine) ListTurns(ctx context.Context, c Caller, session turns.ID, req api.ListTurns) (*api.TurnList, error) {
	s, head, err := e.headOf(ctx, c, session, req.At, req.Read)
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
		return nil, fieldErr("/order", "%q is not one of asc, desc", req.Order)
	}
	cur, err := e.cursor(s, head, req.After, desc)
	if err != nil {
		return nil, err
	}
	lo, hi := cur.lo, cur.hi
	out := &api.TurnList{Turns: []api.Turn{}}
	size := 0
	add := func(t projections.Turn, ev *turns.Event) (bool, error) {
		v, n, err := e.listedTurn(t, ev, req.Full)
		if err != nil {
			return false, err
		}
		if len(out.Turns) > 0 && size+n > e.pageBytes() {
			out.Next = cur.next(out.Turns[len(out.Turns)-1].Depth)
			return false, nil
		}
		out.Turns, size = append(out.Turns, *v), size+n
		if len(out.Turns) == limit {
			if (desc && t.Depth > 1) || (!desc && t.Depth < hi) {
				out.Next = cur.next(t.Depth)
			}
			return false, nil
		}
		return true, nil
	}
	if !desc {
		return out, e.pathTurns(ctx, cur.head, lo, hi, add)
	}
	return out, e.pathUp(ctx, cur.head, lo, hi, func(n lineage.Node) (bool, error) {
		t, ev, err := e.turnEvent(n.Ref)
		if err != nil {
			return false, err
		}
		return add(t, ev)
	})
}

// pathUp yields the nodes of the path to head from depth hi up to lo. It reads
// rows only, and none behind the last one taken.
func (e *Engine) pathUp(ctx context.Context, head lineage.Node, lo, hi uint64, yield func(lineage.Node) (bool, error)) error {
	if head.Ref.IsZero() || lo > hi {
		return nil
	}
	n, err := lineage.At(e.Store, head, hi)
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
		up, err := e.Store.Nodes(n.Parent)
		if err != nil {
			return err
		}
		n = up[0]
	}
}

// cursor is a place in a list of turns. It pins the head that the first page
// had, so that pages taken while turns are appended, or the head moves, are of
// one path.
type cursor struct {
	head   lineage.Node
	lo, hi uint64
	desc   bool
}

func (c cursor) next(depth uint64) string {
	return fmt.Sprintf("%d~%s~%s", depth, c.head.Ref.Session, c.head.Ref.Turn)
}

// cursor reads After: what next gave, or the id of a turn on the path.
func (e *Engine) cursor(s *ledger.Session, head lineage.Node, after string, desc bool) (cursor, error) {
	c := cursor{head: head, lo: 1, hi: head.Depth, desc: desc}
	if after == "" {
		return c, nil
	}
	bad := fieldErr("/after", "neither a turn of the path nor what a page gave as next")
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
		n, err := e.find(s, tid)
		if err != nil || n.Ref.Session != sid {
			return c, bad
		}
		c.head, c.hi, at = n, n.Depth, d
	} else {
		id, err := turns.ParseID(after)
		if err != nil {
			return c, bad
		}
		n, err := e.find(s, id)
		if err != nil {
			return c, err
		}
		if ok, err := lineage.IsAncestor(e.Store, n, head); err != nil || !ok {
			return c, errors.Join(bad, err)
		}
		at = n.Depth
	}
	if at < 1 || at > c.hi {
		return c, bad
	}
	if desc {
		c.hi = at - 1
	} else {
		c.lo = at + 1
	}
	return c, nil
}

// headOf is a session and the node that a read starts from: its head, or the
// turn named.
func (e *Engine) headOf(ctx context.Context, c Caller, session, at turns.ID, r api.Read) (*ledger.Session, lineage.Node, error) {
	if err := e.ready(ctx, r); err != nil {
		return nil, lineage.Node{}, err
	}
	s, err := e.row(ctx, c, session, !r.StaleOK)
	if err != nil {
		return nil, lineage.Node{}, err
	}
	if !at.IsZero() {
		n, err := e.find(s, at)
		return s, n, err
	}
	head, err := e.headNode(s)
	return s, head, err
}

// Path is lineage.path: ids and depths, root first.
func (e *Engine) Path(ctx context.Context, c Caller, session turns.ID, req api.GetPath) (*api.Path, error) {
	s, head, err := e.headOf(ctx, c, session, req.At, req.Read)
	if err != nil {
		return nil, err
	}
	limit, err := req.Page.LimitOf(1000, 2000)
	if err != nil {
		return nil, err
	}
	const turnBytes = 128 // of one turn's JSON, at most
	limit = min(limit, e.pageBytes()/turnBytes)
	cur, err := e.cursor(s, head, req.After, false)
	if err != nil {
		return nil, err
	}
	out := &api.Path{Turns: []api.PathTurn{}}
	if cur.lo > cur.hi {
		return out, nil
	}
	last := min(cur.hi, cur.lo+uint64(limit)-1)
	err = e.pathUp(ctx, cur.head, cur.lo, last, func(n lineage.Node) (bool, error) {
		out.Turns = append(out.Turns, pathTurn(n))
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(out.Turns)
	if last < cur.hi {
		out.Next = cur.next(last)
	}
	return out, nil
}

func pathTurn(n lineage.Node) api.PathTurn {
	p := api.PathTurn{ID: n.Ref.Turn, Session: n.Ref.Session, Depth: n.Depth, Type: "normal"}
	if n.Kind == turns.KindCompaction {
		p.Type = "compaction"
	}
	return p
}

func sizeOf(v any) (int, error) {
	b, err := turns.EncodeJSON(v)
	return len(b), err
}
