package contexts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/cmd/internal/engine/compactions"
	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/render"
)

// Context is context.get: the exact messages of the next model call at a turn.
//
// With the session's own policy and budget, at the head, it first commits a
// compaction that is due. With another policy or budget, at an older turn, or while
// the disk takes no writes, it writes nothing.
func (cx *Contexts) Context(ctx context.Context, c reader.Caller, session turns.ID, req api.GetContext) (*api.Context, error) {
	render, err := renderer(req.Format)
	if err != nil {
		return nil, err
	}
	if len(req.Query) > maxQuery {
		return nil, &turns.FieldError{Field: "/query", Reason: fmt.Sprintf("%d bytes, the limit is %d", len(req.Query), maxQuery), Kind: ledger.ErrTooLarge}
	}
	cur, err := page.ParseContextCursor(req.After)
	if err != nil {
		return nil, err
	}
	if req.Limit < 0 {
		return nil, api.FieldErrorf("/limit", "%d is below 0", req.Limit)
	}
	if err := checkRecorded(&req); err != nil {
		return nil, err
	}
	if err := checkHave(req.Have); err != nil {
		return nil, err
	}
	recipe, err := recipeOf(session, req)
	if err != nil {
		return nil, err
	}
	if req.Query == "" && req.QueryTokens > 0 {
		return nil, api.FieldErrorf("/query_tokens", "it bounds what a query brings back, and there is no query")
	}
	at := cur.At
	if at.IsZero() {
		at = req.At
	}
	if recipe != nil {
		at = recipe.Head.Turn
	}
	epoch := cx.pages.Epoch() // before a key is read
	began, fresh := cx.reader.Now(), !req.StaleOK && !cx.reader.AccessNow().Stale()
	var compacted *turns.ID
	var d *compactions.Decision
	if at.IsZero() && req.Policy == nil && req.Budget == 0 && recipe == nil && !c.Operator() && !cx.reader.AccessNow().Stale() {
		if compacted, d, err = cx.compactions.CompactIfDue(ctx, c, session, compactions.WaitDuration(req.WaitMS)); err != nil {
			return nil, err
		}
		// The decision read the session as of the end that its chain had by then.
		req.StaleOK = req.StaleOK || compacted == nil
	}
	s, head, err := cx.reader.SessionAt(ctx, c, session, at, req.Read)
	if err != nil {
		return nil, err
	}
	if recipe != nil && at.IsZero() {
		head = lineage.Node{} // before the first turn
	}
	name := pageKey{session: session, digest: cur.Digest, head: head.Ref, format: req.Format, model: req.Model, budget: req.Budget, recipe: string(req.Recipe), query: req.Query, queryTokens: req.QueryTokens, explain: req.Explain, recorded: req.Recorded, before: req.Before, brief: req.Have != nil}
	if req.Policy != nil {
		name.policy = req.Policy.Name + string(req.Policy.Set)
	}
	whole, ok := cx.pages.Get(name)
	keep := 0
	if !cur.Started || !ok {
		var v *contextView
		by := ""
		if req.Recorded {
			v, by, err = cx.recordedView(ctx, s, head, req)
		} else {
			v, err = cx.viewAt(ctx, s, head, req, recipe, true, d.ReusableFor(s), fresh)
		}
		if recipe == nil && !req.Recorded && !req.At.IsZero() && isUnresolved(err) { // the next turn's recipe may be the cause
			v, err = cx.viewAt(ctx, s, head, req, nil, false, nil, fresh)
		}
		if err != nil {
			return nil, err
		}
		out, sums, err := cx.renderContext(epoch, render, v, req)
		if err != nil {
			return nil, err
		}
		if keep, err = cx.keepOf(epoch, s, head, &req, out, sums); err != nil {
			return nil, err
		}
		if keep == 0 || req.Explain || cur.Started {
			out.Sources = v.sources(req.Explain)
		}
		if out.Recorded = by; by == byPath {
			out.Recipe = nil // no recipe leads to it
		}
		whole = *out
		// One fingerprint under two system parts is two lists of OpenAI's messages: both digests say which messages a page has.
		name.digest = page.DigestPrefix(turns.Digest("context", []byte(whole.PreambleDigest+" "+whole.Fingerprint)))
	}
	if cur.Started && name.digest != cur.Digest {
		return nil, page.StaleCursor("context")
	}
	if !cur.Started {
		cx.compactions.Trace(ctx, "context", slog.Any("session", session), slog.Any("head", head.Ref.Turn), slog.Int("messages", len(whole.Messages)),
			slog.Uint64("tokens", whole.Tokens), slog.Uint64("overhead", whole.Overhead), slog.Uint64("budget", whole.Budget),
			slog.Bool("compacted", compacted != nil), slog.Duration("took", cx.reader.Now().Sub(began)))
	}
	cur.Digest = name.digest
	out := whole
	out.Compacted, out.Position = compacted, page.FormatPosition(s.Tail.Seq)
	if cx.compactions.IsPreparing(session) {
		out.Compaction.State = "preparing"
	}
	if keep > 0 && !cur.Started {
		cur = leaveOut(&out, keep, cur, &req)
	}
	if err := pageContext(&out, head, cur, req.Limit, cx.page.ContextBytes(), cx.page.Payload()/2); err != nil {
		return nil, err
	}
	if out.Next != "" && (!ok || !cur.Started) {
		cx.pages.PutIn(epoch, name, whole, contextSize(&whole))
	}
	return &out, nil
}

