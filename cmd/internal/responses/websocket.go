package responses

import (
	"context"
	"errors"
	"net/http"
	"time"

	"nexus/cmd/internal/responses/socket"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
	"nexus/turns"
)

// memory is what a connection keeps of its latest response. The zero value is that of a
// stored response: the ledger has the rest.
type memory struct {
	// messages are what a continuation begins with, of a response that is not stored.
	messages []turns.Message
	// after is the turn of one that is not stored but recorded in the named session.
	after turns.ID
	// warm is the request of a warm-up, which has no answer: the next request says it first.
	warm *warmUp
}

type warmUp struct {
	input    []turns.Raw
	previous *string // what the warm-up continued
	messages []turns.Message
	after    turns.ID
}

// getSocket is GET /v1/responses with an upgrade to a WebSocket.
func (d *Server) getSocket(w http.ResponseWriter, r *http.Request) {
	c := caller(r)
	switch {
	case !socket.IsUpgrade(r):
		w.Header().Set("Allow", http.MethodPost)
		wire.Refuse(w, &wire.Error{Status: http.StatusMethodNotAllowed, Type: wire.InvalidRequest, Code: "method_not_allowed", Message: "Responses are created by POST, or over a WebSocket.", Final: true})
		return
	case c.Scope < web.Write:
		wire.Refuse(w, &wire.Error{Status: http.StatusForbidden, Type: wire.InvalidRequest, Code: "insufficient_permissions", Message: "The token's scope is " + c.Scope.String() + "; this needs write.", Final: true})
		return
	}
	switch err := d.sockets.Serve(w, r, ownerOf(c), socket.Turns(d.socketTurn(c, r.Header), failure)); {
	case errors.Is(err, socket.ErrFull):
		wire.Refuse(w, &wire.Error{Status: http.StatusTooManyRequests, Type: wire.TooMany, Code: "too_many_connections", Message: "Too many WebSocket connections are at work.", RetryAfter: time.Second})
	case errors.Is(err, socket.ErrClosed):
		wire.Refuse(w, wire.ErrClosing)
	case err != nil: // the answer is written
		d.log.Debug("responses: no WebSocket", "err", err)
	}
}

// failure is err as a connection says it.
func failure(err error) *socket.Failure {
	e := wire.AsError(err)
	return &socket.Failure{Status: e.Status, Type: e.Type, Code: e.Code, Message: e.Message, Param: e.Param}
}

// socketTurn makes the responses of a connection.
func (d *Server) socketTurn(c web.Caller, header http.Header) socket.Create[memory] {
	return func(ctx context.Context, t socket.Turn[memory], send func([]byte) error) (id string, m memory, sent bool, err error) {
		r, err := wire.ParseCreate(t.Body)
		if err != nil {
			return "", m, false, err
		}
		if err := r.ReadHeader(header); err != nil {
			return "", m, false, err
		}
		if t.Prior != nil {
			if err := goOn(r, t.Prior); err != nil {
				return "", m, false, err
			}
		}
		sink := func(e stream.Event) error {
			sent = true
			return send(e.Data)
		}
		if t.WarmUp {
			id, m, err = d.warmUp(ctx, c, r, sink)
			return id, m, sent, err
		}
		res, err := d.create(ctx, c, r, sink)
		if err != nil {
			return "", m, sent, err
		}
		if r.Recorded() && r.Stored() {
			return res.Response.ID, m, sent, nil
		}
		if n := res.Response.Nexus; n != nil {
			m.after = n.Turn
			return res.Response.ID, m, sent, nil
		}
		if m.messages = res.Messages; wire.SizeOf(m.messages) > d.cfg.MaxBody {
			return "", memory{}, sent, nil // too long to be kept: a continuation is not found
		}
		return res.Response.ID, m, sent, nil
	}
}

// goOn makes r continue what the connection remembers.
func goOn(r *wire.CreateRequest, m *memory) error {
	if w := m.warm; w != nil {
		items, err := wire.ItemsOf(r.Input)
		if err != nil {
			return err
		}
		r.Input = wire.Encode(append(append([]turns.Raw{}, w.input...), items...))
		r.PreviousResponseID, r.History, r.After = w.previous, w.messages, w.after
		return nil
	}
	r.History, r.After = m.messages, m.after
	return nil
}

// warmUp answers a request with generate: false. Nothing is stored and no model is asked; a
// continuation says the request's input before its own.
func (d *Server) warmUp(ctx context.Context, c web.Caller, r *wire.CreateRequest, sink func(stream.Event) error) (id string, m memory, err error) {
	if _, _, err := d.cfg.Provider(r.Model); err != nil {
		return "", m, noModel(err)
	}
	b := d.places.New(c, d.client(c), r)
	if _, err := wire.ParseInput(r.Input, d.resolver(ctx, b)); err != nil {
		return "", m, err
	}
	w := &warmUp{previous: r.PreviousResponseID, messages: r.History, after: r.After}
	if r.PreviousResponseID != nil && r.History == nil {
		if err := b.Target(ctx); err != nil {
			return "", m, err
		}
	}
	if w.input, err = wire.ItemsOf(r.Input); err != nil {
		return "", m, err
	}
	id = wire.ResponseID(turns.Ref{Session: api.NewID(), Turn: api.NewID()})
	res := r.Echo(id, d.cfg.Now())
	for n, kind := range []string{"response.created", "response.in_progress", "response.completed"} {
		if kind == "response.completed" {
			at := d.cfg.Now().Unix()
			res.Status, res.CompletedAt, res.Usage = wire.Completed, &at, new(wire.Usage)
		}
		data := wire.Encode(stream.WireEvent{Type: kind, SequenceNumber: n, Response: res})
		if err := sink(stream.Event{Seq: n, Type: kind, Data: data}); err != nil {
			return "", m, err
		}
	}
	return id, memory{warm: w}, nil
}
