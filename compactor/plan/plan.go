package plan

import (
	"fmt"
	"slices"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
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
	Policy    policy.Policy
	PolicyRef turns.PolicyRef // as it will be recorded
	Trigger   turns.Trigger
	Path      view.Path // that it was planned on
	Cut       lineage.Cut
	Span      turns.Span         // complete
	Elided    []turns.ElidedPart // what is shown for Span.Elisions
	Covered   []summary.HalfTurn // newly covered: from the previous cut to the new one
	Kept      []summary.HalfTurn // from the cut on
	Reads     []summary.HalfTurn // what the summarizer reads: Covered, or the originals before the cut
	Previous  string             // the summary in force, which the new one must include; "" where Reads holds all
	First     string             // the first request, quoted in the replacement; "" for none
	Pins      []string           // texts of pinned turns, quoted there too, oldest first

	// Quiet: nothing is summarized, the plan only shortens parts.
	Quiet bool
	// Nudge: the summary is shown after the newest message, and stands for nothing.
	Nudge bool

	Known []string // notes on record, which a summarizer need not write again

	SummaryTokens uint64 // bound of the summary's text
	TokensBefore  uint64 // messages of the context now
	TokensKept    uint64
	TargetTokens  uint64 // messages of the context after; overshot only where no legal cut reaches it
	Focus         string
	FromOriginals bool
	Tiers         []string // summarizers by name, as the caller has them
	Budget        uint64   // that the caller set; 0: the policy's

	// Progress, if set, is told how far a summarizer is: see [summary.Input].
	Progress func(done, all int)

	// Expects is what the plan is expected to cost and save, where the policy
	// looks at that ([policy.Cost]).
	Expects Forecast

	Shortened map[view.PartAt]turns.ElidedPart // what the plan itself shortens
	Pinned    uint64                           // tokens that Pins may take, beside the summary
	KeptFirst string                           // First and Pins as later compactions get them
	KeptPins  []string
}

// Options are what a caller may ask of a plan.
type Options struct {
	Focus         string // what to keep in view; may be ""
	FromOriginals bool   // summarize from the originals, not from the last summary
	Originals     []summary.HalfTurn
	Cover         bool            // a part of the path has to be covered: to shorten it is not enough
	Known         []string        // notes on record, oldest first
	PrevPlan      turns.Hash      // digest of a plan that is known to change nothing; zero: none
	Ref           turns.PolicyRef // how the policy was named; zero: its name and digest
	Tiers         []string        // names of the summarizers that will run; part of the digest
	Budget        uint64          // by the policy's counter, overhead included, for a view; 0: the policy's
}

// minSummary is the least bound of a summary that is asked for, in tokens:
// below it a summarizer has nothing to work with. A result that frees nothing
// is refused all the same.
const MinSummaryTokens = 16

