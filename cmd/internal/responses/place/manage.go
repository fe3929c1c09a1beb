package place

import (
	"context"
	"errors"
	"strconv"

	"nexus/cmd/internal/responses/window"
	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
	"nexus/turns/tokens"
)

// A request may ask, with context_management, that its context is compacted when it has
// more than so many tokens. The compaction is made behind the request's turn and before the
// model is asked, by what asks no model. Its id follows from the turn, so that it is made
// once, whichever daemon tries again. The answer follows it, and begins with its item.

// compactionID is the id of the compaction that is made for the request of a turn.
func compactionID(request turns.ID) turns.ID {
	return turns.DeriveID(request.Time(), "responses compaction", request.String())
}

// compactionOf returns the compaction that was made for a request; nil: none was.
func (b *Placing) compactionOf(ctx context.Context, request turns.Ref) (*api.Turn, error) {
	t, err := b.Client.Turn(ctx, request.Session, compactionID(request.Turn))
	if wire.OfCode(err, api.NotFound) {
		return nil, nil
	}
	return t, err
}

// Manage compacts the context of a request if it crosses the request's threshold, and seals the
// item. It returns the context that the model is asked with. What can't be compacted stays as it is.
//
// A crash before the compaction is stored leaves the request's turn; after it, a session whose
// head is the compaction. A retry goes on from either, and makes the same item.
func (b *Placing) Manage(ctx context.Context, ref turns.Ref, cx *api.Context) (_ *api.Context, sealed string, err error) {
	budget, known := cx.Budget, !cx.WindowGuess
	if b.svc.Budget != nil {
		if n, ok := b.svc.Budget(b.Request.Model); ok {
			budget, known = n, true
		}
	}
	made, err := b.compactionOf(ctx, ref)
	if threshold := b.Request.Threshold(budget, known); err == nil && made == nil && sizeOfContext(cx) > threshold {
		made, err = b.compactTo(ctx, ref, cx, threshold)
	}
	if err != nil {
		return nil, "", err
	}
	if made != nil {
		if cx, err = b.context(ctx, ref.Session, made.ID); err != nil {
			return nil, "", contextFault(err)
		}
		if b.svc.Sealer.Key != nil {
			at := turns.Ref{Session: made.Session, Turn: made.ID}
			if sealed, err = b.svc.Sealer.Seal(b.Caller.Tenant, b.Caller.Agent, window.Window{At: at, Users: window.Alone}); err != nil {
				return nil, "", err
			}
		}
	}
	if need := sizeOfContext(cx); !b.Request.MayDrop() && known && need > budget {
		return nil, "", errLength(b.Request.Model, need, budget)
	}
	return cx, sealed, nil
}

// sizeOfContext is the number of input tokens of a call with cx: the provider's count, if it
// is higher than ours.
func sizeOfContext(cx *api.Context) uint64 { return max(cx.Tokens+cx.Overhead, cx.Reported) }

