package plan

import (
	"slices"

	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// chooseCut is the index of the first half that is kept. The newest keep
// tokens stay, or as many turns as the policy says; from there the cut moves
// back to the nearest legal position, or forward to the next where the part
// kept that way would not fit next to a summary within the target. Where no
// legal cut reaches the target, the newest part that fits the budget stays;
// where none fits, nothing is kept, or, with calls open at the head, as little
// as is legal.
//
// Sizes are those of the kept part as it is rendered: responses that stand in
// for missing ones, and the words around late ones, count.
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
	if back > 0 && backTokens+s.Summary <= s.Target {
		return back, nil
	}
	for cut := back + 1; cut < n; cut++ {
		if legal[cut] && rendered[cut-back]+s.Summary <= s.Room { // past want, so it keeps less
			return cut, nil
		}
	}
	switch {
	case back > 0 && (backTokens+s.Summary <= s.Room || !legal[n]):
		return back, nil
	case back == 0 && p.Replaced()+rendered[0] <= s.Room:
		return 0, NothingError("no position before the newest part is free of open tool calls")
	case legal[n]:
		return n, nil
	}
	for cut := n - 1; cut > 0; cut-- { // none fits: as little as is legal
		if legal[cut] {
			return cut, nil
		}
	}
	return 0, NothingError("tool calls are open across every position of the path")
}

// wanted is the index of the first half that the policy wants to keep.
func (m planner) wanted(p view.Path) (int, error) {
	keep := m.keepTokens()
	want, kept, responses, messages := len(p.Halves), uint64(0), uint64(0), uint64(0)
	keepTurns := m.policy.KeepTurns
	if keepTurns > 0 {
		keep = tokens.Sub(m.sizes.Target, m.sizes.Summary)
	}
	for want > 0 {
		h := &p.Halves[want-1]
		if keepTurns > 0 && responses == keepTurns && (h.Half == turns.ResponseHalf || want == len(p.Halves) || h.Ref != p.Halves[want].Ref) {
			return want, nil
		}
		if kept+h.ShownTokens() > keep {
			return want, nil
		}
		// What is due by a number keeps half of that number at most.
		messages += uint64(len(h.Messages))
		if m.trigger.Kind == TriggerTurns && (m.policy.MaxMessages > 0 && messages > m.policy.MaxMessages/2 ||
			m.policy.EveryTurns > 0 && h.Half == turns.ResponseHalf && responses >= max(1, m.policy.EveryTurns/2)) {
			return want, nil
		}
		kept += h.ShownTokens()
		want--
		if h.Half == turns.ResponseHalf {
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

// keepTokens is how many of the newest tokens the plan keeps.
func (m planner) keepTokens() uint64 {
	if r := m.policy.ManualKeepRatio; r > 0 && m.trigger.Kind == TriggerManual {
		return min(m.sizes.Keep, tokens.Share(m.path.Tokens(), r))
	}
	return m.sizes.Keep
}

// protectedTokens is the tokens of the newest halves that no legal cut takes out.
func protectedTokens(p view.Path) uint64 {
	legal := LegalCuts(p.Halves)
	for cut := len(p.Halves); cut > 0; cut-- {
		if legal[cut] {
			return p.ShownFrom(cut)
		}
	}
	return p.ShownFrom(0)
}

// LegalCuts says for each position 0..len(halves), before the half of that
// index, whether a cut may be there: whether no call is open across it.
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

// openCalls folds halves into the tool calls that wait for their response. It
// decides as ledger.Calls does (a test holds the two together), and allocates
// nothing on the way: planning walks paths of a hundred thousand halves.
type openCalls struct {
	ids []string
}

// half folds in one half turn.
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

// run folds in what was sent between two assistant messages: results close
// their calls; anything else abandons the calls that no result of the run closed.
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

// isUnanswered reports whether the newest half is a question that nobody has answered:
// it is what the next call is for. Results of tools are none; what they were for
// stands before them.
func isUnanswered(halves []summary.HalfTurn) bool {
	if len(halves) == 0 || halves[len(halves)-1].Half != turns.MessagesHalf {
		return false
	}
	return slices.ContainsFunc(halves[len(halves)-1].Messages, func(m turns.Message) bool { return m.Role == turns.User })
}
