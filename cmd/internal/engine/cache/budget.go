package cache

import (
	"container/list"
	"sync"
)

// DefaultBytes is the budget of a daemon whose configuration states none.
const DefaultBytes = 256 << 20

// Budget bounds the memory of several caches together. When it is full, it drops the
// value that was used longest ago, whichever cache holds it. Safe for concurrent
// use.
//
// Invariant: the sizes of all kept values total at most Max.
type Budget struct {
	mu    sync.Mutex
	max   int
	size  int
	order list.List      // of *entry, used last first
	sizes map[string]int // bytes by name of the cache
	epoch uint64         // how often everything was dropped
}

// NewBudget returns a budget of limit bytes. 0 means [DefaultBytes].
func NewBudget(limit int) *Budget {
	if limit <= 0 {
		limit = DefaultBytes
	}
	return &Budget{max: limit, sizes: make(map[string]int)}
}

// Clear drops all values. A value that is made from content read before Clear is not
// kept after it, if its room calls [Cache.PutIn].
func (b *Budget) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.epoch++; b.order.Len() > 0; {
		b.remove(b.order.Back())
	}
}

// Max returns the bound on the memory of all caches together, in bytes.
func (b *Budget) Max() int { return b.max }

// Sizes returns the bytes that each cache keeps, by the name of the cache.
func (b *Budget) Sizes() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]int, len(b.sizes))
	for name, n := range b.sizes {
		out[name] = n
	}
	return out
}

// entry is a value of one of the caches. drop removes it from the map of that cache.
type entry struct {
	cache string
	size  int
	value any
	drop  func()
}

// remove drops an entry. The caller holds mu.
func (b *Budget) remove(el *list.Element) {
	x := b.order.Remove(el).(*entry)
	x.drop()
	b.size -= x.size
	b.sizes[x.cache] -= x.size
}

// Cache is one cache in a budget. Callers share its values and must not change them.
// Safe for concurrent use.
type Cache[K comparable, V any] struct {
	budget *Budget
	name   string
	items  map[K]*list.Element // guarded by budget.mu
}

// New returns an empty cache within a budget. Metrics show its size under name.
func New[K comparable, V any](b *Budget, name string) *Cache[K, V] {
	return &Cache[K, V]{budget: b, name: name, items: make(map[K]*list.Element)}
}

// Get returns the value of k, and whether the cache holds one.
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

// Drop drops the value of k.
func (c *Cache[K, V]) Drop(k K) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if el := c.items[k]; el != nil {
		c.budget.remove(el)
	}
}

// Epoch returns what [Cache.PutIn] compares. It changes with each [Budget.Clear].
func (c *Cache[K, V]) Epoch() uint64 {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.budget.epoch
}

// PutIn is Put, if no [Budget.Clear] came since Epoch returned epoch.
func (c *Cache[K, V]) PutIn(epoch uint64, k K, v V, size int) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if epoch == c.budget.epoch {
		c.insert(k, v, size)
	}
}

// Put keeps v, which takes size bytes, and drops the earlier value of k. It does not
// keep a value larger than a quarter of the budget, which would drive out everything
// else.
func (c *Cache[K, V]) Put(k K, v V, size int) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.insert(k, v, size)
}

// insert is Put. The caller holds mu.
func (c *Cache[K, V]) insert(k K, v V, size int) {
	b := c.budget
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
