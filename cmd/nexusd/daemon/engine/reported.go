package engine

import (
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections"
	"nexus/turns"
)

// reported is the size of the context at a node, overhead included, by the
// provider: its count of the newest call that saw the compaction, system and tools
// in force now, and the ledger's count of the response to it and of what came
// since. 0: no provider counted such a call.
//
// It reads two rows. It opens a body only where settings were changed since the
// call, or the session inherits it.
func (e *Engine) reported(s *ledger.Session, set *turns.Settings, head lineage.Node) (uint64, error) {
	if head.Ref.IsZero() {
		return 0, nil
	}
	t, err := e.Store.Turn(head.Ref)
	if err != nil || t.Reported.IsZero() {
		return 0, err
	}
	if t, err = e.Store.Turn(t.Reported); err != nil {
		return 0, err
	}
	in, err := e.inForceAt(s, head)
	if err != nil || t.Compaction != in {
		return 0, err
	}
	same, err := e.sameSettings(s, set, t)
	if err != nil || !same {
		return 0, err
	}
	return saturated(t.Input, head.Sum-t.Sum+t.Response), nil
}

// reportedNext is reported at a node that turn is about to become.
func (e *Engine) reportedNext(s *ledger.Session, set *turns.Settings, n lineage.Node, turn *api.AppendTurn) (uint64, error) {
	if turn.Usage != nil && turn.Usage.InputTokens > 0 {
		return saturated(turn.Usage.InputTokens, n.Response), nil
	}
	if n.Parent.IsZero() {
		return 0, nil
	}
	up, err := e.Store.Nodes(n.Parent)
	if err != nil || up[0].Compaction != n.Compaction {
		return 0, err
	}
	r, err := e.reported(s, set, up[0])
	if err != nil || r == 0 {
		return 0, err
	}
	return saturated(r, n.Messages+n.Response), nil
}

// sameSettings reports whether a call was made with the system part and the tools in force.
func (e *Engine) sameSettings(s *ledger.Session, set *turns.Settings, t projections.Turn) (bool, error) {
	if t.Ref.Session == s.ID && t.Index > s.Settings {
		return true, nil
	}
	want, err := e.preambleDigest(set)
	if err != nil {
		return false, err
	}
	_, ev, err := e.turnEvent(t.Ref)
	if err != nil {
		return false, err
	}
	var b turns.TurnBody
	if e.open(ev, &b) != nil {
		return false, nil // what can't be read counts for nothing
	}
	return b.Preamble == want, nil
}

// lead is a gauge led by a provider's count.
func lead(g api.Gauge, overhead, reported uint64) api.Gauge {
	if reported == 0 {
		return g
	}
	g.Tokens, g.Estimated = reported-min(overhead, reported), false
	if g.Budget > 0 {
		g.Pressure = float64(saturated(g.Tokens, overhead)) / float64(g.Budget)
	}
	return g
}

// windowGuessed reports whether a budget is of a window that nobody stated.
func windowGuessed(pol policy.Policy, l turns.Limits) bool {
	return l.ContextWindow == 0 && !pol.Unlimited(l)
}
