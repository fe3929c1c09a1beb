package cache

import (
	"container/list"
	"sync"
)

// DefaultBytes is the budget of a daemon that configures none.
const DefaultBytes = 256 << 20

// Budget bounds what several caches keep together: where it is full, the value
// that was used longest ago goes, whichever cache it is in. Safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	max   int
	size  int
	order list.List // of *entry, newest first
	sizes map[string]int
}

// NewBudget returns a budget of max bytes; 0: [DefaultBytes].
func NewBudget(max int) *Budget {
	if max <= 0 {
		max = DefaultBytes
	}
	return &Budget{max: max, sizes: make(map[string]int)}
}

// Max is the most bytes that the caches keep.
func (b *Budget) Max() int { return b.max }

// Sizes yields the bytes that each cache keeps, by its name.
func (b *Budget) Sizes() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]int, len(b.sizes))
	for name, n := range b.sizes {
		out[name] = n
	}
	return out
}

// entry is a value of any cache. Its cache forgets it by drop.
type entry struct {
	cache string
	size  int
	value any
	drop  func()
}

// remove takes an entry out. The caller holds mu.
func (b *Budget) remove(el *list.Element) {
	x := b.order.Remove(el).(*entry)
	x.drop()
	b.size -= x.size
	b.sizes[x.cache] -= x.size
}

// Cache is one cache in a budget. Its values are shared with who gets them, and
// not to be changed. Safe for concurrent use.
type Cache[K comparable, V any] struct {
	budget *Budget
	name   string
	items  map[K]*list.Element // guarded by budget.mu
}

// New returns a cache within a budget. Its name is that of its size in metrics.
func New[K comparable, V any](b *Budget, name string) *Cache[K, V] {
	return &Cache[K, V]{budget: b, name: name, items: make(map[K]*list.Element)}
}

// Get returns the value of k, and whether there is one.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	el := c.items[k]
	if el == nil {
		return v, false
	}
	c.budget.order.MoveToFront(el)
	return el.Value.(*entry).value.(V), true
}

// Put keeps v, of size bytes, in place of what k had. A value larger than a
// quarter of the budget is not kept: it would drive out everything else.
func (c *Cache[K, V]) Put(k K, v V, size int) {
	b := c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if el := c.items[k]; el != nil {
		b.remove(el)
	}
	if size > b.max/4 {
		return
	}
	c.items[k] = b.order.PushFront(&entry{cache: c.name, size: size, value: v, drop: func() { delete(c.items, k) }})
	b.sizes[c.name] += size
	for b.size += size; b.size > b.max; {
		b.remove(b.order.Back())
	}
}
