package seal

import "nexus/turns"

// cachedKeys is how many keys a Store keeps in memory: about 7 MiB.
const cachedKeys = 1 << 16

// sampled is how many keys an eviction chooses from.
const sampled = 4

// keyCache holds what is known of the keys used last. Over its bound, the key of a few
// random ones that was used longest ago leaves. A walk over all sessions so drops few of
// the keys that are in use, and a walk over a few more keys than there is room for, again
// and again, finds most of them: an exact order of use would find none.
type keyCache struct {
	max   int
	clock uint64 // one tick a use
	byID  map[turns.ID]*cached
}

// cached is what is known of a key. Durable: written or synced by this process.
type cached struct {
	key     Key
	durable bool
	erased  bool
	used    uint64 // by the clock
}

func newKeyCache(max int) *keyCache {
	return &keyCache{max: max, byID: make(map[turns.ID]*cached)}
}

// get returns what is known of id, and false if nothing is.
func (kc *keyCache) get(id turns.ID) (cached, bool) {
	c := kc.byID[id]
	if c == nil {
		return cached{}, false
	}
	kc.clock++
	c.used = kc.clock
	return *c, true
}

// put notes what is known of id.
func (kc *keyCache) put(id turns.ID, c cached) {
	if _, there := kc.byID[id]; !there && len(kc.byID) >= kc.max {
		kc.evict()
	}
	kc.clock++
	c.used = kc.clock
	kc.byID[id] = &c
}

func (kc *keyCache) drop(id turns.ID) { delete(kc.byID, id) }
func (kc *keyCache) clear()           { clear(kc.byID) }

// evict drops one key.
func (kc *keyCache) evict() {
	var oldest turns.ID
	var least uint64
	n := 0
	for id, c := range kc.byID { // from a random key on
		if n == 0 || c.used < least {
			oldest, least = id, c.used
		}
		if n++; n == sampled {
			break
		}
	}
	delete(kc.byID, oldest)
}
