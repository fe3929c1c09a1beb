package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/turns"
)

// How long one try waits for its answer: longer than the daemon works on it.
const (
	requestTimeout = 35 * time.Second
	verifyTimeout  = 31 * time.Minute
	// replyTime is what a reply takes once the model that the caller waits for is done.
	replyTime = 5 * time.Second
	// leastTries fit into the time that ctx leaves, if none of them is answered.
	leastTries = 3
)

// waiter is a request that waits for a model as long as its caller says.
type waiter interface{ Wait() time.Duration }

// write is [read] of a call that is stored under *id, which value points into. A
// call without an id gets one here, so that all of its tries are one.
func write[Rep any](ctx context.Context, c *Client, verb string, session turns.ID, id *turns.ID, value any) (*Rep, error) {
	ensure(id)
	return call[Rep](ctx, c, verb, session, *id, value)
}

func ensure(id *turns.ID) {
	if id.IsZero() {
		*id = api.NewID()
	}
}

// read sends the request value until it has an answer, and decodes that
// leniently: members that this build does not know are ignored. The zero session
// is that of a verb that has none. What it calls may be called again with the
// same effect: it changes nothing, or it is stored by its content or its id.
func read[Rep any](ctx context.Context, c *Client, verb string, session turns.ID, value any) (*Rep, error) {
	return call[Rep](ctx, c, verb, session, turns.ID{}, value)
}

// call is [read], and [write] if id is not zero.
func call[Rep any](ctx context.Context, c *Client, verb string, session, id turns.ID, value any) (*Rep, error) {
	b, err := encode(value)
	if err != nil {
		return nil, err
	}
	if limit := c.Conn().MaxPayload(); limit > 0 && int64(len(b)) > limit {
		refused := api.Errorf(api.TooLarge, map[string]any{"limit": limit}, "the request has %d bytes, a message may have %d", len(b), limit)
		refused.Oversize = int64(len(b))
		return nil, refused
	}
	subject := fmt.Sprintf("nexus.v1.%s.%s.%s", c.tenant, c.agent, verb)
	if !session.IsZero() {
		subject += "." + session.String()
	}
	limit, most, wait := c.limit, requestTimeout, time.Duration(0)
	if v, ok := value.(*api.Verify); ok { // it may wait for another one
		if limit = max(limit, verifyTimeout); v.Limit == 0 { // it reads the whole ledger
			most = verifyTimeout
		}
	}
	if c.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if w, ok := value.(waiter); ok {
		wait = w.Wait()
	}
	var failed atomic.Pointer[api.Error]
	defer c.report(ctx, &failed)()
	m, err := c.link.send(ctx, subject, id, b, c.limit, &failed, func() time.Duration { return tryTime(ctx, most, wait) })
	if err != nil {
		return nil, err
	}
	out := new(Rep)
	if err := decodeReply(m.Data, out); err != nil {
		return nil, err
	}
	if c.stale != nil && bytes.Contains(m.Data, []byte(`"stale"`)) {
		var r struct {
			Stale bool `json:"stale"`
		}
		if err := api.UnmarshalLenient(m.Data, &r); err == nil && r.Stale {
			c.stale()
		}
	}
	return out, nil
}

// encode returns the JSON of a request.
func encode(value any) ([]byte, error) {
	r, ok := value.(*api.AppendTurn)
	if !ok {
		return turns.EncodeJSON(value)
	}
	content := messageBytes(r.Messages)
	if r.Response != nil {
		content += messageBytes([]turns.Message{*r.Response})
	}
	return r.AppendJSON(make([]byte, 0, content+content/16+1<<10))
}

// decodeReply reads a reply. out may keep b.
func decodeReply(b []byte, out any) error {
	if cx, ok := out.(*api.Context); ok {
		return api.DecodeContext(b, cx)
	}
	return api.UnmarshalLenient(b, out)
}

