package cache_test

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"nexus/cmd/internal/engine/cache"
)

// total returns what all caches of a budget keep.
func total(b *cache.Budget) (n int) {
	for _, size := range b.Sizes() {
		n += size
	}
	return n
}

// The twin is a list of the kept values, used last first. Whatever is put and got in
// two caches, the budget keeps the values that the twin keeps.
func TestBudgetKeepsTheValuesUsedLastWithinItsBound(t *testing.T) {
	type kept struct{ cache, key, value, size int }
	rapid.Check(t, func(t *rapid.T) {
		const limit = 40
		b := cache.NewBudget(limit)
		caches := []*cache.Cache[int, int]{cache.New[int, int](b, "a"), cache.New[int, int](b, "b")}
		var twin []kept
		remove := func(c, k int) (found kept, ok bool) {
			for i, x := range twin {
				if x.cache == c && x.key == k {
					twin = append(twin[:i:i], twin[i+1:]...)
					return x, true
				}
			}
			return kept{}, false
		}
		for value := range rapid.IntRange(1, 60).Draw(t, "steps") {
			c, k := rapid.IntRange(0, 1).Draw(t, "cache"), rapid.IntRange(0, 5).Draw(t, "key")
			if rapid.Bool().Draw(t, "get") {
				got, ok := caches[c].Get(k)
				want, found := remove(c, k)
				if ok != found || got != want.value {
					t.Fatalf("Get(%d) of cache %d = %d, %v; want %d, %v", k, c, got, ok, want.value, found)
				}
				if found {
					twin = append([]kept{want}, twin...)
				}
				continue
			}
			size := rapid.IntRange(0, limit/4+2).Draw(t, "size")
			caches[c].Put(k, value, size)
			remove(c, k)
			if size <= limit/4 {
				twin = append([]kept{{c, k, value, size}}, twin...)
			}
			want := map[string]int{}
			sum := 0
			for i, x := range twin {
				if sum += x.size; sum > limit {
					twin = twin[:i]
					break
				}
				want["ab"[x.cache:x.cache+1]] += x.size
			}
			for _, name := range []string{"a", "b"} {
				if got := b.Sizes()[name]; got != want[name] {
					t.Fatalf("cache %s keeps %d bytes, want %d", name, got, want[name])
				}
			}
		}
	})
}

func TestBudgetOfZeroIsTheDefault(t *testing.T) {
	if got := cache.NewBudget(0).Max(); got != cache.DefaultBytes {
		t.Errorf("Max() = %d, want %d", got, cache.DefaultBytes)
	}
}

func TestPutDropsTheOldestValueOfAnyCache(t *testing.T) {
	b := cache.NewBudget(100)
	ids, names := cache.New[int, string](b, "ids"), cache.New[string, int](b, "names")
	ids.Put(1, "one", 25)
	for _, name := range []string{"a", "b", "c"} {
		names.Put(name, 0, 25)
	}
	ids.Get(1) // now names "a" is the oldest
	names.Put("d", 0, 25)
	if _, ok := names.Get("a"); ok {
		t.Error("the budget keeps the value that was used longest ago")
	}
	if v, ok := ids.Get(1); !ok || v != "one" {
		t.Errorf("Get(1) = %q, %v; a Get must count as a use", v, ok)
	}
	if got := total(b); got != 100 {
		t.Errorf("the caches keep %d bytes, want 100", got)
	}
}

func TestPutReplacesTheValueAndItsSize(t *testing.T) {
	b := cache.NewBudget(100)
	c := cache.New[string, int](b, "c")
	c.Put("k", 1, 20)
	c.Put("k", 2, 5)
	if v, ok := c.Get("k"); !ok || v != 2 {
		t.Errorf("Get = %d, %v; want 2", v, ok)
	}
	if got := total(b); got != 5 {
		t.Errorf("the cache keeps %d bytes, want 5", got)
	}
}

// A value over a quarter of the budget drives nothing out, and the earlier value of
// its key is gone, since it is out of date.
func TestPutRefusesAnOversizeValue(t *testing.T) {
	b := cache.NewBudget(100)
	c := cache.New[string, int](b, "c")
	c.Put("other", 1, 25)
	c.Put("k", 2, 10)
	c.Put("k", 3, 26)
	if v, ok := c.Get("k"); ok {
		t.Errorf("Get returns %d for a value that is too large to keep", v)
	}
	if _, ok := c.Get("other"); !ok || total(b) != 25 {
		t.Errorf("an oversize value drove another out; the cache keeps %d bytes", total(b))
	}
}

func TestGetOfAnUnknownKeyMisses(t *testing.T) {
	c := cache.New[string, *int](cache.NewBudget(100), "c")
	if v, ok := c.Get("k"); ok || v != nil {
		t.Errorf("Get = %v, %v; want a miss", v, ok)
	}
}

// Run with -race it also shows that nothing is read or written unguarded.
func TestBudgetHoldsUnderConcurrentUse(t *testing.T) {
	b := cache.NewBudget(1000)
	var g sync.WaitGroup
	for w := range 8 {
		c := cache.New[int, int](b, fmt.Sprint(w%3))
		g.Go(func() {
			for i := range 2000 {
				c.Put(i%50, i, i%300)
				if v, ok := c.Get(i % 50); ok && v%50 != i%50 {
					t.Errorf("Get(%d) = %d, which is the value of another key", i%50, v)
				}
				if n := total(b); n > b.Max() {
					t.Errorf("the caches keep %d bytes, over the bound of %d", n, b.Max())
				}
			}
		})
	}
	g.Wait()
}
