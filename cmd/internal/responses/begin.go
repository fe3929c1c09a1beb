package responses

import (
	"context"
	"fmt"
	"net/http"
	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
	"nexus/turns"
)

// unrecorded prepares a response of which nothing is stored.
func (b *beginning) unrecorded(ctx context.Context, in *input) (*flight, error) {
	if err := b.fits(ctx, &input{messages: append(append([]turns.Message{}, b.request.history...), in.messages...)}); err != nil {
		return nil, err
	}
	if b.request.PreviousResponseID != nil && b.request.history == nil {
		if err := b.target(ctx); err != nil { // a stored one may be continued without storing the rest
			return nil, err
		}
		cx, err := b.client.Context(ctx, b.Session, api.GetContext{At: b.Parent, Model: b.upstream, Recorded: true})
		if err != nil {
			return nil, err
		}
		if b.request.history, err = messagesOf(cx); err != nil {
			return nil, err
		}
	}
	ask, choice, err := b.request.ask(b.upstream)
	if err != nil {
		return nil, err
	}
	if b.request.Instructions != nil && *b.request.Instructions != "" {
		ask.System = []string{*b.request.Instructions}
	}
	ask.Messages = append(append([]turns.Message{}, b.request.history...), in.messages...)
	if err := checkCalls(ask.Messages); err != nil {
		return nil, err
	}
	ref := turns.Ref{Session: api.NewID(), Turn: api.NewID()}
	f := b.open(ref, choice, ask)
	f.echo = b.request.echo(responseID(ref), b.door.cfg.Now())
	ask.Hold = f.hold
	if err := f.holdContext(); err != nil {
		f.drop()
		return nil, err
	}
	return f, nil
}

// prepare makes what the model is asked of a stored request. It opens the file of its events.
func (b *beginning) prepare(ctx context.Context, id, session turns.ID, depth uint64, meta *requestMeta, lost int) (_ *flight, err error) {
	defer func() {
		if err != nil {
			b.stepBack(session, id)
		}
	}()
	ask, choice, err := b.request.ask(b.upstream)
	if err != nil {
		return nil, err
	}
	f := b.open(turns.Ref{Session: session, Turn: id}, choice, ask)
	defer func() {
		if err != nil {
			f.drop()
		}
	}()
	ask.Hold = f.hold
	f.recorded, f.meta, f.depth, f.lost = true, meta, depth, lost
	f.echo = b.request.whole(meta)
	f.echo.Nexus = &Nexus{Session: session, Turn: id, Depth: depth, ForkedFrom: meta.Forked}
	if f.context, err = b.settle(ctx, session, id); err != nil {
		return nil, err
	}
	if b.request.compacts {
		if f.context, f.sealed, err = b.manage(ctx, f.ref, f.context); err != nil {
			return nil, err
		}
	}
	if err := f.use(f.context); err != nil {
		return nil, err
	}
	if err := f.holdContext(); err != nil {
		return nil, err
	}
	// The file of one that is not to be stored has no events: it says after a crash that this
	// daemon is not at it any more.
	f.quiet = !b.request.stored()
	if f.spool, err = b.door.spools.open(spoolHead{f.echo.ID, lost}); err != nil {
		return nil, fmt.Errorf("the file of a response: %w", err)
	}
	return f, nil
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
	b := &beginning{d.places.place(c, d.client(c), r), d, asked}
	b.upstream = upstream
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
	return launched(r, release, func() (*flight, error) { return b.start(ctx) })
}

// launched starts the call of what prepare returns. Whatever becomes of prepare, the place of
// the response is given back in the end, and the memory that its request takes.
func launched(r *CreateRequest, release func(), prepare func() (*flight, error)) (*flight, error) {
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
	*placing
	door     *Door
	provider provider.Client
}

// open makes the flight of the response at a turn.
func (b *beginning) open(ref turns.Ref, choice toolChoice, ask *provider.Request) *flight {
	return b.door.runs.open(&flight{owner: ownerOf(b.caller), client: b.client, request: b.request, provider: b.provider, ask: ask, ref: ref, choice: choice, stepBack: func() { b.stepBack(ref.Session, ref.Turn) }})
}

