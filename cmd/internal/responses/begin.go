package responses

import (
	"context"
	"fmt"
	"net/http"
	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/responses/place"
	"nexus/cmd/internal/responses/run"
	"nexus/cmd/internal/responses/stream"
	"nexus/cmd/internal/responses/wire"
	"nexus/cmd/internal/web"
	"nexus/ledger/api"
	"nexus/turns"
)

// unrecorded prepares a response of which nothing is stored.
func (b *beginning) unrecorded(ctx context.Context, in *wire.Input) (*run.Flight, error) {
	if err := b.Fits(ctx, &wire.Input{Messages: append(append([]turns.Message{}, b.Request.History...), in.Messages...)}); err != nil {
		return nil, err
	}
	if b.Request.PreviousResponseID != nil && b.Request.History == nil {
		if err := b.Target(ctx); err != nil { // a stored one may be continued without storing the rest
			return nil, err
		}
		cx, err := b.Client.Context(ctx, b.Session, api.GetContext{At: b.Parent, Model: b.Upstream, Recorded: true})
		if err != nil {
			return nil, err
		}
		if b.Request.History, err = place.MessagesOf(cx); err != nil {
			return nil, err
		}
	}
	ask, choice, err := b.Request.Ask(b.Upstream)
	if err != nil {
		return nil, err
	}
	if b.Request.Instructions != nil && *b.Request.Instructions != "" {
		ask.System = []string{*b.Request.Instructions}
	}
	ask.Messages = append(append([]turns.Message{}, b.Request.History...), in.Messages...)
	if err := wire.CheckCalls(ask.Messages); err != nil {
		return nil, err
	}
	ref := turns.Ref{Session: api.NewID(), Turn: api.NewID()}
	f := b.open(ref, choice, ask)
	f.Echo = b.Request.Echo(wire.ResponseID(ref), b.server.cfg.Now())
	ask.Hold = f.Hold
	if err := f.HoldContext(); err != nil {
		f.Drop()
		return nil, err
	}
	return f, nil
}

// prepare makes what the model is asked of a stored request. It opens the file of its events.
func (b *beginning) prepare(ctx context.Context, id, session turns.ID, depth uint64, meta *wire.RequestMeta, lost int) (_ *run.Flight, err error) {
	defer func() {
		if err != nil {
			b.StepBack(session, id)
		}
	}()
	ask, choice, err := b.Request.Ask(b.Upstream)
	if err != nil {
		return nil, err
	}
	f := b.open(turns.Ref{Session: session, Turn: id}, choice, ask)
	defer func() {
		if err != nil {
			f.Drop()
		}
	}()
	ask.Hold = f.Hold
	f.Recorded, f.Meta, f.Depth, f.Lost = true, meta, depth, lost
	f.Echo = b.Request.Whole(meta)
	f.Echo.Nexus = &wire.Nexus{Session: session, Turn: id, Depth: depth, ForkedFrom: meta.Forked}
	if f.Context, err = b.Settle(ctx, session, id); err != nil {
		return nil, err
	}
	if b.Request.Compacts {
		if f.Context, f.Sealed, err = b.Manage(ctx, f.Ref, f.Context); err != nil {
			return nil, err
		}
	}
	if err := f.Use(f.Context); err != nil {
		return nil, err
	}
	if err := f.HoldContext(); err != nil {
		return nil, err
	}
	// The file of one that is not to be stored has no events: it says after a crash that this
	// daemon is not at it any more.
	f.Quiet = !b.Request.Stored()
	if f.Spool, err = b.server.spools.Open(stream.SpoolHead{Response: f.Echo.ID, Lost: lost}); err != nil {
		return nil, fmt.Errorf("the file of a response: %w", err)
	}
	return f, nil
}

