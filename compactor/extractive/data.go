package extractive

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"nexus/turns"
)

// The words that begin the lists of FACTS. Other items are lines that somebody said.
const (
	pathsUnder = "under "    // a folder: paths in it
	namedIn    = "named in " // a file, a command: names
	namedBy    = "named by " // a person, the agent: names
)

// maxRun bounds how many names stand after each other without a word about them.
const maxRun = 24

// maxPerFact is how many tokens of a line are spent on a fact that it adds.
const maxPerFact = 12

// data returns the facts that fit, as items of FACTS, best first: the line in which a
// fact was said, where that says enough for its length; else the fact in a short list
// of what its folder holds or what was named in one place.
//
// A fact that text or quoted names already is left out.
func (v *inventory) data(text, quoted string, share uint64, cost func(string) uint64) []string {
	ranked := v.ranked(func(w string) float64 { return 2 + float64(cost(w)) })
	ranked = ranked[:min(len(ranked), maxRanked)]
	l := lister{
		groups: groupPaths(ranked), whole: wholePaths(ranked), done: make(map[string]bool), wanted: make(map[string]bool),
		open: make(map[string]int), room: share, cost: cost,
	}
	for _, f := range ranked {
		l.wanted[f.text] = true
	}
	scanFacts(quoted, l.add)
	misses := 0
	named := placesOf(text)
	for _, f := range ranked {
		w := cmp.Or(l.whole[f.text], f.text)
		if l.done[w] || named.contain(w) {
			continue
		}
		if f.isUsed() && l.say(f) || l.list(f, w) {
			continue
		}
		if misses++; misses > 60 {
			break // the rest of the share is too small for any fact
		}
	}
	slices.SortStableFunc(l.items, func(a, b string) int { return cmp.Compare(itemOrder(a), itemOrder(b)) })
	return l.items
}

// itemOrder puts lines first, by their turns, then lists.
func itemOrder(item string) uint64 {
	if _, _, ok := splitList(item); ok {
		return math.MaxUint64
	}
	_, depth := pointer(item)
	return depth
}

// isUsed reports whether somebody but a tool named a fact, or it came again. A line
// about another fact is not worth its length.
func (f *fact) isUsed() bool {
	return f.active >= 0 || f.halves > 1
}

// lister writes the items of FACTS.
type lister struct {
	groups, whole map[string]string
	wanted, done  map[string]bool // facts, and tails of paths
	items         []string
	open          map[string]int // by the words before a list, the item that takes more names
	names         []int          // of each item, how many names it lists
	room          uint64
	cost          func(string) uint64
}

// add marks a fact as included.
func (l *lister) add(w string) {
	for tail := w; tail != ""; _, tail, _ = strings.Cut(tail, "/") {
		l.done[tail] = true
	}
}

// say includes the line in which a fact was said.
func (l *lister) say(f *fact) bool {
	if f.said == nil || l.groups[f.text] != "" {
		return false
	}
	news := 0
	scanFacts(f.said.text, func(w string) {
		if l.wanted[w] && !l.done[w] {
			news++
		}
	})
	item := point(f.said.text, f.said.depth)
	c := l.cost(item) + 3
	if c > l.room || c > maxPerFact*uint64(news) {
		return false
	}
	l.room -= c
	l.items, l.names = append(l.items, item), append(l.names, 0)
	scanFacts(f.said.text, l.add)
	return true
}

// list includes a fact in a short list.
func (l *lister) list(f *fact, w string) bool {
	head := namedIn + "earlier turns: "
	if folder := l.groups[w]; folder != "" {
		head, w = pathsUnder+folder+": ", w[len(folder):]
	} else if f.where != nil && f.where.label != "" {
		head = namedIn + f.where.short() + ": "
		switch f.where.label {
		case string(turns.User):
			head = namedBy + "the user: "
		case string(turns.Assistant):
			head = namedBy + "the agent: "
		}
	}
	c := l.cost(", " + w)
	at, ok := l.open[head]
	if !ok || l.names[at] == maxRun {
		c += l.cost("\n- " + head)
		at = len(l.items)
		if c > l.room {
			return false
		}
		l.items, l.names, l.open[head] = append(l.items, head+w), append(l.names, 1), at
	} else {
		if c > l.room {
			return false
		}
		l.items[at] += ", " + w
		l.names[at]++
	}
	l.room -= c
	l.add(w)
	if strings.HasPrefix(head, pathsUnder) {
		l.add(strings.TrimSuffix(strings.TrimPrefix(head, pathsUnder), ": ") + w)
	}
	return true
}

// short returns the label as the head of a list: a file without its folder, the
// beginning of a command.
func (p *spot) short() string {
	label := strings.TrimPrefix(strings.TrimPrefix(p.label, "read "), "wrote ")
	if i := strings.LastIndexByte(label, '/'); label != p.label && i >= 0 {
		label = label[i+1:]
	}
	return oneLine(label, maxShort)
}

