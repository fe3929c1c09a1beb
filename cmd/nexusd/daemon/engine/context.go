package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/view"
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
	cur, err := parseContextCursor(req.After)
	if err != nil {
		return nil, err
	}
	if req.Limit < 0 {
		return nil, fieldErr("/limit", "%d is below 0", req.Limit)
	}
	recipe, err := recipeOf(session, req)
	if err != nil {
		return nil, err
	}
	at := cur.at
	if at.IsZero() {
		at = req.At
	}
	if recipe != nil {
		at = recipe.Head.Turn
	}
	began := e.Now()
	var compacted *turns.ID
	var d *decision
	if at.IsZero() && req.Policy == nil && req.Budget == 0 && recipe == nil && !c.Operator() {
		if compacted, d, err = e.compactIfDue(ctx, c, session, waitOf(req.WaitMS)); err != nil {
			return nil, err
		}
	}
	s, head, err := e.headOf(ctx, c, session, at, req.Read)
	if err != nil {
		return nil, err
	}
	if recipe != nil && at.IsZero() {
		head = lineage.Node{} // before the first turn
	}
	name := contextName{session: session, of: cur.of, head: head.Ref, format: req.Format, budget: req.Budget, recipe: string(req.Recipe), explain: req.Explain}
	if req.Policy != nil {
		name.policy = req.Policy.Name + string(req.Policy.Set)
	}
	whole, ok := e.pages.get(name)
	if !cur.begun || !ok {
		v, err := e.contextAt(ctx, s, head, req, recipe, d.seen(s))
		if err != nil {
			return nil, err
		}
		out, err := e.renderContext(render, v, req)
		if err != nil {
			return nil, err
		}
		whole = *out
		name.of = digestPrefix(turns.HashEvent([]byte(req.Format + " " + whole.Fingerprint)))
	}
	if cur.begun && name.of != cur.of {
		return nil, otherPages("context")
	}
	if !cur.begun {
		e.trace(ctx, "context", slog.Any("session", session), slog.Any("head", head.Ref.Turn), slog.Int("messages", len(whole.Messages)),
			slog.Uint64("tokens", whole.Tokens), slog.Uint64("overhead", whole.Overhead), slog.Uint64("budget", whole.Budget),
			slog.Bool("compacted", compacted != nil), slog.Duration("took", e.Now().Sub(began)))
	}
	cur.of = name.of
	out := whole
	out.Compacted, out.Position = compacted, position(s.Tail.Seq)
	if e.preparing(session) {
		out.Compaction.State = "preparing"
	}
	if err := pageContext(&out, head, cur, req.Limit, e.contextBytes(), e.payload()/2); err != nil {
		return nil, err
	}
	if out.Next != "" && (!ok || !cur.begun) {
		e.pages.put(name, whole, contextSize(&whole))
	}
	return &out, nil
}

// contextName names a context that is being paged, so that its pages after the
// first are not rendered again.
type contextName struct {
	session turns.ID
	of      string // what the pages are of, see contextCursor
	head    turns.Ref
	format  string
	policy  string
	budget  uint64
	recipe  string
	explain bool
}

// otherPages is the answer to a cursor whose pages can no longer be made: what
// they are of depends on settings, which were changed since.
func otherPages(what string) error {
	return &api.Error{Code: api.Conflict, Message: "the " + what + " is not that of the first page any more: begin again, without after",
		Details: map[string]any{"field": "/after"}}
}

// digestPrefix is enough of a digest to tell whether two are the same by accident.
func digestPrefix(h turns.Hash) string { return hex.EncodeToString(h[:8]) }

func contextSize(c *api.Context) int {
	n := len(c.System) + len(c.Recipe) + 200*len(c.Sources)
	for _, m := range c.Messages {
		n += len(m)
	}
	for _, t := range c.Tools {
		n += len(t)
	}
	return n
}

