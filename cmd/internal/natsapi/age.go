package natsapi

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

const (
	// idleProbe is how often the age of requests is probed while nothing asks for it,
	// leastProbe the shortest time between two probes, recentProbe the age from which a
	// request asks for one.
	idleProbe, leastProbe, recentProbe = 2 * time.Second, 100 * time.Millisecond, 500 * time.Millisecond
	// probeTime is how long a probe may take. It is less than a request may wait, so one
	// lost answer of the server refuses no request.
	probeTime = 20 * time.Second
)

// age bounds how long ago the server sent what the service reads now. A process that is
// stopped (SIGSTOP, a frozen container) does not see how long its requests waited in the
// connection, so no clock that a request starts when it is read can tell.
//
// A probe notes the time, sends a PING to the server and waits for its PONG. The server
// answers in the order of the connection, so what the connection reads after the PONG
// was sent after that time. A barrier then passes through the queues of all
// subscriptions, since a message may wait there, too. What a handler gets behind the
// barrier was read after the PONG.
//
// States at a pause of the process: before the PING, the noted time is too early; after
// it, the same; between PONG and barrier, more messages are taken for older than they
// are. So a pause makes a request look older, never younger.
type age struct {
	sent  atomic.Pointer[time.Time] // what a handler gets now was sent by the server after it
	asked chan struct{}
}

// newAge returns the age of a service that has not subscribed yet: nothing was sent to it.
func newAge() *age {
	a := &age{asked: make(chan struct{}, 1)}
	now := time.Now()
	a.sent.Store(&now)
	return a
}

// bound returns a time after which the server sent the request that a handler has.
func (a *age) bound() time.Time {
	sent := *a.sent.Load()
	if time.Since(sent) > recentProbe {
		select {
		case a.asked <- struct{}{}:
		default:
		}
	}
	return sent
}

// follow probes until ctx ends.
func (a *age) follow(ctx context.Context, nc *nats.Conn) {
	for ctx.Err() == nil {
		_ = a.probe(ctx, nc) // the next one may succeed; until then requests look older
		pause(ctx, leastProbe, nil)
		pause(ctx, idleProbe-leastProbe, a.asked)
	}
}

// pause waits for d, until wake has something, or until ctx ends.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// probe moves the bound to the time when it began.
func (a *age) probe(ctx context.Context, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	began := time.Now()
	if err := nc.FlushWithContext(ctx); err != nil {
		return err
	}
	passed := make(chan struct{})
	if err := nc.Barrier(func() { a.sent.Store(&began); close(passed) }); err != nil {
		return err
	}
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// within returns how long after the server sent it r may be decided.
func within(r micro.Request, v verb) (time.Duration, error) {
	text := r.Headers().Get(client.WithinHeader)
	if text == "" {
		return v.limit(), nil
	}
	ms, err := strconv.ParseUint(text, 10, 32)
	if err != nil || ms == 0 {
		return 0, &api.Error{Code: api.Malformed, Message: "header " + client.WithinHeader + ": not a number of milliseconds over 0"}
	}
	return min(v.limit(), time.Duration(ms)*time.Millisecond), nil
}

// mayDecide returns why a request that the server sent after sent can't be decided any
// more; nil if it can. Its sender may have given it up, and asked another daemon since.
//
// It asks two clocks: the monotonic one goes on while the process is stopped, but not
// while the machine is suspended; the other one goes on then, but may be set back.
func mayDecide(sent, now time.Time, limit time.Duration) error {
	old := max(now.Sub(sent), now.Round(0).Sub(sent.Round(0)))
	if old <= limit {
		return nil
	}
	return &api.Error{Code: api.Unavailable, Message: fmt.Sprintf("it waited up to %v for this nexusd, and may wait %v: send it again with the same id", old.Round(time.Millisecond), limit)}
}
