package writer

import (
	"context"
	"fmt"

	"nexus/cmd/nexusd/daemon/engine/paths"
	"nexus/ledger"
	"nexus/ledger/api"
)

// chain serializes this daemon's own writes to one chain, so that they do not
// refuse each other. Other daemons are told apart by the compare-and-set.
type Chain struct {
	turn    chan struct{}    // holds one token: whoever has it writes
	waiting int              // guarded by Engine.mu
	Seq     uint64           // last position known on the chain; owned by the token
	Calls   paths.KnownCalls // owned by the token
}

const (
	// maxWaiting is how many mutations may wait for one session.
	maxWaitingWriters = 128
	// maxIdle is how many chains are remembered without a writer.
	MaxIdle = 100_000
)

// Hold waits for the chain's turn. A queue that is full is [ledger.ErrBusy].
func (wr *Writer) Hold(ctx context.Context, name string) (*Chain, func(), error) {
	wr.mu.Lock()
	if wr.chains == nil {
		wr.chains = make(map[string]*Chain)
	}
	c := wr.chains[name]
	if c == nil {
		if len(wr.chains) >= MaxIdle {
			for k, v := range wr.chains {
				if v.waiting == 0 {
					delete(wr.chains, k)
				}
				if len(wr.chains) < MaxIdle/2 {
					break
				}
			}
		}
		c = &Chain{turn: make(chan struct{}, 1)}
		c.turn <- struct{}{}
		wr.chains[name] = c
	}
	if c.waiting >= maxWaitingWriters {
		wr.mu.Unlock()
		return nil, nil, &api.Error{Code: api.Busy, Message: fmt.Sprintf("%d requests wait for this session already", maxWaitingWriters),
			Details: map[string]any{"retry_after_ms": 100}}
	}
	c.waiting++
	wr.mu.Unlock()
	leave := func() {
		wr.mu.Lock()
		c.waiting--
		wr.mu.Unlock()
	}
	select {
	case <-c.turn:
		return c, func() { c.turn <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, fmt.Errorf("%w: waited for the session's turn: %w", ledger.ErrUnavailable, ctx.Err())
	}
}
