package reader

import (
	"context"
	"time"

	"nexus/cmd/internal/engine/content"
	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Gauge returns how full the context at a node is, by the ledger's count, and the
// policy of set.
func (rd *Reader) Gauge(ctx context.Context, s *ledger.Session, set *turns.Settings, head lineage.Node) (api.Gauge, policy.Policy, error) {
	pol, err := rd.ResolvePolicy(ctx, s.Tenant, set.Policy)
	if err != nil {
		return api.Gauge{}, pol, err
	}
	n, err := rd.contextTokens(s, head)
	if err != nil {
		return api.Gauge{}, pol, err
	}
	g := api.Gauge{Tokens: ScaleTokens(n, pol), Budget: pol.Budget(rd.Limits(set)), Estimated: true}
	if g.Budget > 0 {
		g.Pressure = float64(content.SaturatingAdd(g.Tokens, rd.content.Overhead(pol.CounterOf(), set))) / float64(g.Budget)
	}
	return g, pol, nil
}

// Limits returns the session's limits. It takes those of the model if the session
// states no context window.
func (rd *Reader) Limits(set *turns.Settings) turns.Limits {
	l := set.Limits
	if l.ContextWindow > 0 || set.Model == "" {
		return l
	}
	if m, ok := rd.Models.Find(set.Model); ok {
		l.ContextWindow = m.ContextWindow
		if l.MaxOutputTokens == 0 {
			l.MaxOutputTokens = m.OutputReserve
		}
	}
	return l
}

// ScaleTokens scales a sum of the ledger's counts to about what the policy's counter
// would count.
func ScaleTokens(n uint64, pol policy.Policy) uint64 {
	if f := tokens.Scale(pol.Counter); f != 1 {
		return uint64(float64(n) * f)
	}
	return n
}

// ContextLoad returns what the projections know of the size of the context at a
// node, without reading the context.
func (rd *Reader) ContextLoad(s *ledger.Session, g api.Gauge, head lineage.Node) (view.Load, error) {
	l := view.Load{Tokens: g.Tokens, Turns: head.Depth}
	in, err := rd.CompactionAt(s, head)
	if err != nil || head.Ref.IsZero() {
		return l, err
	}
	if !in.IsZero() {
		c, err := rd.Projections.Node(in)
		if err != nil {
			return l, err
		}
		l.Turns = head.Depth - c.Depth
	}
	return l, nil
}

// IdleTime returns how long ago the turn of a node was recorded.
func (rd *Reader) IdleTime(n lineage.Node) time.Duration {
	t, err := rd.Projections.Turn(n.Ref)
	if err != nil {
		return 0
	}
	return max(0, rd.Now().Sub(time.Unix(0, t.Recorded)))
}

// contextTokens returns the tokens of the messages at a node: those of the
// replacement in force and of the turns kept after it. It reads O(log n) nodes.
func (rd *Reader) contextTokens(s *ledger.Session, head lineage.Node) (uint64, error) {
	if head.Ref.IsZero() {
		return 0, nil
	}
	in, err := rd.CompactionAt(s, head)
	if err != nil || in.IsZero() {
		return head.Sum, err
	}
	c, err := rd.Projections.Node(in)
	if err != nil {
		return 0, err
	}
	kept, err := lineage.TokensFrom(rd.Projections, head, c.Cut)
	if c.Saved > kept { // the elisions save more than the kept turns have
		return c.Replaced, err
	}
	return content.SaturatingAdd(kept-c.Saved, c.Replaced), err
}

// CompactionAt returns the compaction that is in force for session s when its head
// is at node n.
func (rd *Reader) CompactionAt(s *ledger.Session, n lineage.Node) (turns.Ref, error) {
	ignores, err := s.Ignores(n.Ref.Session, rd.Projections.Session)
	if err != nil || ignores {
		return turns.Ref{}, err
	}
	return n.Compaction, nil
}