// contextView is a context while it is made.
type contextView struct {
	inputs
	path    view.Path
	made    view.Recipe
	context view.Context
	due     bool
	flush   api.FlushState

	reported uint64 // the provider's count, 0 if it counted no such context

	own   []summary.HalfTurn // of the recorded turn, behind the path
	added view.Shown         // behind the session's own system part
	notes []api.Source       // what a query did not bring back
}

// viewAt makes the context at a node with all that is added to it. stored: by the recipe
// that the next turn came with.
func (cx *Contexts) viewAt(ctx context.Context, s *ledger.Session, head lineage.Node, req api.GetContext, recipe *view.Recipe, stored bool, decided *compactions.Decision, fresh bool) (*contextView, error) {
	v, err := cx.contextAt(ctx, s, head, req, recipe, stored, decided)
	if err != nil {
		return nil, err
	}
	if v, err = cx.remember(ctx, s, head, v, req.Query, fresh); err != nil {
		return nil, err
	}
	return cx.addExcerpts(ctx, s, head, v, req)
}

// isUnresolved reports whether an error may be that of a recipe which names what is not
// there. An agent may store such a recipe: then it is of no context.
func isUnresolved(err error) bool {
	return errors.Is(err, turns.ErrMalformed) || errors.Is(err, turns.ErrUnsupported) || errors.Is(err, ledger.ErrUnprocessable)
}

// contextAt makes the context at a node. decided, if not nil, has the path loaded
// and rendered already.
func (cx *Contexts) contextAt(ctx context.Context, s *ledger.Session, head lineage.Node, req api.GetContext, recipe *view.Recipe, stored bool, decided *compactions.Decision) (v *contextView, err error) {
	v = new(contextView)
	if v.inputs, err = cx.inputsAt(ctx, s, head, req, recipe, stored); err != nil {
		return nil, err
	}
	if decided != nil {
		v.path, v.context = decided.Path, *decided.Context
	} else {
		if v.path, err = cx.paths.Load(ctx, s, &v.set, v.policy, head); err != nil {
			return nil, err
		}
		if v.path, err = v.applyTo(v.path); err != nil {
			return nil, err
		}
		if v.context, err = cx.paths.Render(v.path); err != nil {
			return nil, err
		}
	}
	v.made = v.newRecipe(v.path)
	load := v.path.MeasureLoad(v.context.Tokens)
	v.reported = load.Reported
	_, v.due = plan.DueAt(v.path, v.policy, load)
	if req.Policy == nil && v.source == nil && head.Ref == s.Head {
		if req.At.IsZero() {
			cx.paths.RememberLoaded(s, v.policy, v.path, v.context)
		}
		if v.flush, err = cx.compactions.FlushState(s, v.policy, head, plan.FlushDue(v.path, v.policy, load)); err != nil {
			return nil, err
		}
	}
	if v.bounded && !v.fits() {
		small, err := cx.squeeze(ctx, v)
		if err == nil && recipe != nil && small.made.Summary != recipe.Summary {
			return nil, &turns.FieldError{Field: "/recipe/summary", Kind: turns.ErrUnsupported,
				Reason: fmt.Sprintf("%.40q wrote the summary of this context, this build has %q", recipe.Summary, small.made.Summary)}
		}
		if err == nil {
			return small, nil
		}
		if !plan.MayFit(v.policy, v.path, v.context.Tokens, v.budget) {
			return nil, err
		}
	}
	return v, nil
}

