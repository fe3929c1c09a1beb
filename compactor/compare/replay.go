package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"nexus/compactor"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Options are the same for every policy of a comparison.
type Options struct {
	Limits turns.Limits     // the model's; zero fields mean the policy's defaults
	Tiers  []compactor.Tier // summarizers, before the notice
	Each   func()           // called after each model call; nil: not called
}

// Call is one model call of a replay.
type Call struct {
	Turn      int    // index in the transcript
	Tokens    uint64 // in the context, system and tools included
	Counted   uint64 // the same by the policy's counter
	Compacted bool   // a compaction that covers turns came into force
	Elided    bool   // a compaction that shortens whole parts came into force
	Rewritten uint64 // tokens written to the cache again, without those new since the last call
	Over      bool   // the context exceeds the policy's budget
	Usage     Usage
}

// Replay is the result of replaying a transcript under one policy.
type Replay struct {
	Policy   policy.Policy
	Budget   uint64 // tokens that a context may have
	Calls    []Call
	Rewrites []Rewrite
	Survival Survival

	Summarized uint64       // tokens that summarizers read
	Last       view.Context // of the last call
	Reported   Reported
}

// Rewrite is a compaction that the policy made because its forecast paid
// ([policy.Cost]), and what it really saved.
type Rewrite struct {
	Expected  plan.Forecast
	Rewritten uint64 // tokens that the next call wrote to the cache again
	Saved     uint64 // tokens that each call reads less, by the policy's counter
	Calls     int    // calls until the next compaction, or the end
}

// Payback returns after how many calls the rewrite was paid for, at prices p.
func (w *Rewrite) Payback(p tokens.Price) float64 {
	return float64(w.Rewritten) * float64(p.CacheWrite) / (float64(max(w.Saved, 1)) * float64(p.CacheRead))
}

// Replay makes each model call of t under pol. It compacts a due context before its
// call or, in background mode if the context still fits, from the next call on. Mode
// manual never compacts. A context that does not fit is counted as it is, though a
// provider would refuse it.
//
// The path is that of a session whose agent appends what it sends before its call,
// and the answer afterwards as a turn of its own
// (docs/decisions/0003-completing-a-pending-turn.md).
//
// Error: ctx's, or that of a summarizer that ctx ended.
func (t *Transcript) Replay(ctx context.Context, pol policy.Policy, opt Options) (*Replay, error) {
	r := t.begin(pol, opt)
	for i := range t.turns {
		if err := r.turn(ctx, i); err != nil {
			return nil, fmt.Errorf("replay under %s, turn %d of %d: %w", pol.Name, i+1, len(t.turns), err)
		}
	}
	return r.out, nil
}

// replay is the state of a running replay.
type replay struct {
	t    *Transcript
	opt  Options
	out  *Replay
	path view.Path
	// counter is the policy's: decisions use it. The transcript's counter counts
	// what is billed and what providers report.
	counter    tokens.Counter
	beforeCall *view.InForce // the compaction in force that a call's own compactions start from

	prepared  *prepared       // made in the background at the last call
	came      Call            // says which recorded compactions came into force since the last call
	made      uint64          // number of compactions
	last      []turns.Message // context of the last call
	fresh     uint64          // tokens of the halves since the last call
	sent      uint64          // tokens of the last context, system and tools included
	covered   []bool          // by place: a compaction covers it
	verbatim  []int32         // by place: see visible.mark
	summary   *page           // the summary at the last scored call
	shortened map[int32]*page // by place
}

func (t *Transcript) begin(pol policy.Policy, opt Options) *replay {
	c := t.by(pol.CounterOf())
	return &replay{
		t: t, opt: opt, out: &Replay{Policy: pol, Budget: pol.Budget(opt.Limits)}, counter: c,
		path: view.Path{
			Session: session, Overhead: uint64(float64(t.overhead) * tokens.Scale(c.Name())), Limits: opt.Limits, Counter: c, View: pol.Prune,
		},
		covered: make([]bool, 2*len(t.turns)), verbatim: make([]int32, 2*len(t.turns)), shortened: make(map[int32]*page),
	}
}

// prepared is a compaction that is made but not committed.
type prepared struct {
	pl  *plan.Plan
	res compactor.Result
}

