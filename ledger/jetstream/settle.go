package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	js "github.com/nats-io/nats.go/jetstream"

	"nexus/ledger"
)

const (
	// tries is how often a write is sent under one expectation. With the pauses
	// between them they outlast the election of a stream's leader.
	tries = 8
	// tryPatience is how long one try waits for its answer. A leader that steps
	// down answers nothing, so this is what a change of leader costs an append.
	tryPatience = 2 * time.Second
	// patience is how long one look waits.
	patience = 5 * time.Second
)

// write is one compare-and-set: the message that is to follow expect on subject.
type write struct {
	doing   string // for errors, such as "append to S after 7"
	subject string
	expect  uint64
	send    func(ctx context.Context) (seq uint64, err error)   // one try
	next    func(ctx context.Context) (*js.RawStreamMsg, error) // what follows expect, as the leader has it
	same    func(*js.RawStreamMsg) (bool, error)                // whether that is this write's message
}

// settle stores w once, and resolves what the store leaves open: R1 and R3
// answer a repeated write differently (10071, 10164), so no answer but an ack
// is believed, and the message that follows expect decides. While there is
// none, the same bytes are sent again under the same expectation: of any number
// of tries only one can be stored.
//
// Invariant: "not stored" is never concluded from a look that finds nothing. A
// deposed leader, or a stream that is being closed, finds nothing either.
func settle(ctx context.Context, w write) (uint64, error) {
	var mayLand bool // this write may be stored, now or later, by this call or an earlier one
	var last error
	pause := newPause(20*time.Millisecond, time.Second)
	for try := range tries {
		if try > 0 && !pause.wait(ctx) || ctx.Err() != nil {
			last = errors.Join(ended(ctx), last)
			break
		}
		seq, err := w.send(ctx)
		if err == nil {
			return seq, nil
		}
		last = err
		v, tail, known := classify(err)
		switch {
		case v == tooLarge && !mayLand:
			return 0, fmt.Errorf("%s: %w: %w", w.doing, ledger.ErrTooLarge, err)
		case v == moved && known && tail < w.expect && !mayLand:
			// The compare-and-set itself says that the tail was never there.
			return 0, &ledger.ConflictError{Subject: w.subject, Want: w.expect}
		case v == full && !mayLand:
			return 0, fmt.Errorf("%s: %w: the stream's storage limit is reached (max_store): %w", w.doing, ledger.ErrUnavailable, err)
		case v != refused && v != full:
			mayLand = true
		}
		m, err := w.next(ctx)
		if err == nil {
			return w.decide(m)
		}
		if !errors.Is(err, js.ErrMsgNotFound) {
			last = errors.Join(last, err)
		}
	}
	kind := ledger.ErrUnavailable
	if mayLand {
		kind = ledger.ErrIndeterminate
	}
	return 0, fmt.Errorf("%s: %w: %w", w.doing, kind, last)
}

// decide is the outcome, given the message that follows expect.
func (w write) decide(m *js.RawStreamMsg) (uint64, error) {
	same, err := w.same(m)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", w.doing, err)
	case same:
		return m.Sequence, nil
	}
	return 0, &ledger.ConflictError{Subject: w.subject, Want: w.expect, Got: m.Sequence}
}

// pause waits longer each time, with jitter.
type pause struct{ b *backoff.ExponentialBackOff }

func newPause(first, most time.Duration) pause {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = first, most, 2
	b.Reset()
	return pause{b}
}

// wait reports false if ctx ends first.
func (p pause) wait(ctx context.Context) bool {
	t := time.NewTimer(p.b.NextBackOff())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
