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

	// Progress, if set, is told how far a summarizer is: see [Input].
	Progress func(done, all int)

	// Expects is what the plan is expected to cost and save, where the policy
	// looks at that ([Cost]).
	Expects Forecast

	chosen    map[partAt]turns.ElidedPart // what the plan itself shortens
	pinned    uint64                      // tokens that Pins may take, beside the summary
	keptFirst string                      // First and Pins as later compactions get them
	keptPins  []string
}

// Options are what a caller may ask of a plan.
type Options struct {
	Focus         string // what to keep in view; may be ""
	FromOriginals bool   // summarize from the originals, not from the last summary
	Originals     []HalfTurn
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
	s := p.sizes(pol, trigger, opt.Budget)
	if s.room == 0 {
		return nil, overheadError(p, s)
	}
	plan := &Plan{
		Policy: pol, PolicyRef: opt.Ref, Trigger: trigger, Path: p, TargetTokens: s.target,
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
	if trigger.Kind == TriggerLargeOutput && p.tokens() <= s.room {
		return nil, nothing("a large result gets no shorter, and the context fits")
	}
	// A cut is for good: what was shortened for one call stands whole again.
	plan.Path = p.lasting()
	p = plan.Path
	plan.pinned = min(p.pinTokens(), s.target/4)
	s.summary = max(s.summary, frameTokens(pol, "", nil)+minSummary) + plan.pinned
	plan.fitUnseen(s)
	s.keep = min(s.keep, tokens.Sub(s.target, s.summary))
	cut, err := plan.chooseCut(s)
	if opt.FromOriginals && p.InForce != nil && p.Head.Ref == p.InForce.Node.Ref {
		cut, err = 0, nil // nothing came since: its summary alone is made anew
	}
	if err != nil && len(plan.chosen) > 0 {
		plan.Quiet = true // enough is shortened: nothing need be covered
		plan.view(plan.chosen)
		return plan, nil
	}
	if err != nil {
		long := p.replaced() > s.summary+s.summary/2 || p.replaced() > beside(s, p.rendered(0)[0], pol)
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
		plan.Expects = p.covering(pol, p.Overhead+p.tokens(), s)
	}
	if err := plan.checkWorth(s); err != nil {
		return nil, err
	}
	return plan, nil
}

func overheadError(p Path, s sizes) error {
	return &BudgetError{Kind: ErrOverhead, Budget: s.budget, Overhead: p.Overhead, Messages: p.tokens(), Protected: protected(p)}
}

// shorten is the plan that shortens parts and covers nothing, where the policy
// has such plans and this one is worth its while; nil where it is not.
func (plan *Plan) shorten(s sizes) *Plan {
	p, e := plan.Path, plan.Policy.Elide
	if large, _ := p.largeOutputs(plan.Policy); len(large) > 0 && plan.Trigger.Kind != TriggerManual {
		chosen := make(map[partAt]turns.ElidedPart, len(large))
		for _, at := range large {
			q := p.part(at)
			chosen[at] = elidedTo(q, string(Trimmed), e.ends(resultText(q)))
		}
		out := *plan
		out.Quiet = true
		out.view(chosen)
		if out.TokensKept < p.shownFrom(0) && (plan.Trigger.Kind == TriggerLargeOutput || out.TokensBefore > s.room) && out.after() <= s.room {
			return &out
		}
	}
	if !e.on() || len(p.Halves) == 0 {
		return nil
	}
	if plan.Policy.Cost.Patience > 0 && plan.Trigger.Kind != TriggerManual && plan.Trigger.Kind != TriggerOverflow {
		return plan.prune(s)
	}
	target := s.target
	if e.Nudge != "" {
		target = tokens.Sub(target, s.summary)
	}
	chosen := p.shorten(e, tokens.Sub(p.tokens(), target))
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
		out.Reads = p.halvesOf(chosen)
		out.Previous = p.nudged()
		out.Span.SawThrough = p.laterSeen(out.Reads[len(out.Reads)-1].Ref, len(p.Halves))
		saved := p.shownFrom(0) - out.TokensKept
		out.SummaryTokens = max(tokens.Sub(min(s.summary, saved/2), out.nudgeTokens()), minSummary)
	}
	// Enough of it is worth a rewrite, and leaves room; else a cut has to do it.
	if out.after()+p.framing()[len(p.Halves)] > s.room || tokens.Sub(out.TokensBefore, out.after()) < max(1, tokens.Share(out.TokensBefore, plan.Policy.MinReclaimRatio)) {
		return nil
	}
	return &out
}

