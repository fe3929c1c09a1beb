package responses

import (
	"context"
	"errors"
	"net/http"

	"nexus/cmd/internal/responses/run"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/cmd/internal/web"
	"nexus/turns"
)

// post is POST /v1/responses.
func (d *Server) post(w http.ResponseWriter, r *http.Request) {
	body, done, err := d.readBody(w, r)
	if err != nil {
		done()
		wire.Refuse(w, err)
		return
	}
	req, err := wire.ParseCreate(body)
	if err != nil {
		done()
		wire.Refuse(w, err)
		return
	}
	req.Done = done
	if err := req.ReadHeader(r.Header); err != nil {
		done()
		wire.Refuse(w, err)
		return
	}
	req.Key = r.Header.Get("Idempotency-Key")
	allowWait(w)
	f, err := d.begin(r.Context(), caller(r), req)
	if err != nil {
		done()
		wire.Refuse(w, err)
		return
	}
	defer f.Leave()
	if f.Request != req { // one that is there already; else done is called at its end
		done()
	}
	if req.InBackground() && !req.Streams() {
		wire.Reply(w, http.StatusOK, f.Now())
		return
	}
	if !req.Streams() {
		if res, err := f.Wait(r.Context()); err != nil {
			d.endRefused(w, err)
		} else {
			wire.Reply(w, http.StatusOK, res)
		}
		return
	}
	d.stream(w, r, f, -1)
}

// allowWait lets a reply come late: a model may think for longer than the listener's bound.
func allowWait(w http.ResponseWriter) { _ = http.NewResponseController(w).SetWriteDeadline(noDeadline) }

// endRefused refuses, or breaks the connection off where there is no outcome yet.
func (d *Server) endRefused(w http.ResponseWriter, err error) {
	if errors.Is(err, wire.ErrClosing) {
		panic(http.ErrAbortHandler)
	}
	wire.Refuse(w, err)
}

// stream sends the events of f after number after, and what comes.
func (d *Server) stream(w http.ResponseWriter, r *http.Request, f *run.Flight, after int) {
	s := &stream.Sse{W: w}
	s.Begin()
	_ = http.NewResponseController(w).Flush()
	err := f.Follow(r.Context(), after, s.Send, s.KeepAlive)
	if err == nil {
		err = s.End()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client sees that the stream was cut
	}
}

// result is what a request came to.
type result struct {
	Response *wire.Response
	// Messages are those that a continuation begins with: what was asked and answered.
	Messages []turns.Message
}

// create answers a request and passes each event to sink, which may be nil. A failed
// response is an *[Error], whose events sink has seen.
func (d *Server) create(ctx context.Context, c web.Caller, r *wire.CreateRequest, sink func(stream.Event) error) (*result, error) {
	f, err := d.begin(ctx, c, r)
	if err != nil {
		return nil, err
	}
	defer f.Leave()
	if sink != nil {
		if err := f.Follow(ctx, -1, sink, nil); err != nil {
			return nil, err
		}
	}
	res, err := f.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return &result{res, f.Messages()}, nil
}
