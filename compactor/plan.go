package compactor

import (
	"fmt"
	"slices"

	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Plan says what a compaction takes out of a path, what stays, and what a
// summarizer may see. It is made and changed by pure functions only; the
// slices of halves are the path's.
//
// Invariant: Covered and Kept together are the halves of the path, in order,
// and no tool call is open between them.
type Plan struct {
	Digest    turns.Hash // the same plan again changes nothing: see digest
	Policy    Policy
	PolicyRef turns.PolicyRef // as it will be recorded
	Trigger   turns.Trigger
	Path      Path // that it was planned on
	Cut       lineage.Cut
	Span      turns.Span         // complete
	Elided    []turns.ElidedPart // what is shown for Span.Elisions
	Covered   []HalfTurn         // newly covered: from the previous cut to the new one
	Kept      []HalfTurn         // from the cut on
	Reads     []HalfTurn         // what the summarizer reads: Covered, or the originals before the cut
	Previous  string             // the summary in force, which the new one must include; "" where Reads holds all
	First     string             // the first request, quoted in the replacement; "" for none

	SummaryTokens uint64 // bound of the summary's text
	TokensBefore  uint64 // messages of the context now
	TokensKept    uint64
	TargetTokens  uint64 // messages of the context after; overshot only where no legal cut reaches it
	Focus         string
	FromOriginals bool
	Tiers         []string // summarizers by name, as the caller has them
	Budget        uint64   // that the caller set; 0: the policy's
}

// Options are what a caller may ask of a plan.
type Options struct {
	Focus         string // what to keep in view; may be ""
	FromOriginals bool   // summarize from the originals, not from the last summary
	Originals     []HalfTurn
	PrevPlan      turns.Hash      // digest of a plan that is known to change nothing; zero: none
	Ref           turns.PolicyRef // how the policy was named; zero: its name and digest
	Tiers         []string        // names of the summarizers that will run; part of the digest
	Budget        uint64          // input tokens, overhead included, for a view; 0: the policy's
}

// minSummary is the least bound of a summary that is asked for, in tokens:
// below it a summarizer has nothing to work with. A result that frees nothing
// is refused all the same.
const minSummary = 16

// NewPlan plans the compaction of p. Automatic triggers take it only where it
// frees enough; manual and overflow ones, and a context over its budget,
// wherever it frees anything.
//
// Originals are the halves of normal turns from the root on, with
// FromOriginals; those at or after the cut are not read.
//
// It costs O(halves), with no counting: [HalfTurn.Tokens] is taken as it is.
//
// Errors: [ErrNothing], whose text says why; [ErrOverhead] as a [BudgetError].
func NewPlan(p Path, pol Policy, trigger turns.Trigger, opt Options) (*Plan, error) {
	s := pol.sizesFor(p, trigger, opt.Budget)
	if s.room == 0 {
		return nil, overheadError(p, s)
	}
	plan := &Plan{
		Policy: pol, PolicyRef: opt.Ref, Trigger: trigger, Path: p, TargetTokens: s.target,
		Focus: opt.Focus, FromOriginals: opt.FromOriginals, Tiers: opt.Tiers, Budget: opt.Budget,
	}
	if plan.PolicyRef.Name == "" {
		plan.PolicyRef = turns.PolicyRef{Name: pol.Name}
	}
	plan.PolicyRef.Digest = pol.Digest()
	if err := plan.checkRepeated(opt.PrevPlan); err != nil {
		return nil, err
	}
	cut, err := chooseCut(p, plan.keep(s), s)
	if err != nil {
		if !opt.FromOriginals || p.InForce == nil {
			return nil, err
		}
		cut = 0 // what was covered before is summarized anew; nothing else changes
	}
	plan.place(cut)
	if err := plan.read(opt.Originals); err != nil {
		return nil, err
	}
	plan.bound(s)
	if err := plan.checkWorth(s); err != nil {
		return nil, err
	}
	return plan, nil
}

func overheadError(p Path, s sizes) error {
	return &BudgetError{Kind: ErrOverhead, Budget: s.budget, Overhead: p.Overhead, Messages: p.tokens(), Protected: protected(p)}
}

// keep is how many of the newest tokens the plan keeps.
func (plan *Plan) keep(s sizes) uint64 {
	if r := plan.Policy.ManualKeepRatio; r > 0 && plan.Trigger.Kind == TriggerManual {
		return min(s.keep, share(plan.Path.tokens(), r))
	}
	return s.keep
}

// place sets what follows from a cut before half number cut of the path.
func (plan *Plan) place(cut int) {
	p := plan.Path
	plan.Covered, plan.Kept = p.Halves[:cut:cut], p.Halves[cut:]
	plan.Cut, plan.Span = p.cutAt(cut), p.span(cut)
	plan.Span.Elisions, plan.Elided = p.keptElisions(plan.Kept)
	plan.Digest = plan.digest(p.previous())
	plan.TokensBefore, plan.TokensKept = p.tokens(), p.shownFrom(cut)
}

// read sets what the summarizer may see.
func (plan *Plan) read(originals []HalfTurn) error {
	p := plan.Path
	plan.Reads, plan.Previous = plan.Covered, p.previousSummary()
	if plan.FromOriginals {
		plan.Reads, plan.Previous = originals, ""
		for i := range originals {
			if lineage.CutBefore(originals[i].Depth, originals[i].Half) >= plan.Cut {
				plan.Reads = originals[:i:i]
				break
			}
		}
		if len(plan.Reads) == 0 {
			return nothing("no original turn lies before the cut")
		}
	}
	plan.First = p.firstRequest(plan.Policy, plan.Reads)
	if n := len(plan.Reads); n > 0 {
		plan.Span.SawThrough = plan.Reads[n-1].Ref
	}
	if !plan.FromOriginals {
		plan.Span.SawThrough = p.laterSeen(plan.Span.SawThrough, len(plan.Covered))
	}
	return nil
}

// bound sets what the summary may take: the policy's share, and no more than
// the last summary and half of what is newly covered, so that every
// compaction frees at least the other half.
func (plan *Plan) bound(s sizes) {
	replaced := plan.Path.replaced()
	covered := plan.TokensBefore - plan.TokensKept - replaced
	room := min(s.summary, replaced+covered/2)
	plan.First = clipTokens(plan.First, room/4)
	plan.SummaryTokens = max(less(room, frameTokens(plan.Policy, plan.First)), minSummary)
}

// worst is the tokens of the replacement where the summary is as long as it may be.
func (plan *Plan) worst() uint64 { return plan.SummaryTokens + frameTokens(plan.Policy, plan.First) }

func (plan *Plan) checkWorth(s sizes) error {
	if len(plan.Covered) == 0 {
		if plan.FromOriginals && plan.Path.InForce != nil {
			return nil
		}
		return nothing("no half turn would be covered")
	}
	asked := plan.Trigger.Kind == TriggerManual || plan.Trigger.Kind == TriggerOverflow
	if asked || plan.TokensBefore > s.room {
		return nil // any progress will do
	}
	reclaim := less(plan.TokensBefore, plan.TokensKept+plan.worst())
	if least := share(plan.TokensBefore, plan.Policy.MinReclaimRatio); reclaim == 0 || reclaim < least {
		return nothing("it would free about %d of %d tokens, the least progress is %d", reclaim, plan.TokensBefore, least)
	}
	return nil
}

// chooseCut is the index of the first half that is kept. The newest keep
// tokens stay; from there the cut moves back to the nearest legal position, or
// forward to the next where the part kept that way would not fit beside a
// summary within the target. Where no legal cut reaches the target, the newest
// part that fits the budget stays; where none fits, nothing is kept, or, with
// calls open at the head, as little as is legal.
func chooseCut(p Path, keep uint64, s sizes) (int, error) {
	n := len(p.Halves)
	if n == 0 {
		return 0, nothing("no turn follows the last compaction")
	}
	want, kept := n, uint64(0)
	elided := p.elidedSavings()
	for want > 0 {
		t := p.shown(want-1, elided)
		if kept+t > keep {
			break
		}
		kept += t
		want--
	}
	if want == 0 {
		return 0, nothing("all %d tokens after the last compaction are among the newest %d, which are kept", kept, keep)
	}

	legal := legalCuts(p.Halves)
	back := min(want, n-1)
	for back > 0 && !legal[back] {
		back--
	}
	backTokens := p.shownFrom(back)
	if back > 0 && backTokens+s.summary <= s.target {
		return back, nil
	}
	for cut := back + 1; cut < n; cut++ {
		if legal[cut] { // past want, so it keeps fewer than keep tokens
			return cut, nil
		}
	}
	switch {
	case back > 0 && (backTokens+s.summary <= s.room || !legal[n]):
		return back, nil
	case back == 0 && p.tokens() <= s.room:
		return 0, nothing("no position before the newest part is free of open tool calls")
	case legal[n]:
		return n, nil
	}
	return 0, nothing("tool calls are open across every position of the path")
}

// protected is the tokens of the newest halves that no legal cut takes out.
func protected(p Path) uint64 {
	legal := legalCuts(p.Halves)
	for cut := len(p.Halves); cut > 0; cut-- {
		if legal[cut] {
			return p.shownFrom(cut)
		}
	}
	return p.shownFrom(0)
}

// String is one line: what, why, and the sizes.
func (plan *Plan) String() string {
	return fmt.Sprintf("%s by %s: covers %d halves through %v, keeps %d from %v, %d tokens to at most %d",
		plan.Trigger.Kind, plan.Policy.Name, len(plan.Covered), plan.Span.Through, len(plan.Kept), plan.Span.FirstKept,
		plan.TokensBefore, plan.TokensKept+plan.worst())
}

// Rebase is the plan on the path as it is now, for a head that moved while a
// summary was made. Only what is kept, and the sizes, may differ: the summary
// that was made for plan stands for the rebased one too ([Plan.Resize]).
//
// Errors: [ErrStale] unless the compaction in force is the one that plan was
// made on, and what plan covers and first keeps, elisions included, is on the
// path; [ErrOverhead] as a [BudgetError].
func (plan *Plan) Rebase(now Path) (*Plan, error) {
	old, cut := plan.Path, len(plan.Covered)
	if now.previous() != old.previous() {
		return nil, stale("compaction %v is in force, it was planned on %v", now.previous(), old.previous())
	}
	if len(now.Halves) < cut || !slices.EqualFunc(now.Halves[:cut], plan.Covered, sameHalf) {
		return nil, stale("what it covers, through %v, is not on the path to %v", plan.Span.Through, now.Head.Ref)
	}
	if len(plan.Kept) > 0 && (len(now.Halves) == cut || !sameHalf(now.Halves[cut], plan.Kept[0])) {
		return nil, stale("%v, which it keeps first, is not on the path to %v", plan.Span.FirstKept, now.Head.Ref)
	}
	if seen := plan.Span.SawThrough; old.holds(seen) && !now.holds(seen) {
		return nil, stale("%v, which its summarizer saw, is not on the path to %v", seen, now.Head.Ref)
	}
	out := *plan
	out.Path = now
	out.place(cut)
	out.Span.SawThrough = plan.Span.SawThrough
	if len(out.Elided) != len(plan.Elided) {
		return nil, stale("%d of the %d parts it shows shortened are on the path to %v", len(out.Elided), len(plan.Elided), now.Head.Ref)
	}
	s := out.Policy.sizesFor(now, out.Trigger, out.Budget)
	if s.room == 0 {
		return nil, overheadError(now, s)
	}
	out.TargetTokens = s.target
	return &out, nil
}

func sameHalf(a, b HalfTurn) bool { return a.Ref == b.Ref && a.Half == b.Half }

// Resize is res, made by plan before it was rebased, with the cut and the
// sizes of the rebased plan.
func (plan *Plan) Resize(res Result) Result {
	res.Span, res.Body.Elided, res.Body.Plan = plan.Span, plan.Elided, plan.Digest
	res.Body.TokensBefore, res.Body.TokensAfter = plan.TokensBefore, plan.TokensKept+res.Replaced
	return res
}

// Apply is p, the plan's path, as res would leave it: a view, for nothing is
// committed and the compaction in it has no name.
func (plan *Plan) Apply(p Path, res Result, c tokens.Counter) Path {
	p.InForce = &InForce{
		Node: lineage.Node{
			Kind: turns.KindCompaction, Depth: p.Head.Depth + 1, Parent: p.Head.Ref, Cut: plan.Cut,
			Previous: res.Span.Previous, Replaced: tokens.Messages(c, res.Body.Replacement),
		},
		Span: res.Span, Body: res.Body,
	}
	p.Halves = plan.Kept
	return p
}
