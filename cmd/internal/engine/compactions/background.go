package compactions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/compactor/policy"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// background makes compactions that no request waits for. Only memory holds the
// queue: a daemon that dies forgets it, and the next request for a session's context
// queues the compaction again.
//
// Invariant: only [Compactions.lockQueue] locks mu. mu guards every change.
// Appends read jobs and backoffs, without the lock.
type background struct {
	mu           sync.Mutex
	workers      int
	queue        chan *job
	jobs         sync.Map         // session → *job, queued or running
	agents       map[string]int   // number of jobs, by agent
	failedJobs   map[jobName]*job // kept for FailureTTL, for requests that ask how they ended
	backoffs     sync.Map         // session → backoff, while it has one
	backoffCount int              // number of sessions in backoffs
}

// jobName names the job of a request.
type jobName struct{ session, id turns.ID }

// job is one compaction to make.
type job struct {
	caller      reader.Caller
	session     turns.ID
	spec        Spec
	maxFailures uint64        // failures in a row after which the next try waits
	done        chan struct{} // closed when the fields below are set
	ref         turns.Ref
	err         error
	ended       time.Time
}

// name returns the name of the request that the job serves.
func (j *job) name() jobName { return jobName{j.session, j.spec.Request.ID} }

const (
	// maxBackground bounds the sessions that wait for a compaction.
	maxBackground = 1024
	// maxPerAgent bounds those of one agent, so that it does not delay other agents
	// for long.
	maxPerAgent = 64
	// backgroundTimeout ends one compaction in the background.
	backgroundTimeout = 10 * time.Minute
	// FailureTTL is how long a failure is remembered for requests that ask for it.
	FailureTTL = 10 * time.Minute
)

// lockQueue is the only way to the compactor's lock, and so to the queue and the
// workers. It counts callers that act for an append: there must be none.
func (cm *Compactions) lockQueue(ctx context.Context) (leave func()) {
	cm.countAppend(ctx)
	cm.background.mu.Lock()
	return cm.background.mu.Unlock
}

// countAppend counts a resource of the compactor that an append takes.
func (cm *Compactions) countAppend(ctx context.Context) {
	if request.Of(ctx).Append {
		cm.writer.Metrics.HeldByAppend()
	}
}

// Work makes compactions in the background, one at a time, until ctx ends. Several
// goroutines may run it.
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

// runJob makes one queued compaction, and notes how it ended.
func (cm *Compactions) runJob(daemon context.Context, j *job) {
	ctx, cancel := context.WithTimeout(daemon, backgroundTimeout)
	defer cancel()
	ctx, end := cm.paths.Memory.Begin(ctx)
	defer end()
	head := turns.ID{}
	if s, err := cm.reader.Projections.Session(j.session); err == nil {
		head = s.Head.Turn
	}
	j.ref, j.err = cm.attempt(ctx, j)
	stopping := daemon.Err() != nil // a timeout of ctx alone is a failure
	b := &cm.background
	leave := cm.lockQueue(ctx)
	j.ended = cm.reader.Now()
	if b.agents[j.caller.Actor()]--; b.agents[j.caller.Actor()] == 0 {
		delete(b.agents, j.caller.Actor())
	}
	if j.err != nil && !j.spec.Request.ID.IsZero() {
		b.remember(j)
	}
	paused := false
	switch nothingToGain := errors.Is(j.err, api.ErrNothing); {
	case j.err == nil:
		b.clearBackoff(j.session)
	case nothingToGain && j.spec.ifDue:
		paused = b.setBackoff(j.session, backoff{head: head, nothingToGain: true})
	case j.spec.ifDue && !stopping:
		paused = b.setBackoff(j.session, b.nextBackoff(j, head))
	}
	b.jobs.Delete(j.session) // behind its backoff: who sees no job sees that
	close(j.done)            // before a request can miss the job
	leave()
	if paused {
		cm.writer.Announce(j.caller, j.session, "compaction.paused", turns.ID{}, "", nil)
	}
	if j.err != nil && !errors.Is(j.err, api.ErrNothing) && !stopping && cm.writer.Logger != nil {
		cm.writer.Logger.Warn("a compaction in the background failed", "session", j.session, "code", api.FromError(j.err).Code)
	}
}

// Jobs returns how many workers there are, and how many jobs are queued or running.
func (cm *Compactions) Jobs() (workers, jobs int) {
	b := &cm.background
	leave := cm.lockQueue(context.Background())
	defer leave()
	for _, n := range b.agents {
		jobs += n
	}
	return b.workers, jobs
}

