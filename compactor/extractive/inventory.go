package extractive

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxFacts   = 60_000 // bound on the facts counted at a time; prune drops the least valuable
	maxRanked  = 3_000  // bound on the facts that a summary chooses from
	minFactLen = 4
	maxFactLen = 160
)

// source says who wrote a text.
type source int

const (
	fromUser source = iota
	fromAgent
	fromCall
	fromResult
	sources
)

// fact is a path, an address, an identifier or a number that later turns may name
// again.
type fact struct {
	text   string
	counts [sources]uint16 // number of halves that name it, by who wrote them
	halves uint32
	first  int // ordinal of its first half
	last   int
	active int // last ordinal where a user, the agent or a call named it; -1: none did

	namedIn int   // ordinal of the half that namedBy is of
	namedBy uint8 // the sources that named it there

	prior float64
	said  *saying // the line that says the most of it; nil: none of a fitting length
	where *spot   // where it was named last
}

// saying is a line of a text, as an item of a summary quotes it.
type saying struct {
	text  string
	depth uint64
	rank  int // who said it: a higher rank is heard first
}

// spot is what a text belongs to: a file, a command, a person.
type spot struct {
	label string
	depth uint64
}

// Lines of other lengths, in bytes, say too little or too much of a fact.
const (
	minSaying = 16
	maxSaying = 180
)

// inventory counts facts.
type inventory struct {
	facts map[string]*fact
	now   int
	spot  *spot // of the text at hand
}

// diffFrame matches lines of a diff that name nothing of their own.
var diffFrame = regexp.MustCompile(`^(index [0-9a-f]{6,}\.\.[0-9a-f]{6,}|diff --git a/|@@ -\d)`)

func newInventory() *inventory {
	return &inventory{facts: make(map[string]*fact)}
}

// next begins half number now.
func (v *inventory) next(now int) {
	v.now = now
	if len(v.facts) > maxFacts {
		v.prune()
	}
}

// prune drops the less valuable half of the facts.
func (v *inventory) prune() {
	all := v.ranked(nil)
	for _, f := range all[len(all)/2:] {
		delete(v.facts, f.text)
	}
}

func (v *inventory) scan(s string, from source) {
	head, tail := ends(s, headFacts, tailFacts)
	for _, part := range [...]string{head, tail} {
		for line := range strings.SplitSeq(part, "\n") {
			v.line(line, from)
		}
	}
}

// line counts the facts of a line. The frame of a diff names its files under a/ and b/,
// and hashes that nobody needs.
func (v *inventory) line(line string, from source) {
	switch {
	case line != "" && strings.IndexByte("id@", line[0]) >= 0 && diffFrame.MatchString(line):
		return
	case strings.HasPrefix(line, "--- a/"), strings.HasPrefix(line, "+++ b/"):
		line = line[len("--- a/"):]
	}
	var said *saying
	tried := false
	scanFacts(line, func(w string) {
		f := v.add(w, from)
		if f == nil {
			return
		}
		f.where = v.spot
		if !tried {
			tried = true
			said = v.saying(line, from)
		}
		if said != nil && (f.said == nil || said.rank >= f.said.rank) {
			f.said = said
		}
	})
}

// saying returns a line as an item; nil if it does not fit one.
func (v *inventory) saying(line string, from source) *saying {
	line = strings.TrimSpace(line)
	if len(line) < minSaying || len(line) > maxSaying || from == fromCall {
		return nil
	}
	text := oneLine(line, maxSaying)
	if noise(text) > 1 || strings.IndexByte(text, ' ') < 0 {
		return nil
	}
	rank := 0
	if from == fromAgent || from == fromUser {
		rank = 1
	}
	s := &saying{text: text, rank: rank}
	if v.spot != nil {
		s.depth = v.spot.depth
	}
	return s
}

// add counts a fact, and returns it; nil if there is no room for another one.
func (v *inventory) add(w string, from source) *fact {
	f := v.facts[w]
	if f == nil {
		if len(v.facts) > 2*maxFacts {
			return nil // this half alone has too many facts; next will prune
		}
		f = &fact{text: strings.Clone(w), first: v.now, active: -1}
		v.facts[f.text] = f
	}
	bit := uint8(1) << from
	if f.namedIn != v.now {
		f.namedIn, f.namedBy = v.now, 0
	}
	if f.namedBy&bit != 0 {
		return f
	}
	if f.namedBy == 0 {
		f.halves++
	}
	f.namedBy |= bit
	if f.counts[from] < math.MaxUint16 {
		f.counts[from]++
	}
	f.last = v.now
	if from != fromResult {
		f.active = v.now
	}
	return f
}