// prune is the plan that shows shortened what pays; nil where a part has to be
// covered, or that pays more.
func (plan *Plan) prune(s sizes) *Plan {
	p := plan.Path
	total := p.total(plan.Policy, p.Load(p.tokens()), s)
	if total > s.trigger {
		return nil
	}
	f, chosen := p.choose(plan.Policy, p.Overhead+p.tokens(), s)
	if len(chosen) == 0 {
		return nil
	}
	out := *plan
	out.Expects = f
	out.Quiet = true
	out.view(chosen)
	if out.after()+p.framing()[len(p.Halves)] > s.room {
		return nil // it does not fit like this
	}
	return &out
}

// after is the tokens of the messages after the plan, where its summary is as
// long as it may be.
func (plan *Plan) after() uint64 {
	n := plan.TokensKept
	switch f := plan.Path.InForce; {
	case plan.Quiet && f != nil:
		return n + plan.Path.replaced()
	case plan.Nudge:
		if f != nil {
			n += tokens.Messages(plan.Path.counter(), f.Body.Replacement)
		}
		return n + plan.SummaryTokens + plan.nudgeTokens()
	case plan.Quiet:
		return n
	}
	return n + plan.worst()
}

// view makes the plan one that covers nothing and shows chosen parts shortened.
func (plan *Plan) view(chosen map[partAt]turns.ElidedPart) {
	plan.chosen = chosen
	plan.place(0)
}

