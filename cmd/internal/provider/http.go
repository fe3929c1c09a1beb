package provider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"nexus/compactor/overflow"
	"nexus/turns"
)

// Limits bounds what one call may take. A zero field has its default.
type Limits struct {
	FirstByte time.Duration // until the reply begins; default 10 minutes, since a local server reads the prompt first
	Idle      time.Duration // between two bytes of the reply; default 5 minutes
	Total     time.Duration // of the call with its retries; default 1 hour
	Event     int           // bytes of one event; default 8 MiB
	Answer    int           // bytes of the reply; default 64 MiB
	Kept      int           // bytes that are kept of it: texts, arguments, and what is opaque; default 16 MiB
	Retries   int           // default 2; negative: none
	MaxWait   time.Duration // longest Retry-After that is waited for; default 30 s
}

func (l Limits) withDefaults() Limits {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&l.FirstByte, 10*time.Minute)
	def(&l.Idle, 5*time.Minute)
	def(&l.Total, time.Hour)
	def(&l.MaxWait, 30*time.Second)
	if l.Event <= 0 {
		l.Event = 8 << 20
	}
	if l.Answer <= 0 {
		l.Answer = 64 << 20
	}
	if l.Kept <= 0 {
		l.Kept = 16 << 20
	}
	switch {
	case l.Retries == 0:
		l.Retries = 2
	case l.Retries < 0:
		l.Retries = 0
	}
	return l
}

// dialect is one way to ask.
type dialect interface {
	path() string
	authorize(h http.Header, key string)
	// body renders r.
	body(r *Request) ([]byte, error)
	// read starts the reading of an answer.
	read(b *building) reader
}

// relenting is a dialect of which servers know different forms.
type relenting interface {
	// relent reports whether a server refused r for its form, and another one may be taken. From
	// then on body renders that.
	relent(r *Request, e *Error) bool
}

// whole is a reader that also takes an answer which is no stream, as a server gives it that does not know how.
type whole interface {
	whole(data []byte) error
}

// reader reads the events of one answer. It is used by one goroutine.
type reader interface {
	// event takes one. done: nothing more is needed.
	event(e sseEvent) (done bool, err error)
	// end is called when the events ended, done or not.
	end() (*Answer, error)
}

// client asks one provider in its dialect.
type client struct {
	dialect dialect
	url     string
	key     string
	headers map[string]string
	http    *http.Client
	limits  Limits
	now     func() time.Time
	wait    func(context.Context, time.Duration) error
}

var errTimeout = errors.New("no answer in time")

// Generate implements [Client].
func (c *client) Generate(ctx context.Context, r *Request, emit func(Event) error) (*Answer, error) {
	render := func() ([]byte, error) {
		body, err := c.dialect.body(r)
		if err != nil {
			return nil, &Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: c.redact(err.Error())}
		}
		return body, nil
	}
	body, err := render()
	if err != nil {
		return nil, err
	}
	work, cancel := context.WithTimeoutCause(ctx, c.limits.Total, errTimeout)
	defer cancel()
	relented := false
	for try := 0; ; try++ {
		a, again, err := c.once(work, r, body, emit)
		if err == nil {
			return a, nil
		}
		if d, ok := c.dialect.(relenting); ok && !relented {
			if e := (*Error)(nil); errors.As(err, &e) && d.relent(r, e) {
				if body, err = render(); err != nil {
					return nil, err
				}
				relented = true
				try--
				continue
			}
		}
		if ee := (*emitError)(nil); errors.As(err, &ee) {
			return nil, ee.err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e := (*Error)(nil)
		if !errors.As(err, &e) {
			e = &Error{Code: "server_error", Message: "The provider's answer could not be read."}
		}
		pause := max(500*time.Millisecond<<try, e.RetryAfter)
		if e.Again = again; !again || r.Once || try >= c.limits.Retries || pause > c.limits.MaxWait {
			return nil, e
		}
		if c.wait(work, pause) != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, e
		}
	}
}

