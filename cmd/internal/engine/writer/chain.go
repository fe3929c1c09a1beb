package writer

import (
	"context"
	"fmt"

	"nexus/cmd/internal/engine/paths"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Chain serializes this daemon's writes to one chain, so that they do not conflict
// with each other. The compare-and-set arbitrates between daemons.
type Chain struct {
	turn        chan struct{}    // holds one token; the writer that took it may write
	waiting     int              // writers that hold or wait for the token; guarded by Writer.mu
	Seq         uint64           // last known position on the chain; guarded by the token
	Calls       paths.KnownCalls // guarded by the token
	sealChecked bool             // checkSeal has let the session pass; guarded by the token
}

const (
	// maxWaitingWriters bounds the writers that hold or wait for one chain.
	maxWaitingWriters = 128
	// MaxIdle bounds the chains that are remembered without a writer.
	MaxIdle = 100_000
)

// Forget drops the ends of chains that this daemon knows: the log may have lost records
// that were never acknowledged. A writer that holds a chain keeps it, and its
// compare-and-set decides.
func (wr *Writer) Forget() {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	clear(wr.chains)
}

// HoldOpening waits until no other request of this daemon opens a session under id,
// of any tenant. It is held before the session's chain.
func (wr *Writer) HoldOpening(ctx context.Context, id turns.ID) (func(), error) {
	_, release, err := wr.Hold(ctx, id.String())
	return release, err
}

// evict drops a few chains without a writer. It looks at few, since all writers wait for it;
// the next Hold looks at others. wr.mu is held.
func (wr *Writer) evict() {
	const looks, evictions = 16, 2
	looked, evicted := 0, 0
	for k, v := range wr.chains { // from a random one on
		if v.waiting == 0 {
			delete(wr.chains, k)
			evicted++
		}
		if looked++; looked == looks || evicted == evictions {
			return
		}
	}
}

// Hold waits for the token of a chain. The caller calls the returned function to
// give it back. It returns [ledger.ErrBusy] if too many writers wait already.
func (wr *Writer) Hold(ctx context.Context, name string) (*Chain, func(), error) {
	wr.mu.Lock()
	if wr.chains == nil {
		wr.chains = make(map[string]*Chain)
	}
	c := wr.chains[name]
	if c == nil {
		if len(wr.chains) >= MaxIdle {
			wr.evict()
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
