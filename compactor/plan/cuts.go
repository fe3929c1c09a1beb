package plan

import (
	"slices"

	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// chooseCut returns the index of the first kept half. It looks for a legal position
// in this order:
//
// 1. the nearest before what the policy wants to keep, if that fits the target;
// 2. the next one after it that fits the budget;
// 3. the first one again, if it fits the budget, or if calls are open at the head;
// 4. the end of the path: nothing is kept;
// 5. the last legal one: as little as possible is kept.
//
// "Fits" means next to the longest replacement. Sizes are those of the rendered halves: synthetic
// responses and the words around late ones count.
func (m planner) chooseCut(shortens map[view.PartAt]turns.ElidedPart) (int, error) {
	p, s := m.shortened(shortens), m.sizes
	n := len(p.Halves)
	if n == 0 {
		return 0, NothingError("no turn follows the last compaction")
	}
	want, err := m.wanted(p)
	if err != nil {
		return 0, err
	}
	legal := LegalCuts(p.Halves)
	back := min(want, n-1)
	for back > 0 && !legal[back] {
		back--
	}
	rendered := p.Rendered(back)
	backTokens := rendered[0]
	if back > 0 && backTokens+s.Replacement() <= s.Target {
		return back, nil
	}
	for cut := back + 1; cut < n; cut++ {
		if legal[cut] && rendered[cut-back]+s.Replacement() <= s.Room { // after what the policy wants, so it keeps less
			return cut, nil
		}
	}
	switch {
	case back > 0 && (backTokens+s.Replacement() <= s.Room || !legal[n]):
		return back, nil
	case back == 0 && p.Replaced()+rendered[0] <= s.Room:
		return 0, NothingError("no position before the newest part is free of open tool calls")
	case legal[n]:
		return n, nil
	}
	for cut := n - 1; cut > 0; cut-- { // none fits: keep as little as is legal
		if legal[cut] {
			return cut, nil
		}
	}
	return 0, NothingError("tool calls are open across every position of the path")
}

// wanted returns the index of the first half that the policy wants to keep.
func (m planner) wanted(p view.Path) (int, error) {
	keep := m.keepTokens()
	want, kept, responses, messages := len(p.Halves), uint64(0), uint64(0), uint64(0)
	keepTurns := m.policy.KeepTurns
	if keepTurns > 0 {
		keep = tokens.Sub(m.sizes.Target, m.sizes.Replacement())
	}
	for want > 0 {
		h := &p.Halves[want-1]
		isResponse := h.Half == turns.ResponseHalf
		ofOlderTurn := want == len(p.Halves) || h.Ref != p.Halves[want].Ref
		messages += uint64(len(h.Messages))
		hasAllTurns := keepTurns > 0 && responses == keepTurns && (isResponse || ofOlderTurn)
		exceedsTokens := kept+h.ShownTokens() > keep
		if hasAllTurns || exceedsTokens || m.exceedsHalfOfCount(messages, responses, isResponse) {
			return want, nil
		}
		kept += h.ShownTokens()
		want--
		if isResponse {
			responses++
		}
	}
	after := ""
	if p.InForce != nil {
		after = " after the last compaction"
	}
	if keepTurns > 0 {
		return 0, NothingError("the %d responses%s are among the newest %d, which are kept", responses, after, keepTurns)
	}
	return 0, NothingError("all %d tokens%s are among the newest %d, which are kept", kept, after, keep)
}

// exceedsHalfOfCount reports whether so many messages, or one more response than so
// many, are too much to keep for a context that is due by its number of messages or
// turns: it keeps at most half of that number. A policy that says how many turns it keeps
// keeps those.
func (m planner) exceedsHalfOfCount(messages, responses uint64, isResponse bool) bool {
	if m.trigger.Kind != TriggerTurns {
		return false
	}
	manyMessages := m.policy.MaxMessages > 0 && messages > m.policy.MaxMessages/2
	manyTurns := m.policy.EveryTurns > 0 && m.policy.KeepTurns == 0 && isResponse && responses >= max(1, m.policy.EveryTurns/2)
	return manyMessages || manyTurns
}

// keepTokens returns how many of the newest tokens the plan keeps.
func (m planner) keepTokens() uint64 {
	if r := m.policy.ManualKeepRatio; r > 0 && m.trigger.Kind == TriggerManual {
		return min(m.sizes.Keep, tokens.Share(m.path.Tokens(), r))
	}
	return m.sizes.Keep
}

// protectedTokens returns the tokens of the newest halves that no legal cut removes.
func protectedTokens(p view.Path) uint64 {
	legal := LegalCuts(p.Halves)
	for cut := len(p.Halves); cut > 0; cut-- {
		if legal[cut] {
			return p.ShownFrom(cut)
		}
	}
	return p.ShownFrom(0)
}

// LegalCuts reports for each position 0..len(halves), before the half of that index,
// whether a cut is legal there: whether no call is open across it.
func LegalCuts(halves []summary.HalfTurn) []bool {
	legal := make([]bool, len(halves)+1)
	var open openCalls
	for i := range halves {
		legal[i] = len(open.ids) == 0
		open.half(&halves[i])
	}
	legal[len(halves)] = len(open.ids) == 0 && !isUnanswered(halves)
	return legal
}

// openCalls folds halves into the tool calls that wait for a response. It decides as
// ledger.Calls does (TestOpenCallsTwin compares them). It allocates nothing on the
// way, because planning walks paths of a hundred thousand halves.
type openCalls struct {
	ids []string
}

// half folds one half turn.
func (o *openCalls) half(h *summary.HalfTurn) {
	for i := 0; i < len(h.Messages); {
		if summary.IsAssistant(h, i) {
			o.ids = h.Messages[i].Calls(o.ids[:0])
			i++
			continue
		}
		end := summary.RunEnd(h, i)
		if len(o.ids) > 0 {
			o.run(h.Messages[i:end])
		}
		i = end
	}
}

// run folds what was sent between two assistant messages. Results close their calls.
// Any other part abandons the calls that stay open after the run.
func (o *openCalls) run(ms []turns.Message) {
	goesOn := false
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			if p.Type != turns.ToolCallResponse {
				goesOn = true
			} else if k := slices.Index(o.ids, p.ID); k >= 0 {
				o.ids = slices.Delete(o.ids, k, k+1)
			}
		}
	}
	if goesOn {
		o.ids = o.ids[:0]
	}
}

// isUnanswered reports whether the newest half holds a user's question: the next
// call has to answer it. Tool results are none, because the question that led to
// them comes before them.
func isUnanswered(halves []summary.HalfTurn) bool {
	if len(halves) == 0 || halves[len(halves)-1].Half != turns.MessagesHalf {
		return false
	}
	return slices.ContainsFunc(halves[len(halves)-1].Messages, func(m turns.Message) bool { return m.Role == turns.User })
}