// turn appends a turn and makes its call, if it has one.
func (r *replay) turn(ctx context.Context, i int) error {
	turn := &r.t.turns[i]
	if r.out.Policy.Name == policy.RecordedName {
		if err := r.record(i); err != nil {
			return err
		}
	}
	if len(turn.Messages) > 0 {
		r.grow(ref(turnRef, uint64(i)), turns.KindTurn)
		r.half(i, turns.MessagesHalf)
	}
	if turn.Response == nil {
		return nil
	}
	if err := r.call(ctx, i); err != nil {
		return err
	}
	r.grow(ref(answerRef, uint64(i)), turns.KindTurn)
	r.half(i, turns.ResponseHalf)
	return nil
}

// grow adds a node at the head.
func (r *replay) grow(to turns.Ref, kind turns.Kind) {
	h := &r.path.Head
	h.Parent, h.Ref, h.Kind, h.Depth = h.Ref, to, kind, h.Depth+1
}

// half adds a half of turn i to the head.
func (r *replay) half(i int, half turns.Half) {
	h := summary.HalfTurn{Ref: r.path.Head.Ref, Depth: r.path.Head.Depth, Half: half, Messages: r.t.messages(place(i, half))}
	h.Tokens = tokens.Messages(r.counter, h.Messages)
	r.fresh += tokens.Messages(r.t.counter, h.Messages)
	if half == turns.ResponseHalf {
		h.Reported = r.sent
	}
	if f := r.path.InForce; f != nil && f.Span.Call && half == turns.MessagesHalf && turns.CountUserTexts(h.Messages) > 0 {
		r.path.InForce, r.path.Changed = r.beforeCall, r.path.Head.Depth-1
		r.path = r.path.Settled(r.counter, false)
	}
	r.path.Halves = append(r.path.Halves, h)
}

// call makes the call of turn i.
func (r *replay) call(ctx context.Context, i int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := Call{Turn: i, Compacted: r.came.Compacted, Elided: r.came.Elided}
	r.came = Call{}
	if err := r.commitPrepared(&c); err != nil {
		return err
	}
	cx, err := r.compactIfDue(ctx, &c)
	if err != nil {
		return err
	}
	c.Tokens = r.t.overhead + tokens.Messages(r.t.counter, cx.Messages)
	c.Counted = r.path.Overhead + cx.Tokens
	c.Over = c.Tokens > r.out.Budget
	r.sent = c.Tokens
	if n := r.t.source.Reported[i]; n > 0 {
		r.out.Reported.add(Reported{1, n, c.Tokens})
	}
	r.pay(&c, cx.Messages)
	r.score(i, &cx)
	r.out.Calls, r.out.Last = append(r.out.Calls, c), cx
	if n := len(r.out.Rewrites); n > 0 {
		w := &r.out.Rewrites[n-1]
		if w.Calls++; w.Calls == 1 {
			w.Rewritten = c.Rewritten
		}
	}
	if r.opt.Each != nil {
		r.opt.Each()
	}
	return nil
}

// commitPrepared commits the compaction made at the last call, rebased over what was
// appended since, and amended for it.
func (r *replay) commitPrepared(c *Call) error {
	p := r.prepared
	if r.prepared = nil; p == nil {
		return nil
	}
	pl, err := p.pl.Rebase(r.path)
	if errors.Is(err, plan.ErrStale) || errors.Is(err, plan.ErrOverhead) {
		return nil
	}
	if err != nil {
		return err
	}
	r.commit(c, pl, compactor.Amend(p.pl, pl, compactor.Resize(pl, p.res), r.counter))
	return nil
}

// compactIfDue compacts or prepares a compaction, and returns the context of the
// call.
func (r *replay) compactIfDue(ctx context.Context, c *Call) (view.Context, error) {
	cx, err := view.Render(r.path, r.counter)
	if err != nil {
		return cx, err
	}
	pol := r.out.Policy
	trigger, due := plan.Due(r.path, pol, cx.Tokens)
	if !due || pol.Mode == policy.Manual {
		return cx, nil
	}
	p, err := r.prepare(ctx, trigger)
	if p == nil || err != nil {
		return cx, err
	}
	if pol.Mode == policy.Background && plan.Fits(pol, r.path, cx.Tokens, r.out.Budget) {
		r.prepared = p
		return cx, nil
	}
	r.commit(c, p.pl, p.res)
	return view.Render(r.path, r.counter)
}

