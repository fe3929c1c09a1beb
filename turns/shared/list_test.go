package shared

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// The twin of a list is a copy of its items. Whatever goes on from whatever, where it began or
// behind, finished or given up, each list keeps its items.
func TestListsKeepTheirItems(t *testing.T) {
	type both struct {
		list *List[int]
		twin []int
	}
	rapid.Check(t, func(t *rapid.T) {
		all := []both{{list: new(List[int])}}
		for next := range rapid.IntRange(1, 40).Draw(t, "steps") {
			from := all[len(all)-1-rapid.IntRange(0, min(3, len(all)-1)).Draw(t, "from")]
			n := len(from.twin)
			if rapid.Bool().Draw(t, "cut") {
				n = rapid.IntRange(0, n).Draw(t, "n")
			}
			more := rapid.IntRange(0, 12).Draw(t, "more")
			items := from.list.First(n, n+rapid.IntRange(0, 12).Draw(t, "size")) // another than it will be
			twin := slices.Clone(from.twin[:n])
			for i := range more {
				items, twin = append(items, 100*next+i), append(twin, 100*next+i)
				items[len(items)-1]++ // what was appended may be changed
				twin[len(twin)-1]++
			}
			if rapid.IntRange(0, 4).Draw(t, "given up") > 0 {
				l := Of(items)
				all = append(all, both{&l, twin})
			}
			_ = append(from.list.Items(), -1) // a reader's own
		}
		for i, b := range all {
			if !slices.Equal(b.list.Items(), b.twin) {
				t.Fatalf("list %d of %d is %v, want %v", i, len(all), b.list.Items(), b.twin)
			}
		}
	})
}

// Of those who go on from one list at once, one has its room. Run with -race it also shows that
// none writes what another reads.
func TestListsGoOnFromOneAtOnce(t *testing.T) {
	l := Of(append(make([]int, 0, 64), 1, 2, 3))
	var wg sync.WaitGroup
	inPlace := make([]bool, 16)
	for w := range inPlace {
		wg.Go(func() {
			items := l.First(3, 8)
			inPlace[w] = &items[0] == &l.items[0]
			for range 5 {
				items = append(items, w)
			}
			if want := []int{1, 2, 3, w, w, w, w, w}; !slices.Equal(items, want) || !slices.Equal(l.Items(), want[:3]) {
				t.Errorf("%v go on from %v", items, l.Items())
			}
		})
	}
	wg.Wait()
	if inPlace = slices.DeleteFunc(inPlace, func(b bool) bool { return !b }); len(inPlace) != 1 {
		t.Errorf("%d of 16 lists have the room behind one", len(inPlace))
	}
}
