package contexts

import (
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor/overflow"
	"nexus/compactor/plan"
	"nexus/ledger/api"
	"nexus/turns"
)

// Overflow is context.overflow: the provider refused the context as too long. It
// reads the provider's error, compacts the session to what the error says of the
// window and the count, and returns the context that is left.
//
// It stores the numbers of the error, and not its text, which may quote the content.
func (cx *Contexts) Overflow(ctx context.Context, c reader.Caller, session turns.ID, req api.Overflow, canonical []byte) (*api.Context, error) {
	get := api.GetContext{Format: req.Format, Page: req.Page}
	if req.After != "" {
		return cx.Context(ctx, c, session, get)
	}
	if _, err := renderer(req.Format); err != nil {
		return nil, err
	}
	refusal := overflow.Read(req.Status, req.Error)
	if !refusal.Overflow() {
		return nil, &api.Error{Code: api.Unprocessable, Message: fmt.Sprintf("this is not a context overflow but %s; a shorter context would not mend it", refusal.Kind),
			Details: map[string]any{"kind": string(refusal.Kind)}}
	}
	budget, err := cx.OverflowBudget(ctx, c, session, refusal)
	if err != nil {
		return nil, err
	}
	ref, err := cx.compactions.CompactInTime(ctx, c, session, compactions.Spec{
		Request: writer.Request{ID: req.ID, Verb: "context.overflow", Canonical: canonical},
		Trigger: turns.Trigger{Kind: plan.TriggerOverflow, Detail: turns.Raw(fmt.Sprintf(`{"kind":%q,"window":%d,"tokens":%d}`, refusal.Kind, refusal.Window, refusal.Tokens))},
		Opts:    plan.Options{Budget: budget},
	}, compactions.WaitDuration(req.WaitMS))
	if errors.Is(err, api.ErrNothing) {
		return nil, cx.cannotShorten(ctx, c, session, err)
	}
	if err != nil {
		return nil, err
	}
	get.At = ref.Turn // the context after this compaction, whatever came in meanwhile
	out, err := cx.Context(ctx, c, session, get)
	if err == nil {
		out.Compacted = &ref.Turn
	}
	return out, writer.AfterCommit(err)
}

// OverflowBudget returns the budget to compact to, in tokens as the session counts
// them. It starts from the policy's budget, lowers it if the provider's window is
// smaller than the session's, and scales it if the provider counts more than the
// session. It is always less than the context has now.
func (cx *Contexts) OverflowBudget(ctx context.Context, c reader.Caller, session turns.ID, refusal overflow.ProviderError) (uint64, error) {
	s, err := cx.reader.FindSession(ctx, c, session, true)
	if err != nil {
		return 0, err
	}
	_, set, err := cx.reader.SettingsInForce(ctx, s)
	if err != nil {
		return 0, err
	}
	head, err := cx.reader.HeadNode(s)
	if err != nil {
		return 0, err
	}
	g, pol, err := cx.reader.Gauge(ctx, s, &set, head)
	if err != nil {
		return 0, err
	}
	limits := cx.reader.Limits(&set)
	if refusal.Window > 0 && (limits.ContextWindow == 0 || refusal.Window < limits.ContextWindow) {
		limits.ContextWindow = refusal.Window
	}
	overhead := float64(cx.content.Overhead(pol.CounterOf(), &set))
	budget, have := float64(pol.Budget(limits)), float64(g.Tokens)+overhead
	if refusal.Tokens > 0 && float64(refusal.Tokens) > have {
		budget *= have / float64(refusal.Tokens)
	}
	return uint64(max(1, min(budget, overhead+float64(g.Tokens)*0.75))), nil // no compaction shrinks the overhead
}

// cannotShorten returns the error for an overflow that no compaction can cure.
func (cx *Contexts) cannotShorten(ctx context.Context, c reader.Caller, session turns.ID, why error) error {
	v, err := cx.reader.Get(ctx, c, session, api.Read{})
	if err != nil {
		return err
	}
	return &api.Error{Code: api.Unprocessable, Message: "the context can't be made shorter: " + api.FromError(why).Message,
		Details: map[string]any{"overhead": v.Overhead, "protected": v.Tokens}}
}
