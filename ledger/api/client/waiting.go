package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
)

// Waiting says why a call is still without its answer.
type Waiting struct {
	Why   *api.Error // the answer to the newest try, or what keeps one from coming
	Until time.Time  // when the call gives up; zero: only when it has its answer
}

// OnWaiting returns a client that calls f once in a call that is tried again or can't
// be sent, as soon as it has gone on for after. It does not call f in a call that only
// takes long. f runs in a goroutine of its own and has returned when the call does.
func (c *Client) OnWaiting(after time.Duration, f func(Waiting)) *Client {
	other := *c
	other.after, other.waiting = after, f
	return &other
}

// look is how often a call that goes on looks for a reason to report.
const look = time.Second

// report calls c's f, if there is one, for a call that began now and whose newest
// failure is in failed. The call ends with stop.
func (c *Client) report(ctx context.Context, failed *atomic.Pointer[api.Error]) (stop func()) {
	if c.waiting == nil {
		return func() {}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(c.after)
		defer timer.Stop()
		for {
			select {
			case <-ended:
				return
			case <-timer.C:
			}
			if why := c.link.reason(failed); why != nil {
				until, _ := ctx.Deadline()
				c.waiting(Waiting{Why: why, Until: until})
				return
			}
			timer.Reset(look)
		}
	}()
	return func() { close(ended); <-done }
}

// reason is why a call has no answer; nil if it is only being worked on.
func (l *link) reason(failed *atomic.Pointer[api.Error]) *api.Error {
	if l.nc.Status() == nats.RECONNECTING {
		return api.Errorf(api.Unavailable, nil, "the connection to the NATS server is lost")
	}
	return failed.Load()
}
