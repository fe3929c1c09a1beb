package client

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"nexus/ledger/api"
	"nexus/turns"
)

// link is a connection as clients share it. One inbox takes the replies of all
// calls. The reply subjects of a call's tries differ in their number only, so the late
// answer to a try that timed out still answers the call.
type link struct {
	nc      *nats.Conn
	opening chan struct{} // one call at a time opens the inbox
	closed  chan struct{} // closed when no answer can come any more
	once    sync.Once     // closes closed

	mu        sync.Mutex
	inbox     string                 // subject that takes the replies; "" until the server has accepted it
	denied    string                 // inbox that the server refused last
	calls     map[string]*pending    // by the last token of the reply subject, up to a dash
	last      uint64                 // token given last
	undecided map[turns.ID]undecided // requests with a try that has no answer
	sweep     int                    // of them, from how many on those that are over are looked for
}

// pending is a call that waits for its answer.
type pending struct {
	subject, token string
	answers        chan answer // buffered; a try that finds it full is not needed any more
	tries          []sentTry   // those that left this process, or may have
}

// sentTry is a try, from 0, that has no answer until it is answered.
type sentTry struct {
	until    time.Time // it may be carried out until then
	answered bool
}

// answer is a reply to a try, or why there is none.
type answer struct {
	msg *nats.Msg
	err *api.Error
	try int // what it answers, if there is a msg
}

// newLink hears the errors of nc in front of the handler that nc has: the server
// reports a refused permission there, and nowhere else.
func newLink(nc *nats.Conn) *link {
	l := &link{nc: nc, opening: make(chan struct{}, 1), closed: make(chan struct{}), calls: make(map[string]*pending), undecided: make(map[turns.ID]undecided)}
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
	token, number, _ := strings.Cut(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], "-")
	if p := l.calls[token]; p != nil {
		try, _ := strconv.Atoi(number)
		p.answer(answer{msg: m, try: try})
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
				p.answer(answer{err: api.Errorf(api.Denied, nil, "the NATS server denies this connection to publish on %s", m[2])})
			}
		}
		return
	}
	if l.denied = m[2]; l.inbox != m[2] {
		return
	}
	l.inbox = "" // the next try asks for another; it may be allowed by then
	for _, p := range l.calls {
		p.answer(answer{err: api.Errorf(api.Indeterminate, nil, "the NATS server denies this connection its inbox %s: the answer can't come", m[2])})
	}
}

// open is the inbox. It subscribes to it, if need be, and waits until the server
// has accepted that: a request that goes out before could be carried out and
// never answered.
func (l *link) open(ctx context.Context) (string, *api.Error) {
	select {
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return "", api.Errorf(api.Unavailable, nil, "not sent: the connection was not ready in time")
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
		return "", api.Errorf(api.Unavailable, nil, "not sent: %s", plain(err))
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
		return "", api.Errorf(api.Denied, nil, "the NATS server denies this connection to subscribe to its inbox %s", subject)
	}
	if err != nil {
		_ = sub.Unsubscribe() // another try makes another
		return "", api.Errorf(api.Unavailable, nil, "not sent: %s", plain(err))
	}
	l.inbox = subject
	return subject, nil
}