// compactTo compacts a session behind a request to a size, at once. It returns nil where the
// policy has nothing to gain or accepts no summary but a model's.
func (b *Placing) compactTo(ctx context.Context, request turns.Ref, cx *api.Context, size uint64) (*api.Turn, error) {
	unanswered, err := b.unanswered(ctx, request)
	if err != nil {
		return nil, err
	}
	// A plan shortens what was not answered yet where it leaves no room for a summary: it gets
	// a third of the room. If it is too long for the model, the request is refused for it.
	size = max(size, cx.Overhead+3*unanswered)
	run, err := b.Client.Compact(ctx, request.Session, api.RunCompaction{ID: compactionID(request.Turn), Budget: size, AtOnce: true})
	switch {
	case wire.OfCode(err, api.IDReused): // another daemon made it, to another size
		return b.compactionOf(ctx, request)
	case errors.Is(err, api.ErrNothing), wire.OfCode(err, api.Unprocessable):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return run.Compaction, nil
}

// unanswered counts the tokens of what was said up to a request since the last answer, in as
// many turns as are ever asked in a row.
func (b *Placing) unanswered(ctx context.Context, request turns.Ref) (n uint64, err error) {
	const most = 64
	at := &request.Turn
	for range most {
		if at == nil {
			break
		}
		t, err := b.Client.Turn(ctx, request.Session, *at)
		if err != nil {
			return 0, err
		}
		if t.Response != nil || t.Type == "compaction" {
			break
		}
		n += tokens.Messages(tokens.Approx{}, t.Messages)
		at = t.Parent
	}
	return n, nil
}

// divide stores the beginning of a long input as turns of their own, since no compaction cuts
// within a turn, and returns the rest, which is the request's. The session is new, and a crash
// leaves turns in it that nobody has an id of; or the input is the whole conversation, and the
// next request finds the turns. A retry with a key stores each once.
func (b *Placing) divide(ctx context.Context, request turns.ID, ms []turns.Message) (rest []turns.Message, n int, err error) {
	steps := window.Steps(ms)
	meta := wire.Encode(wire.MetaOf[wire.RequestMeta]{Responses: &wire.RequestMeta{Version: wire.MetaVersion, PartOf: request}})
	for ; n < len(steps)-1; n++ {
		t := steps[n]
		t.ID, t.Parent, t.Model, t.Meta = inputID(request, n), b.Parent, b.Request.Model, meta
		if _, err := b.Client.Append(ctx, b.Session, t); err != nil {
			return nil, 0, InputFault(err)
		}
		b.Parent = t.ID
	}
	if len(steps) == 0 {
		return ms, 0, nil
	}
	rest = steps[n].Messages
	if m := steps[n].Response; m != nil {
		rest = append(rest, *m)
	}
	return rest, n, nil
}

// inputID is the id of the n-th turn that holds the beginning of a request's input.
func inputID(request turns.ID, n int) turns.ID {
	return turns.DeriveID(request.Time(), "responses input", request.String(), strconv.Itoa(n))
}

// InputOf are the items of the input of a request, by its turn and those before it that hold
// the beginning.
func InputOf(ctx context.Context, client *client.Client, t *api.Turn, meta *wire.RequestMeta) ([]wire.Item, error) {
	var ms []turns.Message
	for n := range meta.Before {
		before, err := client.Turn(ctx, t.Session, inputID(t.ID, n))
		if err != nil {
			return nil, err
		}
		if ms = append(ms, before.Messages...); before.Response != nil {
			ms = append(ms, *before.Response)
		}
	}
	return wire.InputItems(turns.Ref{Session: t.Session, Turn: t.ID}, append(ms, t.Messages...), meta.Items), nil
}

// NormalAt returns the turn itself, or the nearest one above it that is no compaction; nil if
// there is none.
func NormalAt(ctx context.Context, client *client.Client, session, at turns.ID) (*api.Turn, error) {
	for {
		t, err := client.Turn(ctx, session, at)
		if err != nil || t.Type != "compaction" {
			return t, err
		}
		if t.Parent == nil {
			return nil, nil
		}
		at = *t.Parent
	}
}

// errItem is the one answer to a compaction item that this server did not make for the
// caller, and to one whose session is gone.
func errItem() *wire.Error {
	return wire.WithCode("invalid_compaction_item", wire.Invalid("input", "The encrypted content of the compaction item could not be verified."))
}

// Unseal returns the messages that a compaction item stands for, and whether it stands for all
// that is before it.
func (b *Placing) Unseal(ctx context.Context, sealed string) (ms []turns.Message, alone bool, err error) {
	w, ok, err := b.svc.Sealer.Open(b.Caller.Tenant, b.Caller.Agent, sealed)
	if err != nil {
		return nil, false, err
	}
	if !ok {
		return nil, false, errItem()
	}
	ms, err = window.Expand(ctx, b.Client, w)
	if wire.OfCode(err, api.NotFound, api.Erased) {
		return nil, false, errItem()
	}
	return ms, w.Users == window.Alone, err
}
