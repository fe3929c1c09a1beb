package compare

import (
	"slices"
	"strings"
)

// index holds where facts that the agent writes again stood before. It is made once
// a transcript, so that no replay reads the history again.
type index struct {
	facts  []fact
	places [][]int32 // for each fact, the halves that hold it, ascending
	uses   [][]use   // for each turn, the facts that its response repeats
}

// use is a fact in a response that an earlier half holds too. Facts in what was
// newly sent with the call do not count, because every policy shows them.
type use struct {
	fact   int32
	before int32 // how many of the fact's places lie before what was newly sent
}

func newIndex(t *Transcript) index {
	x := index{uses: make([][]use, len(t.turns))}
	ids := make(map[fact]int32)
	written := make([][]int32, len(t.turns))
	for i := range t.turns {
		if r := t.turns[i].Response; r != nil {
			eachWritten(r, func(s string) {
				eachFact(s, func(f fact) {
					id, ok := ids[f]
					if !ok {
						id = int32(len(x.facts))
						ids[f] = id
						x.facts = append(x.facts, fact{f.kind, strings.Clone(f.text)})
					}
					written[i] = append(written[i], id)
				})
			})
			slices.Sort(written[i])
			written[i] = slices.Compact(written[i])
		}
	}
	x.places = make([][]int32, len(x.facts))
	for at := range int32(2 * len(t.turns)) {
		eachText(t.messages(int(at)), func(s string) {
			eachFact(s, func(f fact) {
				if id, ok := ids[f]; ok {
					if p := x.places[id]; len(p) == 0 || p[len(p)-1] != at {
						x.places[id] = append(p, at)
					}
				}
			})
		})
	}
	sent := int32(0) // the first half after the last response
	for i := range t.turns {
		if t.turns[i].Response == nil {
			continue
		}
		response := int32(place(i, halves[1]))
		for _, id := range written[i] {
			before, _ := slices.BinarySearch(x.places[id], sent)
			until, _ := slices.BinarySearch(x.places[id], response)
			if before > 0 && before == until {
				x.uses[i] = append(x.uses[i], use{id, int32(before)})
			}
		}
		sent = response + 1
	}
	return x
}
