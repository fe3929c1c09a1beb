package history

import (
	"context"

	"nexus/cmd/nexusd/daemon/engine/page"
	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// Base is lineage.base: the last turn that two paths have in common.
func (hs *History) Base(ctx context.Context, c reader.Caller, session turns.ID, req api.GetBase) (*api.Base, error) {
	if req.Other.Session.IsZero() {
		return nil, page.FieldErr("/other/session", "the other session is not named")
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
