package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"nexus/compactor"
	"nexus/ledger"
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
	agents  map[string]int        // jobs of an agent
	failed  map[jobName]*job      // for a while, so that who asked is told
	vain    map[turns.ID]turns.ID // session → head at which there was nothing to gain
}

// jobName is a job that a request named.
type jobName struct{ session, id turns.ID }

// job is one compaction to make.
type job struct {
	caller  Caller
	session turns.ID
	what    compaction
	done    chan struct{} // closed when the rest is set
	ref     turns.Ref
	err     error
	ended   time.Time
}

func (j *job) name() jobName { return jobName{j.session, j.what.request.id} }

const (
	// maxBackground is how many sessions may wait for a compaction.
	maxBackground = 1024
	// maxOfAgent is how many sessions of one agent may, so that it does not keep
	// those of others waiting for long.
	maxOfAgent = 64
	// backgroundTimeout ends one compaction in the background.
	backgroundTimeout = 10 * time.Minute
	// failedFor is how long a failure is remembered for who asks about it.
	failedFor = 10 * time.Minute
)

// Work makes compactions in the background, one at a time, until ctx ends. Any
// number of goroutines may run it.
func (e *Engine) Work(ctx context.Context) {
	b := &e.background
	b.mu.Lock()
	if b.queue == nil {
		b.queue = make(chan *job, maxBackground)
		b.jobs, b.agents, b.failed = make(map[turns.ID]*job), make(map[string]int), make(map[jobName]*job)
		b.vain = make(map[turns.ID]turns.ID)
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
	ctx, end := e.Begin(ctx)
	defer end()
	head := turns.ID{}
	if s, err := e.Store.Session(j.session); err == nil {
		head = s.Head.Turn
	}
	j.ref, j.err = e.attempt(ctx, j)
	b := &e.background
	b.mu.Lock()
	j.ended = e.Now()
	delete(b.jobs, j.session)
	if b.agents[j.caller.actor()]--; b.agents[j.caller.actor()] == 0 {
		delete(b.agents, j.caller.actor())
	}
	if j.err != nil && !j.what.request.id.IsZero() {
		b.remember(j)
	}
	b.mu.Unlock()
	if errors.Is(j.err, api.ErrNothing) && j.what.ifDue {
		e.pause(j.caller, j.session, head)
	}
	close(j.done)
	if j.err != nil && !errors.Is(j.err, api.ErrNothing) && ctx.Err() == nil && e.Logger != nil {
		e.Logger.Warn("a compaction in the background failed", "session", j.session, "code", api.FromError(j.err).Code)
	}
}

// pause notes that a compaction which is due at a head gains nothing there, and
// tells so once: until the head moves, no other is tried in the background.
func (e *Engine) pause(c Caller, session, head turns.ID) {
	b := &e.background
	b.mu.Lock()
	if b.vain == nil || len(b.vain) >= maxIdle {
		b.vain = make(map[turns.ID]turns.ID)
	}
	known := b.vain[session] == head
	b.vain[session] = head
	b.mu.Unlock()
	if !known {
		e.notify(c, session, "compaction.paused", turns.ID{}, "", nil)
	}
}

// attempt makes a compaction. A defect in a summarizer, or in planning, ends
// this one and not the daemon.
func (e *Engine) attempt(ctx context.Context, j *job) (ref turns.Ref, err error) {
	defer func() {
		if p := recover(); p != nil {
			ref, err = turns.Ref{}, api.ErrInternal
			if e.Logger != nil { // the stack names code, never content
				e.Logger.Error("a defect", "session", j.session, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			}
		}
	}()
	return e.compact(ctx, j.caller, j.session, j.what)
}

// remember keeps a job that failed. b.mu is held.
func (b *background) remember(j *job) {
	var oldest *job
	for name, f := range b.failed {
		if j.ended.Sub(f.ended) > failedFor {
			delete(b.failed, name)
		} else if oldest == nil || f.ended.Before(oldest.ended) {
			oldest = f
		}
	}
	if len(b.failed) >= maxBackground {
		delete(b.failed, oldest.name())
	}
	b.failed[j.name()] = j
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
	if b.workers == 0 || b.agents[c.actor()] >= maxOfAgent {
		return nil, false
	}
	j = &job{caller: c, session: id, what: k, done: make(chan struct{})}
	select {
	case b.queue <- j:
		b.jobs[id] = j
		b.agents[c.actor()]++
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

// requested is the job that the same request began: under way, or failed not
// long ago; nil: none. The same id with another request is [ledger.ErrIDReused].
func (e *Engine) requested(session turns.ID, r request) (*job, error) {
	b := &e.background
	b.mu.Lock()
	defer b.mu.Unlock()
	name := jobName{session, r.id}
	j := b.jobs[session]
	if j == nil || j.name() != name {
		j = b.failed[name]
	}
	switch {
	case j == nil || (!j.ended.IsZero() && e.Now().Sub(j.ended) > failedFor):
		return nil, nil
	case j.what.request.what != r.what || !bytes.Equal(j.what.request.canonical, r.canonical):
		return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is that of another request", r.id)}
	}
	return j, nil
}

// compactLater has a compaction made by a worker.
func (e *Engine) compactLater(c Caller, session turns.ID, k compaction) (*job, error) {
	j, own := e.queue(c, session, k)
	if own {
		return j, nil
	}
	busy := &api.Error{Code: api.Busy, Message: "no worker has room for a compaction", Details: map[string]any{"retry_after_ms": 500}}
	if j != nil {
		if same, err := e.requested(session, k.request); same != nil || err != nil {
			return same, err
		}
		busy.Message = "a compaction of this session is under way"
	}
	return nil, busy
}

// await waits for a job as long as the request says. The zero Ref: it is still
// under way then. A failure that may be none the next time is told once; the
// same request after that tries again.
func (e *Engine) await(ctx context.Context, j *job, wait time.Duration) (turns.Ref, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-j.done:
	default:
		select {
		case <-j.done:
		case <-timer.C:
			return turns.Ref{}, nil
		case <-ctx.Done():
			return turns.Ref{}, nil
		}
	}
	if errors.Is(j.err, ledger.ErrUnavailable) || errors.Is(j.err, ledger.ErrIndeterminate) {
		e.background.mu.Lock()
		delete(e.background.failed, j.name())
		e.background.mu.Unlock()
	}
	return j.ref, j.err
}
