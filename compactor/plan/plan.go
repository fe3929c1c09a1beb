package plan

import (
	"fmt"

	"nexus/compactor/policy"
	"nexus/compactor/quote"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Kind says what a plan does with a path.
type Kind int

// The kinds of plans.
const (
	// Cover replaces the turns before the cut by a summary.
	Cover Kind = iota
	// Shorten shows parts shortened. It summarizes and covers nothing.
	Shorten
	// Nudge shows parts shortened and adds a summary of them after the newest
	// message. It covers nothing.
	Nudge
)

// Plan is a decision: what a compaction removes from a path, what stays, and what a
// summarizer may see. [New] and [Plan.Rebase] make plans, and nobody changes one.
// Its slices of halves share the path's memory.
//
// Invariant: Covered and Kept together are the path's halves, in order, and no tool
// call is open between them.
type Plan struct {
	Kind      Kind
	Digest    turns.Hash // identifies the plan by its inputs: see digest
	Policy    policy.Policy
	PolicyRef turns.PolicyRef // as the compaction records it
	Trigger   turns.Trigger
	Path      view.Path // the path that the plan is for
	Cut       lineage.Cut
	Span      turns.Span         // complete, SawThrough and Elisions included
	Elided    []turns.ElidedPart // how each of Span.Elisions is shown
	Covered   []summary.HalfTurn // newly covered: from the previous cut to the new one
	Kept      []summary.HalfTurn // from the cut on

	// Shortens holds the parts that this plan shortens and how each is shown. Elided
	// also holds those of earlier compactions.
	Shortens map[view.PartAt]turns.ElidedPart

	Reads    []summary.HalfTurn // what the summarizer reads: Covered, the originals before the cut, or what a nudge shortens
	Previous string             // the summary in force, which the new one must include; "" if Reads holds everything
	Task     string             // with a nudge: the first text of the user, or its beginning
	Known    []string           // notes on record, which a summarizer need not write again
	First    string             // the first request, which the replacement quotes; "" for none
	Pins     []string           // texts of pinned turns, which it quotes too, oldest first
	Rules    []string           // what users said must or must not be done, which it quotes too, oldest first
	Quotes   []quote.Quote      // what it quotes of files
	Carries  view.Meta          // First, Pins, Rules and Quotes as later compactions get them

	SummaryTokens uint64 // upper bound of the summary's text
	TokensBefore  uint64 // of the context's messages now
	TokensKept    uint64
	TargetTokens  uint64 // of the messages afterwards; exceeded only if no legal cut reaches it
	Focus         string
	FromOriginals bool
	Renews        bool     // the summary in force is made anew, and no more is covered
	Tiers         []string // the names of the caller's summarizers
	Budget        uint64   // the caller's; 0: the policy's

	// Expects is the forecast, if the policy has a [policy.Cost].
	Expects Forecast
}

// Options are a caller's wishes for a plan.
type Options struct {
	Focus         string // what to keep in view; may be ""
	FromOriginals bool   // summarize from the originals, not from the last summary
	Originals     []summary.HalfTurn
	Previous      string          // with FromOriginals: the summary of what is before Originals; "" if they begin at the root
	Renew         bool            // make the summary in force anew, also that of a nudge, and cover and shorten no more
	Cover         bool            // require a plan that covers turns; one that only shortens is not enough
	Known         []string        // notes on record, oldest first
	PrevPlan      turns.Hash      // digest of a plan that is known to achieve nothing; zero: none
	Ref           turns.PolicyRef // how the policy was named; zero: its name and digest
	Tiers         []string        // names of the summarizers that will run; part of the digest
	Budget        uint64          // by the policy's counter, overhead included; 0: the policy's
}

// MinSummaryTokens is the least bound that a plan sets: below it a summarizer cannot
// write anything. A result that frees nothing is refused all the same.
const MinSummaryTokens = 16

// planner holds what a plan is made from. Its steps return what they find, and
// change neither the planner nor a plan.
type planner struct {
	path    view.Path
	policy  policy.Policy
	ref     turns.PolicyRef
	trigger turns.Trigger
	opt     Options
	sizes   policy.Sizes
}

// New plans the compaction of p. An automatic trigger needs a plan that frees
// enough. A manual trigger, an overflow, and a context over its budget need only one
// that frees anything.
//
// With FromOriginals, opt.Originals holds the halves of normal turns from the root on, or
// from the end of what opt.Previous summarizes. New ignores those at or after the cut.
//
// New costs O(halves) and counts no tokens: it uses [summary.HalfTurn.Tokens] as
// they are.
//
// Errors: [ErrNothing], whose text says why; [ErrOverhead] as a [BudgetError].
func New(p view.Path, pol policy.Policy, trigger turns.Trigger, opt Options) (*Plan, error) {
	m := planner{path: p, policy: pol, ref: opt.Ref, trigger: trigger, opt: opt, sizes: SizesOf(p, pol, trigger, opt.Budget)}
	if m.ref.Name == "" {
		m.ref = turns.PolicyRef{Name: pol.Name}
	}
	m.ref.Digest = pol.Digest()
	if m.sizes.Room == 0 {
		return nil, overheadError(p, m.sizes)
	}
	if err := m.checkRepeated(); err != nil {
		return nil, err
	}
	if opt.Renew && p.InForce != nil && len(p.InForce.Body.Nudge) > 0 {
		return m.renewNudge()
	}
	if !opt.FromOriginals && !opt.Cover {
		if plan := m.shorten(); plan != nil {
			return plan, nil
		}
	}
	if !opt.FromOriginals && !opt.Cover && m.shortensOnly() {
		return nil, NothingError("nothing more is long enough to be shortened, and the context fits")
	}
	if trigger.Kind == TriggerLargeOutput && p.Tokens() <= m.sizes.Room {
		return nil, NothingError("a large result gets no shorter, and the context fits")
	}
	return m.cover()
}

// cover plans a summary for the turns before a cut. If no position is legal, but
// unanswered messages had to be shortened, the plan only shortens these.
func (m planner) cover() (*Plan, error) {
	m.path = m.path.Lasting() // a cut is permanent, so what was shortened for one call is whole again
	pinned := min(pinnedTokens(m.path), m.sizes.Target/4)
	m.sizes.Summary = max(m.sizes.Summary, view.FrameTokens(m.policy, view.Quoted{})+MinSummaryTokens) + pinned
	m.sizes.Keep = min(m.sizes.Keep, tokens.Sub(m.sizes.Target, m.sizes.Replacement()))
	shortens := m.fitUnanswered()

	cut, err := m.chooseCut(shortens)
	switch {
	case m.nothingFollows(), m.opt.Renew && m.path.InForce != nil:
		cut = 0 // make only the summary in force anew
	case err == nil:
	case len(shortens) > 0:
		plan := m.place(Shorten, 0, shortens, false)
		return &plan, nil
	case m.canRenewSummary():
		cut = 0
	default:
		return nil, err
	}
	plan := m.place(Cover, cut, shortens, false)
	if err := m.read(&plan); err != nil {
		return nil, err
	}
	m.bound(&plan, pinned)
	if m.policy.Cost.Patience > 0 {
		plan.Expects = CoverForecast(m.path, m.policy, m.path.Overhead+m.path.Tokens(), m.sizes)
	}
	if err := m.checkWorth(&plan); err != nil {
		return nil, err
	}
	return &plan, nil
}

// nothingFollows reports whether the caller wants a summary from the originals and
// no turn follows the compaction in force.
func (m planner) nothingFollows() bool {
	f := m.path.InForce
	return m.opt.FromOriginals && f != nil && m.path.Head.Ref == f.Node.Ref
}

// canRenewSummary reports whether the summary in force may be made anew though no
// more turns can be covered: the caller asks for it, or it is too long.
func (m planner) canRenewSummary() bool {
	if m.path.InForce == nil {
		return false
	}
	replaced := m.path.Replaced()
	return m.opt.FromOriginals || replaced > m.sizes.Replacement()+m.sizes.Replacement()/2 ||
		replaced > roomNextTo(m.sizes, m.path.Rendered(0)[0], m.policy)
}

func overheadError(p view.Path, s policy.Sizes) error {
	return &BudgetError{Kind: ErrOverhead, Budget: s.Budget, Overhead: p.Overhead, Messages: p.Tokens(), Protected: protectedTokens(p)}
}

// place returns the plan of a kind with the cut before half number cut of the path,
// with all fields that follow from these.
func (m planner) place(kind Kind, cut int, shortens map[view.PartAt]turns.ElidedPart, forCall bool) Plan {
	p := m.path
	plan := Plan{
		Kind: kind, Digest: m.digest(p.Previous()), Policy: m.policy, PolicyRef: m.ref, Trigger: m.trigger, Path: p,
		Cut: p.CutAt(cut), Span: p.Span(cut), Covered: p.Halves[:cut:cut], Kept: p.Halves[cut:], Shortens: shortens,
		Known: m.opt.Known, TokensBefore: p.Tokens(), TokensKept: p.ShownFrom(cut), TargetTokens: m.sizes.Target,
		Focus: m.opt.Focus, FromOriginals: m.opt.FromOriginals, Renews: m.opt.Renew, Tiers: m.opt.Tiers, Budget: m.opt.Budget,
	}
	plan.Span.Call = forCall
	if kind != Cover { // covered turns stay covered
		plan.Cut = 0
		if p.InForce != nil {
			plan.Cut = p.InForce.Node.Cut
		}
		plan.Span.Through, plan.Span.FirstKept, plan.Span.Split = turns.Ref{}, turns.Ref{}, false
	}
	plan.Span.Elisions, plan.Elided = p.Elisions(cut, shortens)
	if len(shortens) > 0 {
		plan.TokensKept = 0
		saved := p.SavedBy(plan.Span.Elisions, plan.Elided)
		for i := cut; i < len(p.Halves); i++ {
			if h := &p.Halves[i]; !h.Erased {
				plan.TokensKept += tokens.Sub(h.Tokens, saved[i]) // a recorded count may be too low
			}
		}
	}
	return plan
}

// read sets what the summarizer of a covering plan may see.
func (m planner) read(plan *Plan) error {
	p := m.path
	plan.Reads, plan.Previous = plan.Covered, p.PreviousSummary()
	if plan.FromOriginals {
		plan.Reads, plan.Previous = m.opt.Originals, m.opt.Previous
		for i := range m.opt.Originals {
			if h := &m.opt.Originals[i]; lineage.CutBefore(h.Depth, h.Half) >= plan.Cut {
				plan.Reads = m.opt.Originals[:i:i]
				break
			}
		}
		if len(plan.Reads) == 0 {
			return NothingError("no original turn lies before the cut")
		}
	}
	plan.First = p.FirstRequest(m.policy, plan.Reads)
	plan.Pins = p.PinnedTexts(len(plan.Covered))
	if n := len(plan.Reads); n > 0 {
		plan.Span.SawThrough = plan.Reads[n-1].Ref
	}
	if !plan.FromOriginals {
		plan.Span.SawThrough = p.LaterSeen(plan.Span.SawThrough, len(plan.Covered))
	}
	return nil
}

// checkWorth returns [ErrNothing] if a covering plan would not pay.
func (m planner) checkWorth(plan *Plan) error {
	if len(plan.Covered) == 0 {
		if m.path.InForce != nil && (plan.FromOriginals || plan.ReplacementBound() < m.path.Replaced()) {
			return nil
		}
		return NothingError("no half turn would be covered")
	}
	asked := m.trigger.Kind == TriggerManual || m.trigger.Kind == TriggerOverflow
	if asked || plan.TokensBefore > m.sizes.Room {
		return nil // any progress is enough
	}
	reclaim := tokens.Sub(plan.TokensBefore, plan.TokensKept+plan.ReplacementBound())
	if least := tokens.Share(plan.TokensBefore, m.policy.MinReclaimRatio); reclaim == 0 || reclaim < least {
		return NothingError("it would free about %d of %d tokens, the least progress is %d", reclaim, plan.TokensBefore, least)
	}
	return nil
}

// String describes the plan in one line: what, why, and the sizes.
func (plan *Plan) String() string {
	return fmt.Sprintf("%s by %s: covers %d halves through %v, keeps %d from %v, %d tokens to at most %d",
		plan.Trigger.Kind, plan.Policy.Name, len(plan.Covered), plan.Span.Through, len(plan.Kept), plan.Span.FirstKept,
		plan.TokensBefore, plan.TokensKept+plan.ReplacementBound())
}

// Targets returns how many messages the plan compacts: those that it covers, or
// those that it shortens. Each tool result counts as one message. A result that
// loses only its images does not count.
func (plan *Plan) Targets() int {
	n := 0
	for i := range plan.Covered {
		n += len(plan.Covered[i].Messages)
	}
	shortened := make(map[view.PartAt]bool)
	for at, part := range plan.Shortens {
		if plan.Path.Part(at).Type != turns.ToolCallResponse {
			at.Part = 0 // count the message once
		}
		if part.Method != string(view.Elided) {
			shortened[at] = true
		}
	}
	return n + len(shortened)
}
