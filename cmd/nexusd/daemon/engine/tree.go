package engine

import (
	"context"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Tree is lineage.tree: the whole tree of forks that a session belongs to,
// parents before their forks, as far as the caller may see it.
func (e *Engine) Tree(ctx context.Context, c Caller, session turns.ID, req api.GetTree) (*api.Tree, error) {
	if err := e.ready(ctx, req.Read); err != nil {
		return nil, err
	}
	s, err := e.row(ctx, c, session, !req.StaleOK)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(req.Page, 200, 1000)
	if err != nil {
		return nil, err
	}
	after, err := optionalID("/after", req.After)
	if err != nil {
		return nil, err
	}
	out := &api.Tree{Root: s.Root, Sessions: []api.TreeSession{}}
	skipping := !after.IsZero()
	size := 0
	err = e.walkTree(s.Root, func(n *ledger.Session) (bool, error) {
		if skipping {
			skipping = n.ID != after
			return true, nil
		}
		if visible(c, n) != nil {
			return true, nil
		}
		if len(out.Sessions) == limit {
			out.Next = out.Sessions[limit-1].ID.String()
			return false, nil
		}
		v, err := e.treeSession(n)
		if err != nil {
			return false, err
		}
		k, err := sizeOf(v)
		if err != nil {
			return false, err
		}
		if size += k; len(out.Sessions) > 0 && size > e.pageBytes() {
			out.Next = out.Sessions[len(out.Sessions)-1].ID.String()
			return false, nil
		}
		out.Sessions = append(out.Sessions, *v)
		return true, nil
	})
	if err == nil && skipping {
		return nil, fieldErr("/after", "not a session of this tree")
	}
	return out, err
}

// Base is lineage.base: the last turn that two paths have in common.
func (e *Engine) Base(ctx context.Context, c Caller, session turns.ID, req api.GetBase) (*api.Base, error) {
	if req.Other.Session.IsZero() {
		return nil, fieldErr("/other/session", "the other session is not named")
	}
	_, a, err := e.headOf(ctx, c, session, req.At, req.Read)
	if err != nil {
		return nil, err
	}
	_, b, err := e.headOf(ctx, c, req.Other.Session, req.Other.Turn, req.Read)
	if err != nil {
		return nil, err
	}
	out := new(api.Base)
	for _, x := range []struct {
		n  lineage.Node
		to **api.PathTurn
	}{{a, &out.Here}, {b, &out.Other}} {
		if !x.n.Ref.IsZero() {
			t := pathTurn(x.n)
			*x.to = &t
		}
	}
	if a.Ref.IsZero() || b.Ref.IsZero() {
		return out, nil
	}
	base, ok, err := lineage.MergeBase(e.Store, a, b)
	if err == nil && ok {
		t := pathTurn(base)
		out.Base = &t
	}
	return out, err
}

// walkTree visits a session and then its forks, each before its own.
func (e *Engine) walkTree(root turns.ID, visit func(*ledger.Session) (bool, error)) error {
	stack := []turns.ID{root}
	for len(stack) > 0 {
		id := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		s, err := e.Store.Session(id)
		if err != nil {
			return err
		}
		if more, err := visit(&s); err != nil || !more {
			return err
		}
		var forks []turns.ID
		for f, err := range e.Store.ForksOf(id) {
			if err != nil {
				return err
			}
			forks = append(forks, f.At.Session)
		}
		for i := len(forks) - 1; i >= 0; i-- {
			stack = append(stack, forks[i])
		}
	}
	return nil
}

// A tree names at most so many branches of a session, and compactions of a
// branch, the first ones; the rest are counted.
const (
	maxTreeBranches    = 64
	maxTreeCompactions = 16
)

func (e *Engine) treeSession(s *ledger.Session) (*api.TreeSession, error) {
	v := e.listed(s)
	out := &api.TreeSession{
		ID: s.ID, Error: v.Error, Label: v.Label, State: v.State, ForkedFrom: v.ForkedFrom, Head: v.Head, Depth: v.Depth, Turns: s.Turns,
		Branches: []api.Branch{},
	}
	if f := s.ForkOf; f != nil {
		at, err := e.Store.Turn(f.At)
		if err != nil {
			return nil, err
		}
		out.ForkDepth = at.Depth
	}
	open := make(map[turns.ID]int)
	for payload, err := range e.Store.Events(s.ID, 1) {
		if err != nil {
			return nil, err
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return nil, err
		}
		if !ev.Kind.IsTurn() {
			continue
		}
		i, ok := open[ev.Segment]
		if !ok {
			if out.BranchCount++; out.BranchCount > maxTreeBranches {
				continue
			}
			i = len(out.Branches)
			open[ev.Segment] = i
			b := api.Branch{Segment: ev.Segment, From: ev.Depth}
			if !ev.Parent.IsZero() {
				b.Parent = &ev.Parent.Turn
			}
			out.Branches = append(out.Branches, b)
		}
		b := &out.Branches[i]
		b.To = ev.Depth
		if ev.Kind == turns.KindCompaction {
			if b.CompactionCount++; b.CompactionCount > maxTreeCompactions {
				continue
			}
			b.Compactions = append(b.Compactions, api.PathTurn{ID: ev.ID, Session: s.ID, Depth: ev.Depth, Type: "compaction"})
		}
	}
	return out, nil
}
