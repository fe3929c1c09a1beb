package plan

import (
	"nexus/compactor/summary"
)

// LegalCuts says for each position 0..len(halves), before the half of that
// index, whether a cut may be there: whether no call is open across it.
func LegalCuts(halves []summary.HalfTurn) []bool {
	legal := make([]bool, len(halves)+1)
	var open openCalls
	for i := range halves {
		legal[i] = len(open.ids) == 0
		open.half(&halves[i])
	}
	legal[len(halves)] = len(open.ids) == 0 && !asks(halves)
	return legal
}
