package extractive

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/clipperhouse/uax29/v2/words"
)

// maxCompared bounds how many sentences are compared with each other.
const maxCompared = 160

// vector holds the words of a sentence by number, with their weights. Its length is
// 1.
type vector []term

type term struct {
	word   int
	weight float64
}

// vectors weighs words by how rare they are among the sentences. So no language
// needs a list of stop words.
func vectors(texts []string) []vector {
	number := make(map[string]int)
	var in []int // number of sentences with the word
	counts := make([]map[int]int, len(texts))
	for i, t := range texts {
		counts[i] = make(map[int]int)
		for it := words.FromString(strings.ToLower(t)); it.Next(); {
			w := it.Value()
			if lettersIn(w) == 0 {
				continue
			}
			n, ok := number[w]
			if !ok {
				n = len(in)
				number[w] = n
				in = append(in, 0)
			}
			if counts[i][n] == 0 {
				in[n]++
			}
			counts[i][n]++
		}
	}
	out := make([]vector, len(texts))
	for i, c := range counts {
		v := make(vector, 0, len(c))
		for w, n := range c {
			v = append(v, term{w, (1 + math.Log(float64(n))) * math.Log(1+float64(len(texts))/float64(in[w]))})
		}
		slices.SortFunc(v, func(a, b term) int { return cmp.Compare(a.word, b.word) })
		norm := 0.0
		for _, t := range v {
			norm += t.weight * t.weight
		}
		norm = math.Sqrt(norm)
		for j := range v {
			v[j].weight /= norm
		}
		out[i] = v
	}
	return out
}

// cosine returns the similarity of two sentences, from 0 to 1.
func cosine(a, b vector) (s float64) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].word < b[j].word:
			i++
		case a[i].word > b[j].word:
			j++
		default:
			s += a[i].weight * b[j].weight
			i++
			j++
		}
	}
	return s
}

// likeness returns the cosine of every pair of vs; len(vs) is at most maxCompared.
func likeness(vs []vector) [][]float64 {
	sim := make([][]float64, len(vs))
	for i := range sim {
		sim[i] = make([]float64, len(vs))
	}
	for i := range vs {
		for j := i + 1; j < len(vs); j++ {
			s := cosine(vs[i], vs[j])
			sim[i][j], sim[j][i] = s, s
		}
	}
	return sim
}

// centrality computes LexRank from the similarity of sentences: a sentence ranks by
// those that resemble it. The greatest rank is 1.
func centrality(sim [][]float64) []float64 {
	const least, damping, rounds = .08, .85, 12
	n := len(sim)
	rank, next, degree := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range sim {
		rank[i] = 1
		for j := range sim {
			if s := sim[i][j]; s >= least {
				degree[i] += s
			}
		}
	}
	for range rounds {
		for i := range next {
			in := 0.0
			for j := range sim {
				if s := sim[j][i]; s >= least {
					in += rank[j] * s / degree[j]
				}
			}
			next[i] = 1 - damping + damping*in
		}
		rank, next = next, rank
	}
	if n > 0 {
		top := slices.Max(rank)
		for i := range rank {
			rank[i] /= top
		}
	}
	return rank
}
