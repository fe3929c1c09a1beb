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
	// tries is how often settle sends a write under one expectation. With the
	// pauses between them they outlast the election of a stream's leader.
	tries = 8
	// tryPatience is how long one try waits for its answer. A leader that steps
	// down answers nothing, so this is what a change of leader costs an append.
	tryPatience = 2 * time.Second
	// patience is how long one read waits.
	patience = 5 * time.Second
)

// write is one compare-and-set: the message that is to follow expect on subject.
type write struct {
	action  string // for errors: "append to", "store chunk at"
	subject string
	expect  uint64
	send    func(ctx context.Context) (seq uint64, err error)   // sends the message once
	next    func(ctx context.Context) (*js.RawStreamMsg, error) // reads the message that follows expect from the leader
	isOwn   func(*js.RawStreamMsg) (bool, error)                // reports whether a message is the one that send sends
}

// String says what w does, for errors.
func (w write) String() string {
	if w.expect == 0 {
		return w.action + " " + w.subject
	}
	return fmt.Sprintf("%s %s after %d", w.action, w.subject, w.expect)
}

// settle stores w once and resolves ambiguous answers of the server. R1 and R3
// answer a repeated write differently (10071, 10164), so settle believes an ack
// only; for every other answer the message that follows expect decides. While no
// message follows, settle sends the same bytes again under the same expectation:
// the server can store one try only.
//
// Invariant: settle never concludes "not stored" from a read that finds nothing.
// A deposed leader, or a stream that is being closed, finds nothing either.
func settle(ctx context.Context, w write) (uint64, error) {
	var mayLand bool // a try of this call may be stored, now or later
	var last error
	var pause pause
	for try := range tries {
		if try == 1 {
			pause = newPause(20*time.Millisecond, time.Second)
		}
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
			return 0, fmt.Errorf("%v: %w: %w", w, ledger.ErrTooLarge, err)
		case v == moved && known && tail < w.expect && !mayLand:
			// The compare-and-set itself says that the tail was never there.
			return 0, &ledger.ConflictError{Subject: w.subject, Want: w.expect}
		case v == full && !mayLand:
			return 0, fmt.Errorf("%v: %w: the stream's storage limit is reached (max_store): %w", w, ledger.ErrUnavailable, err)
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
	return 0, fmt.Errorf("%v: %w: %w", w, kind, last)
}

// decide returns the outcome: next is the message that follows expect.
func (w write) decide(next *js.RawStreamMsg) (uint64, error) {
	own, err := w.isOwn(next)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%v: %w", w, err)
	case own:
		return next.Sequence, nil
	}
	return 0, &ledger.ConflictError{Subject: w.subject, Want: w.expect, Got: next.Sequence}
}

// pause waits, longer each time, with jitter.
type pause struct{ b *backoff.ExponentialBackOff }

func newPause(first, longest time.Duration) pause {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = first, longest, 2
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
