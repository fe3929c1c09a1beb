package reader

import (
	"nexus/cmd/internal/engine/content"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/projections/rows"
	"nexus/turns"
)

// ReportedTokens returns the size of the context at a node as the provider counted
// it, overhead included. It adds the provider's count of the newest call under the
// compaction, system part and tools now in force, and the ledger's count of
// everything since. It returns 0 if the provider counted no such call.
//
// It reads two rows. It opens a body only if the settings were changed since that
// call, or the session inherits the call.
func (rd *Reader) ReportedTokens(s *ledger.Session, set *turns.Settings, head lineage.Node) (uint64, error) {
	if head.Ref.IsZero() {
		return 0, nil
	}
	t, err := rd.Projections.Turn(head.Ref)
	if err != nil || t.Reported.IsZero() {
		return 0, err
	}
	if t, err = rd.Projections.Turn(t.Reported); err != nil {
		return 0, err
	}
	in, err := rd.CompactionAt(s, head)
	if err != nil || t.Compaction != in {
		return 0, err
	}
	same, err := rd.hasPreambleInForce(s, set, t)
	if err != nil || !same {
		return 0, err
	}
	return content.SaturatingAdd(t.Input, head.Sum-t.Sum+t.Response), nil
}

// ReportedTokensAfter returns the ReportedTokens of the node n that turn will
// become.
func (rd *Reader) ReportedTokensAfter(s *ledger.Session, set *turns.Settings, n lineage.Node, turn *api.AppendTurn) (uint64, error) {
	if turn.Usage != nil && turn.Usage.InputTokens > 0 {
		return content.SaturatingAdd(turn.Usage.InputTokens, n.Response), nil
	}
	if n.Parent.IsZero() {
		return 0, nil
	}
	up, err := rd.Projections.Node(n.Parent)
	if err != nil || up.Compaction != n.Compaction {
		return 0, err
	}
	r, err := rd.ReportedTokens(s, set, up)
	if err != nil || r == 0 {
		return 0, err
	}
	return content.SaturatingAdd(r, n.Messages+n.Response), nil
}

// hasPreambleInForce reports whether the call of turn t was made with the system
// part and the tools in force.
func (rd *Reader) hasPreambleInForce(s *ledger.Session, set *turns.Settings, t rows.Turn) (bool, error) {
	if t.Ref.Session == s.ID && t.Index > s.Settings {
		return true, nil
	}
	want, err := rd.content.PreambleDigest(set)
	if err != nil {
		return false, err
	}
	_, ev, err := rd.TurnEvent(t.Ref)
	if err != nil {
		return false, err
	}
	var b turns.TurnBody
	if rd.content.Open(ev, &b) != nil {
		return false, nil // an unreadable call is not used
	}
	return b.Preamble == want, nil
}

// WithReported returns g with the provider's count in place of the estimate.
// reported is 0 if the provider gave none.
func WithReported(g api.Gauge, overhead, reported uint64) api.Gauge {
	if reported == 0 {
		return g
	}
	g.Tokens, g.Estimated = reported-min(overhead, reported), false
	if g.Budget > 0 {
		g.Pressure = float64(content.SaturatingAdd(g.Tokens, overhead)) / float64(g.Budget)
	}
	return g
}

// WindowGuessed reports whether the budget is of a context window that neither the
// session nor its model states.
func WindowGuessed(pol policy.Policy, l turns.Limits) bool {
	return l.ContextWindow == 0 && !pol.Unlimited(l)
}
