package natsapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
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

// call is one parsed request.
type call struct {
	engine    *engine.Engine
	caller    reader.Caller
	session   turns.ID
	data      []byte
	canonical []byte // what the request digest covers; see canonical
	// everyTenant: the user may act for every tenant.
	everyTenant bool
	user        User      // who sent it
	open        OpenPages // nil: there are no pages
	required    []string  // members that the request must have; see [requiring]
}

// arrival is when a request came.
type arrival struct {
	read time.Time // by a handler
	sent time.Time // the server sent it after this time
}

// late is how long after its deadline a request may still answer by itself.
const late = time.Second

// serveInTime serves r and answers it. leave gives up the place of r. If that does not end in time, it answers meanwhile:
// a disk that hangs may stop a request in the kernel.
func (s *Service) serveInTime(r inbound, v verb, user User, when arrival, leave func()) {
	end := s.engine.Writer.Metrics.Begin(v.name)
	before := s.engine.Reader.AccessNow()
	var once sync.Once
	answer := func(out any, err error) {
		once.Do(func() {
			code := ""
			if err != nil {
				code = string(api.FromError(err).Code)
			} else if before.Stale() || s.engine.Reader.AccessNow().Stale() {
				out = stale{out}
			}
			s.reply(r, v, out, err)
			end(code)
		})
	}
	timer := time.AfterFunc(max(time.Until(when.read.Add(v.limit())), 0)+late, func() {
		if v.changes || v.stores {
			answer(nil, &api.Error{Code: api.Indeterminate, Message: "it did not end in time, and may be stored; retry with the same id"})
			return
		}
		answer(nil, &api.Error{Code: api.Unavailable, Message: "it did not end in time"})
	})
	defer timer.Stop()
	answer(s.serve(r, v, user, when, leave))
}

// limit is how long a request may take.
func (v verb) limit() time.Duration {
	if v.name == "audit.verify" {
		return verifyTimeout
	}
	return timeout
}

// stale is a reply that may lack what was acknowledged.
type stale struct{ reply any }

// MarshalJSONTo writes the reply with the member stale.
func (r stale) MarshalJSONTo(e *jsontext.Encoder) error {
	b, err := turns.EncodeJSON(r.reply)
	if err != nil {
		return err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	members["stale"] = jsontext.Value("true")
	return json.MarshalEncode(e, members)
}

// serve parses a request and calls its verb.
func (s *Service) serve(r inbound, v verb, user User, when arrival, leave func()) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The stack names code, never content.
			id := api.NewID()
			s.logger.Error("a defect", "id", id, "verb", v.name, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			out, err = nil, api.InternalError(id, "")
		}
	}()
	c, err := s.parse(r, v)
	if err != nil {
		return nil, err
	}
	c.caller.Key, c.everyTenant, c.user = user.Key, user.Tenant == "*", user
	if f := s.pages.Load(); f != nil {
		c.open = *f
	}
	may := s.engine.Reader.AccessNow()
	switch {
	case may.Reads != nil:
		return nil, may.Reads
	case v.changes && may.Writes != nil:
		return nil, may.Writes
	}
	ctx, cancel := context.WithDeadline(s.base, when.read.Add(v.limit()))
	defer cancel()
	if ctx.Err() != nil {
		return nil, &api.Error{Code: api.Unavailable, Message: "it waited behind other requests: " + ctx.Err().Error()}
	}
	var decide func() error
	if v.changes || v.stores {
		limit, err := within(r, v)
		if err != nil {
			return nil, err
		}
		decide = func() error { return mayDecide(when.sent, time.Now(), limit) }
	}
	ctx = request.With(ctx, func(r *request.Request) { r.Leave, r.MayDecide = leave, decide })
	ctx, end := s.engine.Loader.Memory.Begin(ctx)
	defer end()
	for again := true; ; again = false {
		if may = s.engine.Reader.AccessNow(); may.Reads != nil {
			return nil, may.Reads
		}
		out, err = v.serve(ctx, c)
		if v.changes {
			err = s.confirmed(ctx, err)
		}
		if err == nil || v.changes || v.stores || !may.Stale() && !s.engine.Reader.AccessNow().Stale() {
			return out, err
		}
		code := api.FromError(err).Code
		switch {
		case again && (code == api.Unavailable || code == api.Indeterminate || code == api.NotFound):
			continue // the outage began or ended under it
		case code == api.NotFound:
			return nil, notKnown(err, may)
		}
		return out, err
	}
}