// NewPlan plans the compaction of p. Automatic triggers take it only where it
// frees enough; manual and overflow ones, and a context over its budget,
// wherever it frees anything.
//
// Originals are the halves of normal turns from the root on, with
// FromOriginals; those at or after the cut are not read.
//
// It costs O(halves), with no counting: [view.HalfTurn.Tokens] is taken as it is.
//
// Errors: [ErrNothing], whose text says why; [ErrOverhead] as a [BudgetError].
func New(p view.Path, pol policy.Policy, trigger turns.Trigger, opt Options) (*Plan, error) {
	s := SizesOf(p, pol, trigger, opt.Budget)
	if s.Room == 0 {
		return nil, overheadError(p, s)
	}
	plan := &Plan{
		Policy: pol, PolicyRef: opt.Ref, Trigger: trigger, Path: p, TargetTokens: s.Target,
		Focus: opt.Focus, FromOriginals: opt.FromOriginals, Tiers: opt.Tiers, Budget: opt.Budget, Known: opt.Known,
	}
	if plan.PolicyRef.Name == "" {
		plan.PolicyRef = turns.PolicyRef{Name: pol.Name}
	}
	plan.PolicyRef.Digest = pol.Digest()
	if err := plan.checkRepeated(opt.PrevPlan); err != nil {
		return nil, err
	}
	if !opt.FromOriginals && !opt.Cover {
		if short := plan.shorten(s); short != nil {
			return short, nil
		}
	}
	if trigger.Kind == TriggerLargeOutput && p.Tokens() <= s.Room {
		return nil, Nothing("a large result gets no shorter, and the context fits")
	}
	// A cut is for good: what was shortened for one call stands whole again.
	plan.Path = p.Lasting()
	p = plan.Path
	plan.Pinned = min(PinnedTokens(p), s.Target/4)
	s.Summary = max(s.Summary, view.FrameTokens(pol, "", nil)+MinSummaryTokens) + plan.Pinned
	plan.fitUnseen(s)
	s.Keep = min(s.Keep, tokens.Sub(s.Target, s.Summary))
	cut, err := plan.chooseCut(s)
	if opt.FromOriginals && p.InForce != nil && p.Head.Ref == p.InForce.Node.Ref {
		cut, err = 0, nil // nothing came since: its summary alone is made anew
	}
	if err != nil && len(plan.Shortened) > 0 {
		plan.Quiet = true // enough is shortened: nothing need be covered
		plan.view(plan.Shortened)
		return plan, nil
	}
	if err != nil {
		long := p.Replaced() > s.Summary+s.Summary/2 || p.Replaced() > beside(s, p.Rendered(0)[0], pol)
		if p.InForce == nil || !opt.FromOriginals && !long {
			return nil, err
		}
		cut = 0 // what was covered before is summarized anew; nothing else changes
	}
	plan.place(cut)
	if err := plan.read(opt.Originals); err != nil {
		return nil, err
	}
	plan.bound(s)
	if pol.Cost.Patience > 0 {
		plan.Expects = Covering(p, pol, p.Overhead+p.Tokens(), s)
	}
	if err := plan.checkWorth(s); err != nil {
		return nil, err
	}
	return plan, nil
}

func overheadError(p view.Path, s policy.Sizes) error {
	return &BudgetError{Kind: ErrOverhead, Budget: s.Budget, Overhead: p.Overhead, Messages: p.Tokens(), Protected: protected(p)}
}

// shorten is the plan that shortens parts and covers nothing, where the policy
// has such plans and this one is worth its while; nil where it is not.
func (plan *Plan) shorten(s policy.Sizes) *Plan {
	p, e := plan.Path, plan.Policy.Elide
	if large, _ := largeOutputs(p, plan.Policy); len(large) > 0 && plan.Trigger.Kind != TriggerManual {
		chosen := make(map[view.PartAt]turns.ElidedPart, len(large))
		for _, at := range large {
			q := p.Part(at)
			chosen[at] = view.ElidedTo(q, string(view.Trimmed), Ends(e, summary.ResultText(q)))
		}
		out := *plan
		out.Quiet = true
		out.view(chosen)
		if out.TokensKept < p.ShownFrom(0) && (plan.Trigger.Kind == TriggerLargeOutput || out.TokensBefore > s.Room) && out.After() <= s.Room {
			return &out
		}
	}
	if !e.On() || len(p.Halves) == 0 {
		return nil
	}
	if plan.Policy.Cost.Patience > 0 && plan.Trigger.Kind != TriggerManual && plan.Trigger.Kind != TriggerOverflow {
		return plan.prune(s)
	}
	target := s.Target
	if e.Nudge != "" {
		target = tokens.Sub(target, s.Summary)
	}
	chosen := ChooseShortened(p, e, tokens.Sub(p.Tokens(), target))
	if len(chosen) == 0 {
		return nil
	}
	out := *plan
	out.Quiet, out.Nudge, out.Span.Call = e.Nudge == "", e.Nudge != "", e.ForCall
	if plan.Trigger.Kind == TriggerOverflow {
		out.Span.Call = false // what a provider refused is not sent again when the user speaks
	}
	out.view(chosen)
	if out.Nudge {
		out.Reads = halvesOf(p, chosen)
		out.Previous = nudged(p)
		out.Span.SawThrough = p.LaterSeen(out.Reads[len(out.Reads)-1].Ref, len(p.Halves))
		saved := p.ShownFrom(0) - out.TokensKept
		out.SummaryTokens = max(tokens.Sub(min(s.Summary, saved/2), out.nudgeTokens()), MinSummaryTokens)
	}
	// Enough of it is worth a rewrite, and leaves room; else a cut has to do it.
	if out.After()+p.Framing()[len(p.Halves)] > s.Room || tokens.Sub(out.TokensBefore, out.After()) < max(1, tokens.Share(out.TokensBefore, plan.Policy.MinReclaimRatio)) {
		return nil
	}
	return &out
}

