package compactor

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"nexus/compactor/compactortest"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

var (
	realCount = flag.Int("histories", 12, "how many real histories TestRealHistories replays under each policy; 0: all")
	realSeed  = flag.Uint64("histories-seed", 1, "what TestRealHistories draws windows, triggers and moments from")
)

const (
	leastHistory   = 4000 // tokens of a history that is replayed
	maxCompactions = 20   // of one replay
)

// RealHistories replays real transcripts under every policy, in windows that
// they fill several times, and compacts them when it is due and at other
// moments, for every reason, also while turns come in: up to 20 times each.
// Each context is checked by all providers' rules, each compaction by all that
// one promises. Extract is the summarizer that asks nobody.
//
//	go test ./compactor -run TestRealHistories -histories 0 -v
func RealHistories(t *testing.T, extract summary.Summarizer) {
	hs := realHistories(t, leastHistory)
	if n := *realCount; 0 < n && n < len(hs) { // spread over all
		for i := range n {
			hs[i] = hs[i*len(hs)/n]
		}
		hs = hs[:n]
	}
	if len(hs) == 0 {
		t.Fatalf("no transcript of %d tokens", leastHistory)
	}
	var total tally
	ran := 0
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			var all tally
			for _, h := range hs {
				t.Run(h.name, func(t *testing.T) {
					key := fnv.New64a()
					fmt.Fprint(key, name, h.name)
					r := newReplay(builtin(name), h.tokens, rand.New(rand.NewPCG(*realSeed, key.Sum64())), extract)
					r.replay(t, h)
					all.add(r.tally)
					ran++
				})
			}
			t.Logf("%d histories: %v", len(hs), all)
			total.add(all)
		})
	}
	if ran < len(policy.Names())*len(hs) || len(hs) < 5 {
		return // a choice of them
	}
	if total.bound < maxCompactions || total.shortened*total.nudged*total.split*total.overflows*total.manual*total.originals*total.rebased*total.noticed == 0 {
		t.Errorf("some kind of compaction was not made: %v", total)
	}
}

// tally counts what replays did.
type tally struct {
	turns, contexts, over                 int
	compactions, bound                    int
	shortened, nudged, split, noticed     int
	overflows, manual, originals, rebased int
}

func (a *tally) add(b tally) {
	a.turns, a.contexts, a.over = a.turns+b.turns, a.contexts+b.contexts, a.over+b.over
	a.compactions, a.bound = a.compactions+b.compactions, max(a.bound, b.compactions, b.bound)
	a.shortened, a.nudged, a.split, a.noticed = a.shortened+b.shortened, a.nudged+b.nudged, a.split+b.split, a.noticed+b.noticed
	a.overflows, a.manual, a.originals, a.rebased = a.overflows+b.overflows, a.manual+b.manual, a.originals+b.originals, a.rebased+b.rebased
}

func (a tally) String() string {
	return fmt.Sprintf("%d turns, %d contexts (%d over the budget, given as views), %d compactions, at most %d in one: %d only shorten, %d nudge, "+
		"%d split a turn, %d by the notice; %d after an overflow, %d manual, %d from originals, %d rebased",
		a.turns, a.contexts, a.over, a.compactions, a.bound, a.shortened, a.nudged, a.split, a.noticed, a.overflows, a.manual, a.originals, a.rebased)
}

// replay is a real history on its way through a policy.
type replay struct {
	*grower
	rand    *rand.Rand
	pol     policy.Policy
	tiers   []Tier
	percent uint64 // of our count, what the provider reports; 0: nothing
	sent    uint64 // tokens of the last context, overhead included
	late    *late
	tally   tally
}

// late is a compaction that is being made while turns come in.
type late struct {
	pl        *plan.Plan
	res       Result
	remaining int // contexts until it is there
}

