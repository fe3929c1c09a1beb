package extractive

import (
	"cmp"
	"math"
	"slices"
)

// choose picks units for at most share tokens. It prefers units with much weight for
// their size that differ from those already picked. It returns them in the order of
// the history.
//
// Of two units that say nearly the same, it picks the newer, which supersedes the
// older.
func choose(pool []unit, now int, share uint64, cost func(string) uint64) []unit {
	pool = candidates(pool, now)
	texts := make([]string, len(pool))
	costs := make([]uint64, len(pool))
	for i, u := range pool {
		texts[i] = u.text
		costs[i] = cost(u.text)
	}
	sim := likeness(vectors(texts))
	central := centrality(sim)
	score := make([]float64, len(pool))
	for i, u := range pool {
		score[i] = max(.05, u.worth+.8*central[i]+recency(u.order, now))
		if u.lead {
			score[i] += .3
		}
		if u.task {
			score[i] += taskBonus(u)
		}
		for j := i + 1; j < len(pool); j++ {
			if sim[i][j] > .75 && !u.task {
				score[i] = 0 // a later unit repeats it
			}
		}
		score[i] /= math.Pow(float64(costs[i]), .35)
	}
	return greedy(pool, score, sim, costs, share)
}

// taskBonus protects the first request, above all its first sentence, against
// everything later.
func taskBonus(u unit) float64 {
	if u.lead {
		return 12
	}
	return 1.5
}

// greedy picks by maximal marginal relevance within a budget.
func greedy(pool []unit, score []float64, sim [][]float64, costs []uint64, share uint64) []unit {
	var out []unit
	like := make([]float64, len(pool)) // similarity to the closest picked unit
	chosen := make([]bool, len(pool))
	for remaining := share; ; {
		best, bestScore := -1, 0.0
		for i := range pool {
			if chosen[i] || costs[i] > remaining {
				continue
			}
			if s := score[i] * (1 - .7*like[i]); s > bestScore {
				best, bestScore = i, s
			}
		}
		if best < 0 {
			break
		}
		chosen[best] = true
		remaining -= costs[best]
		out = append(out, pool[best])
		for i := range pool {
			like[i] = max(like[i], sim[best][i])
		}
	}
	slices.SortStableFunc(out, inOrder)
	return out
}

// candidates returns at most maxCompared units of the pool, in its order: the newest
// quarter, then the most valuable. Of a repeated text it keeps the last place; of
// the task the first.
func candidates(pool []unit, now int) []unit {
	at := make(map[string]int, len(pool))
	var out []unit
	for _, u := range pool {
		if i, ok := at[u.text]; ok {
			task := out[i].task
			if !task {
				out[i] = u
			}
			continue
		}
		at[u.text] = len(out)
		out = append(out, u)
	}
	slices.SortStableFunc(out, inOrder)
	if len(out) <= maxCompared {
		return out
	}
	fresh := out[len(out)-maxCompared/4:]
	old := out[:len(out)-maxCompared/4]
	slices.SortStableFunc(old, func(a, b unit) int {
		return cmp.Or(cmp.Compare(b.worth+recency(b.order, now), a.worth+recency(a.order, now)), inOrder(a, b))
	})
	out = append(slices.Clone(old[:maxCompared-len(fresh)]), fresh...)
	slices.SortStableFunc(out, inOrder)
	return out
}

// recency returns a unit's bonus for being new: 1.5 at now, half of that 40 halves
// earlier.
func recency(order, now int) float64 { return 1.5 / (1 + float64(now-order)/40) }