const maxShort = 40 // bytes

// splitList separates the words before a list from its names. ok is false for a line
// that somebody said.
func splitList(item string) (head, list string, ok bool) {
	if !strings.HasPrefix(item, pathsUnder) && !strings.HasPrefix(item, namedIn) && !strings.HasPrefix(item, namedBy) {
		return "", "", false
	}
	i := strings.LastIndex(item, ": ")
	if i < 0 {
		return "", "", false
	}
	return item[:i], item[i+2:], true
}

// recallData returns what an item of FACTS says of its facts.
func recallData(item string) (said *saying, where *spot) {
	text, depth := pointer(item)
	if head, _, ok := splitList(item); ok {
		where = &spot{}
		switch label, ok := strings.CutPrefix(head, namedIn); {
		case ok:
			where.label = label
		case head == namedBy+"the user":
			where.label = string(turns.User)
		case head == namedBy+"the agent":
			where.label = string(turns.Assistant)
		}
		return nil, where
	}
	if depth == 0 { // no line that we wrote
		return nil, nil
	}
	return &saying{text: text, depth: depth}, nil
}

// eachRecalled calls found for the facts of an item of FACTS, best first.
func eachRecalled(item string, found func(string)) {
	head, list, ok := splitList(item)
	if !ok {
		text, _ := pointer(item)
		scanFacts(text, found)
		return
	}
	folder := ""
	if f, ok := strings.CutPrefix(head, pathsUnder); ok {
		folder = f
	}
	for w := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		found(folder + w)
	}
}

// groupPaths returns the folder under which each path is listed. It repeatedly takes
// the folder that saves most, until none saves the cost of a line.
func groupPaths(ranked []*fact) map[string]string {
	const limit, worth = 600, 40
	var paths []string
	for _, f := range ranked {
		if strings.Contains(f.text, "/") && len(paths) < limit {
			paths = append(paths, f.text)
		}
	}
	groups := make(map[string]string)
	for range 12 {
		members := make(map[string]int)
		for _, p := range paths {
			if groups[p] != "" {
				continue
			}
			for i := 1; i < len(p)-1; i++ {
				if p[i] == '/' {
					members[p[:i+1]]++
				}
			}
		}
		best, saves := "", worth
		for folder, n := range members {
			if s := (n-1)*len(folder) - len(pathsUnder) - 6; s > saves || s == saves && best != "" && folder < best {
				best, saves = folder, s
			}
		}
		if best == "" {
			break
		}
		for _, p := range paths {
			if groups[p] == "" && strings.HasPrefix(p, best) && len(p) > len(best) {
				groups[p] = best
			}
		}
	}
	return groups
}

// wholePaths maps the tail of a path to the longest path that ends in it, so that
// one of them covers both.
func wholePaths(ranked []*fact) map[string]string {
	whole := make(map[string]string)
	for _, f := range ranked {
		if !strings.HasPrefix(f.text, "/") {
			continue
		}
		for i := 1; i < len(f.text); i++ {
			if tail := f.text[i+1:]; f.text[i] == '/' && strings.Contains(tail, "/") && whole[tail] == "" {
				whole[tail] = f.text
			}
		}
	}
	return whole
}

// places are where the words of a text begin, by what stands there: a run of bytes of words, with
// the byte before it if that is of none.
type places struct {
	text string
	at   map[string][]int32
}

// placesOf returns the places of a text in which many words are looked for.
func placesOf(text string) places {
	p := places{text, make(map[string][]int32)}
	for i := range len(text) {
		if i == 0 || !wordByte(text[i-1]) {
			first := firstRun(text[i:])
			p.at[first] = append(p.at[first], int32(i))
		}
	}
	return p
}

// firstRun returns the bytes of words that s begins with, behind the first byte, whatever that is.
func firstRun(s string) string {
	n := min(1, len(s))
	for n < len(s) && wordByte(s[n]) {
		n++
	}
	return s[:n]
}

// contain is [contains] of the text: where w begins as a word, the first run there is that of w,
// since w ends with it or has another byte behind it.
func (p places) contain(w string) bool {
	return slices.ContainsFunc(p.at[firstRun(w)], func(i int32) bool {
		return strings.HasPrefix(p.text[i:], w) && bounded(p.text, int(i), int(i)+len(w))
	})
}

// contains reports whether s holds w as a word.
func contains(s, w string) bool {
	for from := 0; ; {
		i := strings.Index(s[from:], w)
		if i < 0 {
			return false
		}
		i += from
		if bounded(s, i, i+len(w)) {
			return true
		}
		from = i + 1
	}
}
