package outage

import (
	"maps"
	"slices"
	"sync"
)

// maxEnds is how many positions Ends holds before it looks which are applied.
const maxEnds = 4096

// Ends knows what was acknowledged of each chain of a log to which nobody else
// appends, so that a read need not ask the log where its chain ends. It holds what the
// projections may lack: an append is put here before its caller is answered, and stays at
// least until the projections have applied it.
//
// Crash states: none; a start applies the whole log before anybody appends. Projections that
// are made again, or opened with less than they had, are behind floor until they have all of
// it, and until then nothing is known.
//
// Safe for concurrent use.
type Ends struct {
	applied func() uint64 // the position that the projections have
	mu      sync.Mutex
	ends    map[string]uint64 // by subject
	floor   uint64            // no record that was acknowledged and is not in ends is behind it
	last    uint64            // the greatest position that was added
}

// NewEnds returns the ends of the chains of a log whose last record is at last, for
// projections that have applied what applied returns.
func NewEnds(applied func() uint64, last uint64) *Ends {
	return &Ends{applied: applied, ends: make(map[string]uint64), floor: last}
}

// add notes that a record of subject was stored at seq.
func (c *Ends) add(subject string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[subject], c.last = max(c.ends[subject], seq), max(c.last, seq)
	if len(c.ends) < maxEnds {
		return
	}
	c.forget(c.applied())
	if len(c.ends) > maxEnds/2 { // the projections are far behind: reads ask the log
		c.forget(slices.Max(slices.Collect(maps.Values(c.ends))))
	}
}

// forget drops the ends that are not behind a position.
func (c *Ends) forget(seq uint64) {
	maps.DeleteFunc(c.ends, func(_ string, end uint64) bool { return end <= seq })
	c.floor = max(c.floor, seq)
}

// End returns a position such that projections that have applied it have all that was
// acknowledged of subject before the call. It reports false if it does not know one.
func (c *Ends) End(subject string) (seq uint64, ok bool) {
	c.mu.Lock()
	seq, floor := c.ends[subject], c.floor
	c.mu.Unlock()
	return seq, c.applied() >= floor
}

// All is [Ends.End] for all subjects at once.
func (c *Ends) All() (seq uint64, ok bool) {
	c.mu.Lock()
	seq, floor := c.last, c.floor
	c.mu.Unlock()
	return seq, c.applied() >= floor
}
