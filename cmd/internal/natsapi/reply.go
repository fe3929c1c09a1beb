package natsapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"nexus/ledger/api"
	"nexus/turns"
)

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
	switch out := out.(type) {
	case *api.Context:
		b, err = out.AppendJSON((*buffer)[:0])
		*buffer = b
		return b, err
	case *api.Appended:
		return out.AppendJSON(make([]byte, 0, 512))
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
