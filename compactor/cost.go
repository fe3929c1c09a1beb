package compactor

import (
	"slices"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Cost has a context compacted before it has to be, where that pays: each call
// reads the whole context from the provider's cache, and a compaction has what it
// leaves written to it anew, once.
//
// Since the last rewrite each call has read more than the first one did. Once
// what was read more costs as much as the next rewrite will, going on costs more
// a call than rewriting now, if the session grows as it did: the cheapest time of
// all, whatever the growth is. Patience moves it, for what is covered is not in
// the context any more.
type Cost struct {
	// Patience is how many times the cost of a rewrite the growth since the last
	// one must have cost. 1 is the cheapest; 0: off. Range [0, 1000].
	Patience float64 `json:"patience,omitzero"`
	// FromRatio is the least share of the budget, like [Policy.TriggerRatio], that
	// a context fills before cost counts.
	FromRatio float64 `json:"from_ratio,omitzero"`
}

func (c Cost) check(check checkFunc, ratio func(field string, v, lo, hi float64)) {
	ratio("cost/patience", c.Patience, 0, 1000)
	ratio("cost/from_ratio", c.FromRatio, 0, 1)
	check(c.Patience > 0 || c.FromRatio == 0, "cost/from_ratio", "%v, though patience is 0", c.FromRatio)
}

// Prices are what tokens cost, for [Cost]: those of the session's model, and of
// the model that summaries are asked of; the zero Price: nobody is asked.
type Prices struct {
	Model, Summarizer tokens.Price
}

// rates are the prices of p's model of a token that is read from the cache, and
// of one that is written to it. Where they are not known they relate as most
// providers' do.
func (p Path) rates() (read, write float64) {
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

// Forecast is what a change of what a context holds is expected to cost and to save.
type Forecast struct {
	Rewrite uint64  // tokens written to the cache anew
	Saves   uint64  // tokens that each later call reads less
	Payback float64 // calls after which it has paid
	Pays    bool    // by the policy's patience
}

// choose is what pays before the context has to be compacted: to cover, to show
// results shortened (chosen then says which), or, where the forecast does not
// pay, nothing.
func (p Path) choose(pol Policy, total uint64, s sizes) (f Forecast, chosen map[partAt]turns.ElidedPart) {
	if pol.Cost.Patience == 0 || total <= s.pays || len(p.Halves) == 0 && p.Sums == nil {
		return f, nil
	}
	if f = p.covering(pol, total, s); f.Pays {
		return f, nil
	}
	chosen, f = p.pruning(pol, total, s)
	return f, chosen
}

// price is what it costs to write n tokens to the cache, as often as the policy
// has patience. Once, where the cache is cold: all is written then, this way or that.
func (p Path) price(pol Policy, n uint64) float64 {
	_, write := p.rates()
	patience := pol.Cost.Patience
	if p.Cold {
		patience = min(1, patience)
	}
	return patience * write * float64(n)
}

// covering is the forecast of a compaction of p now, whose context has so many
// tokens, overhead included. It leaves what the policy keeps, and as long a
// summary as it may have.
func (p Path) covering(pol Policy, total uint64, s sizes) (f Forecast) {
	read, write := p.rates()
	f.Rewrite = min(s.summary+p.keeps(pol, s), tokens.Sub(total, p.Overhead))
	f.Saves = tokens.Sub(total, p.Overhead+f.Rewrite)
	if f.Saves < max(1, tokens.Share(tokens.Sub(total, p.Overhead), pol.MinReclaimRatio)) {
		return f
	}
	once, wanted := write*float64(f.Rewrite), p.price(pol, f.Rewrite)
	if q := p.Prices.Summarizer; q.Input > 0 && p.Prices.Model.Input > 0 {
		asked := float64(f.Saves)*float64(q.Input) + float64(min(s.summary, maxWritten))*float64(q.Output)
		once, wanted = once+asked, wanted+asked
	}
	f.Payback = once / (float64(f.Saves) * read)
	f.Pays = float64(p.growth().less(total))*read >= wanted && f.Payback <= p.callsLeft()
	return f
}

// keeps is the tokens that the policy keeps of p.
func (p Path) keeps(pol Policy, s sizes) (n uint64) {
	if pol.KeepTurns == 0 {
		return s.keep
	}
	responses := uint64(0)
	for i := len(p.Halves) - 1; i >= 0; i-- {
		if p.Halves[i].Half == turns.ResponseHalf {
			if responses++; responses > pol.KeepTurns {
				break
			}
		}
		n += p.Halves[i].shown()
	}
	return min(n, tokens.Sub(s.target, s.summary))
}

// pruning is the choice of results to show shortened from now on that saves the
// most, and its forecast. All before the first of them stays in the cache.
func (p Path) pruning(pol Policy, total uint64, s sizes) (_ map[partAt]turns.ElidedPart, f Forecast) {
	g := p.growth()
	if !pol.Elide.on() || g.Calls == 0 {
		return nil, f
	}
	// Until the next compaction takes them out in any case.
	left := p.callsLeft()
	if growth := float64(tokens.Sub(total, g.First)) / float64(g.Calls); growth > 0 {
		left = min(left, float64(tokens.Sub(s.trigger, total))/growth)
	}
	passes := p.targets(pol.Elide, p.elidedAt())
	all := slices.Concat(passes[:]...)
	slices.SortFunc(all, func(a, b target) int { return b.at.compare(a.at) })
	read, write := p.rates()
	chosen := make(map[partAt]turns.ElidedPart)
	var order []partAt // of choice; the best is the first so many
	most := 0
	saves, behind, from, gain := uint64(0), uint64(0), len(p.Halves), 0.0 // behind: tokens from half number from on
	for _, t := range all {
		for from > t.at.half {
			from--
			behind += p.Halves[from].shown()
		}
		for _, at := range t.parts {
			q := pol.Elide.shortened(p.part(at), chosen[at])
			n := saving(p.counter(), &p.Halves[at.half], turns.Elision{Message: uint64(at.message), Part: uint64(at.part)}, &q)
			if n > 0 {
				chosen[at], order = q, append(order, at)
				saves += n
			}
		}
		rewrite := tokens.Sub(behind, saves)
		if g := float64(saves)*read*left - p.price(pol, rewrite); g > gain {
			gain, most = g, len(order)
			f = Forecast{Rewrite: rewrite, Saves: saves, Payback: write * float64(rewrite) / (float64(saves) * read), Pays: true}
		}
	}
	for _, at := range order[most:] {
		delete(chosen, at)
	}
	return chosen, f
}

// callsLeft is how many calls a session is taken to go on for: as many turns as
// it has had.
func (p Path) callsLeft() float64 { return float64(p.Head.Depth) }
