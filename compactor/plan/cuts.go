package plan

import (
	"slices"

	"nexus/compactor/summary"
	"nexus/turns"
)

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

// asks reports whether the newest half is a question that nobody has answered:
// it is what the next call is for. Results of tools are none; what they were for
// stands before them.
func asks(halves []summary.HalfTurn) bool {
	if len(halves) == 0 || halves[len(halves)-1].Half != turns.MessagesHalf {
		return false
	}
	return slices.ContainsFunc(halves[len(halves)-1].Messages, func(m turns.Message) bool { return m.Role == turns.User })
}
