package plan

import (
	"slices"

	"nexus/compactor/policy"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// rates returns what p's model charges for a token read from the cache and for one
// written to it. Unknown prices get the ratio that most providers have.
func rates(p view.Path) (read, write float64) {
	m := p.Prices.Model
	if m.Input == 0 {
		return 0.1, 1.25
	}
	or := func(n uint64) float64 {
		if n == 0 {
			n = m.Input
		}
		return float64(n)
	}
	return or(m.CacheRead), or(m.CacheWrite)
}

// Forecast is the expected cost and saving of a change of a context's content.
type Forecast struct {
	Rewrite uint64  // tokens that are written to the cache again
	Saves   uint64  // tokens that each later call no longer reads
	Payback float64 // number of calls that pay for the rewrite
	Pays    bool    // under the policy's patience
}

// chooseByCost returns what pays before the context must be compacted: covering
// turns, or showing results shortened (then chosen lists them). If the forecast does
// not pay, nothing does.
func chooseByCost(p view.Path, pol policy.Policy, total uint64, s policy.Sizes) (f Forecast, chosen map[view.PartAt]turns.ElidedPart) {
	if pol.Cost.Patience == 0 || total <= s.Pays || len(p.Halves) == 0 && p.Sums == nil {
		return f, nil
	}
	if f = CoverForecast(p, pol, total, s); f.Pays {
		return f, nil
	}
	chosen, f = pruning(p, pol, total, s)
	return f, chosen
}

// rewritePrice returns the price of writing n tokens to the cache, times the
// policy's patience. If the cache is cold, the factor is at most 1: the next call
// writes everything anyway.
func rewritePrice(p view.Path, pol policy.Policy, n uint64) float64 {
	_, write := rates(p)
	patience := pol.Cost.Patience
	if p.Cold {
		patience = min(1, patience)
	}
	return patience * write * float64(n)
}

// CoverForecast returns the forecast of compacting p now. total counts its context,
// overhead included. The compaction leaves what the policy keeps and the longest
// allowed summary and quotes.
func CoverForecast(p view.Path, pol policy.Policy, total uint64, s policy.Sizes) (f Forecast) {
	read, write := rates(p)
	f.Rewrite = min(s.Replacement()+keeps(p, pol, s), tokens.Sub(total, p.Overhead))
	f.Saves = tokens.Sub(total, p.Overhead+f.Rewrite)
	if f.Saves < max(1, tokens.Share(tokens.Sub(total, p.Overhead), pol.MinReclaimRatio)) {
		return f
	}
	once, wanted := write*float64(f.Rewrite), rewritePrice(p, pol, f.Rewrite)
	if q := p.Prices.Summarizer; q.Input > 0 && p.Prices.Model.Input > 0 {
		asked := float64(f.Saves)*float64(q.Input) + float64(min(s.Summary, MaxWritten))*float64(q.Output)
		once, wanted = once+asked, wanted+asked
	}
	f.Payback = once / (float64(f.Saves) * read)
	f.Pays = float64(p.MeasureGrowth().Below(total))*read >= wanted && f.Payback <= expectedCalls(p)
	return f
}

// keeps returns how many tokens of p the policy keeps.
func keeps(p view.Path, pol policy.Policy, s policy.Sizes) (n uint64) {
	if pol.KeepTurns == 0 {
		return s.Keep
	}
	responses := uint64(0)
	for i := len(p.Halves) - 1; i >= 0; i-- {
		if p.Halves[i].Half == turns.ResponseHalf {
			if responses++; responses > pol.KeepTurns {
				break
			}
		}
		n += p.Halves[i].ShownTokens()
	}
	return min(n, tokens.Sub(s.Target, s.Replacement()))
}

// pruning returns the results to show shortened that save the most, and their
// forecast. Everything before the first of them stays in the cache.
func pruning(p view.Path, pol policy.Policy, total uint64, s policy.Sizes) (_ map[view.PartAt]turns.ElidedPart, f Forecast) {
	g := p.MeasureGrowth()
	if !pol.Elide.On() || g.Calls == 0 {
		return nil, f
	}
	// The saving ends with the next compaction, which removes these results anyway.
	calls := expectedCalls(p)
	if growth := float64(tokens.Sub(total, g.First)) / float64(g.Calls); growth > 0 {
		calls = min(calls, float64(tokens.Sub(s.Trigger, total))/growth)
	}
	passes := targets(p, pol.Elide, p.ElidedAt())
	all := slices.Concat(passes[:]...)
	slices.SortFunc(all, func(a, b target) int { return b.at.Compare(a.at) })
	read, write := rates(p)
	chosen := make(map[view.PartAt]turns.ElidedPart)
	var order []view.PartAt // in the order of choice; the best choice is a prefix
	best := 0
	saves, behind, from, gain := uint64(0), uint64(0), len(p.Halves), 0.0 // behind counts the tokens from half number from on
	for _, t := range all {
		for from > t.at.Half {
			from--
			behind += p.Halves[from].ShownTokens()
		}
		for _, at := range t.parts {
			q := shortenedPart(pol.Elide, p.Part(at), chosen[at])
			n := view.Saving(p.CountedBy(), &p.Halves[at.Half], turns.Elision{Message: uint64(at.Message), Part: uint64(at.Part)}, &q)
			if n > 0 {
				chosen[at], order = q, append(order, at)
				saves += n
			}
		}
		rewrite := tokens.Sub(behind, saves)
		if g := float64(saves)*read*calls - rewritePrice(p, pol, rewrite); g > gain {
			gain, best = g, len(order)
			f = Forecast{Rewrite: rewrite, Saves: saves, Payback: write * float64(rewrite) / (float64(saves) * read), Pays: true}
		}
	}
	for _, at := range order[best:] {
		delete(chosen, at)
	}
	return chosen, f
}

// expectedCalls estimates how many more calls a session makes: as many as it has
// turns.
func expectedCalls(p view.Path) float64 { return float64(p.Head.Depth) }