// try sends the request of p once and waits for an answer to it or to an earlier
// try. sent is false if the request provably did not leave this process.
//
// A try that is shorter than the daemon's own limit says so to the daemon, which then
// does not carry it out later.
func (l *link) try(ctx context.Context, p *pending, b []byte, wait time.Duration) (m *nats.Msg, sent bool, _ *api.Error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case a := <-p.answers: // to an earlier try, while this one was waited for
		p.answered(a)
		return a.msg, true, a.err
	default:
	}
	if ctx.Err() != nil {
		return nil, false, api.Errorf(api.Unavailable, nil, "not sent: %s", ctx.Err())
	}
	if l.nc.IsClosed() {
		return nil, false, api.Errorf(api.Unavailable, nil, "not sent: the connection is closed")
	}
	inbox, denied := l.open(ctx)
	if denied != nil {
		return nil, false, denied
	}
	number := len(p.tries)
	m = &nats.Msg{Subject: p.subject, Reply: strings.TrimSuffix(inbox, "*") + p.token + "-" + strconv.Itoa(number), Data: b}
	deadline, _ := ctx.Deadline()
	decided := min(DecisionTime, max(time.Until(deadline), leastDecision)).Round(time.Millisecond)
	if decided < DecisionTime {
		m.Header = nats.Header{WithinHeader: {strconv.FormatInt(decided.Milliseconds(), 10)}}
	}
	p.tries = append(p.tries, sentTry{until: time.Now().Add(decided + wayTime)})
	switch err := l.nc.PublishMsg(m); {
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrReconnectBufExceeded):
		p.tries[number].answered = true
		return nil, false, api.Errorf(api.Unavailable, nil, "not sent: %s", plain(err))
	case errors.Is(err, nats.ErrMaxPayload):
		p.tries[number].answered = true
		return nil, false, api.Errorf(api.TooLarge, nil, "the request has %d bytes: %s", len(b), plain(err))
	case errors.Is(err, nats.ErrBadSubject):
		p.tries[number].answered = true
		return nil, false, api.Errorf(api.Malformed, nil, "no subject: %s", p.subject)
	case err != nil:
		return nil, true, api.Errorf(api.Indeterminate, nil, "the request may have been sent: %s", plain(err))
	}
	select {
	case a := <-p.answers:
		p.answered(a)
		return a.msg, a.err == nil || a.err.Code != api.Denied, a.err
	case <-l.closed:
		return nil, true, api.Errorf(api.Indeterminate, nil, "the connection closed before the answer; the request may have been carried out")
	case <-ctx.Done():
		return nil, true, api.Errorf(api.Indeterminate, nil, "no answer in time; the request may have been carried out")
	}
}

// WithinHeader is the header that says for how many milliseconds the sender of a request
// waits for the answer.
const WithinHeader = "Nexus-Within"

const (
	// DecisionTime is how long after a NATS server sent a request to a daemon the daemon may
	// decide on it, unless the request says less.
	DecisionTime = 30 * time.Second
	// leastDecision is the least that a try says: a daemon under load may take longer than
	// one try waits, and its late answer counts.
	leastDecision = 5 * time.Second
	// wayTime is what a request may take on its way through the NATS servers.
	wayTime = 5 * time.Second
)

// answered notes which try an answer is to. One that says indeterminate settles nothing: the
// daemon may still be at it. A refused publish was not sent.
func (p *pending) answered(a answer) {
	switch {
	case a.msg == nil && a.err != nil && a.err.Code == api.Denied && len(p.tries) > 0:
		p.tries[len(p.tries)-1].answered = true
	case a.msg != nil && a.try < len(p.tries) && a.msg.Header.Get("Nats-Service-Error-Code") != string(api.Indeterminate):
		p.tries[a.try].answered = true
	}
}

// openUntil returns when no try of p is carried out any more that has no answer; the zero
// time if none is.
func (p *pending) openUntil() (until time.Time) {
	for _, t := range p.tries {
		if !t.answered && t.until.After(until) {
			until = t.until
		}
	}
	return until
}

// rememberedOpen is how many open requests a link knows before it first drops those that are over.
const rememberedOpen = 10_000

// undecided is a request with a try that has no answer.
type undecided struct {
	until   time.Time // the try may be carried out until then
	refused string    // how a later try was refused; "": none was
}

// isOpen reports whether the try may be carried out still.
func (u undecided) isOpen() bool { return time.Now().Before(u.until) }

// wasOpen returns what earlier calls of a request left undecided.
func (l *link) wasOpen(id turns.ID) undecided {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.undecided[id]
}

// setOpen notes what is undecided of a request.
func (l *link) setOpen(id turns.ID, u undecided) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !u.isOpen() {
		delete(l.undecided, id)
		return
	}
	if len(l.undecided) >= max(rememberedOpen, l.sweep) {
		maps.DeleteFunc(l.undecided, func(_ turns.ID, u undecided) bool { return !u.isOpen() })
		l.sweep = 2 * len(l.undecided) // a look at all of them for as many new ones
	}
	l.undecided[id] = u
}

// plain is an error of the NATS client without its prefix.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "nats: ") }