// prune is the plan that shows shortened what pays; nil where a part has to be
// covered, or that pays more.
func (plan *Plan) prune(s policy.Sizes) *Plan {
	p := plan.Path
	total := contextSize(p, plan.Policy, p.MeasureLoad(p.Tokens()), s)
	if total > s.Trigger {
		return nil
	}
	f, chosen := chooseByCost(p, plan.Policy, p.Overhead+p.Tokens(), s)
	if len(chosen) == 0 {
		return nil
	}
	out := *plan
	out.Expects = f
	out.Quiet = true
	out.view(chosen)
	if out.After()+p.Framing()[len(p.Halves)] > s.Room {
		return nil // it does not fit like this
	}
	return &out
}

// After is the tokens of the messages after the plan, where its summary is as
// long as it may be.
func (plan *Plan) After() uint64 {
	n := plan.TokensKept
	switch f := plan.Path.InForce; {
	case plan.Quiet && f != nil:
		return n + plan.Path.Replaced()
	case plan.Nudge:
		if f != nil {
			n += tokens.Messages(plan.Path.CountedBy(), f.Body.Replacement)
		}
		return n + plan.SummaryTokens + plan.nudgeTokens()
	case plan.Quiet:
		return n
	}
	return n + plan.ReplacementBound()
}

// view makes the plan one that covers nothing and shows chosen parts shortened.
func (plan *Plan) view(chosen map[view.PartAt]turns.ElidedPart) {
	plan.Shortened = chosen
	plan.place(0)
}

// halvesOf is the halves that hold chosen parts, in path order.
func halvesOf(p view.Path, chosen map[view.PartAt]turns.ElidedPart) (out []summary.HalfTurn) {
	in := make(map[int]bool, len(chosen))
	for at := range chosen {
		in[at.Half] = true
	}
	for i := range p.Halves {
		if in[i] {
			out = append(out, p.Halves[i])
		}
	}
	return out
}

// nudged is the summary that a compaction in force shows after the newest
// message of its time.
func nudged(p view.Path) string {
	if p.InForce == nil || len(p.InForce.Body.Nudge) == 0 {
		return ""
	}
	return p.InForce.Body.Summary
}

// keep is how many of the newest tokens the plan keeps.
func (plan *Plan) keep(s policy.Sizes) uint64 {
	if r := plan.Policy.ManualKeepRatio; r > 0 && plan.Trigger.Kind == TriggerManual {
		return min(s.Keep, tokens.Share(plan.Path.Tokens(), r))
	}
	return s.Keep
}

// place sets what follows from a cut before half number cut of the path.
func (plan *Plan) place(cut int) {
	p := plan.Path
	plan.Covered, plan.Kept = p.Halves[:cut:cut], p.Halves[cut:]
	call := plan.Span.Call
	plan.Cut, plan.Span = p.CutAt(cut), p.Span(cut)
	plan.Span.Call = call
	if plan.Quiet || plan.Nudge { // nothing is covered that was not before
		plan.Cut = 0
		if p.InForce != nil {
			plan.Cut = p.InForce.Node.Cut
		}
		plan.Span.Through, plan.Span.FirstKept, plan.Span.Split = turns.Ref{}, turns.Ref{}, false
	}
	plan.Span.Elisions, plan.Elided = p.Elisions(cut, plan.Shortened)
	plan.Digest = plan.digest(p.Previous())
	plan.TokensBefore, plan.TokensKept = p.Tokens(), p.ShownFrom(cut)
	if len(plan.Shortened) > 0 {
		plan.TokensKept = 0
		for i := range plan.Kept {
			if h := &plan.Kept[i]; !h.Erased {
				plan.TokensKept += h.Tokens
			}
		}
		for i, n := range p.SavedBy(plan.Span.Elisions, plan.Elided) {
			if i >= cut {
				plan.TokensKept -= n
			}
		}
	}
}

