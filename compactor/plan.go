package compactor

import (
	"slices"

	"nexus/lineage"
	"nexus/turns"
)

// Plan says what of a path is to be covered, what stays, and what the
// summarizer may see. It is made without I/O and can be shown before it is run.
//
// Invariant: Covered and Kept together are the halves of the path, in order,
// and no tool call is open between them.
type Plan struct {
	Digest        turns.Hash // of everything that would make it another plan
	Policy        Policy
	Trigger       turns.Trigger
	Cut           lineage.Cut
	Span          turns.Span
	Covered       []HalfTurn // newly covered, path order
	Kept          []HalfTurn
	Originals     []HalfTurn // from originals: all halves before the cut, from the root
	InForce       *InForce   // the compaction whose replacement the new one must include
	Elided        []turns.ElidedPart
	SummaryTokens uint64 // most tokens of the summary
	TokensBefore  uint64 // of the messages, overhead left out
	TokensKept    uint64
	TargetTokens  uint64
	Focus         string
	FromOriginals bool
}

// Options are what a caller may ask of a plan.
type Options struct {
	Focus         string
	FromOriginals bool       // summarize from the turns themselves, not from the summary in force
	Originals     []HalfTurn // with FromOriginals: every half from the root on
	Budget        uint64     // input tokens, overhead included; 0: the policy's
}

// minSummary is the fewest tokens a summary is given.
const minSummary = 64

// NewPlan plans a compaction of p. It walks the halves a few times and counts
// no token anew.
//
// Errors: [ErrNothing], and a [BudgetError] of kind [ErrOverhead].
func NewPlan(p Path, pol Policy, trigger turns.Trigger, opt Options) (*Plan, error) {
	s := pol.sizes(p.Limits, p.Overhead, trigger.Kind == TriggerOverflow)
	if opt.Budget > 0 && opt.Budget < s.budget {
		room := less(opt.Budget, p.Overhead)
		s.target = min(s.target, room)
		s.summary = min(s.summary, s.target/2)
		s.keep = min(s.keep, s.target-s.summary)
		s.budget, s.room = opt.Budget, room
	}
	if s.room == 0 {
		return nil, &BudgetError{Kind: ErrOverhead, Budget: s.budget, Overhead: p.Overhead}
	}
	digest, err := planDigest(p, pol, opt)
	if err != nil {
		return nil, err
	}
	if p.InForce != nil && p.InForce.Body.Plan == digest && opt.Budget == 0 {
		return nil, nothing("compaction %s was made on this plan, and nothing came since", p.InForce.Node.Ref.Turn)
	}
	total := sum(p.Halves)
	keep := s.keep
	if trigger.Kind == TriggerManual && pol.ManualKeepRatio > 0 {
		keep = min(keep, share(total, pol.ManualKeepRatio))
	}
	at, ok := chooseCut(p.Halves, keep, less(s.target, s.summary))
	if !ok && !(opt.FromOriginals && p.InForce != nil) {
		return nil, nothing("no cut is legal in the %d half turns since the last compaction: a tool call is open across each", len(p.Halves))
	}
	plan := &Plan{
		Digest: digest, Policy: pol, Trigger: trigger, InForce: p.InForce, TargetTokens: s.target,
		Focus: opt.Focus, FromOriginals: opt.FromOriginals,
	}
	plan.cutAt(p, at)
	if opt.FromOriginals {
		plan.Originals = before(opt.Originals, plan.Cut)
	}
	covered := sum(plan.Covered) + replaced(p)
	if plan.FromOriginals {
		covered = max(covered, sum(plan.Originals))
	}
	plan.SummaryTokens = max(min(s.summary, covered/2), min(minSummary, covered))
	asked := trigger.Kind == TriggerManual || trigger.Kind == TriggerOverflow
	if gain := less(covered, plan.SummaryTokens); !asked && gain < share(plan.TokensBefore, pol.MinReclaimRatio) {
		return nil, nothing("it would free %d of %d tokens, less than the policy's least progress", gain, plan.TokensBefore)
	}
	return plan, nil
}

// chooseCut is the index of the first half kept: the newest halves of at most
// keep tokens, moved back to where no call is open. Where that keeps more than
// most, it moves forward instead. The last legal position before the end is
// taken before the end itself, so that the newest exchange stays if it can.
func chooseCut(halves []HalfTurn, keep, most uint64) (int, bool) {
	if len(halves) == 0 {
		return 0, false
	}
	legal := legalCuts(halves)
	suffix := make([]uint64, len(halves)+1)
	for i := len(halves) - 1; i >= 0; i-- {
		suffix[i] = suffix[i+1] + halves[i].Tokens
	}
	want := len(halves)
	for want > 0 && suffix[want-1] <= keep {
		want--
	}
	back := want
	for back > 0 && (!legal[back] || back == len(halves)) {
		back--
	}
	if back > 0 && suffix[back] <= most {
		return back, true
	}
	for i := max(want, 1); i < len(halves); i++ {
		if legal[i] && suffix[i] <= most {
			return i, true
		}
	}
	if legal[len(halves)] && (back == 0 || suffix[back] > most) {
		// Only the end is left, or the newest exchange alone is over the target.
		if back == 0 || len(halves) > 0 && suffix[len(halves)-1] > most {
			return len(halves), true
		}
	}
	return back, back > 0
}

