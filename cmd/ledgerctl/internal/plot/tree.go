package plot

import (
	"context"
	"fmt"
	"io"
	"strings"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
	"nexus/ledger/api/client"
	"nexus/turns"
)

// The sizes of the picture of a tree, in pixels.
const (
	treeNames            = 16 // where the names of the lanes begin
	treeLeft, treeRight  = 222, Width - 24
	treeTop              = 76
	treeLane, treeCover  = 46, 20 // heights of a lane, and of a compaction below it
	treeFoot, treeLegend = 34, 30
	treeBend             = 12 // radius of the bend where a fork begins
	treeDotRoom          = 6  // least pixels between turns that are drawn one by one
)

// A picture has at most so many lanes, and a lane so many compactions with what
// they cover; the rest are counted.
const (
	maxLanes  = 40
	maxCovers = 6
)

// lane is a branch of a session as the picture shows it: turns at consecutive
// depths, and where they continue from.
type lane struct {
	session  *api.TreeSession
	branch   int // of the session, from 0
	parent   int // lane that it continues; -1: none that is drawn
	from, to uint64
	empty    bool   // no turn of its own; from is the depth after the fork point
	head     uint64 // depth of the session's head, where that is on this lane
	marks    []mark
	more     uint64 // compactions that the ledger counts and does not list
}

// mark is a compaction on a lane.
type mark struct {
	id            turns.ID
	depth         uint64
	covers        bool   // what it covers is known and drawn
	through       uint64 // depth of the last turn that it covers; 0: it covers none
	before, after uint64 // tokens of the context
}

// Lanes is the tree as lanes, each after the one that it continues, and how many
// sessions there was no room for. It asks the ledger for what compactions cover,
// and which branch holds a turn where several could.
func Lanes(ctx context.Context, c *client.Client, t *api.Tree) (out []lane, left int, err error) {
	l := laner{ctx: ctx, c: c}
	for i := range t.Sessions {
		if len(l.lanes) >= maxLanes {
			return l.lanes, len(t.Sessions) - i, nil
		}
		if err := l.session(&t.Sessions[i]); err != nil {
			return nil, 0, err
		}
	}
	return l.lanes, 0, nil
}

type laner struct {
	ctx   context.Context
	c     *client.Client
	lanes []lane
}

func (l *laner) session(s *api.TreeSession) error {
	first := len(l.lanes)
	origin := -1
	if f := s.ForkedFrom; f != nil {
		var err error
		if origin, err = l.holder(f.Session, f.Turn, s.ForkDepth, -1); err != nil {
			return err
		}
	}
	if len(s.Branches) == 0 {
		l.lanes = append(l.lanes, lane{session: s, parent: origin, from: s.ForkDepth + 1, to: s.ForkDepth + 1, empty: true, head: s.ForkDepth + 1})
		return nil
	}
	for i := range s.Branches {
		b := &s.Branches[i]
		x := lane{session: s, branch: i, parent: -1, from: b.From, to: b.To, more: b.CompactionCount - min(b.CompactionCount, uint64(len(b.Compactions)))}
		if b.Parent != nil {
			var err error
			if x.parent, err = l.holder(s.ID, *b.Parent, b.From-1, origin); err != nil {
				return err
			}
		}
		for n, k := range b.Compactions {
			m := mark{id: k.ID, depth: k.Depth}
			if n >= len(b.Compactions)-maxCovers {
				if err := l.cover(s, &m); err != nil {
					return err
				}
			}
			x.marks = append(x.marks, m)
		}
		l.lanes = append(l.lanes, x)
	}
	if s.Head == nil {
		return nil
	}
	at, err := l.holder(s.ID, *s.Head, s.Depth, origin)
	if at >= first {
		l.lanes[at].head = s.Depth
	}
	return err
}

// holder is the lane that holds a turn on a session's path; -1: none that is
// drawn. A turn that the session inherits is on the lane above, from which the
// session was forked, or on one that this continues.
func (l *laner) holder(session, turn turns.ID, depth uint64, above int) (int, error) {
	var may []int
	for i := range l.lanes {
		if x := &l.lanes[i]; x.session.ID == session {
			if x.branch == 0 && above < 0 {
				above = x.parent
			}
			if x.holds(depth) {
				may = append(may, i)
			}
		}
	}
	if len(may) == 1 {
		return may[0], nil
	}
	for _, i := range may {
		tip := l.lanes[i].session.Branches[l.lanes[i].branch].Tip
		base, err := l.c.Base(l.ctx, session, api.GetBase{At: tip, Other: api.Place{Session: session, Turn: turn}})
		if err != nil {
			return -1, err
		}
		if base.Base != nil && base.Base.ID == turn {
			return i, nil
		}
	}
	for ; above >= 0; above = l.lanes[above].parent {
		if l.lanes[above].holds(depth) {
			break
		}
	}
	return above, nil
}