// confirmed returns the outcome of a change once the log is found to be the one that was
// acknowledged; see [engine.Config.Confirm]. What was stored before, and is answered again, counts
// as much as what is new.
func (s *Service) confirmed(ctx context.Context, err error) error {
	if s.engine.Reader.Confirm == nil {
		return err
	}
	if err != nil {
		if code := api.FromError(err).Code; code != api.Conflict && code != api.NotFound {
			return err
		}
	}
	fault := s.engine.Reader.Confirm(ctx)
	switch {
	case fault == nil, err != nil && api.FromError(fault).Code != api.Corrupt:
		return err
	case err != nil:
		return fault
	}
	return &api.Error{Code: api.Indeterminate, Message: "it was stored, and may be lost: " + fault.Error()}
}

// notKnown returns the answer to a read that found nothing in an outage: the projections may
// lack what was acknowledged, and a negative answer would be taken for final.
func notKnown(err error, may reader.Access) error {
	if may.Lost != nil {
		return api.Errorf(api.Unavailable, map[string]any{"reason": "lost"}, "%s: it may have been stored, which is not known since the log lost records", api.FromError(err).Message)
	}
	return api.Errorf(api.Unavailable, map[string]any{"reason": "disk"}, "%s: it may be stored, which is not known while the daemon's disk takes no writes", api.FromError(err).Message)
}

// parse parses the subject of a request.
func (s *Service) parse(r micro.Request, v verb) (*call, error) {
	t := strings.Split(r.Subject(), ".")
	if len(t) < 6 {
		return nil, &api.Error{Code: api.Malformed, Message: "subject"}
	}
	c := &call{engine: s.engine, caller: reader.Caller{Tenant: t[2], Agent: t[3]}, data: r.Data()}
	if !turns.ValidName(c.caller.Tenant) || (!turns.ValidName(c.caller.Agent) && !c.caller.Operator()) {
		return nil, &api.Error{Code: api.Malformed, Message: "subject: tenant and agent are [a-z0-9][a-z0-9-]{0,63}"}
	}
	if len(c.data) == 0 {
		c.data = []byte("{}")
	}
	if v.session {
		id, err := turns.ParseID(t[len(t)-1])
		if err != nil {
			return nil, &api.Error{Code: api.Malformed, Message: "subject: the last token is not a session id"}
		}
		c.session = id
	}
	return c, nil
}

// canonical returns the canonical JSON of a request without the members that do not
// identify it: its id, and how long the caller waits.
func canonical(data []byte) ([]byte, error) {
	b, err := turns.CanonicalJSON(data)
	if err != nil {
		return nil, err
	}
	switch {
	case string(b) == "null": // read as a request without members
		return []byte("{}"), nil
	case b[0] != '{':
		return nil, &turns.FieldError{Reason: "not a JSON object", Kind: turns.ErrMalformed}
	}
	return without(b, `"id"`, `"wait_ms"`), nil
}

// without returns a canonical JSON object without the members that have one of the
// quoted names. It uses b's memory. The members are sorted and strings have one form,
// so what is left is canonical as it stands.
func without(b []byte, names ...string) []byte {
	out := b[:1]
	for i := 1; b[i] != '}'; {
		if b[i] == ',' {
			i++
		}
		name, _ := turns.ValueEnd(b, i)
		value := name + 1 // after the colon
		end, _ := turns.ValueEnd(b, value)
		if !slices.Contains(names, string(b[i:value-1])) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, b[i:end]...)
		}
		i = end
	}
	return append(out, '}')
}

