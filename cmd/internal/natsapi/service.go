package natsapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"nexus/cmd/internal/engine"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
)

// prefix begins every subject of the contract.
const prefix = "nexus.v1."

// Limits of the service.
const (
	// timeout ends a request; clients count on it. A verification reads the whole ledger and
	// has more time.
	timeout       = client.DecisionTime
	verifyTimeout = 30 * time.Minute
	// maxUnreadMessages bounds the messages of one endpoint that the connection has
	// read and the intake has not seen, maxUnreadBytes their bytes. The client library
	// drops what is over, and its default of 64 MiB is a burst of a few large requests,
	// which would get no answer; the intake refuses what it can't take as busy.
	maxUnreadMessages, maxUnreadBytes = 1 << 20, 512 << 20
	// grace is how long requests may take to end after the service cancels them.
	grace = 5 * time.Second
)

// Service serves the endpoints on one connection.
type Service struct {
	nc      *nats.Conn
	engine  *engine.Engine
	users   Users // nil: the NATS server decides who may send what
	logger  *slog.Logger
	service micro.Service
	intake  *intake
	prober  *prober
	age     *age
	probing sync.WaitGroup                          // of age
	refused atomic.Pointer[func(key, agent string)] // OnRefused
	pages   atomic.Pointer[OpenPages]               // ServePages
	unread  unread
	base    context.Context
	cancel  context.CancelFunc
	running running
	stopped chan struct{}
	once    sync.Once
	stopErr error // set before stopped is closed
}

// Start registers the service nexus with its endpoints. It serves only what users
// permits; nil permits everything.
func Start(nc *nats.Conn, e *engine.Engine, users Users, version string, logger *slog.Logger) (*Service, error) {
	base, cancel := context.WithCancel(context.Background())
	s := &Service{nc: nc, engine: e, users: users, logger: logger, base: base, cancel: cancel, stopped: make(chan struct{}), intake: newIntake(), prober: newProber(), age: newAge()}
	s.intake.changed = func(l load) { e.Writer.Metrics.Accepted(l.requests, l.bytes) }
	s.watch()
	var err error
	s.service, err = micro.AddService(nc, micro.Config{
		Name: "nexus", Version: version, Description: "a ledger for the conversations of AI agents",
		Metadata:    map[string]string{"contract": "v1"},
		DoneHandler: func(micro.Service) { s.end(errors.New("the NATS service stopped")) },
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			logger.Error("service", "subject", e.Subject, "err", e.Description)
		},
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("register the service: %w", err)
	}
	for _, v := range verbs {
		subject := prefix + "*.*." + v.name
		if v.session {
			subject += ".*"
		}
		request, err := schemaOf(v.request, true)
		reply, replyErr := schemaOf(v.reply, false)
		if err := errors.Join(err, replyErr); err != nil {
			cancel()
			return nil, fmt.Errorf("schemas of %s: %w", v.name, err)
		}
		err = s.service.AddEndpoint(strings.ReplaceAll(v.name, ".", "-"), s.handler(v),
			micro.WithEndpointSubject(subject), micro.WithEndpointPendingLimits(maxUnreadMessages, maxUnreadBytes),
			micro.WithEndpointMetadata(map[string]string{"verb": v.name, "summary": v.summary, "request": request, "reply": reply}))
		if err != nil {
			cancel()
			return nil, fmt.Errorf("register %s: %w", v.name, err)
		}
	}
	s.probing.Go(func() { s.age.follow(base, nc) })
	return s, nil
}

// watch ends the service if the server refuses its subscriptions. Without it the
// service would seem alive and get no requests. The server reports the refusal
// without a subscription, so micro passes it to no handler of the service. The
// handler that was set before logs slow subscriptions; their clients retry.
func (s *Service) watch() {
	next := s.nc.ErrorHandler()
	s.nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		denied := errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `Subscription to "`+prefix)
		if denied || errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
			s.end(fmt.Errorf("the NATS server refuses the subscriptions of the service: %w", err))
		}
		if next != nil {
			next(nc, sub, err)
		}
	})
}

// end marks the service as stopped. The first reason counts.
func (s *Service) end(reason error) {
	s.once.Do(func() { s.stopErr = reason; close(s.stopped) })
}

// Stopped returns a channel that is closed when the service takes no more requests,
// whoever stopped it, or when the server refuses its subscriptions. [Service.Err]
// has the reason.
func (s *Service) Stopped() <-chan struct{} { return s.stopped }

// Err returns why the service stopped, nil before [Service.Stopped] is closed.
func (s *Service) Err() error {
	select {
	case <-s.stopped:
		return s.stopErr
	default:
		return nil
	}
}

// Stop takes no more requests and waits until those that run end, or ctx does. Then
// it cancels them and waits for [grace]. Requests that NATS delivers meanwhile are refused as
// unavailable: micro ends its subscriptions in the background. It leaves a request that takes longer,
// which may fail on what is closed after the service.
func (s *Service) Stop(ctx context.Context) error {
	defer s.intake.close()
	defer s.probing.Wait()
	return errors.Join(s.service.Stop(), s.drain(ctx))
}