// once sends the request once. again says that nothing of an answer came, and that the
// provider may be asked once more.
func (c *client) once(ctx context.Context, r *Request, body []byte, emit func(Event) error) (a *Answer, again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(c.limits.FirstByte, func() { cancel(errTimeout) })
	defer watch.Stop()
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	q, err := http.NewRequestWithContext(traced, http.MethodPost, c.url+c.dialect.path(), bytes.NewReader(body))
	if err != nil {
		return nil, false, &Error{Code: "invalid_request", Message: "The provider's URL is not valid."}
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "text/event-stream")
	q.Header.Set("User-Agent", "nexusd")
	for k, v := range c.headers {
		q.Header.Set(k, v)
	}
	for k, v := range r.ExtraHeaders {
		q.Header.Set(k, v)
	}
	c.dialect.authorize(q.Header, c.key)
	res, err := c.http.Do(q)
	if err != nil {
		return nil, !sent.Load() && context.Cause(ctx) == nil, c.broke(ctx, err, sent.Load())
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		e, again := c.refused(res)
		return nil, again, e
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	b := &building{emit: emit, hold: r.Hold, most: min(c.limits.Kept, c.limits.Answer)}
	rd := c.dialect.read(b)
	reply := &watched{r: res.Body, left: c.limits.Answer, touch: func() { watch.Reset(c.limits.Idle) }}
	if w, ok := rd.(whole); ok && kind == "application/json" {
		if a, err = c.readWhole(reply, rd, w, b); err != nil {
			return nil, false, c.inStream(ctx, err)
		}
		return a, false, nil
	}
	if kind != "text/event-stream" {
		return nil, false, &Error{Status: res.StatusCode, Code: "invalid_answer", Message: "The provider's answer is no stream of events.", Lost: true}
	}
	in := newSSE(reply, c.limits.Event, b.keep)
	for done := false; !done; {
		ev, err := in.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			done, err = rd.event(ev)
		}
		if err != nil {
			return nil, false, c.inStream(ctx, err)
		}
	}
	if a, err = rd.end(); err != nil {
		return nil, false, c.inStream(ctx, err)
	}
	return a, false, nil
}

// readWhole reads an answer that is one object.
func (c *client) readWhole(body io.Reader, rd reader, w whole, b *building) (*Answer, error) {
	data, err := io.ReadAll(io.LimitReader(body, int64(c.limits.Event)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > c.limits.Event {
		return nil, errAnswer
	}
	if err := b.keep(len(data)); err != nil {
		return nil, err
	}
	if err := w.whole(data); err != nil {
		return nil, err
	}
	return rd.end()
}

// watched counts the bytes of a reply, and says when some came.
type watched struct {
	r     io.Reader
	left  int
	touch func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.touch()
	}
	if w.left -= n; w.left < 0 {
		return 0, errAnswer
	}
	return n, err
}

// broke is the error of a request without a reply.
func (c *client) broke(ctx context.Context, err error, sent bool) *Error {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return &Error{Code: "timeout", Message: "The provider did not answer in time.", Lost: sent}
	case sent:
		return &Error{Code: "lost", Message: "The connection to the provider broke before its answer.", Lost: true}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Error{Code: "unreachable", Message: "The provider refuses connections."}
	}
	return &Error{Code: "unreachable", Message: "The provider can't be reached."}
}

// inStream is the error of a reply that began.
func (c *client) inStream(ctx context.Context, err error) error {
	if ee := (*emitError)(nil); errors.As(err, &ee) {
		return err
	}
	if e := (*Error)(nil); errors.As(err, &e) { // the provider's own, in the stream
		e.Message, e.Code, e.Param = c.redact(e.Message), c.redact(e.Code), c.redact(e.Param)
		return e
	}
	switch {
	case errors.Is(err, errStream), errors.Is(err, errLine), errors.Is(err, errAnswer):
		return &Error{Code: "invalid_answer", Message: c.redact("The provider: " + err.Error()), Lost: true}
	case errors.Is(context.Cause(ctx), errTimeout):
		return &Error{Code: "timeout", Message: "The provider's answer stopped before its end.", Lost: true}
	}
	return &Error{Code: "lost", Message: "The provider's answer broke off.", Lost: true}
}

// errLost says that a stream ended before its answer.
var errLost = errors.New("the stream ended early")

// maxFailure is how many bytes of an error's body are read.
const maxFailure = 64 << 10

// failure is the body of an error, in either form. Members of other types are left out.
type failure struct {
	Error   turns.Raw `json:"error"`
	Message turns.Raw `json:"message"`
	Detail  turns.Raw `json:"detail"`
}

type failureDetail struct {
	Message turns.Raw `json:"message"`
	Type    turns.Raw `json:"type"`
	Code    turns.Raw `json:"code"`
	Param   turns.Raw `json:"param"`
}

