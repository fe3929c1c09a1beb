package evidence

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nexus/compactor/facts"
	"nexus/compactor/summary"
	"nexus/turns"
)

const (
	// maxSupports bounds the turns that a line names.
	maxSupports = 10
	// maxCandidates bounds the turns whose text is compared with a line word for word.
	maxCandidates = 16
	// leastQuote is the length from which a line, or a part of one, counts as quoted, in
	// characters: shorter ones stand anywhere.
	leastQuote = 20
	// factWeight is how many words a fact is worth.
	factWeight = 3
	// leastWords is the share of its words that a turn holds of a line without facts, and
	// at least two of them.
	leastWords = 0.6

	// maxPath bounds the words that are taken as paths, in bytes. A longer one is base64 or
	// the like: facts have at most 200 bytes, and all its pieces together are as large as
	// the square of its length.
	maxPath = 400

	excerptChars = 200
)

// Line is a line of what stands for covered turns, and what it rests on.
type Line struct {
	Number  int    // from 1
	Text    string // as it is shown
	Frame   bool   // a tag, a heading or nothing: it says nothing of the turns
	Facts   int    // how many facts it names
	Missing []string
	Turns   []Support // at most ten, best first
	More    int       // how many other turns hold something of it
}

// Support is a covered turn that holds something of a line.
type Support struct {
	Half int // index in the covered halves, of the one with the best place
	PartAt
	Score   float64  // share of the line that the turn holds, rare words more; at most 1
	Cited   bool     // the line names the turn
	Quoted  bool     // the turn has the line, or a part of it between "…", word for word
	Facts   []string // of the line, that the turn holds
	Excerpt string   // the line of the turn that has the most of it; "": none
}

// Lines returns the lines of a text: those of the messages that stand for covered turns.
func Lines(ms []turns.Message) []string {
	var out []string
	for i := range ms {
		out = append(out, strings.Split(summary.TextOf(&ms[i]), "\n")...)
	}
	return out
}

var (
	cite     = regexp.MustCompile(`\[t(\d{1,18})\]`)
	clipped  = regexp.MustCompile(`\S*\s?\[cut\]`) // the piece of a word before the mark is none of a turn's
	quoteTag = regexp.MustCompile(`^<quoted path="([^"]*)".* turn="(\d{1,18})">$`)
	anyTag   = regexp.MustCompile(`^</?[a-z_]+( [^<>]*)?>$`)
	heading  = regexp.MustCompile(`^(#+ .{0,80}|[A-Z][A-Z _-]{2,40}:?|\[[^\[\]]*\]|-{3,}|={3,})$`)
)

// claim is a line while it is traced.
type claim struct {
	tokens map[string]float64 // its facts and words; the value is what one is worth
	facts  []string
	cites  []uint64
	quotes []string // what may stand in a turn word for word
}

// Trace returns the lines [from, to) of all, counted from 0, with the covered turns that
// each rests on. covered has the halves in the order of the path.
func Trace(all []string, from, to int, covered []summary.HalfTurn) []Line {
	to = min(to, len(all))
	claims := make([]claim, max(0, to-from))
	out := make([]Line, len(claims))
	var inQuote uint64
	for i, text := range all[:max(0, to)] {
		tag := quoteTag.FindStringSubmatch(strings.TrimSpace(text))
		switch {
		case tag != nil:
			inQuote, _ = strconv.ParseUint(tag[2], 10, 64)
		case strings.TrimSpace(text) == "</quoted>":
			inQuote = 0
		}
		if i < from {
			continue
		}
		claims[i-from] = parseClaim(text, inQuote)
		out[i-from] = Line{Number: i + 1, Text: text, Frame: isFrame(text) && tag == nil, Facts: len(claims[i-from].facts)}
		if tag != nil { // the tag names a turn and a path
			claims[i-from] = parseClaim(tag[1], inQuote)
		}
	}
	ix := indexOf(claims, covered)
	for i := range out {
		if !out[i].Frame {
			ix.support(&out[i], &claims[i])
		}
	}
	return out
}

// isFrame reports whether a line is a tag, a heading or blank.
func isFrame(text string) bool {
	t := strings.TrimSpace(text)
	return t == "" || anyTag.MatchString(t) || heading.MatchString(t) && !cite.MatchString(t)
}

