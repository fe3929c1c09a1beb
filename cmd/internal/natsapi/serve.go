package natsapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/micro"

	"nexus/cmd/internal/engine"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/ledger/api"
	"nexus/turns"
)

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
	for _, part := range []struct{ field, name string }{{"tenant", c.caller.Tenant}, {"agent", c.caller.Agent}} {
		if !turns.ValidName(part.name) && !(part.field == "agent" && c.caller.Operator()) {
			return nil, malformedSubject(part.field, "tenant and agent are [a-z0-9][a-z0-9-]{0,63}")
		}
	}
	if len(c.data) == 0 {
		c.data = []byte("{}")
	}
	if v.session {
		id, err := turns.ParseID(t[len(t)-1])
		if err != nil {
			return nil, malformedSubject("session", "the last token is not a session id (a ULID)")
		}
		c.session = id
	}
	return c, nil
}

// malformedSubject is the error of a part of the subject.
func malformedSubject(field, reason string) error {
	return api.Errorf(api.Malformed, map[string]any{"field": field}, "subject: %s", reason)
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