// holds reports whether a turn at depth can be on the lane.
func (x *lane) holds(depth uint64) bool { return !x.empty && x.from <= depth && depth <= x.to }

// cover finds what a compaction covers.
func (l *laner) cover(s *api.TreeSession, m *mark) error {
	t, err := l.c.Compaction(l.ctx, s.ID, m.id)
	if err != nil {
		return err
	}
	x := t.Compaction
	if x == nil {
		return nil
	}
	m.covers, m.before, m.after = true, x.TokensBefore, x.TokensAfter
	if x.Through == nil {
		return nil
	}
	last, err := l.c.Turn(l.ctx, s.ID, *x.Through)
	if err != nil {
		return err
	}
	m.through = last.Depth
	return nil
}

// treePlot is a picture of a tree while it is drawn.
type treePlot struct {
	Picture
	lanes []lane
	y     []float64 // of each lane
	deep  uint64    // the largest depth
}

// Tree draws a tree of forks: from left to right the depth, a lane a branch,
// compactions with the turns that they cover.
func Tree(w io.Writer, ls []lane, left int, here turns.ID) error {
	p := treePlot{lanes: ls, y: make([]float64, len(ls)), deep: 1}
	y := float64(treeTop)
	compactions, sessions := uint64(0), uint64(left)
	for i, x := range ls {
		p.y[i] = y
		p.deep = max(p.deep, x.to)
		y += treeLane
		for _, m := range x.marks {
			if m.covers {
				y += treeCover
			}
		}
		compactions += uint64(len(x.marks)) + x.more
		if x.branch == 0 {
			sessions++
		}
	}
	about := "A tree of " + prose.Plural(sessions, "session")
	detail := prose.Plural(compactions, "compaction")
	if left > 0 {
		detail += fmt.Sprintf(", %s not drawn", prose.Plural(uint64(left), "session"))
	}
	p.Text("ink bold", "start", treeNames, 28, about)
	p.Text("soft small", "start", treeNames, 48, detail)
	bottom := y - 14
	p.depths(bottom)
	for i := range ls {
		p.origin(i)
	}
	for i := range ls {
		p.lane(i, here)
	}
	p.legend(bottom + treeFoot + 14)
	return p.Encode(w, Width, int(bottom)+treeFoot+treeLegend, about+", "+detail)
}

// at is where a depth is, in pixels.
func (p *treePlot) at(depth uint64) float64 {
	return treeLeft + float64(treeRight-treeLeft)*float64(max(depth, 1)-1)/float64(max(p.deep-1, 1))
}

// dots reports whether there is room for each turn.
func (p *treePlot) dots() bool {
	return float64(treeRight-treeLeft)/float64(max(p.deep-1, 1)) >= treeDotRoom
}

// depths draws the axis.
func (p *treePlot) depths(bottom float64) {
	every := int(max(1, NiceStep(float64(p.deep)/8)))
	for _, n := range AxisMarks(int(p.deep), every) {
		x := p.at(uint64(n))
		p.Add(`<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/>`, x, x, treeTop-14, bottom)
		p.Text("soft small", "middle", x, bottom+16, prose.Grouped(uint64(n)))
	}
	p.Text("soft small", "end", treeLeft-16, bottom+16, "turns from the root")
}

func laneColour(i int) string {
	colours := [...]string{Blue, Green, Orange, Ochre, Sky}
	return colours[i%len(colours)]
}

// origin draws the way from the turn that a lane continues to its first one.
func (p *treePlot) origin(i int) {
	x := &p.lanes[i]
	if x.from <= 1 {
		return
	}
	at, begin, y := p.at(x.from-1), p.at(x.from), p.y[i]
	if x.parent < 0 {
		p.Add(`<path d="M%.1f %.1fH%.1f" fill="none" stroke="%s" stroke-width="2.5" stroke-dasharray="2 4"/>`, at-treeBend, y, begin, laneColour(i))
		return
	}
	bend := min(treeBend, begin-at)
	p.Add(`<path d="M%.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f" fill="none" stroke="%s" stroke-width="2.5"/>`,
		at, p.y[x.parent], y-treeBend, at, y, at+bend, y, begin, laneColour(i))
}

