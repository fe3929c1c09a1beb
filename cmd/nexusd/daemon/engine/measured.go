package engine

import (
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// measured is what the path of a session's head came to when it was last loaded,
// and what was appended since has added. From it an ack tells what the next
// context will decide under a policy that decides on the path: by the policy's own
// counter and measure, without a read. What rendering puts around calls that were
// left open since is not in it, nor what can be shortened in the path.
type measured struct {
	head     turns.Ref
	settings uint64    // index of the event that they stood in
	inForce  turns.Ref // the compaction
	after    uint64    // tokens that it said it left
	load     view.Load
	sums     view.Sums
	large    bool // a result that nothing answers yet is too large
}

// measuredBytes is what one weighs in its cache: 174,762 sessions are remembered.
const measuredBytes = 384

// measure remembers a path that was loaded at the head of s, and its context.
func (e *Engine) measure(s *ledger.Session, pol policy.Policy, p view.Path, cx view.Context) {
	m := measured{head: p.Head.Ref, settings: s.Settings, load: p.MeasureLoad(cx.Tokens - cx.Pending()), sums: p.Summed()}
	if p.InForce != nil {
		m.inForce, m.after = p.InForce.Node.Ref, p.InForce.Body.TokensAfter
	}
	m.large = plan.HasLargeOutputs(p, pol)
	e.measures.put(s.ID, m, measuredBytes)
}

// measuredAt is what the path of a node comes to: the head that was measured, or
// the turn that is about to follow it. False: it is not known.
func (e *Engine) measuredAt(s *ledger.Session, n lineage.Node, p view.Path, pol policy.Policy, turn *api.AppendTurn) (measured, bool) {
	m, ok := e.measures.get(s.ID)
	in, err := e.inForceAt(s, n)
	if !ok || err != nil || m.settings != s.Settings || m.inForce != in {
		return m, false
	}
	m.load.Idle = 0
	if turn == nil {
		return m, m.head == n.Ref
	}
	if m.head != n.Parent {
		return m, false
	}
	m.head = n.Ref
	m.load.Turns++
	m.load.Messages += uint64(len(turn.Messages))
	sent := tokens.Messages(p.Counter, turn.Messages)
	m.load.Tokens += sent
	m.sums = m.sums.Sent(sent)
	if m.load.Reported > 0 {
		m.load.Reported += sent
	}
	p.Halves = []summary.HalfTurn{{Ref: n.Ref, Depth: n.Depth, Half: turns.MessagesHalf, Messages: turn.Messages}}
	m.large = m.large || plan.HasLargeOutputs(p, pol)
	if turn.Response == nil {
		return m, true
	}
	came := p.Counter.Message(turn.Response)
	m.large = false
	m.load.Messages++
	m.load.Tokens += came
	if m.load.Reported > 0 {
		m.load.Reported += came
	}
	reported := uint64(0)
	if turn.Usage != nil && turn.Usage.InputTokens > 0 {
		reported = turn.Usage.InputTokens
		m.load.Reported = reported + came
	}
	m.sums = m.sums.Answered(p.Overhead, came, reported)
	return m, true
}
