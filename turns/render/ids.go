package render

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"nexus/turns"
)

// wireIDs assigns calls the ids that a provider sees: their own if the provider accepts
// it and no earlier call of the request has it, else one derived from it. Ids come from
// many providers and repeat (functions.eval:301 in two messages), and every provider
// refuses some of them.
type wireIDs struct {
	fits    func(id string) bool
	layers  []idLayer // the oldest first; copies share them, and nobody changes them
	current idLayer   // what was assigned since
}

// idLayer is what was assigned for a while.
type idLayer struct {
	used map[string]bool
	next map[string]int // how often an id was derived: the n-th repeat is found at once
}

// clone returns a copy. It copies no ids: those of w become a layer of both. Layers at least
// double in size from the newest to the oldest, so there are few.
func (w *wireIDs) clone() wireIDs {
	if len(w.current.used) > 0 {
		w.layers = append(slices.Clip(w.layers), w.current)
		w.current = idLayer{}
		for n := len(w.layers); n > 1 && 2*len(w.layers[n-1].used) > len(w.layers[n-2].used); n-- {
			w.layers = append(slices.Clip(w.layers[:n-2]), w.layers[n-2].with(w.layers[n-1]))
		}
	}
	return wireIDs{fits: w.fits, layers: slices.Clip(w.layers)}
}

// with returns a layer with what l has, and newer on top of it.
func (l idLayer) with(newer idLayer) idLayer {
	out := idLayer{maps.Clone(l.used), maps.Clone(l.next)}
	maps.Copy(out.used, newer.used)
	maps.Copy(out.next, newer.next)
	return out
}

func (w *wireIDs) isUsed(id string) bool {
	return w.current.used[id] || slices.ContainsFunc(w.layers, func(l idLayer) bool { return l.used[id] })
}

// derived returns how often an id was derived.
func (w *wireIDs) derived(id string) int {
	if n, ok := w.current.next[id]; ok {
		return n
	}
	for _, l := range slices.Backward(w.layers) {
		if n, ok := l.next[id]; ok {
			return n
		}
	}
	return 0
}

func (w *wireIDs) assign(calls []*turns.Part) []string {
	if w.current.used == nil {
		w.current = idLayer{make(map[string]bool), make(map[string]int)}
	}
	ids := make([]string, len(calls))
	for i, c := range calls {
		id := c.ID
		for !w.fits(id) || w.isUsed(id) {
			n := w.derived(c.ID)
			h := sha256.Sum256([]byte(strconv.Itoa(n) + "\x00" + c.ID))
			w.current.next[c.ID] = n + 1
			id = "call_" + hex.EncodeToString(h[:12])
		}
		w.current.used[id] = true
		ids[i] = id
	}
	return ids
}
