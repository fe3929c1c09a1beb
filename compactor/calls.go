package compactor

import (
	"slices"

	"nexus/turns"
)

// openCalls folds halves into the tool calls that wait for their response. It
// decides as ledger.Calls does (a test holds the two together), and allocates
// nothing on the way: planning walks paths of a hundred thousand halves.
type openCalls struct {
	ids []string
}

// half folds in one half turn.
func (o *openCalls) half(h *HalfTurn) {
	for i := 0; i < len(h.Messages); {
		if isAssistant(h, i) {
			o.ids = h.Messages[i].Calls(o.ids[:0])
			i++
			continue
		}
		end := runEnd(h, i)
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

// isAssistant reports whether message i of h is the model's: a response always is.
func isAssistant(h *HalfTurn, i int) bool {
	return h.Half == turns.ResponseHalf || h.Messages[i].Role == turns.Assistant
}

// runEnd is the index after the last message of the run that begins at i.
func runEnd(h *HalfTurn, i int) int {
	for i < len(h.Messages) && !isAssistant(h, i) {
		i++
	}
	return i
}

// legalCuts says for each position 0..len(halves), before the half of that
// index, whether a cut may be there: whether no call is open across it.
func legalCuts(halves []HalfTurn) []bool {
	legal := make([]bool, len(halves)+1)
	var open openCalls
	for i := range halves {
		legal[i] = len(open.ids) == 0
		open.half(&halves[i])
	}
	legal[len(halves)] = len(open.ids) == 0 && !asks(halves)
	return legal
}

// asks reports whether the newest half is a question that nobody has answered:
// it is what the next call is for. Results of tools are none; what they were for
// stands before them.
func asks(halves []HalfTurn) bool {
	if len(halves) == 0 || halves[len(halves)-1].Half != turns.MessagesHalf {
		return false
	}
	return slices.ContainsFunc(halves[len(halves)-1].Messages, func(m turns.Message) bool { return m.Role == turns.User })
}