func newReplay(pol policy.Policy, size uint64, r *rand.Rand, extract summary.Summarizer) *replay {
	x := &replay{grower: newGrower(), rand: r, pol: pol, percent: []uint64{0, 100, 160}[r.IntN(3)]}
	const least = 2000
	bound := max(least, min(size/2, 100_000))
	x.Policy, x.Limits.ContextWindow = pol, least+r.Uint64N(bound-least+1)/uint64(1+r.IntN(8))
	x.Overhead = r.Uint64N(x.Limits.ContextWindow / 8)
	extracts := Tier{Name: "extractive", Summarizer: extract, Local: true}
	x.tiers = [][]Tier{{extracts}, {extracts}, {{Name: "model", Summarizer: stub{}}, extracts}, nil}[r.IntN(4)]
	return x
}

func (r *replay) oneIn(n int) bool { return r.rand.IntN(n) == 0 }

func (r *replay) replay(t *testing.T, h history) {
	t.Logf("window %d, overhead %d, the provider reports %d %%, %d tiers", r.Limits.ContextWindow, r.Overhead, r.percent, len(r.tiers))
	for _, a := range h.turns {
		if r.tally.compactions == maxCompactions {
			break
		}
		r.tally.turns++
		if r.oneIn(4) { // sent and answered at once
			r.add(t, a.Messages, a.Response)
			r.asked(t)
			continue
		}
		if len(a.Messages) > 0 {
			r.add(t, a.Messages, nil)
		}
		r.asked(t)
		if a.Response != nil {
			r.add(t, nil, a.Response)
		}
	}
	t.Log(r.tally)
}

// add appends a turn as the ledger does.
func (r *replay) add(t *testing.T, ms []turns.Message, response *turns.Message) {
	t.Helper()
	outcome, err := r.Open.After(ms, response, nil)
	must(t, err)
	must(t, r.Turn(ms, response))
	r.Open = outcome.Open
	last := &r.Halves[len(r.Halves)-1]
	last.Pinned = r.oneIn(30)
	if response != nil {
		last.Reported = r.sent * r.percent / 100
	}
}

// asked is the moment before a call: the context is made and checked, and
// compacted where it is due or somebody asks for it.
func (r *replay) asked(t *testing.T) {
	t.Helper()
	cx := r.valid(t)
	switch {
	case r.late != nil:
		if r.late.remaining--; r.late.remaining <= 0 {
			r.arrive(t)
			cx = r.valid(t)
		}
	default:
		trigger, due := plan.Due(r.Path(), r.pol, cx.Tokens)
		if !due && !r.oneIn(12) {
			break
		}
		if !due {
			trigger.Kind = []string{plan.TriggerManual, plan.TriggerOverflow, plan.TriggerThreshold}[r.rand.IntN(3)]
		}
		opt := plan.Options{FromOriginals: r.oneIn(6), Cover: r.oneIn(6)}
		if opt.FromOriginals {
			opt.Originals = r.Halves
		}
		if r.oneIn(8) {
			opt.Focus = "the tests that fail"
		}
		if r.compact(t, trigger, opt, cx) {
			cx = r.valid(t)
		}
	}
	r.sent = r.Overhead + cx.Tokens
	if r.late == nil {
		r.fits(t, cx)
	}
}

// compact makes a compaction, or begins one that comes later; false where there is none now.
func (r *replay) compact(t *testing.T, trigger turns.Trigger, opt plan.Options, was view.Context) bool {
	t.Helper()
	before := r.Path()
	pl, err := plan.New(before, r.pol, trigger, opt)
	again, err2 := plan.New(r.Path(), r.pol, trigger, opt)
	if fmt.Sprint(err) != fmt.Sprint(err2) || !reflect.DeepEqual(pl, again) {
		t.Fatalf("two plans of the same differ: %v (%v), %v (%v)", pl, err, again, err2)
	}
	if errors.Is(err, plan.ErrNothing) {
		return false
	}
	must(t, err)
	r.causal(t, pl)
	res, err := Run(t.Context(), pl, r.tiers, pl.Path.Counter, nil)
	twice, err2 := Run(t.Context(), again, r.tiers, again.Path.Counter, nil)
	if errors.Is(err, plan.ErrNothing) || errors.Is(err, ErrFailed) {
		return false
	}
	must(t, err)
	must(t, err2)
	if !bytes.Equal(encoded(t, res), encoded(t, twice)) {
		t.Fatalf("two runs of %v differ", pl)
	}
	if r.oneIn(3) {
		r.late = &late{pl, res, 1 + r.rand.IntN(4)}
		return false
	}
	must(t, r.compaction(res))
	r.count(pl, res)
	r.shrunk(t, pl, &res.Body)
	r.compacted(t, r.pol, before, pl, was)
	r.same(t, pl, res, before)
	if _, err := plan.New(r.Path(), r.pol, trigger, opt); !errors.Is(err, plan.ErrNothing) {
		t.Fatalf("the same plan again: %v, want %v", err, plan.ErrNothing)
	}
	return true
}

