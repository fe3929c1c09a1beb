package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/compactor"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/interchange"
)

// Context is context.get: the exact messages for the next model call at a turn.
//
// With the session's own policy and budget, and at the head, it first commits
// a compaction that is due before the call. With another policy or budget, or at
// an older turn, it is a view and writes nothing.
func (e *Engine) Context(ctx context.Context, c Caller, session turns.ID, req api.GetContext) (*api.Context, error) {
	render, err := renderer(req.Format)
	if err != nil {
		return nil, err
	}
	if req.Query != "" {
		return nil, &api.Error{Code: api.Unsupported, Message: "query: recall by a query is not built yet", Details: map[string]any{"field": "/query"}}
	}
	at, skip, err := contextCursor(req.After)
	if err != nil {
		return nil, err
	}
	if at.IsZero() {
		at = req.At
	}
	var compacted *turns.ID
	if at.IsZero() && req.Policy == nil && req.Budget == 0 && !c.Operator() {
		if compacted, err = e.compactIfDue(ctx, c, session); err != nil {
			return nil, err
		}
	}
	s, head, err := e.headOf(ctx, c, session, at, req.Read)
	if err != nil {
		return nil, err
	}
	v, err := e.contextAt(ctx, s, head, req)
	if err != nil {
		return nil, err
	}
	out, err := e.renderContext(render, v, req)
	if err != nil {
		return nil, err
	}
	out.Compacted, out.Position = compacted, position(s.Tail.Seq)
	return out, pageContext(out, v.path.Head, skip, req.Limit)
}

// contextView is a context in the making.
type contextView struct {
	set     turns.Settings
	policy  compactor.Policy
	path    compactor.Path
	context compactor.Context
	budget  uint64
	due     bool
}

