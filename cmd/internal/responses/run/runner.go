package run

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nexus/cmd/internal/responses/wire"
)

// Runner makes the responses that are under way. Safe for concurrent use.
type Runner struct {
	Config
	memory *budget
	ctx    context.Context // of the calls of models
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closing bool               // no more work begins
	flights map[string]*Flight // by the id of the response
}

// Config says how responses are made.
type Config struct {
	Log       *slog.Logger
	Now       func() time.Time
	After     func(d time.Duration) (<-chan time.Time, func() bool) // a channel that gets a value after d, and what frees it
	KeepAlive time.Duration                                         // between two signs of life of a stream without events
	MaxAnswer int64                                                 // bytes of the texts and arguments of one answer
	Streams   int64                                                 // bytes of memory of all together
}

func New(c Config) *Runner {
	rs := &Runner{Config: c, memory: newBudget(c.Streams), flights: make(map[string]*Flight)}
	rs.ctx, rs.cancel = context.WithCancelCause(context.Background())
	return rs
}

// Close ends the calls of models. Their responses are what a kill of the process would leave.
func (rs *Runner) Close() {
	rs.mu.Lock()
	rs.closing = true
	rs.mu.Unlock()
	rs.cancel(wire.ErrClosing)
}

// Wait waits until what was under way has ended.
func (rs *Runner) Wait() { rs.work.Wait() }

// Find returns the response that is under way, and nil if it has ended: then the ledger or
// its file has it.
func (rs *Runner) Find(id string) *Flight {
	rs.mu.Lock()
	f := rs.flights[id]
	rs.mu.Unlock()
	if f == nil || f.hasEnded() {
		return nil
	}
	return f
}

// Usage returns how many bytes the responses take, and how many ended for want of memory.
func (rs *Runner) Usage() (bytes int64, ended uint64) { return rs.memory.state() }

// Base is the context of the calls of models. It ends with close.
func (rs *Runner) Base() context.Context { return rs.ctx }
