package contexts

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/render"
)

// Two contexts that go on from one, and one that ends before it, have lists of their own: what the first adds is in no
// other's.
func TestContextsThatGoOnFromOneKeepTheirLists(t *testing.T) {
	first := named("a", "b", "c")
	kept := first.json
	long := goOn(new(rendered), first, 0)
	var all []*rendered
	var allNames [][]string
	for _, names := range [][]string{{"a", "b", "c", "d", "e"}, {"a", "b", "c", "x"}, {"a", "b", "y"}, {"a", "b", "c"}, {"a", "b", "c", "z"}} {
		c := named(names...)
		n := 0
		for n < min(len(names), 3) && names[n] == []string{"a", "b", "c"}[n] {
			c.json[n] = kept[n] // the same memory
			n++
		}
		next := goOn(long, c, n)
		all, allNames = append(all, next), append(allNames, names)
		if twice := goOn(next, named(append(names, "more")...), 0); twice.fingerprint() == next.fingerprint() {
			t.Errorf("%v and one more have one fingerprint", names)
		}
	}
	checkRendered(t, long, []string{"a", "b", "c"})
	for i := range all {
		checkRendered(t, all[i], allNames[i])
	}
}

// Contexts that are read at once go on from one, and some of them have one list more than others
// to go on with: the format joins messages, so that fewer are of its own.
func TestContextsThatGoOnFromOneAtOnceKeepTheirLists(t *testing.T) {
	first := named("a", "b", "c")
	long := goOn(new(rendered), first, 0)
	var wg sync.WaitGroup
	for w := range 12 {
		wg.Go(func() {
			names := []string{"a", "b", "c", fmt.Sprint(w), "end"}[:3+w%3]
			to := named(names...)
			copy(to.json, first.json[:3-w%2]) // the same memory
			next := goOn(long, to, 3)
			checkRendered(t, next, names)
			checkRendered(t, goOn(next, to, len(names)), names)
			checkRendered(t, long, []string{"a", "b", "c"})
		})
	}
	wg.Wait()
}

func named(names ...string) *rendered {
	r := new(rendered)
	for _, name := range names {
		r.messages = append(r.messages, turns.TextMessage(turns.User, name))
		r.json = append(r.json, jsontext.Value(fmt.Sprintf("%q", name)))
	}
	return r
}

func goOn(from, to *rendered, n int) *rendered {
	return from.after(to.messages, n, &render.Rendered{Messages: to.json})
}

func checkRendered(t *testing.T, r *rendered, names []string) {
	t.Helper()
	want := named(names...)
	f := view.Context{Messages: want.messages}.Fingerprint()
	if r.fingerprint().String() != f || len(r.fingerprints.Items()) != len(names) {
		t.Errorf("%v: %d fingerprints, the last %s, not %s", names, len(r.fingerprints.Items()), r.fingerprint(), f)
	}
	var shown []string
	for i, s := range r.shown.Items() {
		shown = append(shown, string(s))
		if h := sha256.Sum256(s); !slices.Equal(r.sums.Items()[i][:], h[:len(messageSum{})]) {
			t.Errorf("%v: the digest of message %d is another's", names, i)
		}
	}
	for i := range want.json {
		if len(shown) != len(names) || shown[i] != string(want.json[i]) {
			t.Errorf("%v are shown as %q", names, shown)
			return
		}
	}
}