// lane draws a branch, its name, its compactions and its head.
func (p *treePlot) lane(i int, here turns.ID) {
	x, y := &p.lanes[i], p.y[i]
	p.name(i, here)
	colour := laneColour(i)
	if !x.empty {
		p.Add(`<path d="M%.1f %.1fH%.1f" fill="none" stroke="%s" stroke-width="2.5" stroke-linecap="round"/>`, p.at(x.from), y, p.at(x.to), colour)
	}
	if p.dots() && !x.empty {
		p.Add(`<g fill="%s">`, colour)
		for d := x.from; d <= x.to; d++ {
			p.Add(`<circle cx="%.1f" cy="%.1f" r="2.6"/>`, p.at(d), y)
		}
		p.Add(`</g>`)
	}
	if x.head > 0 {
		p.Add(`<circle class="page" stroke="%s" stroke-width="2.5" cx="%.1f" cy="%.1f" r="8.5"/>`, colour, p.at(x.head), y)
		if !x.empty {
			p.Add(`<circle fill="%s" cx="%.1f" cy="%.1f" r="3"/>`, colour, p.at(x.head), y)
		}
	}
	row := y + 26
	for _, m := range x.marks {
		p.diamond(p.at(m.depth), y)
		if m.covers {
			p.covered(m, row)
			row += treeCover
		}
	}
	if x.more > 0 {
		p.Text("soft small", "end", treeRight, y-12, fmt.Sprintf("%s more", prose.Plural(x.more, "compaction")))
	}
}

func (p *treePlot) diamond(x, y float64) {
	p.Add(`<path fill="%s" d="M%.1f %.1fl5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>`, Pink, x, y-5.5)
}

// covered draws which turns a compaction covers.
func (p *treePlot) covered(m mark, y float64) {
	label := prose.Short(m.id) + " shortens only"
	tokens := fmt.Sprintf("context: %s → %s tokens", prose.Grouped(m.before), prose.Grouped(m.after))
	end := float64(treeLeft)
	if m.through > 0 {
		label = fmt.Sprintf("%s covers 1–%s", prose.Short(m.id), prose.Grouped(m.through))
		end = p.at(m.through) + 4
		p.Add(`<rect class="cover" x="%d" y="%.1f" width="%.1f" height="15" rx="3"/>`, treeLeft-4, y, end-treeLeft+4)
	}
	p.diamond(treeNames+6, y+7.5)
	p.Text("soft small id", "start", treeNames+18, y+12, label)
	if end-treeLeft > 200 {
		p.Text("ink small", "start", treeLeft+6, y+12, tokens)
	} else {
		p.Text("ink small halo", "start", end+8, y+12, tokens)
	}
}

// name writes the name of a lane next to it.
func (p *treePlot) name(i int, here turns.ID) {
	x, y := &p.lanes[i], p.y[i]
	s := x.session
	if x.branch > 0 {
		p.Text("soft small", "start", treeNames+12, y+4, fmt.Sprintf("branch %d of %s", x.branch+1, prose.Short(s.ID)))
		return
	}
	label := terminal.Cut(prose.Clip(s.Label, 40), 14)
	class := "ink"
	if s.ID == here {
		class = "ink bold"
	}
	p.Add(`<text class="%s" x="%d" y="%.1f"><tspan class="id">%s</tspan> %s</text>`, class, treeNames, y-1, prose.Short(s.ID), escaped(label))
	words := []string{prose.Plural(s.Turns, "turn"), s.State}
	if f := s.ForkedFrom; f != nil {
		words = append(words, "fork ("+f.Mode+")")
	}
	p.Text("soft small", "start", treeNames, y+15, terminal.Cut(strings.Join(words, ", "), 32))
}

// legend says what the signs are.
func (p *treePlot) legend(y float64) {
	x := float64(treeNames)
	put := func(width float64, text string) {
		p.Text("soft small", "start", x+20, y+4, text)
		x += width
	}
	p.Add(`<circle class="page" stroke="%s" stroke-width="2.5" cx="%.1f" cy="%.1f" r="7"/><circle fill="%s" cx="%.1f" cy="%.1f" r="3"/>`, Blue, x+7, y, Blue, x+7, y)
	put(222, "head: the next turn goes here")
	p.diamond(x+7, y)
	put(110, "compaction")
	p.Add(`<rect class="cover" x="%.1f" y="%.1f" width="16" height="13" rx="3"/>`, x-1, y-6.5)
	put(200, "turns that its summary stands for")
}