// parseClaim takes a line apart.
func parseClaim(text string, inQuote uint64) (c claim) {
	if inQuote > 0 {
		c.cites = append(c.cites, inQuote)
	}
	for _, m := range cite.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.ParseUint(m[1], 10, 64); err == nil {
			c.cites = append(c.cites, n)
		}
	}
	text = strings.ReplaceAll(cite.ReplaceAllString(text, ""), "&lt;", "<")
	text = clipped.ReplaceAllString(text, "…")
	body := strings.TrimLeft(strings.TrimSpace(text), "-*• ")
	for _, q := range strings.Split(body, "…") {
		if q = oneLine(q, 1<<20); len([]rune(q)) >= leastQuote {
			c.quotes = append(c.quotes, q)
		}
	}
	c.tokens = make(map[string]float64)
	facts.EachName(body, func(f facts.Fact) {
		if _, ok := c.tokens[f.Text]; !ok {
			c.tokens[f.Text], c.facts = factWeight, append(c.facts, f.Text)
		}
	})
	plainWords(body, func(w string) {
		if _, ok := c.tokens[w]; !ok {
			c.tokens[w] = 1
		}
	})
	return c
}

// turn is the halves [from, to) of a turn.
type turn struct {
	depth    uint64
	from, to int
	loaded   bool // what follows is set
	flat     []string
	lines    []textLine
}

// textLine is a line of a turn with the tokens of claims that it holds.
type textLine struct {
	half   int
	at     PartAt
	text   string
	tokens []int // their numbers
}

// index says which turns hold the tokens of some claims.
type index struct {
	covered []summary.HalfTurn
	turns   []turn
	holds   map[string][]int // for each token, the turns that hold it, ascending
	numbers map[string]int   // of tokens, from 0
	worth   []float64        // of each token in the claim that is being placed
	seen    []int            // the last line with it, counted from 1 over all that were looked at
	looked  int
}

func indexOf(claims []claim, covered []summary.HalfTurn) *index {
	ix := &index{covered: covered, holds: make(map[string][]int), numbers: make(map[string]int)}
	for i := range claims {
		for t := range claims[i].tokens {
			ix.holds[t] = nil
			if _, ok := ix.numbers[t]; !ok {
				ix.numbers[t] = len(ix.numbers)
			}
		}
	}
	ix.worth, ix.seen = make([]float64, len(ix.numbers)), make([]int, len(ix.numbers))
	for i := range covered {
		if n := len(ix.turns); n == 0 || covered[i].Ref != covered[ix.turns[n-1].from].Ref {
			ix.turns = append(ix.turns, turn{depth: covered[i].Depth, from: i})
		}
		t := len(ix.turns) - 1
		ix.turns[t].to = i + 1
		eachPart(&covered[i], func(_ PartAt, _ turns.Role, _ *turns.Part, text string) {
			eachToken(text, func(w string) {
				at, ok := ix.holds[w]
				if ok && (len(at) == 0 || at[len(at)-1] != t) {
					ix.holds[w] = append(at, t)
				}
			})
		})
	}
	return ix
}

// eachToken calls found for whatever in a text a claim's token may be: words with their
// joints, the folders and ends of paths, and plain words.
func eachToken(text string, found func(string)) {
	for _, w := range facts.Words(text) {
		found(w)
		for i := 1; i < len(w)-1 && len(w) <= maxPath; i++ {
			if w[i] == '/' {
				found(w[:i])
				found(w[i+1:])
			}
		}
	}
	plainWords(text, found)
}

