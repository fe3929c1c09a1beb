package compactions

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/summary"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
)

// agentTier is the tier of a summary that the agent wrote itself.
const agentTier = "agent"

// takenPlan is the token of a plan that an agent took. It has everything that the
// plan was made from, so that any daemon can make the plan again. The daemon
// remembers nothing between take and submit.
type takenPlan struct {
	Head          turns.ID    `json:"head"`
	Policy        *api.Policy `json:"policy,omitempty,omitzero"`
	Focus         string      `json:"focus,omitzero"`
	FromOriginals bool        `json:"from_originals,omitzero"`
	Digest        turns.Hash  `json:"digest"`
}

// token returns the plan as the contract shows it.
func (p *takenPlan) token() (string, error) {
	b, err := turns.EncodeJSON(p)
	return base64.RawURLEncoding.EncodeToString(b), err
}

// parseTakenPlan parses a token.
func parseTakenPlan(token string) (p takenPlan, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = turns.DecodeJSON(b, &p)
	}
	if err != nil || p.Head.IsZero() {
		return p, api.FieldErrorf("/plan", "not what compaction.take gave")
	}
	return p, nil
}

// spec returns the compaction that the plan is for.
func (p *takenPlan) spec() Spec {
	return Spec{policy: p.Policy, Trigger: turns.Trigger{Kind: plan.TriggerManual},
		Opts: plan.Options{Focus: p.Focus, FromOriginals: p.FromOriginals}}
}

// Take is compaction.take: a plan, with the prompt and the content for a model of
// the agent's own, so that the agent need not share that model's key. It writes
// nothing.
func (cm *Compactions) Take(ctx context.Context, c reader.Caller, session turns.ID, req api.TakeCompaction) (*api.TakenCompaction, error) {
	if err := page.CheckText("/focus", req.Focus, cm.page.TextBytes()); err != nil {
		return nil, err
	}
	t := takenPlan{Policy: req.Policy, Focus: req.Focus, FromOriginals: req.FromOriginals}
	at, skip, of := turns.ID{}, 0, ""
	if req.After != "" {
		cur, err := page.ParseContextCursor(req.After)
		if err != nil || cur.Messages != 0 || cur.Sources != 0 {
			return nil, api.FieldErrorf("/after", "not what a page gave as next")
		}
		at, skip, of = cur.At, cur.Offset, cur.Digest
	}
	epoch := cm.plans.Epoch() // before a key is read
	s, head, err := cm.reader.SessionAt(ctx, c, session, at, req.Read)
	if err != nil {
		return nil, err
	}
	if err := writer.CheckOpen(s); err != nil {
		return nil, err
	}
	if head.Ref.IsZero() {
		return nil, &api.Error{Code: api.Nothing, Message: "the session has no turn to compact"}
	}
	name := planKey{session: session, digest: of, head: head.Ref, focus: t.Focus, originals: t.FromOriginals}
	if t.Policy != nil {
		name.policy = t.Policy.Name + string(t.Policy.Set)
	}
	whole, ok := cm.plans.Get(name)
	if skip == 0 || !ok {
		if whole, err = cm.takeAt(ctx, s, head, t); err != nil {
			return nil, err
		}
		name.digest = page.DigestPrefix(whole.first.Details.Digest)
	}
	if req.After != "" && name.digest != of {
		return nil, page.StaleCursor("plan")
	}
	out := whole.first
	if skip > 0 {
		out.Prompt = ""
	}
	if skip > len(whole.content) {
		return nil, api.FieldErrorf("/after", "past the end of the content")
	}
	rest := []byte(whole.content[skip:min(len(whole.content), skip+cm.page.ContextBytes()/2+utf8.UTFMax)])
	if limit := cm.page.ContextBytes() / 2; len(rest) > limit {
		rest = rest[:page.RuneBoundary(rest, limit)]
		out.Next = page.ContextCursor{At: head.Ref.Turn, Offset: skip + len(rest), Digest: name.digest}.String()
		if skip == 0 || !ok {
			cm.plans.PutIn(epoch, name, whole, len(whole.content))
		}
	}
	out.Content = string(rest)
	return &out, nil
}

// planKey names a plan whose pages are being read, so that later pages are not made
// again.
type planKey struct {
	session   turns.ID
	digest    string // see [page.ContextCursor]
	head      turns.Ref
	policy    string
	focus     string
	originals bool
}

// pagedPlan is everything that the pages of a plan show.
type pagedPlan struct {
	first   api.TakenCompaction // without content
	content string
}

// takeAt plans on a node and renders the plan.
func (cm *Compactions) takeAt(ctx context.Context, s *ledger.Session, head lineage.Node, t takenPlan) (*pagedPlan, error) {
	w, err := cm.planAt(ctx, s, head, t.spec())
	if err != nil {
		return nil, err
	}
	t.Head, t.Digest = head.Ref.Turn, w.plan.Digest
	in := w.plan.Input()
	out := &pagedPlan{first: api.TakenCompaction{MaxTokens: in.MaxTokens, Details: describePlan(w.plan), Prompt: summary.Prompt(in)}, content: summary.Transcript(in)}
	out.first.Plan, err = t.token()
	return out, err
}