func (e *Engine) contextAt(ctx context.Context, s *ledger.Session, head lineage.Node, req api.GetContext) (*contextView, error) {
	v := new(contextView)
	var err error
	if _, v.set, err = e.inForce(s); err != nil {
		return nil, err
	}
	ref := v.set.Policy
	if req.Policy != nil {
		ref = turns.PolicyRef{Name: req.Policy.Name, Set: req.Policy.Set}
	}
	if v.policy, err = compactor.Resolve(ref); err != nil {
		return nil, err
	}
	if v.path, err = e.path(ctx, s, &v.set, head); err != nil {
		return nil, err
	}
	if v.context, err = compactor.Render(v.path, e.Counter); err != nil {
		return nil, err
	}
	v.budget = v.policy.Budget(v.set.Limits)
	if req.Budget != 0 {
		v.budget = req.Budget
	}
	_, v.due = compactor.Due(v.path, v.policy, v.context.Tokens)
	if need := v.context.Tokens + v.path.Overhead; need > v.budget {
		if v, err = e.squeeze(ctx, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// squeeze makes a view that fits: what a compaction by the policy would leave,
// without writing one.
func (e *Engine) squeeze(ctx context.Context, v *contextView) (*contextView, error) {
	over := func(why string) error {
		return &api.Error{Code: api.Unprocessable, Message: fmt.Sprintf("the context does not fit its budget of %d tokens: %s", v.budget, why),
			Details: map[string]any{"overhead": v.path.Overhead, "protected": v.context.Tokens, "budget": v.budget}}
	}
	if v.path.Overhead >= v.budget {
		return nil, over(fmt.Sprintf("system and tools alone take %d", v.path.Overhead))
	}
	pol := v.policy
	plan, err := compactor.NewPlan(v.path, pol, turns.Trigger{Kind: "overflow"}, compactor.Options{Budget: v.budget})
	if errors.Is(err, compactor.ErrNothing) || errors.Is(err, compactor.ErrOverhead) {
		return nil, over(err.Error())
	}
	if err != nil {
		return nil, err
	}
	res, err := compactor.Run(ctx, plan, e.Tiers, e.Counter)
	if err != nil {
		return nil, over(err.Error())
	}
	v.path = plan.Apply(v.path, res, e.Counter)
	if v.context, err = compactor.Render(v.path, e.Counter); err != nil {
		return nil, err
	}
	if v.context.Tokens+v.path.Overhead > v.budget {
		return nil, over(fmt.Sprintf("%d tokens of messages are left that can't be shortened", v.context.Tokens))
	}
	return v, nil
}

type renderFunc func([]turns.Section, []turns.Raw, []turns.Message) (interchange.Rendered, error)

func renderer(format string) (renderFunc, error) {
	switch format {
	case "", "otel":
		return interchange.OTel, nil
	case "openai":
		return interchange.OpenAI, nil
	case "anthropic":
		return interchange.Anthropic, nil
	case "gemini":
		return interchange.Gemini, nil
	}
	return nil, fieldErr("/format", "%q is not one of otel, openai, anthropic, gemini", format)
}

func (e *Engine) renderContext(render renderFunc, v *contextView, req api.GetContext) (*api.Context, error) {
	r, err := render(v.set.Preamble.System, v.set.Preamble.Tools, v.context.Messages)
	if err != nil {
		return nil, err
	}
	out := &api.Context{
		Messages: raws(r.Messages), System: turns.Raw(r.System), Tools: raws(r.Tools), Tokens: v.context.Tokens,
		Budget: v.budget, Overhead: v.path.Overhead, Fingerprint: v.context.Fingerprint(), Sources: []api.Source{},
	}
	if out.Recipe, err = compactor.NewRecipe(v.path, v.policy, v.budget, e.Counter).JSON(); err != nil {
		return nil, err
	}
	out.Compaction.State = "idle"
	if v.due {
		out.Compaction.State = "due"
	}
	for _, src := range v.context.Sources {
		x := api.Source{Turn: src.Turn.Turn, Half: src.Half.String(), Status: string(src.Status), Tokens: src.Tokens}
		if src.Turn.Session != v.path.Session {
			x.Session = src.Turn.Session
		}
		if src.Half == 0 {
			x.Half = "replacement"
		}
		if req.Explain {
			x.Why = src.Why
		}
		out.Sources = append(out.Sources, x)
	}
	return out, nil
}

func raws(vs []jsontext.Value) []turns.Raw {
	out := make([]turns.Raw, len(vs))
	for i, v := range vs {
		out[i] = turns.Raw(v)
	}
	return out
}

// pageContext leaves the messages from skip on that fit a page. A page pins
// the turn of the first one, so that all are of one context; sources, system and
// tools stand on the first page only.
func pageContext(out *api.Context, head lineage.Node, skip, limit int) error {
	if skip > len(out.Messages) {
		return fieldErr("/after", "past the end of the context")
	}
	if skip > 0 {
		out.Sources, out.System, out.Tools = nil, nil, nil
	}
	all := out.Messages
	out.Messages = all[skip:]
	size := len(out.System)
	for _, t := range out.Tools {
		size += len(t)
	}
	size += 120 * len(out.Sources)
	for i, m := range out.Messages {
		size += len(m) + 1
		if i > 0 && (size > contextPage || (limit > 0 && i >= limit)) {
			out.Messages = out.Messages[:i]
			out.Next = fmt.Sprintf("%s~%d", head.Ref.Turn, skip+i)
			break
		}
	}
	return nil
}

// contextPage is about how many bytes a page of a context holds.
const contextPage = 700 << 10

func contextCursor(after string) (at turns.ID, skip int, err error) {
	if after == "" {
		return turns.ID{}, 0, nil
	}
	bad := fieldErr("/after", "not what a page gave as next")
	id, n, ok := strings.Cut(after, "~")
	at, err = turns.ParseID(id)
	skip, err2 := strconv.Atoi(n)
	if !ok || err != nil || err2 != nil || skip < 1 {
		return at, 0, bad
	}
	return at, skip, nil
}
