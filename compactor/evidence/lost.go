package evidence

import (
	"cmp"
	"slices"

	"nexus/compactor/facts"
	"nexus/compactor/summary"
)

// Lost is a fact of covered turns that a context does not hold.
type Lost struct {
	facts.Fact
	Uses   int // halves that hold it
	Newest int // index of the newest of them
}

// LostFacts returns the facts of covered halves that are lost by s, which surveyed them:
// by kind in the order of [facts.Kinds], those that most halves hold first, of equal ones
// the newest, then as they stand there.
func LostFacts(covered []summary.HalfTurn, s facts.Survey) []Lost {
	at := make(map[facts.Fact]int)
	finder := facts.NewFinder(covered)
	var out []Lost
	for i := range covered {
		finder.Each(&covered[i], func(f facts.Fact) {
			if !s.IsLost(f) {
				return
			}
			k, ok := at[f]
			if !ok {
				k = len(out)
				at[f], out = k, append(out, Lost{Fact: f, Newest: -1})
			}
			if out[k].Newest != i {
				out[k].Uses, out[k].Newest = out[k].Uses+1, i
			}
		})
	}
	kinds := facts.Kinds()
	slices.SortStableFunc(out, func(a, b Lost) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(b.Uses, a.Uses), cmp.Compare(b.Newest, a.Newest))
	})
	return out
}