// fits reports whether the context fits its budget. A requested budget is in tokens
// of the counter; that of the policy allows for the provider's higher count.
func (v *contextView) fits() bool {
	if v.requestedBudget() > 0 {
		return plan.MayFit(v.policy, v.path, v.context.Tokens, v.budget)
	}
	return plan.Fits(v.policy, v.path, v.context.Tokens, v.budget)
}

// requestedBudget returns the budget that replaces the policy's, 0 if none does.
func (v *contextView) requestedBudget() uint64 {
	if v.budget == v.policy.Budget(v.limits) {
		return 0
	}
	return v.budget
}

// squeeze returns a view that fits its budget: the context that a compaction by the
// policy would leave. It writes nothing.
func (cx *Contexts) squeeze(ctx context.Context, v *contextView) (*contextView, error) {
	over := func(why string) error {
		return &api.Error{Code: api.Unprocessable, Message: fmt.Sprintf("the context does not fit its budget of %d tokens: %s", v.budget, why),
			Details: map[string]any{"overhead": v.path.Overhead, "protected": v.context.Tokens, "budget": v.budget}}
	}
	if v.path.Overhead >= v.budget {
		return nil, over(fmt.Sprintf("system and tools alone take %d", v.path.Overhead))
	}
	small := *v
	v = &small
	v.reported = 0 // the provider counted the larger context
	pol := v.policy
	pl, err := plan.New(v.path, pol, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{Budget: v.requestedBudget()})
	if errors.Is(err, plan.ErrNothing) || errors.Is(err, plan.ErrOverhead) {
		return nil, over(err.Error())
	}
	if err != nil {
		return nil, err
	}
	res, err := compactor.Run(ctx, pl, compactions.LocalTiers(cx.paths.Tiers), v.path.Counter, nil)
	if err != nil {
		return nil, over(err.Error())
	}
	v.made.Summary = compactor.SummaryVersion(cx.paths.Tiers, res.Body.Tier)
	v.path = compactor.Apply(pl, v.path, res, v.path.Counter)
	if v.context, err = view.Render(v.path, v.path.Counter); err != nil {
		return nil, err
	}
	if !plan.MayFit(v.policy, v.path, v.context.Tokens, v.budget) {
		return nil, over(fmt.Sprintf("%d tokens of messages are left that can't be shortened", v.context.Tokens))
	}
	return v, nil
}

// renderFunc renders a context in the format of a provider, after an earlier one.
type renderFunc func(*render.Memo, []turns.Section, []turns.Raw, []turns.Message) (render.Rendered, error)

// renderer returns the renderFunc of a format.
func renderer(format string) (renderFunc, error) {
	switch format {
	case "", "otel":
		return (*render.Memo).OTel, nil
	case "openai":
		return (*render.Memo).OpenAI, nil
	case "anthropic":
		return (*render.Memo).Anthropic, nil
	case "gemini":
		return (*render.Memo).Gemini, nil
	}
	return nil, api.FieldErrorf("/format", "%q is not one of otel, openai, anthropic, gemini", format)
}