// halvesOf is the halves that hold chosen parts, in path order.
func (p Path) halvesOf(chosen map[partAt]turns.ElidedPart) (out []HalfTurn) {
	in := make(map[int]bool, len(chosen))
	for at := range chosen {
		in[at.half] = true
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
func (p Path) nudged() string {
	if p.InForce == nil || len(p.InForce.Body.Nudge) == 0 {
		return ""
	}
	return p.InForce.Body.Summary
}

// keep is how many of the newest tokens the plan keeps.
func (plan *Plan) keep(s sizes) uint64 {
	if r := plan.Policy.ManualKeepRatio; r > 0 && plan.Trigger.Kind == TriggerManual {
		return min(s.keep, tokens.Share(plan.Path.tokens(), r))
	}
	return s.keep
}

// place sets what follows from a cut before half number cut of the path.
func (plan *Plan) place(cut int) {
	p := plan.Path
	plan.Covered, plan.Kept = p.Halves[:cut:cut], p.Halves[cut:]
	call := plan.Span.Call
	plan.Cut, plan.Span = p.cutAt(cut), p.span(cut)
	plan.Span.Call = call
	if plan.Quiet || plan.Nudge { // nothing is covered that was not before
		plan.Cut = 0
		if p.InForce != nil {
			plan.Cut = p.InForce.Node.Cut
		}
		plan.Span.Through, plan.Span.FirstKept, plan.Span.Split = turns.Ref{}, turns.Ref{}, false
	}
	plan.Span.Elisions, plan.Elided = p.elisions(cut, plan.chosen)
	plan.Digest = plan.digest(p.previous())
	plan.TokensBefore, plan.TokensKept = p.tokens(), p.shownFrom(cut)
	if len(plan.chosen) > 0 {
		plan.TokensKept = 0
		for i := range plan.Kept {
			if h := &plan.Kept[i]; !h.Erased {
				plan.TokensKept += h.Tokens
			}
		}
		for i, n := range p.savedBy(plan.Span.Elisions, plan.Elided) {
			if i >= cut {
				plan.TokensKept -= n
			}
		}
	}
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
	plan.Pins = p.pins(len(plan.Covered))
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
// compaction frees at least the other half, and no more than there is room for
// beside what is kept.
func (plan *Plan) bound(s sizes) {
	replaced := plan.Path.replaced()
	covered := plan.TokensBefore - plan.TokensKept - replaced
	room := min(s.summary, replaced+covered/2, beside(s, plan.planned().rendered(len(plan.Covered))[0], plan.Policy))
	pinned := min(plan.pinned, room/2)
	// What is kept for later compactions is bounded by itself; what this one
	// quotes, by its room.
	plan.keptFirst, plan.keptPins = (tokens.Approx{}).Clip(plan.First, maxQuoted), make([]string, len(plan.Pins))
	for i, s := range plan.Pins {
		plan.keptPins[i] = (tokens.Approx{}).Clip(s, maxQuoted)
	}
	plan.First = (tokens.Approx{}).Clip(plan.First, plan.Policy.inApprox((room-pinned)/4))
	plan.Pins = slices.Clone(plan.keptPins)
	plan.clipPins(pinned)
	plan.SummaryTokens = max(tokens.Sub(room, frameTokens(plan.Policy, plan.First, plan.Pins)), minSummary)
}

// beside is the room for a replacement beside kept tokens of messages; no bound
// where there is none, for then a short one does not help.
func beside(s sizes, kept uint64, pol Policy) uint64 {
	if left := tokens.Sub(s.room, kept); left >= frameTokens(pol, "", nil)+minSummary {
		return left
	}
	return maxTokens
}

// maxQuoted bounds one text that is quoted from compaction to compaction, in
// tokens of approx-1.
const maxQuoted = 2000

// clipPins bounds the pins to so many tokens. Where not all fit, the newest
// stand, a long one is cut, and what has no room is left to the summary.
func (plan *Plan) clipPins(most uint64) {
	left, all := plan.Policy.inApprox(most), uint64(0)
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
func pinTokens(s string) uint64 { return tokens.Approx{}.Text(data(s)) + 8 }

// pinTokens is what all pins of p would take at most, by its counter. What they
// do not take is the summary's.
func (p Path) pinTokens() (n uint64) {
	for _, s := range p.pins(len(p.Halves)) {
		n += p.counter().Text(data((tokens.Approx{}).Clip(s, maxQuoted))) + 32
	}
	return n
}

// worst is the tokens of the replacement where the summary is as long as it may be.
func (plan *Plan) worst() uint64 {
	return plan.SummaryTokens + frameTokens(plan.Policy, plan.First, plan.Pins)
}

// most is the tokens of all that stands for what the plan takes out: the
// replacement, or the one in force and the nudge.
func (plan *Plan) most() uint64 {
	if plan.Nudge {
		return plan.after() - plan.TokensKept
	}
	return plan.worst()
}

func (plan *Plan) checkWorth(s sizes) error {
	if len(plan.Covered) == 0 {
		if plan.Path.InForce != nil && (plan.FromOriginals || plan.worst() < plan.Path.replaced()) {
			return nil
		}
		return nothing("no half turn would be covered")
	}
	asked := plan.Trigger.Kind == TriggerManual || plan.Trigger.Kind == TriggerOverflow
	if asked || plan.TokensBefore > s.room {
		return nil // any progress will do
	}
	reclaim := tokens.Sub(plan.TokensBefore, plan.TokensKept+plan.worst())
	if least := tokens.Share(plan.TokensBefore, plan.Policy.MinReclaimRatio); reclaim == 0 || reclaim < least {
		return nothing("it would free about %d of %d tokens, the least progress is %d", reclaim, plan.TokensBefore, least)
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
func (plan *Plan) chooseCut(s sizes) (int, error) {
	p := plan.planned()
	n := len(p.Halves)
	if n == 0 {
		return 0, nothing("no turn follows the last compaction")
	}
	want, err := plan.wanted(p, s)
	if err != nil {
		return 0, err
	}
	legal := legalCuts(p.Halves)
	back := min(want, n-1)
	for back > 0 && !legal[back] {
		back--
	}
	rendered := p.rendered(back)
	backTokens := rendered[0]
	if back > 0 && backTokens+s.summary <= s.target {
		return back, nil
	}
	for cut := back + 1; cut < n; cut++ {
		if legal[cut] && rendered[cut-back]+s.summary <= s.room { // past want, so it keeps less
			return cut, nil
		}
	}
	switch {
	case back > 0 && (backTokens+s.summary <= s.room || !legal[n]):
		return back, nil
	case back == 0 && p.replaced()+rendered[0] <= s.room:
		return 0, nothing("no position before the newest part is free of open tool calls")
	case legal[n]:
		return n, nil
	}
	for cut := n - 1; cut > 0; cut-- { // none fits: as little as is legal
		if legal[cut] {
			return cut, nil
		}
	}
	return 0, nothing("tool calls are open across every position of the path")
}

// wanted is the index of the first half that the policy wants to keep.
func (plan *Plan) wanted(p Path, s sizes) (int, error) {
	keep := plan.keep(s)
	want, kept, responses, messages := len(p.Halves), uint64(0), uint64(0), uint64(0)
	turned := plan.Policy.KeepTurns
	if turned > 0 {
		keep = tokens.Sub(s.target, s.summary)
	}
	for want > 0 {
		h := &p.Halves[want-1]
		if turned > 0 && responses == turned && (h.Half == turns.ResponseHalf || want == len(p.Halves) || h.Ref != p.Halves[want].Ref) {
			return want, nil
		}
		if kept+h.shown() > keep {
			return want, nil
		}
		// What is due by a number keeps half of that number at most.
		messages += uint64(len(h.Messages))
		if plan.Trigger.Kind == TriggerTurns && (plan.Policy.MaxMessages > 0 && messages > plan.Policy.MaxMessages/2 ||
			plan.Policy.EveryTurns > 0 && h.Half == turns.ResponseHalf && responses >= max(1, plan.Policy.EveryTurns/2)) {
			return want, nil
		}
		kept += h.shown()
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
		return 0, nothing("the %d responses%s are among the newest %d, which are kept", responses, after, turned)
	}
	return 0, nothing("all %d tokens%s are among the newest %d, which are kept", kept, after, keep)
}

// rendered is, for each position from half number from on, the tokens of the
// halves behind it as they are rendered. No call is open at from.
func (p Path) rendered(from int) []uint64 {
	p.Halves = p.Halves[from:]
	n := len(p.Halves)
	out, framing := make([]uint64, n+1), p.framing()
	shown := uint64(0)
	for i := n; i >= 0; i-- {
		if i < n {
			shown += p.Halves[i].shown()
		}
		out[i] = shown + framing[n] - framing[i]
	}
	return out
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

// Targets is how many messages the plan compacts: those that it covers, or
// those that it shortens and that stood whole, each result of a tool for one. A
// result that loses nothing but its images is none.
func (plan *Plan) Targets() int {
	n := 0
	for i := range plan.Covered {
		n += len(plan.Covered[i].Messages)
	}
	seen := make(map[partAt]bool)
	for at, part := range plan.chosen {
		if plan.Path.part(at).Type != turns.ToolCallResponse {
			at.part = 0 // its message's
		}
		if part.Method != string(Elided) {
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
func (plan *Plan) Rebase(now Path) (*Plan, error) {
	old, cut := plan.Path, len(plan.Covered)
	if !plan.Quiet && !plan.Nudge {
		now = now.lasting()
	}
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
	for at := range plan.chosen {
		if at.half >= len(now.Halves) || !sameHalf(now.Halves[at.half], old.Halves[at.half]) {
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
	s := now.sizes(out.Policy, out.Trigger, out.Budget)
	if s.room == 0 {
		return nil, overheadError(now, s)
	}
	out.TargetTokens = s.target
	return &out, nil
}

// saidSince reports whether a turn deeper than depth brought text of the user.
func saidSince(p Path, depth uint64) bool {
	for i := range p.Halves {
		if h := &p.Halves[i]; h.Depth > depth && h.Half == turns.MessagesHalf && turns.Said(h.Messages) > 0 {
			return true
		}
	}
	return false
}

func sameHalf(a, b HalfTurn) bool { return a.Ref == b.Ref && a.Half == b.Half }

// Resize is res, made by plan before it was rebased, with the cut and the
// sizes of the rebased plan. It stays the work of the older plan: one made on
// what came in meanwhile is another, and may have more to do.
func (plan *Plan) Resize(res Result) Result {
	res.Span, res.Body.Elided = plan.Span, plan.Elided
	res.Body.TokensBefore, res.Body.TokensAfter = plan.TokensBefore, plan.TokensKept+res.Replaced
	return res
}

// Apply is p, the plan's path, as res would leave it: a view, for nothing is
// committed and the compaction in it has no name.
func (plan *Plan) Apply(p Path, res Result, c tokens.Counter) Path {
	p.InForce = &InForce{
		Node: lineage.Node{
			Kind: turns.KindCompaction, Depth: p.Head.Depth + 1, Parent: p.Head.Ref, Cut: plan.Cut,
			Previous: res.Span.Previous, Replaced: res.Replaced, Saved: p.Saves(res.Span, &res.Body, c), Call: res.Span.Call,
		},
		Span: res.Span, Body: res.Body,
	}
	p.Halves = plan.Kept
	return p.Settled(c, false)
}
