package memories

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// The constants of BM25, as Robertson and Zaragoza give them (The Probabilistic Relevance
// Framework, 2009): how much the count of a word saturates, and how much the length of a
// text counts.
const (
	saturation = 1.2
	lengthPart = 0.75
)

// words returns the words of a text in lower case. Each character of a script that puts
// no space between words is a word of its own.
func words(text string) (out []string) {
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
			b.Reset()
		}
	}
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
			flush()
			out = append(out, string(r))
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			b.WriteRune(unicode.ToLower(r))
		default:
			flush()
		}
	}
	flush()
	return out
}

// corpus is the texts that a search ranks.
type corpus struct {
	texts []map[string]int // count of each word of the query, by text
	sizes []int            // words of each text
	total int
	in    map[string]int // texts that have a word of the query
}

// newCorpus returns an empty corpus for a query.
func newCorpus(query string) *corpus {
	c := &corpus{in: map[string]int{}}
	for _, w := range words(query) {
		c.in[w] = 0
	}
	return c
}

// has reports whether a text, by its words, has a word of the query.
func (c *corpus) has(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { _, asked := c.in[w]; return asked })
}

// add adds a text, by its words.
func (c *corpus) add(words []string) {
	var counts map[string]int // nil: it has none
	for _, w := range words {
		if _, asked := c.in[w]; asked {
			if counts == nil {
				counts = make(map[string]int)
			}
			if counts[w] == 0 {
				c.in[w]++
			}
			counts[w]++
		}
	}
	c.texts, c.sizes, c.total = append(c.texts, counts), append(c.sizes, len(words)), c.total+len(words)
}

// score is the BM25 score of a text; 0 if it has no word of the query.
func (c *corpus) score(i int) (score float64) {
	mean := float64(c.total) / float64(len(c.texts))
	for w, n := range c.texts[i] {
		in := float64(c.in[w])
		rare := math.Log(1 + (float64(len(c.texts))-in+0.5)/(in+0.5))
		tf := float64(n)
		score += rare * tf * (saturation + 1) / (tf + saturation*(1-lengthPart+lengthPart*float64(c.sizes[i])/mean))
	}
	return score
}

// decay is the part of a score that is left at an age, both in the same unit; halfLife 0
// takes nothing off. A text of the future counts whole.
func decay(age, halfLife float64) float64 {
	if halfLife == 0 || age <= 0 {
		return 1
	}
	return math.Exp2(-age / halfLife)
}
