package responses

import (
	"context"
	"errors"
	"net/http"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
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

// begin stores the request and starts the call of the model, or finds the response that the
// request's key has already.
func (d *Door) begin(ctx context.Context, c web.Caller, r *CreateRequest) (_ *flight, err error) {
	asked, upstream, err := d.cfg.Provider(r.Model)
	if err != nil {
		return nil, noModel(err)
	}
	if len(r.Key) > maxKey {
		return nil, invalid("Idempotency-Key", "An Idempotency-Key has at most %d bytes.", maxKey)
	}
	b := &beginning{door: d, caller: c, client: d.client(c), request: r, provider: asked, upstream: upstream, unlock: func() {}}
	defer func() { b.unlock() }() // from here on others see the response under way
	if r.Key != "" && r.recorded() {
		b.ids = deriveKeyIDs(c.Tenant, c.Agent, r.Key)
		unlock, err := d.lock(ctx, b.ids.claim)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if f, err := b.claimed(ctx); f != nil || err != nil {
			return f, err
		}
	}
	release, err := d.admit(c)
	if err != nil {
		return nil, err
	}
	return r.launched(release, func() (*flight, error) { return b.start(ctx) })
}

// launched starts the call of what prepare returns. Whatever becomes of prepare, the place of
// the response is given back in the end, and the memory that its request takes.
func (r *CreateRequest) launched(release func(), prepare func() (*flight, error)) (*flight, error) {
	launched := false
	defer func() {
		if !launched {
			release()
		}
	}()
	f, err := prepare()
	if err != nil {
		return nil, err
	}
	f.release = release
	if r.done != nil {
		f.release = func() { release(); r.done() }
	}
	if err := f.launch(); err != nil {
		f.drop()
		return nil, err
	}
	launched = true
	return f, nil
}

// beginning is a request until its model is asked.
type beginning struct {
	door     *Door
	caller   web.Caller
	client   *api.Client
	request  *CreateRequest
	provider provider.Client
	upstream string
	ids      keyIDs // zero without a key

	session turns.ID   // that the turn goes to; zero: a new one
	parent  turns.ID   // that it follows; zero: the head
	inPlace bool       // it follows the head, and is refused where that moves: no fork
	moves   bool       // it does not follow the head, but makes parent the head first
	whole   bool       // its input is the whole conversation, for sure
	left    turns.ID   // the head that it leaves
	tips    []turns.ID // ends of other paths of the session
	label   string     // of a new session
	forked  *place
	past    bool   // the input crosses the threshold of context_management, as far as is known before it is stored
	unlock  func() // lets the next request of the session go on
}

// start stores the request as a turn and prepares the call of the model.
func (b *beginning) start(ctx context.Context) (*flight, error) {
	r := b.request
	if b.session.IsZero() && b.label == "" && r.recorded() {
		if err := b.target(ctx); err != nil {
			return nil, err
		}
	}
	in, err := parseInput(r.Input, b.resolver(ctx))
	if err != nil {
		return nil, err
	}
	if !r.recorded() {
		return b.unrecorded(ctx, in)
	}
	if !b.session.IsZero() && b.parent.IsZero() {
		if b.unlock, err = b.join(ctx, &in); err != nil {
			return nil, err
		}
	}
	if err := b.fits(ctx, in); err != nil {
		return nil, err
	}
	id := b.ids.turn
	if id.IsZero() {
		id = api.NewID()
	}
	depth, session, meta, err := b.store(ctx, id, in)
	if err != nil {
		return nil, err
	}
	return b.prepare(ctx, id, session, depth, meta, 0)
}

func (b *beginning) resolver(ctx context.Context) resolver {
	r := resolver{item: func(id string) (Item, error) { return b.door.findItem(ctx, b.client, id) }}
	if b.door.sealer.Key != nil {
		r.compaction = func(sealed string) ([]turns.Message, bool, error) { return b.door.unseal(ctx, b.caller, sealed) }
	}
	return r
}