// Submit is compaction.submit: the agent's summary for a plan that it took. The
// summary is checked like any other, and committed at the head. If turns came
// meanwhile it is rebased, or refused if that is not legal.
func (cm *Compactions) Submit(ctx context.Context, c reader.Caller, session turns.ID, req api.SubmitCompaction, canonical []byte) (*api.Turn, error) {
	t, err := parseTakenPlan(req.Plan)
	if err == nil {
		err = turns.ValidateUsage("/usage", req.Usage)
	}
	if err != nil {
		return nil, err
	}
	began := cm.reader.Now()
	k := t.spec()
	k.Request = writer.Request{ID: req.ID, Verb: "compaction.submit", Canonical: canonical}
	s, head, err := cm.reader.SessionAt(ctx, c, session, t.Head, api.Read{})
	if err != nil {
		return nil, err
	}
	ref, err := cm.storedCompaction(s, k.Request)
	if err != nil || !ref.IsZero() {
		return cm.compactionTurn(ctx, c, session, ref, err)
	}
	w, err := cm.planAt(ctx, s, head, k)
	if err != nil {
		return nil, err
	}
	if w.plan.Digest != t.Digest {
		return nil, cm.staleSubmit(ctx, c, session, "the session's settings are not those that the plan was made with")
	}
	out, err := w.plan.Answer(req.Text)
	var res compactor.Result
	if err == nil {
		out.Tier, out.Usage = agentTier, req.Usage
		res, err = compactor.Accept(w.plan, out, w.path.Counter)
	}
	if err != nil {
		return nil, &api.Error{Code: api.Unprocessable, Message: err.Error(), Details: map[string]any{"max_tokens": w.plan.SummaryTokens}}
	}
	res.Usage = req.Usage
	if !req.SawThrough.IsZero() {
		if err := cm.sawThrough(s, &w, &res, req.SawThrough); err != nil {
			return nil, err
		}
	}
	ref, at, err := cm.commitCompaction(ctx, c, session, k, w, res)
	if errors.Is(err, plan.ErrStale) {
		return nil, cm.staleSubmit(ctx, c, session, err.Error())
	}
	if err == nil {
		cm.writer.Metrics.Compacted(agentTier, cm.reader.Now().Sub(began))
		cm.notifyApplied(c, session, ref, at, w.plan, res)
	}
	return cm.compactionTurn(ctx, c, session, ref, err)
}

// sawThrough records that the agent saw turns up to id, beyond the plan, when it
// wrote the summary. No fork above that turn reuses the summary, and it is sealed
// under the keys of all sessions up to that turn.
func (cm *Compactions) sawThrough(s *ledger.Session, w *planned, res *compactor.Result, id turns.ID) error {
	plan := w.plan
	n, err := cm.reader.FindTurn(s, id)
	if err != nil {
		return err
	}
	head, err := cm.reader.HeadNode(s)
	if err != nil {
		return err
	}
	shown := n
	if saw := plan.Span.SawThrough; !saw.IsZero() {
		if shown, err = cm.reader.Projections.Node(saw); err != nil {
			return err
		}
	}
	for _, x := range []struct{ above, below lineage.Node }{{shown, n}, {n, head}} {
		if ok, err := lineage.IsAncestor(cm.reader.Projections, x.above, x.below); err != nil || !ok {
			return errors.Join(err, api.FieldErrorf("/saw_through", "not from what the plan shows to the head"))
		}
	}
	from := uint64(1)
	if len(plan.Reads) > 0 {
		from = plan.Reads[0].Depth
	}
	ranges, err := lineage.Segments(cm.reader.Projections, n, min(from, n.Depth))
	if err != nil {
		return err
	}
	for _, r := range ranges {
		w.sources = append(w.sources, r.Session)
	}
	w.plan, res.Span.SawThrough = plan.WithSawThrough(n.Ref), n.Ref // a rebase keeps it
	return nil
}

// storedCompaction returns the compaction that an earlier try of the same request
// stored, the zero Ref if there is none.
func (cm *Compactions) storedCompaction(s *ledger.Session, r writer.Request) (turns.Ref, error) {
	ev, err := cm.writer.StoredEvent(s, r)
	if ev == nil || err != nil {
		return turns.Ref{}, err
	}
	return ev.Ref(), nil
}

// compactionTurn returns a stored compaction as the contract shows it, or err.
func (cm *Compactions) compactionTurn(ctx context.Context, c reader.Caller, session turns.ID, ref turns.Ref, err error) (*api.Turn, error) {
	if err != nil {
		return nil, err
	}
	t, err := cm.reader.GetTurn(ctx, c, session, api.GetTurn{ID: ref.Turn})
	return t, writer.AfterCommit(err)
}

// staleSubmit returns the error for a plan that no longer holds.
func (cm *Compactions) staleSubmit(ctx context.Context, c reader.Caller, session turns.ID, why string) error {
	s, err := cm.reader.FindSession(ctx, c, session, true)
	if err != nil {
		return err
	}
	return writer.HeadMoved(s, fmt.Sprintf("the plan no longer holds (%s); take another", why))
}
