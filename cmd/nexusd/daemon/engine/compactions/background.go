package compactions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"nexus/cmd/nexusd/daemon/engine/reader"
	"nexus/cmd/nexusd/daemon/engine/writer"
	"nexus/compactor"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// background makes compactions that no request waits for. What is queued is
// remembered by nobody else: a daemon that dies forgets it, and the next request
// for the session's context finds it due and queues it again.
//
// Invariant: mu is locked by [Compactions.lockQueue] alone, and guards every change. What an
// append looks up, jobs and vain, is read without it.
type background struct {
	mu           sync.Mutex
	workers      int
	queue        chan *job
	jobs         sync.Map         // session → *job, queued or being made
	agents       map[string]int   // jobs of an agent
	failedJobs   map[jobName]*job // for a while, so that who asked is told
	backoffs     sync.Map         // session → strikes, while it has any
	backoffCount int              // sessions in vain
}

// jobName is a job that a request named.
type jobName struct{ session, id turns.ID }

// job is one compaction to make.
type job struct {
	caller      reader.Caller
	session     turns.ID
	spec        Spec
	maxFailures uint64        // in a row, after which it is not tried again at once
	done        chan struct{} // closed when the rest is set
	ref         turns.Ref
	err         error
	ended       time.Time
}

func (j *job) name() jobName { return jobName{j.session, j.spec.Request.ID} }

const (
	// maxBackground is how many sessions may wait for a compaction.
	maxBackground = 1024
	// maxOfAgent is how many sessions of one agent may, so that it does not keep
	// those of others waiting for long.
	maxPerAgent = 64
	// backgroundTimeout ends one compaction in the background.
	backgroundTimeout = 10 * time.Minute
	// failedFor is how long a failure is remembered for who asks about it.
	FailureTTL = 10 * time.Minute
)

// lockQueue is the one way to the compactor's lock, and to the queue and the workers'
// places behind it. Whoever is there on behalf of an append is counted: none may be.
func (cm *Compactions) lockQueue(ctx context.Context) (leave func()) {
	cm.countAppend(ctx)
	cm.background.mu.Lock()
	return cm.background.mu.Unlock
}

// countAppend counts what is taken of the compactor on behalf of an append.
func (cm *Compactions) countAppend(ctx context.Context) {
	if ctx.Value(appendKey{}) != nil {
		cm.writer.Metrics.HeldByAppend()
	}
}

type appendKey struct{}

// MarkAppend marks what is done on behalf of an append.
func MarkAppend(ctx context.Context) context.Context {
	return context.WithValue(ctx, appendKey{}, true)
}

// Work makes compactions in the background, one at a time, until ctx ends. Any
// number of goroutines may run it.
func (cm *Compactions) Work(ctx context.Context) {
	b := &cm.background
	leave := cm.lockQueue(ctx)
	if b.queue == nil {
		b.queue = make(chan *job, maxBackground)
		b.agents, b.failedJobs = make(map[string]int), make(map[jobName]*job)
	}
	b.workers++
	leave()
	defer func() {
		leave := cm.lockQueue(ctx)
		b.workers--
		leave()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-b.queue:
			cm.runJob(ctx, j)
		}
	}
}

func (cm *Compactions) runJob(daemon context.Context, j *job) {
	ctx, cancel := context.WithTimeout(daemon, backgroundTimeout)
	defer cancel()
	ctx, end := cm.paths.MeterRequest(ctx)
	defer end()
	head := turns.ID{}
	if s, err := cm.reader.Projections.Session(j.session); err == nil {
		head = s.Head.Turn
	}
	j.ref, j.err = cm.attempt(ctx, j)
	ended := daemon.Err() != nil // a model that hangs has failed
	b := &cm.background
	leave := cm.lockQueue(ctx)
	j.ended = cm.reader.Now()
	b.jobs.Delete(j.session)
	if b.agents[j.caller.Actor()]--; b.agents[j.caller.Actor()] == 0 {
		delete(b.agents, j.caller.Actor())
	}
	if j.err != nil && !j.spec.Request.ID.IsZero() {
		b.remember(j)
	}
	paused := false
	switch nothing := errors.Is(j.err, api.ErrNothing); {
	case j.err == nil:
		b.clearBackoff(j.session)
	case nothing && j.spec.ifDue:
		paused = b.setBackoff(j.session, backoff{head: head, nothingToGain: true})
	case j.spec.ifDue && !ended:
		paused = b.setBackoff(j.session, b.nextBackoff(j, head))
	}
	close(j.done) // before anybody can look for it in vain
	leave()
	if paused {
		cm.writer.Announce(j.caller, j.session, "compaction.paused", turns.ID{}, "", nil)
	}
	if j.err != nil && !errors.Is(j.err, api.ErrNothing) && !ended && cm.writer.Logger != nil {
		cm.writer.Logger.Warn("a compaction in the background failed", "session", j.session, "code", api.FromError(j.err).Code)
	}
}

// Jobs is how many workers wait for jobs in the background, and how many jobs are
// queued or run.
func (cm *Compactions) Jobs() (workers, jobs int) {
	b := &cm.background
	leave := cm.lockQueue(context.Background())
	defer leave()
	for _, n := range b.agents {
		jobs += n
	}
	return b.workers, jobs
}

const (
	MinBackoff = 30 * time.Second
	MaxBackoff = 10 * time.Minute
)

