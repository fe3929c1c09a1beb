package responses

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// runner makes the responses that are under way. Safe for concurrent use.
type runner struct {
	runnerConfig
	memory *budget
	ctx    context.Context // of the calls of models
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closing bool               // no more work begins
	flights map[string]*flight // by the id of the response
}

// runnerConfig says how responses are made.
type runnerConfig struct {
	log       *slog.Logger
	now       func() time.Time
	after     func(d time.Duration) (<-chan time.Time, func() bool) // a channel that gets a value after d, and what frees it
	keepAlive time.Duration                                         // between two signs of life of a stream without events
	maxAnswer int64                                                 // bytes of the texts and arguments of one answer
	streams   int64                                                 // bytes of memory of all together
}

func newRunner(c runnerConfig) *runner {
	rs := &runner{runnerConfig: c, memory: newBudget(c.streams), flights: make(map[string]*flight)}
	rs.ctx, rs.cancel = context.WithCancelCause(context.Background())
	return rs
}

// close ends the calls of models. Their responses are what a kill of the process would leave.
func (rs *runner) close() {
	rs.mu.Lock()
	rs.closing = true
	rs.mu.Unlock()
	rs.cancel(errClosing)
}

// wait waits until what was under way has ended.
func (rs *runner) wait() { rs.work.Wait() }

// find returns the response that is under way, and nil if it has ended: then the ledger or
// its file has it.
func (rs *runner) find(id string) *flight {
	rs.mu.Lock()
	f := rs.flights[id]
	rs.mu.Unlock()
	if f == nil || f.hasEnded() {
		return nil
	}
	return f
}
