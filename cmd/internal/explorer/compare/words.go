package compare

import (
	"slices"
	"strings"
	"unicode"
)

// wordPiece is a run of a text that both sides of a comparison have, or one alone.
type wordPiece struct {
	Text string
	Own  bool // the other side does not have it
}

const (
	// maxCompared is how many bytes of a text are compared; the page links to the rest.
	maxCompared = 6000
	// maxEdits bounds the work for a pair of texts: beyond it what is between their common
	// beginning and their common end counts as different.
	maxEdits = 400
)

// compareWords returns two texts as runs that both have and runs of their own. Joined, the runs of
// a side are its text.
func compareWords(a, b string) (left, right []wordPiece) {
	x, y := splitWords(a), splitWords(b)
	first := 0
	for first < min(len(x), len(y)) && x[first] == y[first] {
		first++
	}
	last := 0
	for last < min(len(x), len(y))-first && x[len(x)-1-last] == y[len(y)-1-last] {
		last++
	}
	ownX, ownY := make([]bool, len(x)), make([]bool, len(y))
	edits(x[first:len(x)-last], y[first:len(y)-last], ownX[first:], ownY[first:])
	return runs(x, ownX), runs(y, ownY)
}

// edits marks the words that only one of two lists has, by the shortest script of edits (Myers,
// 1986). Where that needs more than [maxEdits], all words are marked.
func edits(x, y []string, ownX, ownY []bool) {
	n, m := len(x), len(y)
	most := min(n+m, maxEdits)
	reach := make([]int, 2*most+2) // by diagonal k-most: how far it reaches into x
	var trace [][]int
	d := 0
search:
	for ; d <= most; d++ {
		trace = append(trace, slices.Clone(reach))
		for k := -d; k <= d; k += 2 {
			var i int
			if k == -d || k != d && reach[most+k-1] < reach[most+k+1] {
				i = reach[most+k+1]
			} else {
				i = reach[most+k-1] + 1
			}
			for i < n && i-k < m && i-k >= 0 && x[i] == y[i-k] {
				i++
			}
			if reach[most+k] = i; i >= n && i-k >= m {
				break search
			}
		}
	}
	if d > most {
		for i := range x {
			ownX[i] = true
		}
		for j := range y {
			ownY[j] = true
		}
		return
	}
	i, j := n, m
	for ; d > 0; d-- {
		v := trace[d]
		k := i - j
		var up int // the diagonal before
		if k == -d || k != d && v[most+k-1] < v[most+k+1] {
			up = k + 1
		} else {
			up = k - 1
		}
		pi := v[most+up]
		pj := pi - up
		if up == k+1 {
			ownY[pj] = true
		} else {
			ownX[pi] = true
		}
		i, j = pi, pj
	}
}

// splitWords splits a text into words, runs of space, and other characters one by one.
func splitWords(s string) (out []string) {
	kind := func(r rune) int {
		switch {
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || r == '_':
			return 1
		case unicode.IsSpace(r):
			return 2
		}
		return 0
	}
	from, was := 0, -1
	for i, r := range s {
		k := kind(r)
		if i > 0 && (k != was || k == 0) {
			out = append(out, s[from:i])
			from = i
		}
		was = k
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

// runs joins words that are next to each other and alike. Space between two words of one's own is
// one's own too: a rewritten sentence is one mark, not many.
func runs(words []string, own []bool) (out []wordPiece) {
	for i, w := range words {
		mine := own[i] || i > 0 && i+1 < len(words) && own[i-1] && own[i+1] && strings.TrimSpace(w) == ""
		if n := len(out); n > 0 && out[n-1].Own == mine {
			out[n-1].Text += w
			continue
		}
		out = append(out, wordPiece{w, mine})
	}
	return out
}
