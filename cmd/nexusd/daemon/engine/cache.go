package engine

import (
	"container/list"
	"sync"
)

// cacheBytes is how much a cache keeps.
const cacheBytes = 64 << 20

// cache keeps the values used last, up to [cacheBytes]. They are shared with
// who gets them, and not to be changed. Safe for concurrent use.
type cache[K comparable, V any] struct {
	mu    sync.Mutex
	size  int
	order list.List // of *cached, newest first
	items map[K]*list.Element
}

type cached[K comparable, V any] struct {
	key   K
	value V
	size  int
}

func (c *cache[K, V]) get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.items[k]
	if el == nil {
		return v, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*cached[K, V]).value, true
}

// put keeps v of so many bytes in place of what k had; one that is larger than
// the whole cache is not kept.
func (c *cache[K, V]) put(k K, v V, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.items[k]; el != nil {
		c.drop(el)
	}
	if size > cacheBytes {
		return
	}
	if c.items == nil {
		c.items = make(map[K]*list.Element)
	}
	c.items[k] = c.order.PushFront(&cached[K, V]{k, v, size})
	for c.size += size; c.size > cacheBytes; {
		c.drop(c.order.Back())
	}
}

func (c *cache[K, V]) drop(el *list.Element) {
	x := c.order.Remove(el).(*cached[K, V])
	delete(c.items, x.key)
	c.size -= x.size
}