// remember adds a fact of an earlier summary; rank 0 is the best.
func (v *inventory) remember(w string, rank int, said *saying, where *spot) {
	if len(w) < minFactLen || len(w) > maxFactLen {
		return
	}
	if v.facts[w] == nil {
		v.facts[w] = &fact{text: w, active: -1, prior: 2.2 / (1 + float64(rank)/60), said: said, where: where}
	}
}

// ranked returns the facts by score, best first. If cost is nil, size does not
// matter.
func (v *inventory) ranked(cost func(string) float64) []*fact {
	type scored struct {
		*fact
		score float64
	}
	all := make([]scored, 0, len(v.facts))
	for _, f := range v.facts {
		s := f.score(v.now)
		if cost != nil {
			s /= math.Pow(cost(f.text), .5)
		}
		all = append(all, scored{f, s})
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.text, b.text))
	})
	out := make([]*fact, len(all))
	for i := range all {
		out[i] = all[i].fact
	}
	return out
}

// score estimates how likely a fact is to be named again.
func (f *fact) score(now int) float64 {
	l := func(n uint16) float64 { return math.Log1p(float64(n)) }
	s := 1.4*l(f.counts[fromUser]) + 1.2*l(f.counts[fromAgent]) + 1.5*l(f.counts[fromCall]) + .35*l(f.counts[fromResult])
	s += .6 * math.Log1p(float64(f.halves))
	age := float64(now - f.last)
	s += .5 / (1 + age/12)
	if f.active >= 0 {
		s += 1.2 / (1 + float64(now-f.active)/25)
	}
	return max(0, s+f.prior)
}

// factsIn counts the facts of a sentence.
func factsIn(s string) (n int) {
	scanFacts(s, func(string) { n++ })
	return n
}

// scanFacts finds the facts of a text in one pass.
func scanFacts(s string, found func(string)) {
	for i := 0; i < len(s); {
		for i < len(s) && !factByte(s[i]) {
			i++
		}
		start := i
		if i > 0 && i < len(s) && s[i-1] == '\\' && strings.IndexByte("nrt", s[i]) >= 0 {
			start++ // an escape in quoted code
			i++
		}
		for i < len(s) && factByte(s[i]) {
			i++
		}
		if i-start < minFactLen || i-start > 4*maxFactLen {
			continue
		}
		w := trimFact(s[start:i])
		if len(w) >= minFactLen && len(w) <= maxFactLen && utf8.ValidString(w) && telling(w) {
			found(w)
		}
	}
}

// factByte reports whether a fact may hold the byte. Bytes of other scripts count: a
// path may use any.
func factByte(c byte) bool {
	switch c {
	case '_', '-', '.', '/', ':', '@', '#', '%', '+', '~':
		return true
	}
	return wordByte(c)
}

func trimFact(w string) string {
	w = strings.Trim(w, ".:-#+%~@")
	// A line number, and text that a search prints after it, belong to the mention
	// and not to the file.
	for i := 1; i+1 < len(w); i++ {
		if w[i] == ':' && w[i+1] >= '0' && w[i+1] <= '9' && strings.Contains(w[:i], ".") && !strings.Contains(w[:i], "://") {
			return w[:i]
		}
	}
	return w
}

// telling reports whether a word is a path, an address, an identifier or a
// significant number, and not a plain word of any language.
func telling(w string) bool {
	digits, letters, joints, inner, high := 0, 0, 0, 0, 0
	lower := false
	for i, r := range w {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r < utf8.RuneSelf && unicode.IsLetter(r):
			letters++
			if r >= 'A' && r <= 'Z' {
				if i > 0 && lower {
					inner++
				}
				lower = false
			} else {
				lower = true
			}
		case r >= utf8.RuneSelf:
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
				return false
			}
			high++
		default:
			joints++
		}
	}
	switch {
	case letters == 0 && high == 0:
		return digits >= 3 && digits+joints == len(w)
	case high > 0:
		return letters+digits > 0 && joints > 0
	case joints > 0:
		return letters > 2 && !plainJoint(w, digits)
	}
	return digits > 0 && letters > 1 || inner > 0
}

// plainJoint reports whether a word is prose that happens to hold a joint:
// "well-known", "and/or", "note:this".
func plainJoint(w string, digits int) bool {
	if digits > 0 || strings.ContainsAny(w, "_.") {
		return false
	}
	return strings.Count(w, "-") == 1 && !strings.ContainsAny(w, "/:@#") && len(w) < 12
}
