package responses

import (
	"context"
	"errors"
	"net/http"
	"time"

	"nexus/cmd/internal/responses/socket"
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
func (d *Door) getSocket(w http.ResponseWriter, r *http.Request) {
	c := caller(r)
	switch {
	case !socket.IsUpgrade(r):
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, &Error{Status: http.StatusMethodNotAllowed, Type: invalidRequest, Code: "method_not_allowed", Message: "Responses are created by POST, or over a WebSocket.", Final: true})
		return
	case c.Scope < web.Write:
		refuse(w, &Error{Status: http.StatusForbidden, Type: invalidRequest, Code: "insufficient_permissions", Message: "The token's scope is " + c.Scope.String() + "; this needs write.", Final: true})
		return
	}
	switch err := d.sockets.Serve(w, r, ownerOf(c), socket.Turns(d.socketTurn(c, r.Header), failure)); {
	case errors.Is(err, socket.ErrFull):
		refuse(w, &Error{Status: http.StatusTooManyRequests, Type: tooMany, Code: "too_many_connections", Message: "Too many WebSocket connections are at work.", RetryAfter: time.Second})
	case errors.Is(err, socket.ErrClosed):
		refuse(w, errClosing)
	case err != nil: // the answer is written
		d.log.Debug("responses: no WebSocket", "err", err)
	}
}

// failure is err as a connection says it.
func failure(err error) *socket.Failure {
	e := asError(err)
	return &socket.Failure{Status: e.Status, Type: e.Type, Code: e.Code, Message: e.Message, Param: e.Param}
}

// socketTurn makes the responses of a connection.
func (d *Door) socketTurn(c web.Caller, header http.Header) socket.Create[memory] {
	return func(ctx context.Context, t socket.Turn[memory], send func([]byte) error) (id string, m memory, sent bool, err error) {
		r, err := parseCreate(t.Body)
		if err != nil {
			return "", m, false, err
		}
		if err := r.readHeader(header); err != nil {
			return "", m, false, err
		}
		if t.Prior != nil {
			if err := goOn(r, t.Prior); err != nil {
				return "", m, false, err
			}
		}
		sink := func(e Event) error {
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
		if r.recorded() && r.stored() {
			return res.Response.ID, m, sent, nil
		}
		if n := res.Response.Nexus; n != nil {
			m.after = n.Turn
			return res.Response.ID, m, sent, nil
		}
		if m.messages = res.Messages; sizeOf(m.messages) > d.cfg.MaxBody {
			return "", memory{}, sent, nil // too long to be kept: a continuation is not found
		}
		return res.Response.ID, m, sent, nil
	}
}

// goOn makes r continue what the connection remembers.
func goOn(r *CreateRequest, m *memory) error {
	if w := m.warm; w != nil {
		items, err := itemsOf(r.Input)
		if err != nil {
			return err
		}
		r.Input = encode(append(append([]turns.Raw{}, w.input...), items...))
		r.PreviousResponseID, r.history, r.after = w.previous, w.messages, w.after
		return nil
	}
	r.history, r.after = m.messages, m.after
	return nil
}

// warmUp answers a request with generate: false. Nothing is stored and no model is asked; a
// continuation says the request's input before its own.
func (d *Door) warmUp(ctx context.Context, c web.Caller, r *CreateRequest, sink func(Event) error) (id string, m memory, err error) {
	if _, _, err := d.cfg.Provider(r.Model); err != nil {
		return "", m, noModel(err)
	}
	b := d.places.place(c, d.client(c), r)
	if _, err := parseInput(r.Input, d.resolver(ctx, b)); err != nil {
		return "", m, err
	}
	w := &warmUp{previous: r.PreviousResponseID, messages: r.history, after: r.after}
	if r.PreviousResponseID != nil && r.history == nil {
		if err := b.target(ctx); err != nil {
			return "", m, err
		}
	}
	if w.input, err = itemsOf(r.Input); err != nil {
		return "", m, err
	}
	id = responseID(turns.Ref{Session: api.NewID(), Turn: api.NewID()})
	res := r.echo(id, d.cfg.Now())
	for n, kind := range []string{"response.created", "response.in_progress", "response.completed"} {
		if kind == "response.completed" {
			at := d.cfg.Now().Unix()
			res.Status, res.CompletedAt, res.Usage = completed, &at, new(usage)
		}
		data := encode(wireEvent{Type: kind, SequenceNumber: n, Response: res})
		if err := sink(Event{Seq: n, Type: kind, Data: data}); err != nil {
			return "", m, err
		}
	}
	return id, memory{warm: w}, nil
}
