package place

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
)

// A request's instructions, tools and model are settings of its session while its answer is
// made. Others may change them between two requests: another daemon, a person with
// ledgerctl. So each request compares its own with those in force, and what the model is
// given is the request's in any case.

// Settle returns the context of the call. Where the settings in force are not the request's,
// it sets those first. A crash before that leaves a pending turn whose retry does it.
func (b *Placing) Settle(ctx context.Context, session, at turns.ID) (*api.Context, error) {
	cx, err := b.context(ctx, session, at)
	if err != nil {
		return nil, contextFault(err)
	}
	s, err := b.Client.Session(ctx, session)
	if err != nil {
		return nil, err
	}
	want := b.Request.Settings()
	if s.Model == *want.Model && wire.SameTools(cx.Tools, *want.Tools) && (want.System == nil || slices.Equal(wire.InstructionsIn(cx), *want.System)) {
		return cx, nil
	}
	if _, err := b.Client.Set(ctx, session, api.SetSession{SessionSettings: want}); err != nil {
		return nil, InputFault(err)
	}
	if !b.Request.MayDrop() { // a context as recorded has the settings from before the request's turn
		return cx, nil
	}
	cx, err = b.context(ctx, session, at)
	return cx, contextFault(err)
}

// contextFault is the refusal of a context that does not fit.
func contextFault(err error) error {
	if wire.OfCode(err, api.Unprocessable) {
		return wire.WithCode(wire.CodeLength, wire.Invalid("input", "The input does not fit into the context of the model."))
	}
	return err
}

// context is what the model is given: all that was said, or with truncation: auto what the
// session's policy leaves of it.
func (b *Placing) context(ctx context.Context, session, at turns.ID) (*api.Context, error) {
	return b.Client.Context(ctx, session, api.GetContext{At: at, Model: b.Upstream, Recorded: !b.Request.MayDrop()})
}

// MessagesOf are the messages of a context.
func MessagesOf(cx *api.Context) ([]turns.Message, error) {
	out := make([]turns.Message, len(cx.Messages))
	for i, raw := range cx.Messages {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("message %d of a context: %w", i, err)
		}
	}
	return out, nil
}