// contextView is a context in the making.
type contextView struct {
	given
	path    view.Path
	recipe  view.Recipe
	context view.Context
	due     bool
	flush   api.FlushState

	reported uint64 // by the provider; 0: it counted nothing that is in force
}

// contextAt makes the context at a node; of seen, if it is there, what it takes is
// not loaded again.
func (e *Engine) contextAt(ctx context.Context, s *ledger.Session, head lineage.Node, req api.GetContext, recipe *view.Recipe, seen *decision) (v *contextView, err error) {
	v = new(contextView)
	if v.given, err = e.given(ctx, s, head, req, recipe); err != nil {
		return nil, err
	}
	if seen != nil {
		v.path, v.context = seen.path, *seen.context
	} else {
		if v.path, err = e.path(ctx, s, &v.set, v.policy, head); err != nil {
			return nil, err
		}
		if v.path, err = v.onto(v.path); err != nil {
			return nil, err
		}
		if v.context, err = view.Render(v.path, v.path.Counter); err != nil {
			return nil, err
		}
	}
	v.recipe = v.writes(v.path)
	load := v.path.MeasureLoad(v.context.Tokens)
	v.reported = load.Reported
	_, v.due = plan.DueAt(v.path, v.policy, load)
	if req.Policy == nil && v.by == nil && head.Ref == s.Head {
		if req.At.IsZero() {
			e.measure(s, v.policy, v.path, v.context)
		}
		if v.flush, err = e.flushState(s, v.policy, head, plan.FlushDue(v.path, v.policy, load)); err != nil {
			return nil, err
		}
	}
	if v.bounded && !v.fits() {
		small, err := e.squeeze(ctx, v)
		if err == nil {
			return small, nil
		}
		if !plan.MayFit(v.policy, v.path, v.context.Tokens, v.budget) {
			return nil, err
		}
	}
	return v, nil
}

// fits reports whether the context fits its budget: one that was asked for is in
// the counter's own tokens, the policy's is what the provider is taken to count.
func (v *contextView) fits() bool {
	if v.asks() > 0 {
		return plan.MayFit(v.policy, v.path, v.context.Tokens, v.budget)
	}
	return plan.Fits(v.policy, v.path, v.context.Tokens, v.budget)
}

