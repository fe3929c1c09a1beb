package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"nexus/compactor"
	"nexus/ledger/api"
	"nexus/turns"
)

// background makes compactions that no request waits for. What is queued is
// remembered by nobody else: a daemon that dies forgets it, and the next request
// for the session's context finds it due and queues it again.
type background struct {
	mu      sync.Mutex
	workers int
	queue   chan turns.ID
	jobs    map[turns.ID]Caller   // queued or being made
	vain    map[turns.ID]turns.ID // session → head at which there was nothing to gain
}

const (
	// maxBackground is how many sessions may wait for a compaction.
	maxBackground = 1024
	// backgroundTimeout ends one compaction in the background.
	backgroundTimeout = 10 * time.Minute
)

// Work makes compactions in the background, one at a time, until ctx ends. Any
// number of goroutines may run it.
func (e *Engine) Work(ctx context.Context) {
	b := &e.background
	b.mu.Lock()
	if b.queue == nil {
		b.queue = make(chan turns.ID, maxBackground)
		b.jobs, b.vain = make(map[turns.ID]Caller), make(map[turns.ID]turns.ID)
	}
	b.workers++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.workers--
		b.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-b.queue:
			e.work(ctx, id)
		}
	}
}

func (e *Engine) work(ctx context.Context, id turns.ID) {
	b := &e.background
	b.mu.Lock()
	c := b.jobs[id]
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	head := turns.ID{}
	if s, err := e.Store.Session(id); err == nil {
		head = s.Head.Turn
	}
	_, err := e.compact(ctx, c, id, compaction{request: request{what: "compaction.run"}, ifDue: true})
	b.mu.Lock()
	delete(b.jobs, id)
	if errors.Is(err, api.ErrNothing) {
		if len(b.vain) >= maxIdle {
			clear(b.vain)
		}
		b.vain[id] = head
	}
	b.mu.Unlock()
	if err != nil && !errors.Is(err, api.ErrNothing) && ctx.Err() == nil && e.Logger != nil {
		e.Logger.Warn("a compaction in the background failed", "session", id, "code", api.FromError(err).Code)
	}
}

// prepare queues a compaction of a session, and reports whether one is queued
// or being made. It never waits. Without workers, with a full queue, or where
// there was nothing to gain at this head, it is none.
func (e *Engine) prepare(c Caller, id, head turns.ID) bool {
	b := &e.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.jobs[id]; ok {
		return true
	}
	if b.workers == 0 || b.vain[id] == head {
		return false
	}
	select {
	case b.queue <- id:
		b.jobs[id] = c
		delete(b.vain, id)
		return true
	default:
		return false
	}
}

// preparing reports whether a compaction of a session is queued or being made.
func (e *Engine) preparing(id turns.ID) bool {
	e.background.mu.Lock()
	defer e.background.mu.Unlock()
	_, ok := e.background.jobs[id]
	return ok
}

// local is the tiers that ask nobody: what a request may wait for.
func local(tiers []compactor.Tier) (out []compactor.Tier) {
	for _, t := range tiers {
		if t.Local {
			out = append(out, t)
		}
	}
	return out
}