// reply sends the result of a request.
func (s *Service) reply(r inbound, v verb, out any, err error) {
	if err != nil {
		s.fail(r, v, err)
		return
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer) // the connection has copied it by then
	b, err := encode(out, buffer)
	if err != nil {
		s.fail(r, v, err)
		return
	}
	if limit := s.nc.MaxPayload(); int64(len(b)) > limit {
		s.fail(r, v, &api.Error{Code: api.TooLarge, Message: fmt.Sprintf("the reply has %d bytes, a message may have %d; ask for less with limit", len(b), limit),
			Details: map[string]any{"limit": strconv.FormatInt(limit, 10)}})
		return
	}
	s.send(r, v, nil, b)
}

// buffers holds the memory of large replies, for the next ones.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// encode returns the JSON of a reply. That of a context is appended to buffer, which
// grows if need be.
func encode(out any, buffer *[]byte) (b []byte, err error) {
	if c, ok := out.(*api.Context); ok {
		b, err = c.AppendJSON((*buffer)[:0])
		*buffer = b
		return b, err
	}
	return turns.EncodeJSON(out)
}

// send replies on the connection itself. micro reads the reply of its own Respond
// and Error as soon as the handler returns, and our handler returns before there is
// one.
func (s *Service) send(r inbound, v verb, h nats.Header, b []byte) {
	if r.Reply() == "" {
		return // nobody waits
	}
	end, ok := s.unread.begin(r.connection, len(b), v.changes || v.stores || len(b) <= smallReply)
	switch {
	case !ok && len(b) > smallReply && !v.changes && !v.stores:
		s.refuse(r, v, boundUnread, unreadPause)
		return
	case !ok:
		return // it would not be read, either
	}
	defer end()
	err := s.nc.PublishMsg(&nats.Msg{Subject: r.Reply(), Header: h, Data: b})
	if errors.Is(err, nats.ErrMaxPayload) {
		h = nats.Header{micro.ErrorHeader: {"too large"}, micro.ErrorCodeHeader: {string(api.TooLarge)}}
		b = []byte(`{"error":{"code":"too_large","message":"the reply is larger than a message may be"}}`)
		err = s.nc.PublishMsg(&nats.Msg{Subject: r.Reply(), Header: h, Data: b})
	}
	if err != nil {
		s.logger.Error("reply", "verb", v.name, "err", err)
	}
}

// fail sends an error, and logs it if it is the daemon's. An internal error has an id
// in the reply and in the log.
func (s *Service) fail(r inbound, v verb, err error) {
	e := clipError(api.FromError(err))
	switch {
	case e.Code == api.Internal:
		if e.Details["id"] == nil {
			e = api.InternalError(api.NewID(), "")
		}
		s.logger.Error("request failed", "id", e.Details["id"], "verb", v.name, "code", e.Code, "err", err)
	case e.Code == api.Corrupt && s.engine.Reader.AccessNow().Lost == nil: // else the daemon has said so, once
		s.logger.Error("request failed", "verb", v.name, "code", e.Code, "err", err)
	}
	b, merr := turns.EncodeJSON(struct {
		Error *api.Error `json:"error"`
	}{e})
	if merr != nil {
		b = []byte(`{"error":{"code":"internal","message":"an error that can't be written"}}`)
	}
	s.send(r, v, nats.Header{micro.ErrorHeader: {headerText(clip(e.Message, maxHeader))}, micro.ErrorCodeHeader: {string(e.Code)}}, b)
}

// An error may quote the request, which may be as large as a message. The reply has the
// error in its header and in its body, and both must fit one message.
const (
	maxMessage = 1 << 10
	maxDetail  = 256 // of one string
	maxHeader  = 512
)

// clipError returns e with long texts cut. The details of the contract are short.
func clipError(e *api.Error) *api.Error {
	out := &api.Error{Code: e.Code, Message: clip(e.Message, maxMessage)}
	for k, v := range e.Details {
		if s, ok := v.(string); ok {
			v = clip(s, maxDetail)
		}
		if out.Details == nil {
			out.Details = make(map[string]any, len(e.Details))
		}
		out.Details[k] = v
	}
	return out
}

// clip returns the beginning of s that has at most limit bytes, with a mark where it
// was cut.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const mark = "…"
	n := limit - len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}

// headerText returns a message on one line, as a header must be.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