// lenient decodes what a provider wrote: unknown members and bad UTF-8 are no reason to
// lose an answer.
func lenient(data []byte, v any) error {
	return json.Unmarshal(data, v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

func textOf(r turns.Raw) string {
	s, _ := r.Text()
	return s
}

// failureOf reads an error object of a provider.
func failureOf(raw []byte) (message, code, param string) {
	var f failure
	if turns.Raw(raw).Kind() != '{' || lenient(raw, &f) != nil {
		return strings.TrimSpace(string(raw)), "", ""
	}
	if s, ok := f.Error.Text(); ok {
		return s, "", ""
	}
	var d failureDetail
	if f.Error.Kind() == '{' && lenient(f.Error, &d) == nil {
		if code = textOf(d.Code); code == "" {
			code = textOf(d.Type)
		}
		return textOf(d.Message), code, textOf(d.Param)
	}
	for _, r := range []turns.Raw{f.Message, f.Detail} {
		if s, ok := r.Text(); ok {
			return s, "", ""
		}
	}
	return string(raw), "", ""
}

// refused is the error of a reply that is no answer, and whether to ask again.
func (c *client) refused(res *http.Response) (e *Error, again bool) {
	raw, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure)) // a part of an error is better than none
	status := res.StatusCode
	message, code, param := failureOf(raw)
	e = errorOf(status, message, code)
	e.Message, e.Code, e.Param = c.redact(e.Message), c.redact(e.Code), c.redact(param)
	e.RetryAfter = retryAfter(res.Header, c.now())
	switch again = status == http.StatusRequestTimeout || status == http.StatusConflict || status == http.StatusTooManyRequests || status >= 500; {
	case res.Header.Get("X-Should-Retry") == "true":
		again = true
	case res.Header.Get("X-Should-Retry") == "false", e.Code == "context_length_exceeded", e.Code == "insufficient_quota":
		again = false
	}
	return e, again
}

// errorOf is a provider's error with a code that means the same for all of them.
func errorOf(status int, message, code string) *Error {
	e := &Error{Status: status, Code: code, Message: message}
	switch read := overflow.Read(status, message+" "+code); {
	case read.Overflow():
		e.Code = "context_length_exceeded"
	case read.Kind == overflow.CreditLimit || code == "insufficient_quota" || code == "billing_error":
		e.Code = "insufficient_quota"
	case status == http.StatusTooManyRequests || code == "rate_limit_error":
		e.Code = "rate_limit_exceeded"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Code = "provider_denied"
	case code != "":
	case status == http.StatusNotFound:
		e.Code = "model_not_found"
	case status >= 400 && status < 500:
		e.Code = "invalid_request"
	default:
		e.Code = "server_error"
	}
	if e.Message == "" {
		e.Message = "The provider failed without a message."
		if status != 0 {
			e.Message = "The provider failed with the status " + strconv.Itoa(status) + " and no message."
		}
	}
	return e
}

// maxMessage bounds a provider's words in an error, in bytes.
const maxMessage = 1000

// redact is a provider's words without the key, and short. The key is looked for as it is
// and in pieces: a server that echoes a header may cut it.
func (c *client) redact(s string) string {
	if len(s) > 2*maxMessage+len(c.key) {
		s = s[:2*maxMessage+len(c.key)]
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	const piece = 8
	if c.key != "" && len(c.key) < piece {
		s = strings.ReplaceAll(s, c.key, "[key]")
	}
	for i := 0; i+piece <= len(s) && len(c.key) >= piece; {
		if !strings.Contains(c.key, s[i:i+piece]) {
			i++
			continue
		}
		n := piece
		for i+n < len(s) && strings.Contains(c.key, s[i:i+n+1]) {
			n++
		}
		s = s[:i] + "[key]" + s[i+n:]
		i += len("[key]")
	}
	if len(s) > maxMessage {
		n := maxMessage
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	return s
}

// retryAfter is how long a reply asks to wait: seconds or a date, at most a day; 0: it does
// not say. Source: RFC 9110, section 10.2.3.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if !(s > 0) {
			return 0
		}
		return time.Duration(math.Min(s, most.Seconds()) * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(most, max(0, t.Sub(now)))
	}
	return 0
}

// sleep returns when d has passed, or with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// count is a number of tokens. What is no number counts nothing.
type count uint64

func (n *count) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if f, err := strconv.ParseFloat(string(v), 64); err == nil && f > 0 && f < 1<<53 {
		*n = count(f)
	}
	return nil
}