// asks is the budget that was asked for in place of the policy's; 0: none.
func (v *contextView) asks() uint64 {
	if v.budget == v.policy.Budget(v.limits) {
		return 0
	}
	return v.budget
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
	small := *v
	v = &small
	v.reported = 0 // it counted what does not fit
	pol := v.policy
	pl, err := plan.New(v.path, pol, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{Budget: v.asks()})
	if errors.Is(err, plan.ErrNothing) || errors.Is(err, plan.ErrOverhead) {
		return nil, over(err.Error())
	}
	if err != nil {
		return nil, err
	}
	res, err := compactor.Run(ctx, pl, local(e.Tiers), v.path.Counter, nil)
	if err != nil {
		return nil, over(err.Error())
	}
	v.path = compactor.Apply(pl, v.path, res, v.path.Counter)
	if v.context, err = view.Render(v.path, v.path.Counter); err != nil {
		return nil, err
	}
	if !plan.MayFit(v.policy, v.path, v.context.Tokens, v.budget) {
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
	if err := e.whole(v.context.Messages); err != nil {
		return nil, err
	}
	r, err := render(v.set.Preamble.System, v.set.Preamble.Tools, v.context.Messages)
	if err != nil {
		return nil, err
	}
	out := &api.Context{
		Messages: raws(r.Messages), System: turns.Raw(r.System), Tools: raws(r.Tools), Tokens: v.context.Tokens,
		Budget: v.budget, Overhead: v.path.Overhead, Reported: v.reported,
		WindowGuess: v.asks() == 0 && windowGuessed(v.policy, v.limits), Fingerprint: v.context.Fingerprint(), Sources: []api.Source{},
	}
	if out.Recipe, err = v.recipe.JSON(); err != nil {
		return nil, err
	}
	if req.Explain {
		out.Preamble = preambleParts(v.path.Counter, v.set.Preamble)
	}
	out.Flush = v.flush
	out.Compaction.State = "idle"
	if v.due {
		out.Compaction.State = e.dueState(v.path.Session, v.path.Head.Ref.Turn)
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

// pageContext leaves what fits a page: system and tools on the first one, then
// messages, then sources. A page pins the turn of the first one, so that all are
// of one context. A page is about most bytes; a message that is larger comes
// alone, and one of more than largest bytes in pieces of its JSON.
func pageContext(out *api.Context, head lineage.Node, cur contextCursor, limit, most, largest int) error {
	if cur.messages > len(out.Messages) || cur.sources > len(out.Sources) || (cur.offset > 0 && cur.messages == len(out.Messages)) {
		return fieldErr("/after", "past the end of the context")
	}
	size := len(out.System) + 512 + len(out.Recipe)
	for _, p := range out.Preamble {
		size += len(p.Name) + 64
	}
	for _, t := range out.Tools {
		size += len(t) + 1
	}
	if cur.begun {
		out.System, out.Tools, out.Preamble, size = nil, nil, nil, 512+len(out.Recipe)
	}
	next := cur
	next.at = head.Ref.Turn
	all, sources := out.Messages[cur.messages:], out.Sources[cur.sources:]
	out.Messages, out.Sources = []turns.Raw{}, []api.Source{}
	for _, m := range all {
		if len(m) > largest {
			if len(out.Messages) > 0 || (!cur.begun && size > most/2) {
				break
			}
			piece := m[min(next.offset, len(m)):]
			if len(piece) > largest/2 { // escaped again inside a JSON string
				piece = piece[:cutRune(piece, largest/2)]
			}
			out.Partial = string(piece)
			if next.offset += len(piece); next.offset >= len(m) {
				out.PartialEnd = true
				next.messages, next.offset = next.messages+1, 0
			}
			break
		}
		size += len(m) + 1
		if begun := cur.begun || len(out.Messages) > 0; (!begun && size > largest) || (len(out.Messages) > 0 && (size > most || (limit > 0 && len(out.Messages) >= limit))) {
			break
		}
		out.Messages = append(out.Messages, m)
		next.messages++
	}
	if done := next.messages == cur.messages+len(all); done {
		for _, src := range sources {
			if size += 200 + len(src.Why); len(out.Sources) > 0 && size > most {
				break
			}
			out.Sources = append(out.Sources, src)
			next.sources++
		}
	}
	if next.messages < cur.messages+len(all) || next.sources < cur.sources+len(sources) {
		out.Next = next.String()
	}
	return nil
}

// cutRune is the largest n up to most where b has a whole character before it.
func cutRune(b []byte, most int) int {
	for n := most; n > most-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(b[n]) {
			return n
		}
	}
	return most
}

// contextCursor is where a page of a context begins.
type contextCursor struct {
	at                turns.ID
	messages, sources int    // that earlier pages held
	offset            int    // bytes of the next message that earlier pages held
	of                string // beginning of a digest of what all the pages are of
	begun             bool
}

func (c contextCursor) String() string {
	return fmt.Sprintf("%s~%d~%d~%d~%s", c.at, c.messages, c.offset, c.sources, c.of)
}

func parseContextCursor(after string) (c contextCursor, err error) {
	if after == "" {
		return c, nil
	}
	f := strings.Split(after, "~")
	ok := len(f) == 5
	if ok {
		c.of = f[4]
		c.at, err = turns.ParseID(f[0])
		for i, to := range []*int{&c.messages, &c.offset, &c.sources} {
			n, nerr := strconv.ParseUint(f[i+1], 10, 31)
			*to, err = int(n), errors.Join(err, nerr)
		}
	}
	c.begun = true
	if !ok || err != nil {
		return contextCursor{}, fieldErr("/after", "not what a page gave as next")
	}
	return c, nil
}
