package evidence

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
)

// Query is the words of a query and what each is worth: rare ones more.
type Query struct{ worth map[string]float64 }

// maxTokens bounds the words of a query.
const maxTokens = 128

// ParseQuery reads a query: each of its words, and of its names whole, is worth the same.
func ParseQuery(text string) Query {
	q := Query{make(map[string]float64)}
	eachToken(text, func(w string) {
		w = strings.ToLower(w)
		if isShort := len(w) < 3 && w[0] < utf8.RuneSelf && !strings.ContainsAny(w, "0123456789"); !isShort && len(q.worth) < maxTokens {
			q.worth[w] = 1
		}
	})
	return q
}

// IsEmpty reports whether q has no word.
func (q Query) IsEmpty() bool { return len(q.worth) == 0 }

// Ranking ranks turns by a query, one after the other. It keeps none of their text.
type Ranking struct {
	query Query
	seen  []ranked
	holds map[string]int // how many turns hold each word
}

type ranked struct {
	turn  turns.Ref
	words []string
	chars int
}

// NewRanking returns a ranking of no turns.
func NewRanking(q Query) *Ranking { return &Ranking{query: q, holds: make(map[string]int)} }

// Add adds some halves of a turn.
func (r *Ranking) Add(turn turns.Ref, halves ...summary.HalfTurn) {
	x := ranked{turn: turn}
	has := make(map[string]bool)
	for i := range halves {
		eachPart(&halves[i], func(_ PartAt, _ turns.Role, _ *turns.Part, text string) {
			x.chars += len(text)
			eachToken(text, func(w string) {
				if w = strings.ToLower(w); r.query.worth[w] > 0 && !has[w] {
					has[w] = true
					x.words = append(x.words, w)
					r.holds[w]++
				}
			})
		})
	}
	r.seen = append(r.seen, x)
}

// Query returns the query in which words that few of the turns hold are worth more.
func (r *Ranking) Query() Query {
	q := Query{make(map[string]float64)}
	for w := range r.query.worth {
		q.worth[w] = r.worth(w)
	}
	return q
}

func (r *Ranking) worth(word string) float64 {
	return math.Log1p(float64(len(r.seen)) / float64(max(1, r.holds[word])))
}

// Best returns the turns that hold something of the query, best first, of equal ones the
// one that was added last, and limit at most.
func (r *Ranking) Best(limit int) []turns.Ref {
	score := func(x *ranked) (sum float64) {
		for _, w := range x.words {
			sum += r.worth(w)
		}
		return sum / (1 + 0.2*math.Log1p(float64(x.chars)/2000)) // a long turn holds many words by chance
	}
	type scored struct {
		at    int
		score float64
	}
	var all []scored
	for i := range r.seen {
		if s := score(&r.seen[i]); s > 0 {
			all = append(all, scored{i, s})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.at, a.at)) })
	var out []turns.Ref
	for _, s := range all[:min(limit, len(all))] {
		out = append(out, r.seen[s.at].turn)
	}
	return out
}

// Passage is a piece of a part's [Text]: bytes [From, To), in whole characters.
type Passage struct {
	PartAt
	Role     turns.Role
	Tool     string // whose call or result the part is; "": neither
	From, To int
	Text     string
	Whole    bool // it is all of the part's text
	words    float64
}

const (
	wholeBytes   = 1600 // a part of so many bytes is a passage
	passageBytes = 1200
	maxPassages  = 4 // of one half
)

// Passages returns the pieces of a half that hold the most of a query, of equal ones the
// first, in the order of the half. A long part gives the lines around the one that holds the most.
func (q Query) Passages(h *summary.HalfTurn) (out []Passage) {
	eachPart(h, func(at PartAt, role turns.Role, p *turns.Part, text string) {
		from, to, words := q.window(text)
		if words == 0 {
			return
		}
		x := Passage{PartAt: at, Role: role, From: from, To: to, Text: text[from:to], Whole: to-from == len(text), words: words}
		if p.Type != turns.Text {
			x.Tool = p.Name
		}
		out = append(out, x)
	})
	if len(out) > maxPassages {
		slices.SortStableFunc(out, func(a, b Passage) int { return cmp.Compare(b.words, a.words) })
		out = out[:maxPassages]
		slices.SortFunc(out, func(a, b Passage) int { return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Part, b.Part)) })
	}
	return out
}

// PassageAt returns a piece of a half by its place; ok is false if the half has no such
// piece, or not in whole characters.
func PassageAt(h *summary.HalfTurn, at PartAt, from, to int) (x Passage, ok bool) {
	eachPart(h, func(a PartAt, role turns.Role, p *turns.Part, text string) {
		if a != at || from < 0 || from >= to || to > len(text) || !utf8.RuneStart(text[from]) || to < len(text) && !utf8.RuneStart(text[to]) {
			return
		}
		x, ok = Passage{PartAt: at, Role: role, From: from, To: to, Text: text[from:to], Whole: to-from == len(text)}, true
		if p.Type != turns.Text {
			x.Tool = p.Name
		}
	})
	return x, ok
}

// window returns the piece of a text with the most of q, and how much that is; 0: none.
func (q Query) window(text string) (from, to int, words float64) {
	type span struct {
		from, to int
		words    float64
	}
	var lines []span
	best := -1
	for at := 0; at < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		end = min(end, runeEnd(text, at+passageBytes)) // a longer line is several
		sum, has := 0.0, make(map[string]bool)
		eachToken(text[at:end], func(w string) {
			if w = strings.ToLower(w); q.worth[w] > 0 && !has[w] {
				has[w], sum = true, sum+q.worth[w]
			}
		})
		lines = append(lines, span{at, end, sum})
		if sum > 0 && (best < 0 || sum > lines[best].words) {
			best = len(lines) - 1
		}
		words = max(words, sum)
		at = end
	}
	if best < 0 {
		return 0, 0, 0
	}
	if len(text) <= wholeBytes {
		return 0, len(text), words
	}
	lo, hi := best, best
	for more := true; more; {
		more = false
		if lo > 0 && lines[hi].to-lines[lo-1].from <= passageBytes {
			lo, more = lo-1, true
		}
		if hi+1 < len(lines) && lines[hi+1].to-lines[lo].from <= passageBytes {
			hi, more = hi+1, true
		}
	}
	return lines[lo].from, lines[hi].to, words
}

// runeEnd returns the first place at or after n that ends a character of s.
func runeEnd(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return n
}