// drain waits for the requests that run.
func (s *Service) drain(ctx context.Context) error {
	defer s.cancel()
	done := s.running.close()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("requests did not end within %v after they were cancelled", grace)
	}
}

// inbound is one request as it came.
type inbound struct {
	micro.Request
	connection string // of the client; "" if it is not known
}

// handler gives each request to the intake, which runs it in a goroutine. micro calls
// the handlers of an endpoint one at a time, and one session must not block another.
// Requests of an ordered verb on one subject run one after the other, in the order
// in which they came. A request that the intake has no room for is refused without
// being parsed.
func (s *Service) handler(v verb) micro.HandlerFunc {
	probed := &probedVerb{verb: v}
	s.prober.verbs = append(s.prober.verbs, probed)
	return func(m micro.Request) {
		r := inbound{Request: m}
		if s.prober.back(r.Subject()) {
			return
		}
		probed.used.Store(true)
		if !mayReply(r.Reply()) {
			s.engine.Writer.Metrics.Begin(v.name)(string(api.Denied))
			return
		}
		var user User
		var err error
		user, r.connection, err = s.authorize(r, v)
		if err != nil { // before it counts as work of that agent
			s.engine.Writer.Metrics.Begin(v.name)(string(api.Denied))
			s.reply(r, v, nil, err)
			return
		}
		t := &task{agent: agentOf(r.Subject()), connection: r.connection, class: v.class(len(r.Data())), bytes: len(r.Data())}
		if v.ordered {
			t.order = r.Subject()
		}
		if !s.running.begin() {
			s.engine.Writer.Metrics.Begin(v.name)(string(api.Unavailable))
			s.reply(r, v, nil, &api.Error{Code: api.Unavailable, Message: "the daemon is being stopped; the request was not begun"})
			return
		}
		when := arrival{read: time.Now(), sent: s.age.bound()}
		t.run = func() {
			defer s.running.end()
			s.serveInTime(r, v, user, when, func() { s.intake.yield(t) })
		}
		if over, pause := s.intake.enter(t); over != withinBounds {
			s.running.end()
			s.refuse(r, v, over, pause)
			if f := s.refused.Load(); f != nil {
				(*f)(user.Key, t.agent)
			}
		}
	}
}

// OpenPages returns a link that logs a browser in. u is the user who asks, tenant and agent are
// those of the subject, which u may use.
type OpenPages func(u User, tenant, agent string, r api.OpenPages) (*api.OpenedPages, error)

// ServePages lets f answer ui.open. Without it there are no pages.
func (s *Service) ServePages(f OpenPages) { s.pages.Store(&f) }

// OnRefused lets f be called with the public key and the agent, as TENANT.AGENT, of each
// request that is refused as busy. f must not block.
func (s *Service) OnRefused(f func(key, agent string)) { s.refused.Store(&f) }

// refuse answers busy. There may be a hundred thousand such answers a second.
func (s *Service) refuse(r inbound, v verb, over bound, pause time.Duration) {
	s.engine.Writer.Metrics.Refused(v.name, string(over))
	text := refusals[over]
	b := fmt.Appendf(nil, `{"error":{"code":"busy","message":"%s","details":{"retry_after_ms":%d}}}`, text, pause.Milliseconds())
	s.send(r, v, nats.Header{micro.ErrorHeader: {text}, micro.ErrorCodeHeader: {string(api.Busy)}}, b)
}

// refusals says why a request is refused.
var refusals = map[bound]string{
	boundRequests:   "the daemon has as many requests as it may",
	boundBytes:      "the requests that the daemon has take as many bytes as they may",
	boundAgent:      "this agent has as many requests, or bytes of them, in the daemon as it may",
	boundUnread:     "this connection, or all of them together, have as many replies unread as they may; read them first",
	boundConnection: "this connection has as many requests, or bytes of them, in the daemon as it may",
}

// authorize returns the user who sent r, a request of v, if the user may, and the connection
// that r came from.
func (s *Service) authorize(r micro.Request, v verb) (u User, connection string, err error) {
	u, connection, err = s.sender(r.Headers())
	if err != nil {
		return User{}, "", err
	}
	t := strings.SplitN(r.Subject(), ".", 5)
	return u, connection, u.check(t[2], t[3], v.name)
}

// agentOf returns the tenant and agent of a request's subject.
func agentOf(subject string) string {
	t := strings.SplitN(subject, ".", 5)
	return t[2] + "." + t[3]
}

// mayReply reports whether a reply may go to subject. NATS permissions bind the
// subjects that a client publishes to, not the reply subject that it names, and the
// daemon may publish where the client may not: requests of another agent,
// notifications, records of the stream. So replies go to inboxes only, which begin
// with "_" in every client library, and a request with another reply subject is not
// served. A request without one is served, since nobody waits for its reply.
func mayReply(subject string) bool { return subject == "" || subject[0] == '_' }