// arrive commits the compaction that was made while turns came in.
func (r *replay) arrive(t *testing.T) {
	t.Helper()
	x, before := r.late, r.Path()
	r.late = nil
	pl, err := x.pl.Rebase(before)
	if f := x.pl.Path.InForce; errors.Is(err, plan.ErrStale) && (x.pl.Span.Call || f != nil && f.Span.Call) {
		return // the user spoke: what stood for one call is over
	}
	must(t, err)
	res := Resize(pl, x.res)
	was, err := view.Render(before, before.Counter)
	must(t, err)
	must(t, r.compaction(res))
	r.count(pl, res)
	r.tally.rebased++
	if pl.Span.SawThrough != x.pl.Span.SawThrough {
		t.Fatalf("rebased it saw through %v, before through %v", pl.Span.SawThrough, x.pl.Span.SawThrough)
	}
	r.shrunk(t, pl, &res.Body)
	r.same(t, pl, res, before)
	now, after := r.Path(), r.valid(t)
	if now.Tokens() != res.Body.TokensAfter {
		t.Fatalf("%d tokens after, the path has %d", res.Body.TokensAfter, now.Tokens())
	}
	if budget := r.pol.Budget(r.Limits); Fit(before, was, budget) == nil {
		must(t, Fit(now, after, budget))
	}
}

// shrunk: a context gets smaller, for parts that are covered or shortened.
func (r *replay) shrunk(t *testing.T, pl *plan.Plan, b *turns.CompactionBody) {
	t.Helper()
	if (len(pl.Covered) > 0 || pl.Kind != plan.Cover) && b.TokensAfter >= b.TokensBefore {
		t.Fatalf("no progress: %d tokens before, %d after", b.TokensBefore, b.TokensAfter)
	}
	if pl.Kind == plan.Shorten && (len(pl.Covered) > 0 || len(pl.Shortens) == 0) {
		t.Fatalf("%v only shortens, but covers %d halves and shortens %d parts", pl, len(pl.Covered), len(pl.Shortens))
	}
}

// causal: what a summary was made from lies on the path, and no part of it
// after the turn that it says it was made from.
func (r *replay) causal(t *testing.T, pl *plan.Plan) {
	t.Helper()
	seen := pl.Span.SawThrough
	if seen.IsZero() {
		if pl.Kind != plan.Shorten {
			t.Fatalf("%v says not what it saw", pl)
		}
		return
	}
	n := r.Node(seen)
	on, err := lineage.IsAncestor(&r.Forest, n, r.Head)
	must(t, err)
	if !on || n.Depth > pl.Path.Head.Depth {
		t.Fatalf("%v saw %v, which is not on its path", pl, seen)
	}
	for _, h := range pl.Reads {
		if h.Depth > n.Depth {
			t.Fatalf("%v reads %v, but saw only through %v", pl, h.Ref, seen)
		}
	}
	if through := pl.Span.Through; pl.Kind != plan.Nudge && !through.IsZero() && r.Node(through).Depth > n.Depth {
		t.Fatalf("%v covers through %v, but saw only through %v", pl, through, seen)
	}
}