// renderContext renders a view as the contract shows it, all pages together, and returns the
// digests of its messages too.
func (cx *Contexts) renderContext(epoch uint64, format renderFunc, v *contextView, req api.GetContext) (*api.Context, []messageSum, error) {
	name := renderedKey{v.path.Session, v.digest, req.Format}
	before, ok := cx.rendered.Get(name)
	if !ok {
		before = &rendered{memo: new(render.Memo)}
	}
	shared := turns.CommonMessages(before.messages, v.context.Messages)
	if err := cx.paths.CheckWhole(v.context.Messages[shared:]); err != nil {
		return nil, nil, err
	}
	preamble := v.set.Preamble
	preamble.System = append(slices.Clip(preamble.System), v.added.Sections...)
	r, err := format(before.memo, preamble.System, preamble.Tools, v.readable(v.caller(req)))
	if err != nil {
		return nil, nil, err
	}
	now := before.after(v.context.Messages, shared, &r)
	stored, err := cx.content.PreambleDigest(&v.set)
	if err != nil {
		return nil, nil, err
	}
	out := &api.Context{
		Messages: now.shown.Items(), System: turns.Raw(r.System), Tools: raws(r.Tools), Tokens: v.context.Tokens,
		Budget: v.budget, Overhead: v.path.Overhead + v.added.Tokens, Reported: v.reported,
		WindowGuess: v.requestedBudget() == 0 && reader.WindowGuessed(v.policy, v.limits), Fingerprint: now.fingerprint().AddSections(v.added.Sections).String(), Sources: []api.Source{},
		PreambleDigest: turns.Digest("context.preamble", []byte(req.Format+" "+v.caller(req)+" "+stored.String()+" "+now.systemSum.String()+" "+view.NewFingerprint().AddSections(v.added.Sections).String())).String(),
	}
	if !ok || (req.At.IsZero() && v.source == nil) { // an older context does not replace the newest
		size := now.size // the system part has its JSON in the memo
		for _, s := range preamble.System {
			size += len(s.Content)
		}
		cx.rendered.PutIn(epoch, name, now, size)
	}
	if out.Recipe, err = v.made.JSON(); err != nil {
		return nil, nil, err
	}
	if req.Explain {
		out.Preamble = content.PreambleParts(v.path.Counter, preamble)
	}
	out.Flush = v.flush
	out.Compaction.State = "idle"
	if v.due {
		out.Compaction.State = cx.compactions.DueState(v.path.Session, v.path.Head.Ref.Turn)
	}
	return out, now.sums.Items(), nil
}

// sources says where each part of a context comes from, and with explain why it is there.
func (v *contextView) sources(explain bool) []api.Source {
	out := []api.Source{}
	for _, src := range v.added.Sources {
		x := api.Source{Memory: src.ID, Turn: src.Source.Turn, Half: "memory", Status: string(src.Status), Tokens: src.Tokens}
		if src.Source.Session != v.path.Session {
			x.Session = src.Source.Session
		}
		if explain {
			x.Why = src.Why
		}
		out = append(out, x)
	}
	out = slices.Grow(out, len(v.context.Sources)+len(v.notes))
	var messages []uint64 // of each source
	if explain {
		messages = make([]uint64, len(v.context.Sources))
		for _, i := range v.context.Origins {
			messages[i]++
		}
	}
	for i, src := range v.context.Sources {
		x := api.Source{Turn: src.Turn.Turn, Half: src.Half.String(), Status: string(src.Status), Tokens: src.Tokens}
		if src.Turn.Session != v.path.Session {
			x.Session = src.Turn.Session
		}
		if src.Half == 0 {
			x.Half = "replacement"
		}
		if explain {
			x.Why, x.Messages = src.Why, messages[i]
		}
		out = append(out, x)
	}
	return append(out, v.notes...)
}

// raws converts rendered messages to the type of the contract.
func raws(vs []jsontext.Value) []turns.Raw {
	out := make([]turns.Raw, len(vs))
	for i, v := range vs {
		out[i] = turns.Raw(v)
	}
	return out
}
