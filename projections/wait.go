package projections

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"nexus/ledger"
)

// WaitFor returns when reads see the record at seq. Errors:
// [ledger.ErrUnavailable] at once when Run has ended, with the reason if it was
// not asked to end, while [Store.Hold] is in force, and when ctx ends. WaitFor waits before Run is started.
func (s *Store) WaitFor(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		at, ended, stopped := s.applied.Seq, s.ended, cmp.Or(s.held, s.stopped)
		w := &wait{seq: seq, over: make(chan struct{})}
		if at < seq && stopped == nil && !ended {
			s.waiting[w] = true
		}
		s.mu.Unlock()
		switch {
		case at >= seq:
			return nil
		case stopped != nil:
			return fmt.Errorf("%w: projections stopped at %d: %w", ledger.ErrUnavailable, at, stopped)
		case ended:
			return fmt.Errorf("%w: projections stopped at %d", ledger.ErrUnavailable, at)
		}
		select {
		case <-w.over:
		case <-ctx.Done():
			s.mu.Lock()
			delete(s.waiting, w)
			s.mu.Unlock()
			return fmt.Errorf("%w: projections are at %d, not yet at %d: %w", ledger.ErrUnavailable, at, seq, ctx.Err())
		}
	}
}

// wait is one turn of a WaitFor.
type wait struct {
	seq  uint64
	over chan struct{} // closed when it is to look again
}

// wake ends the waits for positions up to seq: those of others have nothing to look for. mu is
// held.
func (s *Store) wake(seq uint64) {
	for w := range s.waiting {
		if w.seq <= seq {
			close(w.over)
			delete(s.waiting, w)
		}
	}
}

// Hold makes every wait for what is not applied end with why, until Hold(nil). The
// caller knows that nothing will be applied soon.
func (s *Store) Hold(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = why
	s.wake(math.MaxUint64)
}