// same: the compaction as a view, and as it is committed, is one context.
func (r *replay) same(t *testing.T, pl *plan.Plan, res Result, before view.Path) {
	t.Helper()
	p := before
	if pl.Kind == plan.Cover {
		p = before.Lasting()
	}
	shown, err := view.Render(Apply(pl, p, res, p.Counter), p.Counter)
	must(t, err)
	cx, err := view.Render(r.Path(), p.Counter)
	must(t, err)
	if shown.Fingerprint() != cx.Fingerprint() {
		t.Fatalf("%v shows one context as a view, and another when it is committed:\n%s\n%s", pl, compactortest.Show(shown), compactortest.Show(cx))
	}
}

// valid returns the context at the head, checked: it keeps its own rules, and each provider takes it.
func (r *replay) valid(t *testing.T) view.Context {
	t.Helper()
	r.tally.contexts++
	cx := r.rendered(t)
	if len(cx.Messages) == 0 {
		return cx
	}
	if err := strictly(cx.Messages); err != nil {
		t.Fatalf("%v in\n%s", err, compactortest.Show(cx))
	}
	return cx
}

// fits: a context that is over its budget fits as a view, which shows what a
// compaction would leave, unless its newest part by itself is over.
func (r *replay) fits(t *testing.T, cx view.Context) {
	t.Helper()
	p, budget := r.Path(), r.pol.Budget(r.Limits)
	if plan.MayFit(r.pol, p, cx.Tokens, budget) {
		return
	}
	r.tally.over++
	pl, err := plan.New(p, r.pol, turns.Trigger{Kind: plan.TriggerThreshold}, plan.Options{Budget: budget})
	if err == nil {
		res, err := Run(t.Context(), pl, r.tiers, p.Counter, nil)
		if errors.Is(err, plan.ErrNothing) && len(r.tiers) == 0 {
			return // a notice is as short as it is
		}
		must(t, err)
		p = Apply(pl, p, res, p.Counter)
		cx, err = view.Render(p, p.Counter)
		must(t, err)
		must(t, strictly(cx.Messages))
	} else if !errors.Is(err, plan.ErrNothing) {
		t.Fatal(err)
	}
	if plan.MayFit(r.pol, p, cx.Tokens, budget) {
		return
	}
	least := p.Rendered(0)[0] + view.FrameTokens(r.pol, view.Quoted{}) + 2*plan.MinSummaryTokens
	if slices.Contains(plan.LegalCuts(p.Halves)[1:], true) || p.InForce != nil && len(r.tiers) > 0 && p.Overhead+least+pinnedBound(p) <= budget {
		t.Fatalf("%d and %d tokens do not fit a budget of %d, of the messages %d have to stay: %v (%v) in\n%s", p.Overhead, cx.Tokens, budget, least, pl, err, compactortest.Show(cx))
	}
}

func (r *replay) count(pl *plan.Plan, res Result) {
	x := &r.tally
	x.compactions++
	one := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	one(&x.shortened, pl.Kind == plan.Shorten)
	one(&x.nudged, pl.Kind == plan.Nudge)
	one(&x.split, pl.Span.Split)
	one(&x.overflows, pl.Trigger.Kind == plan.TriggerOverflow)
	one(&x.manual, pl.Trigger.Kind == plan.TriggerManual)
	one(&x.originals, pl.FromOriginals)
	one(&x.noticed, res.Body.Tier == plan.NoticeTier)
}

// encoded returns a compaction as it is stored.
func encoded(t *testing.T, r Result) []byte {
	t.Helper()
	b, err := turns.EncodeBody(&r.Body)
	must(t, err)
	return append(b, fmt.Sprintf("%+v", r.Span)...)
}

// pinnedBound returns an upper bound of what the pinned texts of p take in a replacement.
func pinnedBound(p view.Path) (n uint64) {
	for _, s := range p.PinnedTexts(len(p.Halves)) {
		n += p.Counter.Text(summary.Data((tokens.Approx{}).Clip(s, 2000))) + 32
	}
	return n
}
