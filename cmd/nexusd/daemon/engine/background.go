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
	queue   chan *job
	jobs    map[turns.ID]*job     // by session; queued or being made
	vain    map[turns.ID]turns.ID // session → head at which there was nothing to gain
}

// job is one compaction to make.
type job struct {
	caller  Caller
	session turns.ID
	what    compaction
	done    chan struct{} // closed when ref and err are set
	ref     turns.Ref
	err     error
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
		b.queue = make(chan *job, maxBackground)
		b.jobs, b.vain = make(map[turns.ID]*job), make(map[turns.ID]turns.ID)
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
		case j := <-b.queue:
			e.work(ctx, j)
		}
	}
}

func (e *Engine) work(ctx context.Context, j *job) {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	head := turns.ID{}
	if s, err := e.Store.Session(j.session); err == nil {
		head = s.Head.Turn
	}
	j.ref, j.err = e.compact(ctx, j.caller, j.session, j.what)
	b := &e.background
	b.mu.Lock()
	delete(b.jobs, j.session)
	if errors.Is(j.err, api.ErrNothing) {
		if len(b.vain) >= maxIdle {
			clear(b.vain)
		}
		b.vain[j.session] = head
	}
	b.mu.Unlock()
	close(j.done)
	if j.err != nil && !errors.Is(j.err, api.ErrNothing) && ctx.Err() == nil && e.Logger != nil {
		e.Logger.Warn("a compaction in the background failed", "session", j.session, "code", api.FromError(j.err).Code)
	}
}

// prepare queues the compaction that is due at a session's head, and reports
// whether one is queued or being made. It never waits. Without workers, with a
// full queue, or where there was nothing to gain at this head, it is none.
func (e *Engine) prepare(c Caller, id, head turns.ID) bool {
	e.background.mu.Lock()
	vain, known := e.background.vain[id]
	e.background.mu.Unlock()
	if known && vain == head {
		return false
	}
	j, _ := e.queue(c, id, compaction{request: request{what: "compaction.run"}, ifDue: true})
	return j != nil
}

// queue queues a compaction. Where one of the session is under way it is that,
// and own is false. nil: there are no workers, or no room.
func (e *Engine) queue(c Caller, id turns.ID, k compaction) (j *job, own bool) {
	b := &e.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[id]; j != nil {
		return j, false
	}
	if b.workers == 0 {
		return nil, false
	}
	j = &job{caller: c, session: id, what: k, done: make(chan struct{})}
	select {
	case b.queue <- j:
		b.jobs[id] = j
		delete(b.vain, id)
		return j, true
	default:
		return nil, false
	}
}

// dueState is the state of a compaction that is due at a head: paused where it
// was tried there, and nothing could be gained.
func (e *Engine) dueState(id, head turns.ID) string {
	e.background.mu.Lock()
	defer e.background.mu.Unlock()
	if vain, known := e.background.vain[id]; known && vain == head {
		return "paused"
	}
	return "due"
}

// preparing reports whether a compaction of a session is queued or being made.
func (e *Engine) preparing(id turns.ID) bool {
	e.background.mu.Lock()
	defer e.background.mu.Unlock()
	return e.background.jobs[id] != nil
}

// asksModel reports whether a compaction would ask anybody: then no request
// waits for it unless it says how long.
func (e *Engine) asksModel() bool { return len(local(e.Tiers)) < len(e.Tiers) }

// local is the tiers that ask nobody: what a request may wait for.
func local(tiers []compactor.Tier) (out []compactor.Tier) {
	for _, t := range tiers {
		if t.Local {
			out = append(out, t)
		}
	}
	return out
}

// compactLater has a compaction made by a worker, and waits for it as long as
// the request says. done is false where it is still under way then.
func (e *Engine) compactLater(ctx context.Context, c Caller, session turns.ID, k compaction, wait time.Duration) (ref turns.Ref, done bool, err error) {
	j, own := e.queue(c, session, k)
	if j == nil {
		return ref, false, &api.Error{Code: api.Busy, Message: "no worker has room for a compaction", Details: map[string]any{"retry_after_ms": 500}}
	}
	if !own && j.what.request.id != k.request.id {
		return ref, false, &api.Error{Code: api.Busy, Message: "a compaction of this session is under way", Details: map[string]any{"retry_after_ms": 500}}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-j.done:
		return j.ref, true, j.err
	case <-timer.C:
		return ref, false, nil
	case <-ctx.Done():
		return ref, false, nil
	}
}
