package api

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// link is a connection as clients share it. One inbox takes the replies of all
// calls. A call keeps its reply subject for all of its tries, so the late answer
// to a try that timed out still answers the call.
type link struct {
	nc      *nats.Conn
	opening chan struct{} // one call at a time opens the inbox
	closed  chan struct{} // closed when no answer can come any more
	once    sync.Once     // closes closed

	mu     sync.Mutex
	inbox  string              // subject that takes the replies; "" until the server has accepted it
	denied string              // inbox that the server refused last
	calls  map[string]*pending // by the last token of the reply subject
	last   uint64              // token given last
}

// pending is a call that waits for its answer.
type pending struct {
	subject, token string
	answers        chan answer // buffered; a try that finds it full is not needed any more
}

// answer is a reply, or why there is none.
type answer struct {
	msg *nats.Msg
	err *Error
}

// newLink hears the errors of nc in front of the handler that nc has: the server
// reports a refused permission there, and nowhere else.
func newLink(nc *nats.Conn) *link {
	l := &link{nc: nc, opening: make(chan struct{}, 1), closed: make(chan struct{}), calls: make(map[string]*pending)}
	next := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		l.refused(err)
		if next != nil {
			next(nc, sub, err)
		}
	})
	return l
}

func (l *link) begin(subject string) *pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	p := &pending{subject: subject, token: strconv.FormatUint(l.last, 36), answers: make(chan answer, 4)}
	l.calls[p.token] = p
	return p
}

func (l *link) end(p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, p.token)
}

// received gives a reply to its call; one that nobody waits for any more is dropped.
func (l *link) received(m *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.calls[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]]; p != nil {
		p.answer(answer{msg: m})
	}
}

func (p *pending) answer(a answer) {
	select {
	case p.answers <- a:
	default:
	}
}

// violation is how a NATS server words a permission that it refuses.
var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// refused ends the calls that err concerns, if it is a refused permission.
func (l *link) refused(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	m := violation.FindStringSubmatch(err.Error())
	if m == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.EqualFold(m[1], "publish") {
		for _, p := range l.calls {
			if p.subject == m[2] {
				p.answer(answer{err: Errorf(Denied, nil, "the NATS server denies this connection to publish on %s", m[2])})
			}
		}
		return
	}
	if l.denied = m[2]; l.inbox != m[2] {
		return
	}
	l.inbox = "" // the next try asks for another; it may be allowed by then
	for _, p := range l.calls {
		p.answer(answer{err: Errorf(Indeterminate, nil, "the NATS server denies this connection its inbox %s: the answer can't come", m[2])})
	}
}

// open is the inbox. It subscribes to it, if need be, and waits until the server
// has accepted that: a request that goes out before could be carried out and
// never answered.
func (l *link) open(ctx context.Context) (string, *Error) {
	select {
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return "", Errorf(Unavailable, nil, "not sent: the connection was not ready in time")
	}
	l.mu.Lock()
	subject := l.inbox
	l.mu.Unlock()
	if subject != "" {
		return subject, nil
	}
	subject = l.nc.NewInbox() + ".*"
	sub, err := l.nc.Subscribe(subject, l.received)
	if err != nil {
		return "", Errorf(Unavailable, nil, "not sent: %s", plain(err))
	}
	sub.SetClosedHandler(func(string) {
		if l.nc.IsClosed() || l.nc.IsDraining() {
			l.once.Do(func() { close(l.closed) })
		}
	})
	err = l.nc.FlushWithContext(ctx)
	refusal := l.nc.LastError() // set before the flush ends; the error handler may run later
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.denied == subject || (errors.Is(refusal, nats.ErrPermissionViolation) && strings.Contains(refusal.Error(), subject)) {
		_ = sub.Unsubscribe() // the server does not have it
		return "", Errorf(Denied, nil, "the NATS server denies this connection to subscribe to its inbox %s", subject)
	}
	if err != nil {
		_ = sub.Unsubscribe() // another try makes another
		return "", Errorf(Unavailable, nil, "not sent: %s", plain(err))
	}
	l.inbox = subject
	return subject, nil
}

// try sends the request of p once and waits for an answer to it or to an earlier
// try. sent is false if the request provably did not leave this process.
func (l *link) try(ctx context.Context, p *pending, b []byte, wait time.Duration) (m *nats.Msg, sent bool, _ *Error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case a := <-p.answers: // to an earlier try, while this one was waited for
		return a.msg, true, a.err
	default:
	}
	if ctx.Err() != nil {
		return nil, false, Errorf(Unavailable, nil, "not sent: %s", ctx.Err())
	}
	if l.nc.IsClosed() {
		return nil, false, Errorf(Unavailable, nil, "not sent: the connection is closed")
	}
	inbox, denied := l.open(ctx)
	if denied != nil {
		return nil, false, denied
	}
	switch err := l.nc.PublishRequest(p.subject, strings.TrimSuffix(inbox, "*")+p.token, b); {
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrReconnectBufExceeded):
		return nil, false, Errorf(Unavailable, nil, "not sent: %s", plain(err))
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, false, Errorf(TooLarge, nil, "the request has %d bytes: %s", len(b), plain(err))
	case errors.Is(err, nats.ErrBadSubject):
		return nil, false, Errorf(Malformed, nil, "no subject: %s", p.subject)
	case err != nil:
		return nil, true, Errorf(Indeterminate, nil, "the request may have been sent: %s", plain(err))
	}
	select {
	case a := <-p.answers:
		return a.msg, a.err == nil || a.err.Code != Denied, a.err
	case <-l.closed:
		return nil, true, Errorf(Indeterminate, nil, "the connection closed before the answer; the request may have been carried out")
	case <-ctx.Done():
		return nil, true, Errorf(Indeterminate, nil, "no answer in time; the request may have been carried out")
	}
}

// plain is an error of the NATS client without its prefix.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "nats: ") }