// start stores the request as a turn and prepares the call of the model.
func (b *beginning) start(ctx context.Context) (*flight, error) {
	r := b.request
	if b.Session.IsZero() && b.Label == "" && r.recorded() {
		if err := b.target(ctx); err != nil {
			return nil, err
		}
	}
	in, err := parseInput(r.Input, b.door.resolver(ctx, b.placing))
	if err != nil {
		return nil, err
	}
	if !r.recorded() {
		return b.unrecorded(ctx, in)
	}
	if !b.Session.IsZero() && b.Parent.IsZero() {
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

func (d *Door) resolver(ctx context.Context, b *placing) resolver {
	r := resolver{item: func(id string) (Item, error) { return d.findItem(ctx, b.client, id) }}
	if d.places.Sealer.Key != nil {
		r.compaction = func(sealed string) ([]turns.Message, bool, error) { return b.unseal(ctx, sealed) }
	}
	return r
}

// keysChannel holds what the keys of an agent stand for.
const keysChannel = "responses.keys"

type keyClaim struct {
	Digest string `json:"digest"`
}

// claimed says in the ledger what the key stands for, and returns the response that it has
// already, if any.
func (b *beginning) claimed(ctx context.Context) (*flight, error) {
	text := b.request.digest + "\x00" + b.request.Session
	if b.request.InputMode != "" {
		text += "\x00" + b.request.InputMode
	}
	digest := hashOf([]byte(text))
	b.request.digest = digest
	a, err := b.client.AppendEvent(ctx, api.AppendEvent{ID: b.ids.claim, Channel: keysChannel, Kind: "responses.key", Body: encode(keyClaim{digest})})
	if ofCode(err, api.IDReused) {
		return nil, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Code: codeKeyReused, Param: "Idempotency-Key", Final: true,
			Message: "Another request was sent with this Idempotency-Key."}
	}
	if err != nil || !a.Duplicate {
		return nil, err
	}
	candidates := []turns.ID{b.ids.session, b.ids.fork}
	if b.request.PreviousResponseID != nil {
		// The turn may be stored, and the response before it deleted since: only a request
		// that is not stored yet needs that one.
		if ref, ok := parseResponseID(*b.request.PreviousResponseID); ok {
			candidates[0] = ref.Session
		}
	} else if err := b.target(ctx); err != nil {
		return nil, err
	} else if !b.Session.IsZero() {
		candidates[0] = b.Session
	}
	for _, s := range candidates {
		t, err := b.client.Turn(ctx, s, b.ids.turn)
		if ofCode(err, api.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return b.retry(ctx, t)
	}
	return nil, nil
}

// retry returns the response of a request that is stored already: the one under way, the
// stored answer, or a new answer where the first was lost.
func (b *beginning) retry(ctx context.Context, t *api.Turn) (*flight, error) {
	ref := turns.Ref{Session: t.Session, Turn: t.ID}
	id := responseID(ref)
	if f := b.door.runs.find(id); f != nil {
		f.join()
		return f, nil
	}
	v, err := b.door.load(ctx, b.client, id, loadAny)
	if err != nil {
		return nil, err
	}
	if v.answer != nil || v.status() == cancelled {
		return b.door.finished(ownerOf(b.caller), v)
	}
	// The answer was lost, or the model's provider failed: it is asked again. No other request
	// of the session takes the turn for one without an answer meanwhile.
	if b.unlock, err = b.door.lock(ctx, t.Session); err != nil {
		b.unlock = func() {}
		return nil, err
	}
	if err := b.returnTo(ctx, t); err != nil {
		return nil, err
	}
	release, err := b.door.admit(b.caller)
	if err != nil {
		return nil, err
	}
	return launched(b.request, release, func() (*flight, error) {
		return b.prepare(ctx, t.ID, t.Session, t.Depth, v.meta, v.lost())
	})
}
