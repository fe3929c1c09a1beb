package responses

import (
	"context"
	"errors"
	"net/http"

	"nexus/cmd/internal/web"
	"nexus/turns"
)

// post is POST /v1/responses.
func (d *Door) post(w http.ResponseWriter, r *http.Request) {
	body, done, err := d.readBody(w, r)
	if err != nil {
		done()
		refuse(w, err)
		return
	}
	req, err := parseCreate(body)
	if err != nil {
		done()
		refuse(w, err)
		return
	}
	req.done = done
	if err := req.readHeader(r.Header); err != nil {
		done()
		refuse(w, err)
		return
	}
	req.Key = r.Header.Get("Idempotency-Key")
	allowWait(w)
	f, err := d.begin(r.Context(), caller(r), req)
	if err != nil {
		done()
		refuse(w, err)
		return
	}
	defer f.leave()
	if f.request != req { // one that is there already; else done is called at its end
		done()
	}
	if req.inBackground() && !req.streams() {
		reply(w, http.StatusOK, f.now())
		return
	}
	if !req.streams() {
		if res, err := f.wait(r.Context()); err != nil {
			d.endRefused(w, err)
		} else {
			reply(w, http.StatusOK, res)
		}
		return
	}
	d.stream(w, r, f, -1)
}

// allowWait lets a reply come late: a model may think for longer than the listener's bound.
func allowWait(w http.ResponseWriter) { _ = http.NewResponseController(w).SetWriteDeadline(noDeadline) }

// endRefused refuses, or breaks the connection off where there is no outcome yet.
func (d *Door) endRefused(w http.ResponseWriter, err error) {
	if errors.Is(err, errClosing) {
		panic(http.ErrAbortHandler)
	}
	refuse(w, err)
}

// stream sends the events of f after number after, and what comes.
func (d *Door) stream(w http.ResponseWriter, r *http.Request, f *flight, after int) {
	s := &sse{w: w}
	s.begin()
	_ = http.NewResponseController(w).Flush()
	err := f.follow(r.Context(), after, s.send, s.keepAlive)
	if err == nil {
		err = s.end()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client sees that the stream was cut
	}
}

// result is what a request came to.
type result struct {
	Response *Response
	// Messages are those that a continuation begins with: what was asked and answered.
	Messages []turns.Message
}

// create answers a request and passes each event to sink, which may be nil. A failed
// response is an *[Error], whose events sink has seen.
func (d *Door) create(ctx context.Context, c web.Caller, r *CreateRequest, sink func(Event) error) (*result, error) {
	f, err := d.begin(ctx, c, r)
	if err != nil {
		return nil, err
	}
	defer f.leave()
	if sink != nil {
		if err := f.follow(ctx, -1, sink, nil); err != nil {
			return nil, err
		}
	}
	res, err := f.wait(ctx)
	if err != nil {
		return nil, err
	}
	return &result{res, f.messages()}, nil
}