// begin stores the request and starts the call of the model, or finds the response that the
// request's key has already.
func (d *Server) begin(ctx context.Context, c web.Caller, r *wire.CreateRequest) (_ *run.Flight, err error) {
	asked, upstream, err := d.cfg.Provider(r.Model)
	if err != nil {
		return nil, noModel(err)
	}
	if len(r.Key) > wire.MaxKey {
		return nil, wire.Invalid("Idempotency-Key", "An Idempotency-Key has at most %d bytes.", wire.MaxKey)
	}
	b := &beginning{d.places.New(c, d.client(c), r), d, asked}
	b.Upstream = upstream
	defer func() { b.Unlock() }() // from here on others see the response under way
	if r.Key != "" && r.Recorded() {
		b.IDs = wire.DeriveKeyIDs(c.Tenant, c.Agent, r.Key)
		unlock, err := d.lock(ctx, b.IDs.Claim)
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
	return run.Launch(r, release, func() (*run.Flight, error) { return b.start(ctx) })
}

// beginning is a request until its model is asked.
type beginning struct {
	*place.Placing
	server   *Server
	provider provider.Client
}

// open makes the flight of the response at a turn.
func (b *beginning) open(ref turns.Ref, choice wire.ToolChoice, ask *provider.Request) *run.Flight {
	return b.server.runs.Open(run.Spec{Owner: ownerOf(b.Caller), Client: b.Client, Request: b.Request, Provider: b.provider, Ask: ask, Ref: ref, Choice: choice, StepBack: func() { b.StepBack(ref.Session, ref.Turn) }})
}

// start stores the request as a turn and prepares the call of the model.
func (b *beginning) start(ctx context.Context) (*run.Flight, error) {
	r := b.Request
	if b.Session.IsZero() && b.Label == "" && r.Recorded() {
		if err := b.Target(ctx); err != nil {
			return nil, err
		}
	}
	in, err := wire.ParseInput(r.Input, b.server.resolver(ctx, b.Placing))
	if err != nil {
		return nil, err
	}
	if !r.Recorded() {
		return b.unrecorded(ctx, in)
	}
	if !b.Session.IsZero() && b.Parent.IsZero() {
		if b.Unlock, err = b.Join(ctx, &in); err != nil {
			return nil, err
		}
	}
	if err := b.Fits(ctx, in); err != nil {
		return nil, err
	}
	id := b.IDs.Turn
	if id.IsZero() {
		id = api.NewID()
	}
	depth, session, meta, err := b.Store(ctx, id, in)
	if err != nil {
		return nil, err
	}
	return b.prepare(ctx, id, session, depth, meta, 0)
}

func (d *Server) resolver(ctx context.Context, b *place.Placing) wire.Resolver {
	r := wire.Resolver{Item: func(id string) (wire.Item, error) { return d.findItem(ctx, b.Client, id) }}
	if d.places.Sealer.Key != nil {
		r.Compaction = func(sealed string) ([]turns.Message, bool, error) { return b.Unseal(ctx, sealed) }
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
func (b *beginning) claimed(ctx context.Context) (*run.Flight, error) {
	text := b.Request.Digest + "\x00" + b.Request.Session
	if b.Request.InputMode != "" {
		text += "\x00" + b.Request.InputMode
	}
	digest := wire.HashOf([]byte(text))
	b.Request.Digest = digest
	a, err := b.Client.AppendEvent(ctx, api.AppendEvent{ID: b.IDs.Claim, Channel: keysChannel, Kind: "responses.key", Body: wire.Encode(keyClaim{digest})})
	if wire.OfCode(err, api.IDReused) {
		return nil, &wire.Error{Status: http.StatusConflict, Type: wire.InvalidRequest, Code: wire.CodeKeyReused, Param: "Idempotency-Key", Final: true,
			Message: "Another request was sent with this Idempotency-Key."}
	}
	if err != nil || !a.Duplicate {
		return nil, err
	}
	candidates := []turns.ID{b.IDs.Session, b.IDs.Fork}
	if b.Request.PreviousResponseID != nil {
		// The turn may be stored, and the response before it deleted since: only a request
		// that is not stored yet needs that one.
		if ref, ok := wire.ParseResponseID(*b.Request.PreviousResponseID); ok {
			candidates[0] = ref.Session
		}
	} else if err := b.Target(ctx); err != nil {
		return nil, err
	} else if !b.Session.IsZero() {
		candidates = append(candidates, b.Session) // after the one that the key opened, which may have been reset since
	}
	for _, s := range candidates {
		t, err := b.Client.Turn(ctx, s, b.IDs.Turn)
		if wire.OfCode(err, api.NotFound) {
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
func (b *beginning) retry(ctx context.Context, t *api.Turn) (*run.Flight, error) {
	ref := turns.Ref{Session: t.Session, Turn: t.ID}
	id := wire.ResponseID(ref)
	if f := b.server.runs.Find(id); f != nil {
		f.Join()
		return f, nil
	}
	v, err := b.server.load(ctx, b.Client, id, loadAny)
	if err != nil {
		return nil, err
	}
	if v.answer != nil || v.status() == wire.Cancelled {
		return b.server.finished(ownerOf(b.Caller), v)
	}
	// The answer was lost, or the model's provider failed: it is asked again. No other request
	// of the session takes the turn for one without an answer meanwhile.
	if b.Unlock, err = b.server.lock(ctx, t.Session); err != nil {
		b.Unlock = func() {}
		return nil, err
	}
	if err := b.ReturnTo(ctx, t); err != nil {
		return nil, err
	}
	release, err := b.server.admit(b.Caller)
	if err != nil {
		return nil, err
	}
	return run.Launch(b.Request, release, func() (*run.Flight, error) {
		return b.prepare(ctx, t.ID, t.Session, t.Depth, v.meta, v.lost())
	})
}