// attempt makes a compaction. A defect in a summarizer, or in planning, ends
// this one and not the daemon.
func (cm *Compactions) attempt(ctx context.Context, j *job) (ref turns.Ref, err error) {
	defer func() {
		if p := recover(); p != nil {
			ref, err = turns.Ref{}, api.ErrInternal
			if cm.writer.Logger != nil { // the stack names code, never content
				cm.writer.Logger.Error("a defect", "session", j.session, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			}
		}
	}()
	return cm.Run(ctx, j.caller, j.session, j.spec)
}

// remember keeps a job that failed. b.mu is held.
func (b *background) remember(j *job) {
	var oldest *job
	for name, f := range b.failedJobs {
		if j.ended.Sub(f.ended) > FailureTTL {
			delete(b.failedJobs, name)
		} else if oldest == nil || f.ended.Before(oldest.ended) {
			oldest = f
		}
	}
	if len(b.failedJobs) >= maxBackground {
		delete(b.failedJobs, oldest.name())
	}
	b.failedJobs[j.name()] = j
}

// prepare queues the compaction that is due at a session's head: it is that, or
// the one that is queued or being made already. It never waits. Without workers,
// with a full queue, or where it was tried in vain ([backoff]), it is nil. It may
// fail so many times in a row before it has to wait.
func (cm *Compactions) prepare(ctx context.Context, c reader.Caller, id, head turns.ID, strikes uint64) *job {
	if cm.IsBackedOff(id, head) {
		return nil
	}
	j, _ := cm.enqueue(ctx, c, id, Spec{Request: writer.Request{Verb: "compaction.run"}, ifDue: true}, strikes)
	return j
}

// enqueue queues a compaction. Where one of the session is under way it is that,
// and own is false. nil: there are no workers, or no room.
func (cm *Compactions) enqueue(ctx context.Context, c reader.Caller, id turns.ID, k Spec, strikes uint64) (j *job, own bool) {
	defer cm.lockQueue(ctx)()
	b := &cm.background
	if j := b.runningJob(id); j != nil {
		return j, false
	}
	if b.workers == 0 || b.agents[c.Actor()] >= maxPerAgent {
		return nil, false
	}
	j = &job{caller: c, session: id, spec: k, maxFailures: strikes, done: make(chan struct{})}
	select {
	case b.queue <- j:
		b.jobs.Store(id, j)
		b.agents[c.Actor()]++
		return j, true
	default:
		return nil, false
	}
}

// runningJob is the job of a session that is queued or being made; nil: none.
func (b *background) runningJob(id turns.ID) *job {
	j, _ := b.jobs.Load(id)
	of, _ := j.(*job)
	return of
}

// IsPreparing reports whether a compaction of a session is queued or being made.
func (cm *Compactions) IsPreparing(id turns.ID) bool { return cm.background.runningJob(id) != nil }

// hasModelTier reports whether a compaction would ask anybody: then no request
// waits for it unless it says how long.
func (cm *Compactions) hasModelTier() bool {
	return len(LocalTiers(cm.paths.Tiers)) < len(cm.paths.Tiers)
}

// LocalTiers is the tiers that ask nobody: what a request may wait for.
func LocalTiers(tiers []compactor.Tier) (out []compactor.Tier) {
	for _, t := range tiers {
		if t.Local {
			out = append(out, t)
		}
	}
	return out
}

// findRun is the job that the same request began: under way, or failed not
// long ago; nil: none. The same id with another request is [ledger.ErrIDReused].
func (cm *Compactions) findRun(ctx context.Context, session turns.ID, r writer.Request) (*job, error) {
	defer cm.lockQueue(ctx)()
	b := &cm.background
	name := jobName{session, r.ID}
	j := b.runningJob(session)
	if j == nil || j.name() != name {
		j = b.failedJobs[name]
	}
	switch {
	case j == nil || (!j.ended.IsZero() && cm.reader.Now().Sub(j.ended) > FailureTTL):
		return nil, nil
	case j.spec.Request.Verb != r.Verb || !bytes.Equal(j.spec.Request.Canonical, r.Canonical):
		return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is that of another request", r.ID)}
	}
	return j, nil
}

// enqueueRun has a compaction made by a worker.
func (cm *Compactions) enqueueRun(ctx context.Context, c reader.Caller, session turns.ID, k Spec) (*job, error) {
	j, own := cm.enqueue(ctx, c, session, k, 0)
	if own {
		return j, nil
	}
	busy := &api.Error{Code: api.Busy, Message: "no worker has room for a compaction", Details: map[string]any{"retry_after_ms": 500}}
	if j != nil {
		if same, err := cm.findRun(ctx, session, k.Request); same != nil || err != nil {
			return same, err
		}
		busy.Message = "a compaction of this session is under way"
	}
	return nil, busy
}

// await waits for a job as long as the request says. The zero Ref: it is still
// under way then. A failure that may be none the next time is told once; the
// same request after that tries again.
func (cm *Compactions) await(ctx context.Context, j *job, most time.Duration) (turns.Ref, error) {
	if !j.wait(ctx, most) {
		return turns.Ref{}, nil
	}
	if errors.Is(j.err, ledger.ErrUnavailable) || errors.Is(j.err, ledger.ErrIndeterminate) {
		leave := cm.lockQueue(ctx)
		delete(cm.background.failedJobs, j.name())
		leave()
	}
	return j.ref, j.err
}

// wait waits for a job at most so long, and reports whether it has ended.
func (j *job) wait(ctx context.Context, most time.Duration) bool {
	select {
	case <-j.done:
		return true
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-j.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// maxWait is the longest that a request waits for a model.
const maxWait = 25 * time.Second

// WaitDuration is how long a request waits that says wait_ms.
func WaitDuration(ms int) time.Duration {
	return time.Duration(min(max(ms, 0), int(maxWait/time.Millisecond))) * time.Millisecond
}