// read sets what the summarizer may see.
func (plan *Plan) read(originals []summary.HalfTurn) error {
	p := plan.Path
	plan.Reads, plan.Previous = plan.Covered, p.PreviousSummary()
	if plan.FromOriginals {
		plan.Reads, plan.Previous = originals, ""
		for i := range originals {
			if lineage.CutBefore(originals[i].Depth, originals[i].Half) >= plan.Cut {
				plan.Reads = originals[:i:i]
				break
			}
		}
		if len(plan.Reads) == 0 {
			return Nothing("no original turn lies before the cut")
		}
	}
	plan.First = p.FirstRequest(plan.Policy, plan.Reads)
	plan.Pins = p.PinnedTexts(len(plan.Covered))
	if n := len(plan.Reads); n > 0 {
		plan.Span.SawThrough = plan.Reads[n-1].Ref
	}
	if !plan.FromOriginals {
		plan.Span.SawThrough = p.LaterSeen(plan.Span.SawThrough, len(plan.Covered))
	}
	return nil
}

// bound sets what the summary may take: the policy's share, and no more than
// the last summary and half of what is newly covered, so that every
// compaction frees at least the other half, and no more than there is room for
// beside what is kept.
func (plan *Plan) bound(s policy.Sizes) {
	replaced := plan.Path.Replaced()
	covered := plan.TokensBefore - plan.TokensKept - replaced
	room := min(s.Summary, replaced+covered/2, beside(s, plan.planned().Rendered(len(plan.Covered))[0], plan.Policy))
	pinned := min(plan.Pinned, room/2)
	// What is kept for later compactions is bounded by itself; what this one
	// quotes, by its room.
	plan.KeptFirst, plan.KeptPins = (tokens.Approx{}).Clip(plan.First, maxQuoted), make([]string, len(plan.Pins))
	for i, s := range plan.Pins {
		plan.KeptPins[i] = (tokens.Approx{}).Clip(s, maxQuoted)
	}
	plan.First = (tokens.Approx{}).Clip(plan.First, plan.Policy.InApprox((room-pinned)/4))
	plan.Pins = slices.Clone(plan.KeptPins)
	plan.clipPins(pinned)
	plan.SummaryTokens = max(tokens.Sub(room, view.FrameTokens(plan.Policy, plan.First, plan.Pins)), MinSummaryTokens)
}

// beside is the room for a replacement beside kept tokens of messages; no bound
// where there is none, for then a short one does not help.
func beside(s policy.Sizes, kept uint64, pol policy.Policy) uint64 {
	if left := tokens.Sub(s.Room, kept); left >= view.FrameTokens(pol, "", nil)+MinSummaryTokens {
		return left
	}
	return policy.MaxTokens
}

// maxQuoted bounds one text that is quoted from compaction to compaction, in
// tokens of approx-1.
const maxQuoted = 2000

// clipPins bounds the pins to so many tokens. Where not all fit, the newest
// stand, a long one is cut, and what has no room is left to the summary.
func (plan *Plan) clipPins(most uint64) {
	left, all := plan.Policy.InApprox(most), uint64(0)
	for _, s := range plan.Pins {
		all += pinTokens(s)
	}
	if all <= left {
		return
	}
	for i := len(plan.Pins) - 1; i >= 0; i-- {
		s := (tokens.Approx{}).Clip(plan.Pins[i], left/2)
		if s == "" {
			plan.Pins = plan.Pins[i+1:]
			return
		}
		plan.Pins[i] = s
		left -= min(left, pinTokens(s))
	}
}

// pinTokens is what a pin takes in the replacement, in tokens of approx-1.
func pinTokens(s string) uint64 { return tokens.Approx{}.Text(summary.Data(s)) + 8 }

// pinTokens is what all pins of p would take at most, by its counter. What they
// do not take is the summary's.
func PinnedTokens(p view.Path) (n uint64) {
	for _, s := range p.PinnedTexts(len(p.Halves)) {
		n += p.CountedBy().Text(summary.Data((tokens.Approx{}).Clip(s, maxQuoted))) + 32
	}
	return n
}

// worst is the tokens of the replacement where the summary is as long as it may be.
func (plan *Plan) ReplacementBound() uint64 {
	return plan.SummaryTokens + view.FrameTokens(plan.Policy, plan.First, plan.Pins)
}

// most is the tokens of all that stands for what the plan takes out: the
// replacement, or the one in force and the nudge.
func (plan *Plan) OutputBound() uint64 {
	if plan.Nudge {
		return plan.After() - plan.TokensKept
	}
	return plan.ReplacementBound()
}

