package compare

import (
	"cmp"
	"slices"

	"nexus/turns/tokens"
)

// Oracle is what contexts as large as those of a replay could hold of the facts that
// the agent writes again, if they were chosen with hindsight. A context of the oracle
// is what was newly sent with the call, and facts, each on a line of its own. Of the
// facts that the call's response writes again it takes the shortest first, so no list
// of facts of that size has more of them.
//
// The oracle says how much room the facts take. It says nothing about how anyone could
// know which they are, and a list of facts is no context that an agent could work with.
type Oracle struct {
	Calls   int
	Earlier [kinds]Share // Shown: the facts that it holds
	Room    uint64       // tokens for facts in all contexts: those of the replay less what was newly sent, system and tools
	Needed  uint64       // tokens of the facts that the calls' own responses write again, all calls together
	Later   uint64       // tokens of the facts that the call's or any later response writes again
}

// AllEarlier returns the sum of the facts of every kind.
func (o *Oracle) AllEarlier() (sum Share) {
	for _, k := range o.Earlier {
		sum.add(k)
	}
	return sum
}

// Add adds the oracle of another transcript.
func (o *Oracle) Add(p Oracle) {
	o.Calls, o.Room, o.Needed, o.Later = o.Calls+p.Calls, o.Room+p.Room, o.Needed+p.Needed, o.Later+p.Later
	for k := range o.Earlier {
		o.Earlier[k].add(p.Earlier[k])
	}
}

// Oracle returns the oracle with the context sizes of r, a replay of t.
func (t *Transcript) Oracle(r *Replay) Oracle {
	size := make([]uint64, len(t.facts.facts)) // of each fact
	for i, f := range t.facts.facts {
		size[i] = t.counter.Text(f.text + "\n")
	}
	var out Oracle
	sent := 0 // the first half after the last response
	var sents []int
	for i := range r.Calls {
		c := &r.Calls[i]
		fresh := uint64(0)
		for at := sent; at <= 2*c.Turn; at++ {
			fresh += tokens.Messages(t.counter, t.messages(at))
		}
		sents, sent = append(sents, sent), 2*c.Turn+2
		room := tokens.Sub(c.Tokens, t.overhead+fresh)
		out.Calls++
		out.Room += room
		uses := slices.SortedStableFunc(slices.Values(t.facts.uses[c.Turn]), func(a, b use) int { return cmp.Compare(size[a.fact], size[b.fact]) })
		for _, u := range uses {
			s := Share{All: 1}
			if n := size[u.fact]; n <= room {
				s.Shown, room = 1, room-n
			}
			out.Needed += size[u.fact]
			out.Earlier[t.facts.facts[u.fact].kind].add(s)
		}
	}
	out.Later = t.laterNeeds(r, sents, size)
	return out
}

// laterNeeds returns the sum, over the calls of r, of the sizes of the facts that the
// call's or a later response writes again and that stand before what was newly sent with
// the call, which is sents' half of the call.
func (t *Transcript) laterNeeds(r *Replay, sents []int, size []uint64) (sum uint64) {
	last := make(map[int32]int) // for each fact, the last call that writes it again
	for i := range r.Calls {
		for _, u := range t.facts.uses[r.Calls[i].Turn] {
			last[u.fact] = i
		}
	}
	for f, until := range last {
		first := int(t.facts.places[f][0])
		from, _ := slices.BinarySearch(sents, first+1) // the first call with sents > first
		if from <= until {
			sum += size[f] * uint64(until-from+1)
		}
	}
	return sum
}
