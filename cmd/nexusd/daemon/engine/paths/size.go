package paths

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
type Size struct {
	head     turns.Ref
	settings uint64    // index of the event that they stood in
	InForce  turns.Ref // the compaction
	After    uint64    // tokens that it said it left
	Load     view.Load
	Sums     view.Sums
	Large    bool // a result that nothing answers yet is too large
}

// measuredBytes is what one weighs in its cache: 174,762 sessions are remembered.
const sizeBytes = 384

// RememberLoaded remembers a path that was loaded at the head of s, and its context.
func (pl *Loader) RememberLoaded(s *ledger.Session, pol policy.Policy, p view.Path, cx view.Context) {
	m := Size{head: p.Head.Ref, settings: s.Settings, Load: p.MeasureLoad(cx.Tokens - cx.Pending()), Sums: p.Summed()}
	if p.InForce != nil {
		m.InForce, m.After = p.InForce.Node.Ref, p.InForce.Body.TokensAfter
	}
	m.Large = plan.HasLargeOutputs(p, pol)
	pl.RememberSize(s.ID, m)
}

// RememberSize keeps what the path of a session's head comes to.
func (pl *Loader) RememberSize(session turns.ID, m Size) {
	pl.sizes.Put(session, m, sizeBytes)
}

// SizeAt is what the path of a node comes to: the head that was measured, or
// the turn that is about to follow it. False: it is not known.
func (pl *Loader) SizeAt(s *ledger.Session, n lineage.Node, p view.Path, pol policy.Policy, turn *api.AppendTurn) (Size, bool) {
	m, ok := pl.sizes.Get(s.ID)
	in, err := pl.reader.CompactionAt(s, n)
	if !ok || err != nil || m.settings != s.Settings || m.InForce != in {
		return m, false
	}
	m.Load.Idle = 0
	if turn == nil {
		return m, m.head == n.Ref
	}
	if m.head != n.Parent {
		return m, false
	}
	m.head = n.Ref
	m.Load.Turns++
	m.Load.Messages += uint64(len(turn.Messages))
	sent := tokens.Messages(p.Counter, turn.Messages)
	m.Load.Tokens += sent
	m.Sums = m.Sums.AddMessages(sent)
	if m.Load.Reported > 0 {
		m.Load.Reported += sent
	}
	p.Halves = []summary.HalfTurn{{Ref: n.Ref, Depth: n.Depth, Half: turns.MessagesHalf, Messages: turn.Messages}}
	m.Large = m.Large || plan.HasLargeOutputs(p, pol)
	if turn.Response == nil {
		return m, true
	}
	came := p.Counter.Message(turn.Response)
	m.Large = false
	m.Load.Messages++
	m.Load.Tokens += came
	if m.Load.Reported > 0 {
		m.Load.Reported += came
	}
	reported := uint64(0)
	if turn.Usage != nil && turn.Usage.InputTokens > 0 {
		reported = turn.Usage.InputTokens
		m.Load.Reported = reported + came
	}
	m.Sums = m.Sums.AddResponse(p.Overhead, came, reported)
	return m, true
}
