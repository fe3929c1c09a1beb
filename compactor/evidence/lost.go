package evidence

import (
	"cmp"
	"slices"

	"nexus/compactor/summary"
)

// Lost is a fact of covered turns that a context does not hold.
type Lost struct {
	summary.Fact
	Uses   int // halves that hold it
	Newest int // index of the newest of them
}

// LostFacts returns the facts of covered halves that are lost by s, which surveyed them:
// those that most halves hold first, of equal ones the newest, then by text.
func LostFacts(covered []summary.HalfTurn, s summary.Survey) []Lost {
	at := make(map[summary.Fact]int)
	var out []Lost
	for i := range covered {
		summary.EachFact(covered[i].Messages, func(f summary.Fact) {
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
	slices.SortFunc(out, func(a, b Lost) int {
		return cmp.Or(cmp.Compare(b.Uses, a.Uses), cmp.Compare(b.Newest, a.Newest), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return out
}