func (plan *Plan) checkWorth(s policy.Sizes) error {
	if len(plan.Covered) == 0 {
		if plan.Path.InForce != nil && (plan.FromOriginals || plan.ReplacementBound() < plan.Path.Replaced()) {
			return nil
		}
		return Nothing("no half turn would be covered")
	}
	asked := plan.Trigger.Kind == TriggerManual || plan.Trigger.Kind == TriggerOverflow
	if asked || plan.TokensBefore > s.Room {
		return nil // any progress will do
	}
	reclaim := tokens.Sub(plan.TokensBefore, plan.TokensKept+plan.ReplacementBound())
	if least := tokens.Share(plan.TokensBefore, plan.Policy.MinReclaimRatio); reclaim == 0 || reclaim < least {
		return Nothing("it would free about %d of %d tokens, the least progress is %d", reclaim, plan.TokensBefore, least)
	}
	return nil
}

// chooseCut is the index of the first half that is kept. The newest keep
// tokens stay, or as many turns as the policy says; from there the cut moves
// back to the nearest legal position, or forward to the next where the part
// kept that way would not fit beside a summary within the target. Where no
// legal cut reaches the target, the newest part that fits the budget stays;
// where none fits, nothing is kept, or, with calls open at the head, as little
// as is legal.
//
// Sizes are those of the kept part as it is rendered: responses that stand in
// for missing ones, and the words around late ones, count.
func (plan *Plan) chooseCut(s policy.Sizes) (int, error) {
	p := plan.planned()
	n := len(p.Halves)
	if n == 0 {
		return 0, Nothing("no turn follows the last compaction")
	}
	want, err := plan.wanted(p, s)
	if err != nil {
		return 0, err
	}
	legal := LegalCuts(p.Halves)
	back := min(want, n-1)
	for back > 0 && !legal[back] {
		back--
	}
	rendered := p.Rendered(back)
	backTokens := rendered[0]
	if back > 0 && backTokens+s.Summary <= s.Target {
		return back, nil
	}
	for cut := back + 1; cut < n; cut++ {
		if legal[cut] && rendered[cut-back]+s.Summary <= s.Room { // past want, so it keeps less
			return cut, nil
		}
	}
	switch {
	case back > 0 && (backTokens+s.Summary <= s.Room || !legal[n]):
		return back, nil
	case back == 0 && p.Replaced()+rendered[0] <= s.Room:
		return 0, Nothing("no position before the newest part is free of open tool calls")
	case legal[n]:
		return n, nil
	}
	for cut := n - 1; cut > 0; cut-- { // none fits: as little as is legal
		if legal[cut] {
			return cut, nil
		}
	}
	return 0, Nothing("tool calls are open across every position of the path")
}

// wanted is the index of the first half that the policy wants to keep.
func (plan *Plan) wanted(p view.Path, s policy.Sizes) (int, error) {
	keep := plan.keep(s)
	want, kept, responses, messages := len(p.Halves), uint64(0), uint64(0), uint64(0)
	turned := plan.Policy.KeepTurns
	if turned > 0 {
		keep = tokens.Sub(s.Target, s.Summary)
	}
	for want > 0 {
		h := &p.Halves[want-1]
		if turned > 0 && responses == turned && (h.Half == turns.ResponseHalf || want == len(p.Halves) || h.Ref != p.Halves[want].Ref) {
			return want, nil
		}
		if kept+h.ShownTokens() > keep {
			return want, nil
		}
		// What is due by a number keeps half of that number at most.
		messages += uint64(len(h.Messages))
		if plan.Trigger.Kind == TriggerTurns && (plan.Policy.MaxMessages > 0 && messages > plan.Policy.MaxMessages/2 ||
			plan.Policy.EveryTurns > 0 && h.Half == turns.ResponseHalf && responses >= max(1, plan.Policy.EveryTurns/2)) {
			return want, nil
		}
		kept += h.ShownTokens()
		want--
		if h.Half == turns.ResponseHalf {
			responses++
		}
	}
	after := ""
	if p.InForce != nil {
		after = " after the last compaction"
	}
	if turned > 0 {
		return 0, Nothing("the %d responses%s are among the newest %d, which are kept", responses, after, turned)
	}
	return 0, Nothing("all %d tokens%s are among the newest %d, which are kept", kept, after, keep)
}

