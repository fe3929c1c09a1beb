package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/projections/rows"
	"nexus/turns"
)

// Tree is lineage.tree: the tree of forks that a session belongs to, parents before
// their forks, as far as the caller may see it.
func (hs *History) Tree(ctx context.Context, c reader.Caller, session turns.ID, req api.GetTree) (*api.Tree, error) {
	if err := hs.reader.WaitLog(ctx, req.Read); err != nil {
		return nil, err
	}
	s, err := hs.reader.FindSession(ctx, c, session, !req.StaleOK)
	if err != nil {
		return nil, err
	}
	limit, err := req.Page.LimitOf(200, 1000)
	if err != nil {
		return nil, err
	}
	after, err := page.OptionalID("/after", req.After)
	if err != nil {
		return nil, err
	}
	out := &api.Tree{Root: s.Root, Sessions: []api.TreeSession{}}
	w, err := hs.walkTree(s.Root, after)
	if err != nil {
		return nil, err
	}
	size, work := 0, 0
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: read the tree: %w", ledger.ErrUnavailable, ctx.Err())
		}
		n, err := w.next()
		if n == nil || err != nil {
			return out, err
		}
		if reader.CheckVisible(c, n) != nil {
			continue
		}
		if len(out.Sessions) == limit || work > maxTreeWork {
			out.Next = out.Sessions[len(out.Sessions)-1].ID.String()
			return out, nil
		}
		v, counted, err := hs.treeSession(ctx, n)
		if err != nil {
			return nil, err
		}
		k, err := page.EncodedSize(v)
		if err != nil {
			return nil, err
		}
		work += counted
		if size += k; len(out.Sessions) > 0 && size > hs.page.PageBytes() {
			out.Next = out.Sessions[len(out.Sessions)-1].ID.String()
			return out, nil
		}
		out.Sessions = append(out.Sessions, *v)
	}
}

// treeWalk visits a tree of forks, each session before its forks. Its stack has one
// frame for each session between the root and the current one.
type treeWalk struct {
	history *History
	root    turns.ID // the root, zero once it was visited
	stack   []treeFrame
}

// treeFrame is how far the walk has come in the forks of one session.
type treeFrame struct {
	session turns.ID
	last    projections.Fork // the fork visited last, zero if none was
}

// walkTree begins a walk at the root, or after a session of the tree.
func (hs *History) walkTree(root, after turns.ID) (*treeWalk, error) {
	w := &treeWalk{history: hs, root: root}
	if after.IsZero() {
		return w, nil
	}
	w.root = turns.ID{}
	last := projections.Fork{}
	for id := after; ; {
		w.stack = append(w.stack, treeFrame{id, last})
		s, err := hs.reader.Projections.Session(id)
		if errors.Is(err, ledger.ErrNotFound) || (err == nil && s.Root != root) {
			return nil, api.FieldErrorf("/after", "not a session of this tree")
		}
		if err != nil {
			return nil, err
		}
		if s.ForkOf == nil {
			break
		}
		last = projections.Fork{At: s.ForkOf.At.Turn, Session: id}
		id = s.ForkOf.At.Session
	}
	slices.Reverse(w.stack)
	return w, nil
}

// next returns the next session, nil at the end.
func (w *treeWalk) next() (*ledger.Session, error) {
	id := w.root
	w.root = turns.ID{}
	for id.IsZero() && len(w.stack) > 0 {
		at := &w.stack[len(w.stack)-1]
		f, err := w.history.reader.Projections.NextFork(at.session, at.last)
		if err != nil {
			return nil, err
		}
		if id, at.last = f.Session, f; id.IsZero() {
			w.stack = w.stack[:len(w.stack)-1]
		}
	}
	if id.IsZero() {
		return nil, nil
	}
	w.stack = append(w.stack, treeFrame{session: id})
	s, err := w.history.reader.Projections.Session(id)
	return &s, err
}

// A tree shows the first maxTreeBranches branches of a session, and the first
// maxTreeCompactions compactions of a branch. It counts the rest, up to
// maxTreeCounted of a session. A page ends when it has read maxTreeWork rows.
const (
	maxTreeBranches    = 64
	maxTreeCompactions = 16
	maxTreeCounted     = 10_000
	maxTreeWork        = 100_000

	branchBytes     = 256 // bound on the JSON of a branch without its compactions
	compactionBytes = 160 // bound on the JSON of one compaction
)

// lastTurn returns the id of the last turn of a segment.
func (hs *History) lastTurn(r lineage.Range) (id turns.ID, err error) {
	r.Lo = r.Hi
	for payload, err := range hs.reader.Projections.Range(r) {
		if err != nil {
			return id, err
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return id, err
		}
		id = ev.ID
	}
	return id, nil
}

// treeSession returns a session as the tree shows it, and how many rows it read. Of
// the turns it reads those that begin or end a segment, and compactions.
func (hs *History) treeSession(ctx context.Context, s *ledger.Session) (*api.TreeSession, int, error) {
	v := hs.reader.DescribeListed(ctx, s)
	out := &api.TreeSession{
		ID: s.ID, Error: v.Error, MissingKey: v.MissingKey, Label: v.Label, State: v.State, ForkedFrom: v.ForkedFrom, Head: v.Head, Depth: v.Depth, Turns: s.Turns,
		Branches: []api.Branch{},
	}
	if f := s.ForkOf; f != nil {
		at, err := hs.reader.Projections.Turn(f.At)
		if err != nil {
			return nil, 0, err
		}
		out.ForkDepth = at.Depth
	}
	type branch struct {
		lineage.Range
		opened rows.Turn
	}
	var branches []branch
	for r, err := range hs.reader.Projections.Segments(s.ID) {
		if err != nil {
			return nil, 0, err
		}
		t, err := hs.reader.Projections.Turn(turns.Ref{Session: s.ID, Turn: r.Segment})
		if err != nil {
			return nil, 0, err
		}
		if branches = append(branches, branch{r, t}); len(branches) == maxTreeCounted {
			break
		}
	}
	slices.SortFunc(branches, func(a, b branch) int { return cmp.Compare(a.opened.Index, b.opened.Index) })
	out.BranchCount = uint64(len(branches))
	room := hs.page.Payload() / 4
	var err error
	shown := make(map[turns.ID]*api.Branch)
	for _, b := range branches[:min(len(branches), maxTreeBranches, 1+room/branchBytes)] {
		x := api.Branch{Segment: b.Segment, From: b.Lo, To: b.Hi}
		if p := b.opened.Parent; !p.IsZero() {
			x.Parent = &p.Turn
		}
		if x.Tip, err = hs.lastTurn(b.Range); err != nil {
			return nil, 0, err
		}
		out.Branches = append(out.Branches, x)
	}
	for i := range out.Branches {
		shown[out.Branches[i].Segment] = &out.Branches[i]
	}
	counted := 0
	for ref, err := range hs.reader.Projections.CompactionsOf(s.ID) {
		if err != nil {
			return nil, 0, err
		}
		t, err := hs.reader.Projections.Turn(ref)
		if err != nil {
			return nil, 0, err
		}
		if counted++; counted > maxTreeCounted {
			break
		}
		b := shown[t.Segment]
		if b == nil {
			continue
		}
		if b.CompactionCount++; b.CompactionCount > maxTreeCompactions || room < compactionBytes {
			continue
		}
		room -= compactionBytes
		b.Compactions = append(b.Compactions, reader.DescribeNode(t.Node))
	}
	return out, 1 + len(branches) + counted, nil
}