// prepare plans and summarizes. nil: there is nothing to gain.
func (r *replay) prepare(ctx context.Context, trigger turns.Trigger) (*prepared, error) {
	opt := plan.Options{}
	for _, t := range r.opt.Tiers {
		opt.Tiers = append(opt.Tiers, t.Name)
	}
	pl, err := plan.New(r.path, r.out.Policy, trigger, opt)
	if errors.Is(err, plan.ErrNothing) || errors.Is(err, plan.ErrOverhead) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	res, err := compactor.Run(ctx, pl, r.opt.Tiers, r.counter, nil)
	if errors.Is(err, plan.ErrNothing) {
		return nil, nil
	}
	return &prepared{pl, res}, err
}

// commit makes a compaction the head.
func (r *replay) commit(c *Call, pl *plan.Plan, res compactor.Result) {
	old := make(map[turns.Elision]bool)
	if f := r.path.InForce; f != nil {
		for _, e := range f.Span.Elisions {
			old[e] = true
		}
	}
	for _, e := range res.Span.Elisions {
		c.Elided = c.Elided || !old[e]
	}
	c.Compacted = c.Compacted || len(pl.Covered) > 0
	if pl.Kind != plan.Shorten {
		for _, h := range pl.Reads {
			r.out.Summarized += tokens.Messages(r.t.counter, h.Messages)
		}
	}
	if pl.Expects != (plan.Forecast{}) {
		r.out.Rewrites = append(r.out.Rewrites, Rewrite{Expected: pl.Expects, Saved: res.Body.TokensBefore - min(res.Body.TokensBefore, res.Body.TokensAfter)})
	}
	for _, h := range pl.Covered {
		r.covered[placeOf(h.Ref, h.Half)] = true
	}
	if f := r.path.InForce; res.Span.Call && (f == nil || !f.Span.Call) {
		r.beforeCall = f
	}
	r.path = compactor.Apply(pl, r.path, res, r.counter)
	r.applied()
}

// applied makes the compaction in force the head.
func (r *replay) applied() {
	r.path.InForce.Node.Ref = ref(compactionRef, r.made)
	r.made++
	r.path.Head = r.path.InForce.Node
}

// pay counts which part of a context the cache holds.
func (r *replay) pay(c *Call, ms []turns.Message) {
	same := commonPrefix(r.last, ms)
	for i := range ms[:same] {
		c.Usage.Read += r.t.counter.Message(&ms[i])
	}
	if len(r.out.Calls) > 0 {
		c.Usage.Read += r.t.overhead
	}
	c.Usage.Write = c.Tokens - c.Usage.Read
	c.Usage.Output = r.t.counter.Message(r.t.turns[c.Turn].Response)
	if c.Usage.Write > r.fresh && len(r.out.Calls) > 0 {
		c.Rewritten = c.Usage.Write - r.fresh
	}
	r.last, r.fresh = ms, 0
}

// A ref names a node of a replay by its kind and the turn's index or the
// compaction's number.
const (
	turnRef       = 1 // what was newly sent
	answerRef     = 2 // the response
	compactionRef = 3
)

var session = turns.ID{0: 1}

func ref(kind byte, n uint64) turns.Ref {
	id := turns.ID{0: 1, 7: kind}
	binary.BigEndian.PutUint64(id[8:], n)
	return turns.Ref{Session: session, Turn: id}
}

// placeOf returns the place of a half; r is a ref of a turn.
func placeOf(r turns.Ref, half turns.Half) int {
	return place(int(binary.BigEndian.Uint64(r.Turn[8:])), half)
}

// Summary returns the text that stood for covered turns in the context of the last call;
// "" if nothing was covered.
func (r *Replay) Summary() string {
	var b strings.Builder
	for i, s := range r.Last.Sources {
		if s.Status != view.InSummary {
			continue
		}
		for _, m := range messagesOf(&r.Last, i) {
			b.WriteString(summary.TextOf(&m))
			b.WriteByte('\n')
		}
	}
	return b.String()
}