// protected is the tokens of the newest halves that no legal cut takes out.
func protected(p view.Path) uint64 {
	legal := LegalCuts(p.Halves)
	for cut := len(p.Halves); cut > 0; cut-- {
		if legal[cut] {
			return p.ShownFrom(cut)
		}
	}
	return p.ShownFrom(0)
}

// String is one line: what, why, and the sizes.
func (plan *Plan) String() string {
	return fmt.Sprintf("%s by %s: covers %d halves through %v, keeps %d from %v, %d tokens to at most %d",
		plan.Trigger.Kind, plan.Policy.Name, len(plan.Covered), plan.Span.Through, len(plan.Kept), plan.Span.FirstKept,
		plan.TokensBefore, plan.TokensKept+plan.ReplacementBound())
}

// Targets is how many messages the plan compacts: those that it covers, or
// those that it shortens and that stood whole, each result of a tool for one. A
// result that loses nothing but its images is none.
func (plan *Plan) Targets() int {
	n := 0
	for i := range plan.Covered {
		n += len(plan.Covered[i].Messages)
	}
	seen := make(map[view.PartAt]bool)
	for at, part := range plan.Shortened {
		if plan.Path.Part(at).Type != turns.ToolCallResponse {
			at.Part = 0 // its message's
		}
		if part.Method != string(view.Elided) {
			seen[at] = true
		}
	}
	return n + len(seen)
}

// Rebase is the plan on the path as it is now, for a head that moved while a
// summary was made. Only what is kept, and the sizes, may differ: the summary
// that was made for plan stands for the rebased one too ([Plan.Resize]).
//
// Errors: [ErrStale] unless the compaction in force is the one that plan was
// made on, and what plan covers and first keeps, elisions included, is on the
// path; [ErrOverhead] as a [BudgetError].
func (plan *Plan) Rebase(now view.Path) (*Plan, error) {
	old, cut := plan.Path, len(plan.Covered)
	if !plan.Quiet && !plan.Nudge {
		now = now.Lasting()
	}
	if now.Previous() != old.Previous() {
		return nil, stale("compaction %v is in force, it was planned on %v", now.Previous(), old.Previous())
	}
	if len(now.Halves) < cut || !slices.EqualFunc(now.Halves[:cut], plan.Covered, sameHalf) {
		return nil, stale("what it covers, through %v, is not on the path to %v", plan.Span.Through, now.Head.Ref)
	}
	if len(plan.Kept) > 0 && (len(now.Halves) == cut || !sameHalf(now.Halves[cut], plan.Kept[0])) {
		return nil, stale("%v, which it keeps first, is not on the path to %v", plan.Span.FirstKept, now.Head.Ref)
	}
	if seen := plan.Span.SawThrough; old.Holds(seen) && !now.Holds(seen) {
		return nil, stale("%v, which its summarizer saw, is not on the path to %v", seen, now.Head.Ref)
	}
	for at := range plan.Shortened {
		if at.Half >= len(now.Halves) || !sameHalf(now.Halves[at.Half], old.Halves[at.Half]) {
			return nil, stale("a part that it shortens is not on the path to %v", now.Head.Ref)
		}
	}
	out := *plan
	out.Path = now
	out.place(cut) // the halves before those that were added stand where they did
	out.Span.SawThrough = plan.Span.SawThrough
	if plan.Span.Call && now.Head.Depth > old.Head.Depth && saidSince(now, old.Head.Depth) {
		return nil, stale("the user spoke since, and it stands for one call only")
	}
	if len(out.Elided) != len(plan.Elided) {
		return nil, stale("%d of the %d parts it shows shortened are on the path to %v", len(out.Elided), len(plan.Elided), now.Head.Ref)
	}
	s := SizesOf(now, out.Policy, out.Trigger, out.Budget)
	if s.Room == 0 {
		return nil, overheadError(now, s)
	}
	out.TargetTokens = s.Target
	return &out, nil
}

// saidSince reports whether a turn deeper than depth brought text of the user.
func saidSince(p view.Path, depth uint64) bool {
	for i := range p.Halves {
		if h := &p.Halves[i]; h.Depth > depth && h.Half == turns.MessagesHalf && turns.Said(h.Messages) > 0 {
			return true
		}
	}
	return false
}

func sameHalf(a, b summary.HalfTurn) bool { return a.Ref == b.Ref && a.Half == b.Half }