// attempt makes a compaction. A panic in a summarizer, or in planning, ends this
// compaction and not the daemon.
func (cm *Compactions) attempt(ctx context.Context, j *job) (ref turns.Ref, err error) {
	defer func() {
		if p := recover(); p != nil {
			id := api.NewID()
			ref, err = turns.Ref{}, api.InternalError(id, "")
			if cm.writer.Logger != nil { // the stack names code, never content
				cm.writer.Logger.Error("a defect", "id", id, "session", j.session, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			}
		}
	}()
	return cm.Run(ctx, j.caller, j.session, j.spec)
}

// remember keeps a job that failed. The caller holds b.mu.
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

// prepare queues the compaction that is due at a session's head, and returns its
// job, or the job that is queued or running already. It never waits. It returns nil
// if there are no workers, the queue is full, or earlier tries pause it ([backoff]).
// maxFailures is how many failures in a row are retried at once.
func (cm *Compactions) prepare(ctx context.Context, c reader.Caller, id, head turns.ID, maxFailures uint64) *job {
	if cm.IsBackedOff(id, head) { // without the lock, which the answer rarely needs
		return nil
	}
	defer cm.lockQueue(ctx)()
	if cm.IsBackedOff(id, head) { // since a job that has just failed
		return nil
	}
	j, _ := cm.enqueueLocked(c, id, Spec{Request: writer.Request{Verb: "compaction.run"}, ifDue: true, renews: true}, maxFailures)
	return j
}

// enqueue queues a compaction. If one of the session is under way, it returns that
// job, and queued is false. It returns nil if there are no workers, or no room.
func (cm *Compactions) enqueue(ctx context.Context, c reader.Caller, id turns.ID, k Spec, maxFailures uint64) (j *job, queued bool) {
	defer cm.lockQueue(ctx)()
	return cm.enqueueLocked(c, id, k, maxFailures)
}

// enqueueLocked is enqueue for who holds the lock of the queue.
func (cm *Compactions) enqueueLocked(c reader.Caller, id turns.ID, k Spec, maxFailures uint64) (j *job, queued bool) {
	b := &cm.background
	if j := b.runningJob(id); j != nil {
		return j, false
	}
	if b.workers == 0 || b.agents[c.Actor()] >= maxPerAgent {
		return nil, false
	}
	j = &job{caller: c, session: id, spec: k, maxFailures: maxFailures, done: make(chan struct{})}
	select {
	case b.queue <- j:
		b.jobs.Store(id, j)
		b.agents[c.Actor()]++
		return j, true
	default:
		return nil, false
	}
}

// runningJob returns the job of a session that is queued or running, nil if there is
// none.
func (b *background) runningJob(id turns.ID) *job {
	j, _ := b.jobs.Load(id)
	found, _ := j.(*job)
	return found
}

// hasWorkers reports whether somebody makes compactions in the background.
func (cm *Compactions) hasWorkers(ctx context.Context) bool {
	defer cm.lockQueue(ctx)()
	return cm.background.workers > 0
}

// IsPreparing reports whether a compaction of a session is queued or running.
func (cm *Compactions) IsPreparing(id turns.ID) bool { return cm.background.runningJob(id) != nil }

// hasModelTier reports whether a compaction could ask a model. No request waits for
// a model unless it says how long.
func (cm *Compactions) hasModelTier() bool {
	return len(LocalTiers(cm.paths.Tiers)) < len(cm.paths.Tiers)
}

// renews reports whether a summary by rules, which a call of the policy could not do without, is
// made anew by a model.
func (cm *Compactions) renews(p policy.Policy) bool {
	return p.Mode == policy.BeforeCall && compactor.AsksModel(p, cm.paths.Tiers)
}

// LocalTiers returns the tiers that ask no model. A request may wait for them.
func LocalTiers(tiers []compactor.Tier) (out []compactor.Tier) {
	for _, t := range tiers {
		if t.Local {
			out = append(out, t)
		}
	}
	return out
}

// findRun returns the job that the same request began, if it is under way or failed
// recently; nil if there is none. The same id with another request is
// [ledger.ErrIDReused].
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

// enqueueRun queues a requested compaction. It returns [ledger.ErrBusy] if no worker
// has room, or another compaction of the session is under way.
func (cm *Compactions) enqueueRun(ctx context.Context, c reader.Caller, session turns.ID, k Spec) (*job, error) {
	j, queued := cm.enqueue(ctx, c, session, k, 0)
	if queued {
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

// await waits for a job as long as the request says. It returns the zero Ref if the
// job is still under way then. It forgets a failure that may be temporary, so that
// the same request tries again.
func (cm *Compactions) await(ctx context.Context, j *job, timeout time.Duration) (turns.Ref, error) {
	if !j.wait(ctx, timeout) {
		return turns.Ref{}, nil
	}
	if errors.Is(j.err, ledger.ErrUnavailable) || errors.Is(j.err, ledger.ErrIndeterminate) {
		leave := cm.lockQueue(ctx)
		delete(cm.background.failedJobs, j.name())
		leave()
	}
	return j.ref, j.err
}

// wait waits for a job, at most for timeout, and reports whether the job has ended.
func (j *job) wait(ctx context.Context, timeout time.Duration) bool {
	select {
	case <-j.done:
		return true
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-j.done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// maxWait bounds how long a request waits for a model.
const maxWait = 25 * time.Second

// WaitDuration returns how long a request with wait_ms waits.
func WaitDuration(ms int) time.Duration {
	return time.Duration(min(max(ms, 0), int(maxWait/time.Millisecond))) * time.Millisecond
}
