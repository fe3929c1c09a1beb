package compare

import (
	"slices"
	"strings"

	"nexus/compactor/facts"
	"nexus/compactor/view"
	"nexus/turns"
)

// Share counts facts. A fact counts once for every call whose response repeats it.
//
// Invariant: Shown + Summary + Reachable <= All.
type Share struct {
	All       int `json:"all"`
	Shown     int `json:"shown"`     // in turns that the call's context shows
	Summary   int `json:"summary"`   // in the summary only
	Reachable int `json:"reachable"` // in neither, but in a turn that a compaction covers or shortens: one expand away
}

// InContext returns how many facts were in the context of their call.
func (s Share) InContext() int { return s.Shown + s.Summary }

func (s *Share) add(o Share) {
	s.All, s.Shown, s.Summary, s.Reachable = s.All+o.All, s.Shown+o.Shown, s.Summary+o.Summary, s.Reachable+o.Reachable
}

// Survival says how many of the facts that the agent repeats were still in its
// context. Facts in what was newly sent with a call do not count, because every
// policy shows them.
type Survival struct {
	// Hidden counts facts from halves that the call's context covers or shortens.
	// Its Shown are those that a later half repeats. Each policy has different ones.
	Hidden [kinds]Share
	// Earlier counts all facts of earlier halves. These are the same for every
	// policy.
	Earlier [kinds]Share
}

// AllEarlier returns the sum of the earlier facts of every kind.
func (s *Survival) AllEarlier() (sum Share) {
	for _, k := range s.Earlier {
		sum.add(k)
	}
	return sum
}

// Total returns the sum of the hidden facts of every kind.
func (s *Survival) Total() (sum Share) {
	for _, k := range s.Hidden {
		sum.add(k)
	}
	return sum
}

func (s *Survival) add(o *Survival) {
	for k := range s.Hidden {
		s.Hidden[k].add(o.Hidden[k])
		s.Earlier[k].add(o.Earlier[k])
	}
}

// score counts the facts that the response of a turn repeats.
func (r *replay) score(turn int, cx *view.Context) {
	uses := r.t.facts.uses[turn]
	if len(uses) == 0 {
		return
	}
	v := r.look(turn, cx)
	for _, u := range uses {
		f, places := r.t.facts.facts[u.fact], r.t.facts.places[u.fact][:u.before]
		hidden, shown := v.find(f, places)
		s := Share{All: 1}
		switch {
		case shown:
			s.Shown = 1
		case v.summary.has(f, true):
			s.Summary = 1
		case v.reaches(f, places):
			s.Reachable = 1
		}
		r.out.Survival.Earlier[f.kind].add(s)
		if hidden {
			r.out.Survival.Hidden[f.kind].add(s)
		}
	}
}

// visible says which halves of a transcript a context shows.
type visible struct {
	*replay
	mark    int32 // the mark of verbatim halves
	first   int32 // the context shows nothing before this place
	partly  map[int32][]turns.Message
	summary *page
}

// look reads a context's sources, but no text yet.
func (r *replay) look(turn int, cx *view.Context) visible {
	v := visible{replay: r, mark: int32(turn) + 1, first: int32(2 * len(r.t.turns))}
	var summary []turns.Message
	var partly []int32 // for each source, the place that it shows in part; -1: none
	for i, s := range cx.Sources {
		switch at := int32(placeOf(s.Turn, s.Half)); s.Status {
		case view.Synthetic:
		case view.InSummary:
			summary = append(summary, messagesOf(cx, i)...)
		case view.Verbatim:
			r.verbatim[at] = v.mark
			v.first = min(v.first, at)
		default:
			if partly == nil {
				partly = slices.Repeat([]int32{-1}, len(cx.Sources))
				v.partly = make(map[int32][]turns.Message)
			}
			partly[i], v.partly[at] = at, nil
			v.first = min(v.first, at)
		}
	}
	if partly != nil {
		for i, o := range cx.Origins {
			if at := partly[o]; at >= 0 {
				v.partly[at] = append(v.partly[at], cx.Messages[i])
			}
		}
	}
	r.summary = r.summary.of(summary)
	v.summary = r.summary
	return v
}

func messagesOf(cx *view.Context, source int) (ms []turns.Message) {
	for i, o := range cx.Origins {
		if o == source {
			ms = append(ms, cx.Messages[i])
		}
	}
	return ms
}

// find reports whether one of a fact's places is not shown whole, and whether what
// is shown of its places holds the fact.
func (v *visible) find(f fact, places []int32) (hidden, shown bool) {
	if len(v.partly) == 0 { // everything from the first shown place on is shown
		n, _ := slices.BinarySearch(places, v.first)
		return n > 0, n < len(places)
	}
	for i := len(places) - 1; i >= 0 && !(hidden && shown); i-- {
		at := places[i]
		if v.verbatim[at] == v.mark {
			shown = true
			continue
		}
		hidden = true
		if ms, partly := v.partly[at]; partly {
			v.shortened[at] = v.shortened[at].of(ms)
			shown = shown || v.shortened[at].has(f, false)
		}
		if at < v.first {
			break
		}
	}
	return hidden, shown
}

// reaches reports whether f is one expand away: in a half that a compaction covers
// or shows in part. It searches the text itself.
func (v *visible) reaches(f fact, places []int32) bool {
	for _, at := range slices.Backward(places) {
		if _, partly := v.partly[at]; !partly && !v.covered[at] {
			continue
		}
		found := false
		eachText(v.t.messages(int(at)), func(s string) { found = found || strings.Contains(s, f.text) })
		if found {
			return true
		}
	}
	return false
}

// page is a list of messages prepared for looking up facts.
type page struct {
	messages []turns.Message
	text     string
	lines    map[string][]int // for each word, the lines that hold it, ascending
	whole    map[string]bool  // every line that is a fact
}

// of returns the page of ms, which is p if p holds the same messages. A nil page is
// empty.
func (p *page) of(ms []turns.Message) *page {
	if p != nil && len(p.messages) == len(ms) && commonPrefix(p.messages, ms) == len(ms) {
		return p
	}
	p = &page{messages: ms, lines: make(map[string][]int), whole: make(map[string]bool)}
	var text strings.Builder
	eachText(ms, func(s string) {
		text.WriteString(s)
		text.WriteByte('\n')
	})
	p.text = text.String()
	n := 0
	for line := range strings.SplitSeq(p.text, "\n") {
		p.whole[unlisted(trimLine(line))] = true
		eachWord(line, func(w string) {
			if at := p.lines[w]; len(at) == 0 || at[len(at)-1] != n {
				p.lines[w] = append(at, n)
			}
		})
		n++
	}
	return p
}

// has reports whether the page names f. A line counts where it is part of a longer one
// too: the agent can copy it from there. If grouped, a line with a path's folder and
// the rest of the path names it too, as in "dir/: a.go, b.go".
func (p *page) has(f fact, grouped bool) bool {
	if p == nil {
		return false
	}
	if f.kind == Lines {
		return p.whole[f.text] || strings.Contains(p.text, f.text)
	}
	if len(p.lines[f.text]) > 0 {
		return true
	}
	return f.kind == Paths && grouped && facts.NamesGroupedPath(p.lines, f.text)
}