// support fills in what a line rests on.
func (ix *index) support(l *Line, c *claim) {
	score, tokens, all := make(map[int]float64), make(map[int]int), 0.0
	for t, worth := range c.tokens {
		at := ix.holds[t]
		if len(at) == 0 && worth < factWeight {
			continue // a word of the summarizer's own
		}
		w := worth * math.Log1p(float64(len(ix.turns))/float64(max(1, len(at))))
		all += w
		for _, turn := range at {
			score[turn] += w
			tokens[turn]++
		}
	}
	for _, f := range c.facts {
		if len(ix.holds[f]) == 0 {
			l.Missing = append(l.Missing, f)
		}
	}
	type ofTurn struct {
		turn int // index in ix.turns
		Support
	}
	var found []ofTurn
	for t, s := range score {
		found = append(found, ofTurn{t, Support{Score: s / all}})
	}
	for _, d := range c.cites {
		if t, ok := ix.at(d); ok && score[t] == 0 {
			found = append(found, ofTurn{turn: t})
		}
	}
	order := func(a, b ofTurn) int {
		return cmp.Or(cmp.Compare(rank(&b.Support), rank(&a.Support)), cmp.Compare(a.turn, b.turn))
	}
	for i := range found {
		found[i].Cited = slices.Contains(c.cites, ix.turns[found[i].turn].depth)
	}
	slices.SortFunc(found, order)
	kept := found[:0]
	for i := range found {
		s := found[i]
		s.Score = math.Round(s.Score*1000) / 1000
		for _, f := range c.facts {
			if _, ok := slices.BinarySearch(ix.holds[f], s.turn); ok {
				s.Facts = append(s.Facts, f)
			}
		}
		s.Quoted = i < maxCandidates && ix.hasQuote(s.turn, c.quotes)
		if s.Quoted || s.Cited || len(s.Facts) > 0 || len(c.facts) == 0 && s.Score >= leastWords && tokens[s.turn] >= 2 {
			kept = append(kept, s)
		}
	}
	slices.SortStableFunc(kept, order)
	if l.More = len(kept) - maxSupports; l.More > 0 {
		kept = kept[:maxSupports]
	}
	l.More = max(0, l.More)
	for i := range kept {
		ix.place(&kept[i].Support, ix.textOf(kept[i].turn), c)
		l.Turns = append(l.Turns, kept[i].Support)
	}
}

// rank orders what a line rests on: a turn that has it word for word first.
func rank(s *Support) float64 {
	r := s.Score
	if s.Quoted {
		r += 2
	}
	if s.Cited {
		r += 0.25
	}
	return r
}

// at returns the turn at a depth.
func (ix *index) at(depth uint64) (int, bool) {
	return slices.BinarySearchFunc(ix.turns, depth, func(t turn, d uint64) int { return cmp.Compare(t.depth, d) })
}

// textOf returns a turn with its texts, read once for all claims.
func (ix *index) textOf(t int) *turn {
	x := &ix.turns[t]
	if x.loaded {
		return x
	}
	x.loaded = true
	for i := x.from; i < x.to; i++ {
		eachPart(&ix.covered[i], func(at PartAt, _ turns.Role, _ *turns.Part, text string) {
			x.flat = append(x.flat, strings.Join(strings.Fields(text), " "))
			for line := range strings.SplitSeq(text, "\n") {
				l := textLine{half: i, at: at, text: line}
				eachToken(line, func(w string) {
					if n, ok := ix.numbers[w]; ok {
						l.tokens = append(l.tokens, n)
					}
				})
				if len(l.tokens) > 0 {
					x.lines = append(x.lines, l)
				}
			}
		})
	}
	return x
}

// hasQuote reports whether a turn has one of some texts word for word.
func (ix *index) hasQuote(t int, quotes []string) bool {
	if len(quotes) == 0 {
		return false
	}
	for _, flat := range ix.textOf(t).flat {
		if slices.ContainsFunc(quotes, func(q string) bool { return strings.Contains(flat, q) }) {
			return true
		}
	}
	return false
}

// place sets where in a turn the most of a claim is.
func (ix *index) place(s *Support, t *turn, c *claim) {
	s.Half = t.from
	best, place := 0.0, -1
	for w, worth := range c.tokens {
		ix.worth[ix.numbers[w]] = worth
	}
	defer func() {
		for w := range c.tokens {
			ix.worth[ix.numbers[w]] = 0
		}
	}()
	for i := range t.lines {
		sum := 0.0
		ix.looked++
		for _, n := range t.lines[i].tokens {
			if ix.worth[n] > 0 && ix.seen[n] != ix.looked {
				ix.seen[n], sum = ix.looked, sum+ix.worth[n]
			}
		}
		if sum > best {
			best, place = sum, i
		}
	}
	if place >= 0 {
		l := &t.lines[place]
		s.Half, s.PartAt, s.Excerpt = l.half, l.at, oneLine(l.text, excerptChars)
	}
}
