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

// Size is the size of the path of a session's head when it was last loaded, plus
// what was appended since. With it an ack says, without a read, what the next
// context will decide under a policy that decides on the path. It does not count
// what rendering adds around calls left open since, nor what can be shortened in the
// path.
type Size struct {
	head     turns.Ref
	settings uint64    // index of the event with the settings in force
	InForce  turns.Ref // the compaction in force
	After    uint64    // tokens of the context after this compaction
	Load     view.Load
	Sums     view.Sums
	Large    bool // an unanswered tool result is too large
}

// sizeBytes is the weight of one Size in its cache, which has room for about 174,000
// sessions.
const sizeBytes = 384

// RememberLoaded remembers the size of a path that was loaded at the head of s. cx
// is its context.
func (pl *Loader) RememberLoaded(s *ledger.Session, pol policy.Policy, p view.Path, cx view.Context) {
	m := Size{head: p.Head.Ref, settings: s.Settings, Load: p.MeasureLoad(cx.Tokens - cx.Pending()), Sums: p.Summed()}
	if p.InForce != nil {
		m.InForce, m.After = p.InForce.Node.Ref, p.InForce.Body.TokensAfter
	}
	m.Large = plan.HasLargeOutputs(p, pol)
	pl.RememberSize(s.ID, m)
}

// RememberSize remembers the size of the path of a session's head.
func (pl *Loader) RememberSize(session turns.ID, m Size) {
	pl.sizes.Put(session, m, sizeBytes)
}

// SizeAt returns the size of the path of node n, and whether it is known. n is the
// head that was remembered, or the node of turn, which is about to follow that head.
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
	response := p.Counter.Message(turn.Response)
	m.Large = false
	m.Load.Messages++
	m.Load.Tokens += response
	if m.Load.Reported > 0 {
		m.Load.Reported += response
	}
	reported := uint64(0)
	if turn.Usage != nil && turn.Usage.InputTokens > 0 {
		reported = turn.Usage.InputTokens
		m.Load.Reported = reported + response
	}
	m.Sums = m.Sums.AddResponse(p.Overhead, response, reported)
	return m, true
}