// cutAt fills in what follows from keeping the halves from index at on.
func (pl *Plan) cutAt(p Path, at int) {
	pl.Covered, pl.Kept = p.Halves[:at], p.Halves[at:]
	pl.TokensBefore, pl.TokensKept = sum(p.Halves)+replaced(p), sum(pl.Kept)
	sp := turns.Span{Provenance: turns.ByNexus, Covered: countTurns(pl.Covered)}
	if f := p.InForce; f != nil {
		sp.Previous = f.Node.Ref
	}
	switch {
	case at == 0:
		// Nothing newly covered: the same cut with another summary.
		sp.Through, sp.FirstKept, sp.Split = p.InForce.Span.Through, p.InForce.Span.FirstKept, p.InForce.Span.Split
		pl.Cut = p.InForce.Node.Cut
	case at == len(p.Halves):
		sp.Through = p.Halves[at-1].Ref
		pl.Cut = lineage.CutBefore(p.Head.Depth+1, turns.MessagesHalf)
	default:
		last, first := p.Halves[at-1], p.Halves[at]
		sp.Through, sp.FirstKept = last.Ref, first.Ref
		sp.Split = last.Ref == first.Ref
		pl.Cut = lineage.CutBefore(first.Depth, turns.MessagesHalf)
		if sp.Split {
			pl.Cut = lineage.CutBefore(first.Depth, turns.ResponseHalf)
		}
	}
	sp.SawThrough = sp.Through
	pl.Elided = nil
	if f := p.InForce; f != nil {
		for i, el := range f.Span.Elisions {
			if i < len(f.Body.Elided) && slices.ContainsFunc(pl.Kept, func(h HalfTurn) bool { return h.Ref == el.Turn && h.Half == el.Half }) {
				sp.Elisions = append(sp.Elisions, el)
				pl.Elided = append(pl.Elided, f.Body.Elided[i])
			}
		}
	}
	pl.Span = sp
}

// Rebase is the plan on the path as it is now, after turns came: the kept part
// has grown, everything else is as it was (invariant 9). The caller has checked
// that the new head continues the old one. [ErrStale]: the compaction in force
// is another one, or what was to be covered is not on the path.
func (pl *Plan) Rebase(now Path) (*Plan, error) {
	var was, is turns.Ref
	if pl.InForce != nil {
		was = pl.InForce.Node.Ref
	}
	if now.InForce != nil {
		is = now.InForce.Node.Ref
	}
	if was != is {
		return nil, stale("it was made on compaction %s, in force is %s", was, is)
	}
	n := len(pl.Covered)
	if len(now.Halves) < n+len(pl.Kept) {
		return nil, stale("the path has become shorter")
	}
	for i, h := range append(slices.Clip(pl.Covered), pl.Kept...) {
		if now.Halves[i].Ref != h.Ref || now.Halves[i].Half != h.Half {
			return nil, stale("turn %s is not on the path any more", h.Ref)
		}
	}
	next := *pl
	if n == len(now.Halves) || !legalCuts(now.Halves)[n] {
		return nil, stale("a tool call is open across its cut")
	}
	next.cutAt(now, n)
	return &next, nil
}

// planDigest names a plan by what it is made on: the end of the path, the
// policy and what was asked. Made again on the same, it changes nothing.
func planDigest(p Path, pol Policy, opt Options) (turns.Hash, error) {
	in := struct {
		_       struct{} `cbor:",toarray"`
		Last    turns.Ref
		Half    turns.Half
		Policy  turns.Hash
		Focus   string
		Origins bool
	}{Policy: pol.Digest(), Focus: opt.Focus, Origins: opt.FromOriginals}
	if n := len(p.Halves); n > 0 {
		in.Last, in.Half = p.Halves[n-1].Ref, p.Halves[n-1].Half
	} else if p.InForce != nil {
		in.Last, in.Half = p.InForce.Span.Through, turns.ResponseHalf
	}
	b, err := turns.EncodeBody(in)
	if err != nil {
		return turns.Hash{}, err
	}
	return turns.HashEvent(append([]byte("nexus.plan.v1\x00"), b...)), nil
}

func sum(hs []HalfTurn) (n uint64) {
	for i := range hs {
		n += hs[i].Tokens
	}
	return n
}

// replaced is the tokens of the replacement in force.
func replaced(p Path) uint64 {
	if p.InForce == nil {
		return 0
	}
	return p.InForce.Node.Replaced
}

func countTurns(hs []HalfTurn) (n uint64) {
	for i := range hs {
		if i == 0 || hs[i].Ref != hs[i-1].Ref {
			n++
		}
	}
	return n
}

// before is the halves before a cut.
func before(hs []HalfTurn, c lineage.Cut) []HalfTurn {
	n := 0
	for n < len(hs) && lineage.CutBefore(hs[n].Depth, hs[n].Half) < c {
		n++
	}
	return hs[:n]
}
