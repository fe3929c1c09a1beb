package embed

import (
	"container/heap"
	"maps"
)

// lane is a bound on what is unseen, and those that wait for room in it. The fields are
// guarded by flow.mu.
type lane struct {
	max, unseen int
	each        int // bound of one share; 0: none
	marked      int // of unseen: sent before the probe that is on its way
	shares      map[string]*share
	queue       shares // those with a waiter, within their bound
	waiters     int
	queued      int    // shares that were put into the queue so far
	virtual     uint64 // tag of the share whose waiter got room last
}

// share is an agent's part of a lane.
type share struct {
	tag            uint64 // what it has got, in virtual time
	virtual        uint64 // tag of its waiter that got room last
	unseen, marked int    // as of the lane; 0 if the lane bounds no share
	slow           bool   // nothing passes: the service refused its messages
	waiting        waiters
	queued         bool
	seq            int // of its place in the queue
}

// waiter waits for room of n.
type waiter struct {
	tag uint64
	seq int
	n   int
	ok  chan struct{}
}

// maxShares bounds the shares that are remembered while they have nothing in the lane. A
// client chooses the names of agents.
const maxShares = 4096

// share returns the share of a name.
func (l *lane) share(name string) *share {
	sh := l.shares[name]
	if sh == nil {
		if len(l.shares) >= maxShares {
			maps.DeleteFunc(l.shares, func(_ string, sh *share) bool { return !sh.slow && sh.unseen == 0 && len(sh.waiting) == 0 })
		}
		if l.shares == nil {
			l.shares = make(map[string]*share)
		}
		sh = new(share)
		l.shares[name] = sh
	}
	return sh
}

func (l *lane) fits(n int) bool { return l.unseen == 0 || l.unseen+n <= l.max }

func (l *lane) fitsShare(sh *share, n int) bool {
	return !sh.slow && (l.each == 0 || sh.unseen == 0 || sh.unseen+n <= l.each)
}

// pass notes that a share got room for n.
func (l *lane) pass(sh *share, n int) {
	sh.tag = max(sh.tag, l.virtual) + uint64(n)
	l.unseen += n
	if l.each > 0 {
		sh.unseen += n
	}
}

// add lets w wait.
func (l *lane) add(sh *share, w *waiter) {
	heap.Push(&sh.waiting, w)
	l.waiters++
	l.enqueue(sh)
}

// enqueue puts a share into the queue if one of its waiters can have room.
func (l *lane) enqueue(sh *share) {
	if !sh.queued && len(sh.waiting) > 0 && l.fitsShare(sh, sh.waiting[0].n) {
		sh.queued, sh.tag, sh.seq = true, max(sh.tag, l.virtual), l.queued
		l.queued++
		heap.Push(&l.queue, sh)
	}
}

// grant gives room to those that wait: the share that has got least is next, and of its
// waiters the one that has got least.
func (l *lane) grant() {
	for len(l.queue) > 0 {
		sh := l.queue[0]
		fits := l.fitsShare(sh, sh.waiting[0].n)
		if fits && !l.fits(sh.waiting[0].n) {
			return
		}
		heap.Pop(&l.queue)
		if sh.queued = false; !fits {
			continue
		}
		w := heap.Pop(&sh.waiting).(*waiter)
		l.waiters--
		l.virtual = max(l.virtual, sh.tag)
		l.pass(sh, w.n)
		sh.virtual = w.tag
		close(w.ok)
		l.enqueue(sh)
	}
}

// mark notes what a probe that begins now will show as seen.
func (l *lane) mark() {
	l.marked = l.unseen
	for _, sh := range l.shares {
		sh.marked = sh.unseen
	}
}

// removeMarked takes off what was marked.
func (l *lane) removeMarked() {
	l.unseen -= min(l.marked, l.unseen)
	for _, sh := range l.shares {
		sh.unseen -= min(sh.marked, sh.unseen)
		sh.marked = 0
		l.enqueue(sh)
	}
}

// clear gives room to all that wait, and forgets what is unseen.
func (l *lane) clear() {
	for _, sh := range l.shares {
		for len(sh.waiting) > 0 {
			close(heap.Pop(&sh.waiting).(*waiter).ok)
		}
	}
	*l = lane{max: l.max, each: l.each}
}

type waiters []*waiter

func (w waiters) Len() int { return len(w) }
func (w waiters) Less(i, j int) bool {
	return w[i].tag < w[j].tag || w[i].tag == w[j].tag && w[i].seq < w[j].seq
}
func (w waiters) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *waiters) Push(x any)   { *w = append(*w, x.(*waiter)) }
func (w *waiters) Pop() any     { return pop((*[]*waiter)(w)) }

// shares are ordered by what they have got.
type shares []*share

func (s shares) Len() int { return len(s) }
func (s shares) Less(i, j int) bool {
	return s[i].tag < s[j].tag || s[i].tag == s[j].tag && s[i].seq < s[j].seq
}
func (s shares) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *shares) Push(x any)   { *s = append(*s, x.(*share)) }
func (s *shares) Pop() any     { return pop((*[]*share)(s)) }

func pop[T any](list *[]*T) *T {
	old := *list
	x := old[len(old)-1]
	old[len(old)-1], *list = nil, old[:len(old)-1]
	return x
}