// send tries until there is an answer that another try would not change, or ctx ends. A
// daemon that answers unavailable is asked for refused at most; 0: until ctx ends. failed has the newest failure of a try.
//
// A refusal of a request with an id is final only if no earlier try is open: a daemon that
// was paused with one may still carry it out, when what the refusal was about is over. So
// send asks once more when no such try can be carried out any more. If ctx ends before, the
// outcome is indeterminate.
func (l *link) send(ctx context.Context, subject string, id turns.ID, b []byte, refused time.Duration, failed *atomic.Pointer[api.Error], tryTime func() time.Duration) (*nats.Msg, error) {
	p := l.begin(subject)
	defer l.end(p)
	var open undecided // by this call and earlier ones
	if !id.IsZero() {
		open = l.wasOpen(id)
		defer func() { l.setOpen(id, open) }()
	}
	began := time.Now()
	var last *api.Error // why there is no answer yet
	undecided := ""     // why nobody knows whether a try was carried out; "": none was
	if open.isOpen() {
		undecided = "an earlier call with this id has no answer; the request may have been carried out"
	}
	wait := open.refused != "" // another try without an answer would make it open for longer
	try := func() (*nats.Msg, error) {
		if wait && open.isOpen() {
			wait, last = false, refusedWhileOpen(open)
			return nil, &backoff.RetryAfterError{Duration: time.Until(open.until)}
		}
		m, sent, err := l.try(ctx, p, b, tryTime())
		if err == nil {
			err = failure(m)
		}
		if err == nil {
			return m, nil
		}
		again := err.Code == api.Busy || err.Code == api.Unavailable || err.Code == api.Indeterminate
		failed.Store(err)
		if err.Code == api.Indeterminate {
			undecided = err.Message
		}
		if last = err; undecided != "" && (again || !sent) { // a refusal of this try says nothing about those before
			last = api.Errorf(api.Indeterminate, nil, "%s", undecided)
		}
		tired := sent && err.Code == api.Unavailable && refused > 0 && time.Since(began) > refused
		if until := p.openUntil(); until.After(open.until) {
			open.until = until
		}
		if !again && !id.IsZero() && open.isOpen() {
			open.refused = err.Message
			last = refusedWhileOpen(open)
			undecided = last.Message
			failed.Store(last)
			return nil, &backoff.RetryAfterError{Duration: time.Until(open.until)}
		}
		if !again || tired || l.nc.IsClosed() { // a closed connection stays closed
			return nil, backoff.Permanent(err)
		}
		if pause := retryAfter(err); pause > 0 {
			return nil, &backoff.RetryAfterError{Duration: pause}
		}
		return nil, err
	}
	m, err := backoff.Retry(ctx, try, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pauses()))
	switch ended := context.Cause(ctx); {
	case err == nil:
		open.until = time.Time{} // settled
		return m, nil
	case ended != nil && (last.Code == api.Busy || last.Code == api.Unavailable || last.Code == api.Indeterminate):
		return nil, fmt.Errorf("%w (%w)", last, ended)
	}
	return nil, last
}

// refusedWhileOpen says that a refusal is not final yet.
func refusedWhileOpen(open undecided) *api.Error {
	return api.Errorf(api.Indeterminate, nil, "an earlier try has no answer and may be carried out until %s; a later one was refused: %s", open.until.UTC().Format(time.TimeOnly), open.refused)
}

// pauses between tries, where the daemon names none.
func pauses() backoff.BackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 100 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 1.5, MaxInterval: 5 * time.Second}
}

// tryTime is how long one try waits: at most as long as most, and so that there
// is room for more before ctx ends, unless the caller waits longer for a model.
func tryTime(ctx context.Context, most, wait time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	share := time.Until(deadline) / leastTries
	if wait > 0 {
		share = max(share, wait+replyTime)
	}
	return min(most, share)
}

// failure is the error that a reply says; nil for an answer.
func failure(m *nats.Msg) *api.Error {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return api.Errorf(api.Unavailable, nil, "no nexusd serves this NATS server")
	}
	if m.Header.Get("Nats-Service-Error-Code") == "" {
		return nil
	}
	var e struct {
		Error *api.Error `json:"error"`
	}
	if err := api.UnmarshalLenient(m.Data, &e); err != nil || e.Error == nil {
		return api.Errorf(api.Internal, nil, "%s", m.Header.Get("Nats-Service-Error"))
	}
	e.Error.FromDaemon = true
	return e.Error
}

// retryAfter is the pause that the daemon asks for; 0: it names none.
func retryAfter(e *api.Error) time.Duration {
	ms, _ := e.Details["retry_after_ms"].(float64)
	return time.Duration(min(ms, 60_000) * float64(time.Millisecond))
}

// pagedRequest is a request that embeds [Page].
type pagedRequest[Req any] interface {
	*Req
	Paging() *api.Page
}

// pages makes the calls of a list one after the other, until next says that a
// reply is the last.
func pages[Rep, Req any, PReq pagedRequest[Req]](ctx context.Context, c *Client, verb string, session turns.ID, r Req, next func(*Rep) string) iter.Seq2[*Rep, error] {
	return func(yield func(*Rep, error) bool) {
		for r := r; ; { // its own copy: the sequence can be ranged over again
			rep, err := read[Rep](ctx, c, verb, session, &r)
			if !yield(rep, err) || err != nil {
				return
			}
			after := next(rep)
			if after == "" {
				return
			}
			PReq(&r).Paging().After = after
		}
	}
}

// list yields the items of a list, page after page; items takes a reply apart.
func list[Rep, Req, Item any, PReq pagedRequest[Req]](ctx context.Context, c *Client, verb string, session turns.ID, r Req, items func(*Rep) ([]Item, string)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		next := func(rep *Rep) string { _, next := items(rep); return next }
		for rep, err := range pages[Rep, Req, PReq](ctx, c, verb, session, r, next) {
			if err != nil {
				var none Item
				yield(none, err)
				return
			}
			page, _ := items(rep)
			for _, x := range page {
				if !yield(x, nil) {
					return
				}
			}
		}
	}
}
