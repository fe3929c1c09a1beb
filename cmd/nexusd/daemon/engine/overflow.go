package engine

import (
	"context"
	"errors"
	"fmt"

	"nexus/compactor/overflow"
	"nexus/compactor/plan"
	"nexus/ledger/api"
	"nexus/turns"
)

// Overflow is context.overflow: the provider refused the context as too long.
// The error is read, the session is compacted by what the provider said of its
// window and its count, and the reply is the context that is left.
//
// The error's text is not stored: it may quote what was said. Its numbers are.
func (e *Engine) Overflow(ctx context.Context, c Caller, session turns.ID, req api.Overflow, canonical []byte) (*api.Context, error) {
	get := api.GetContext{Format: req.Format, Page: req.Page}
	if req.After != "" {
		return e.Context(ctx, c, session, get)
	}
	if _, err := renderer(req.Format); err != nil {
		return nil, err
	}
	said := overflow.Read(req.Status, req.Error)
	if !said.Overflow() {
		return nil, &api.Error{Code: api.Unprocessable, Message: fmt.Sprintf("this is not a context overflow but %s; a shorter context would not mend it", said.Kind),
			Details: map[string]any{"kind": string(said.Kind)}}
	}
	budget, err := e.overflowBudget(ctx, c, session, said)
	if err != nil {
		return nil, err
	}
	ref, err := e.compactInTime(ctx, c, session, compaction{
		request: request{id: req.ID, what: "context.overflow", canonical: canonical},
		trigger: turns.Trigger{Kind: plan.TriggerOverflow, Detail: turns.Raw(fmt.Sprintf(`{"kind":%q,"window":%d,"tokens":%d}`, said.Kind, said.Window, said.Tokens))},
		opts:    plan.Options{Budget: budget},
	}, waitOf(req.WaitMS))
	if errors.Is(err, api.ErrNothing) {
		return nil, e.nothingLeft(ctx, c, session, err)
	}
	if err != nil {
		return nil, err
	}
	get.At = ref.Turn // what this compaction left, whatever came in meanwhile
	out, err := e.Context(ctx, c, session, get)
	if err == nil {
		out.Compacted = &ref.Turn
	}
	return out, written(err)
}

// overflowBudget is the budget to compact to, in tokens as the session counts
// them: its own, less if the provider's window is smaller than the one set, and
// less by as much as the provider counts more than we do. It is always less than
// the context has now.
func (e *Engine) overflowBudget(ctx context.Context, c Caller, session turns.ID, said overflow.ProviderError) (uint64, error) {
	s, err := e.row(ctx, c, session, true)
	if err != nil {
		return 0, err
	}
	_, set, err := e.inForce(ctx, s)
	if err != nil {
		return 0, err
	}
	head, err := e.headNode(s)
	if err != nil {
		return 0, err
	}
	g, pol, err := e.gauge(s, &set, head)
	if err != nil {
		return 0, err
	}
	limits := e.limits(&set)
	if said.Window > 0 && (limits.ContextWindow == 0 || said.Window < limits.ContextWindow) {
		limits.ContextWindow = said.Window
	}
	overhead := float64(e.overhead(pol.CounterOf(), &set))
	budget, have := float64(pol.Budget(limits)), float64(g.Tokens)+overhead
	if said.Tokens > 0 && float64(said.Tokens) > have {
		budget *= have / float64(said.Tokens)
	}
	return uint64(max(1, min(budget, overhead+float64(g.Tokens)*0.75))), nil // overhead stays, whatever is done
}

// nothingLeft says why an overflow can't be mended.
func (e *Engine) nothingLeft(ctx context.Context, c Caller, session turns.ID, why error) error {
	v, err := e.Get(ctx, c, session, api.Read{})
	if err != nil {
		return err
	}
	return &api.Error{Code: api.Unprocessable, Message: "the context can't be made shorter: " + api.FromError(why).Message,
		Details: map[string]any{"overhead": v.Overhead, "protected": v.Tokens}}
}
