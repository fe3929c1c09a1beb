package projections

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"nexus/projections/rows"
)

// countingContext counts how often someone begins to wait for its end.
type countingContext struct {
	context.Context
	waits atomic.Int64
}

func (c *countingContext) Done() <-chan struct{} {
	c.waits.Add(1)
	return c.Context.Done()
}

// A batch that is applied wakes those who wait for what it has, and nobody else.
func TestABatchWakesThoseWhoWaitForIt(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	defer s.Close()
	ctx := &countingContext{Context: t.Context()}
	const batches = 100
	done := make(chan error, 2)
	for range cap(done) {
		go func() { done <- s.WaitFor(ctx, batches) }()
	}
	for waiting := 0; waiting < cap(done); {
		s.mu.Lock()
		waiting = len(s.waiting)
		s.mu.Unlock()
	}
	for seq := uint64(1); seq <= batches; seq++ {
		s.advance(s.db(), rows.Checkpoint{Seq: seq}, 0)
		if seq < batches {
			s.mu.Lock()
			if len(s.waiting) != cap(done) {
				t.Errorf("batch %d: %d still wait, want %d", seq, len(s.waiting), cap(done))
			}
			s.mu.Unlock()
		}
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := ctx.waits.Load(); n != int64(cap(done)) {
		t.Errorf("%d callers waited %d times", cap(done), n)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.WaitFor(over, batches+1); err == nil || len(s.waiting) != 0 {
		t.Errorf("a wait that ended: %v, and %d are left", err, len(s.waiting))
	}
}
