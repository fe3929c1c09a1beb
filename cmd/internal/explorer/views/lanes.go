package views

import (
	"fmt"

	"nexus/cmd/internal/explorer/visit"
	"nexus/ledger/api"
	"nexus/turns"
)

// lanesDrawn is how many sessions of a tree are drawn.
const lanesDrawn = 14

// lanes is a drawing of a tree of forks: a lane for each session, from the turn where it begins.
// Sizes are in units of its view box.
type lanes struct {
	Lanes         []lane
	Left          int // sessions there was no room for
	Width, Height int
	Deep          uint64
	X, W          string // of the window that the page shows
}

// lane is a session of a tree.
type lane struct {
	ID          turns.ID
	Name        string
	Note        string
	Here        bool
	Y, Mid      int
	X, End      string // where it begins and ends
	From        string // the path from the lane that it continues; "": the root
	Head        string
	Compactions []laneMark
	Forked      uint64
	Turns       uint64 // of its own, without compactions
	State       string
}

// laneMark is the diamond of a compaction.
type laneMark struct {
	URL       string
	Depth     uint64
	Path, Hit string // the diamond, and what around it leads there too
}

const laneHeight = 26

// draw draws a tree, with the window [from, to] of the session here.
func draw(t *api.Tree, here turns.ID, from, to uint64) *lanes {
	const width, pad = 220, 8
	out := &lanes{Width: width}
	for i := range t.Sessions {
		s := &t.Sessions[i]
		out.Deep = max(out.Deep, s.Depth, s.ForkDepth)
		for _, b := range s.Branches {
			out.Deep = max(out.Deep, b.To)
		}
	}
	at := func(depth uint64) float64 {
		return pad + float64(width-2*pad)*float64(max(depth, 1)-1)/float64(max(out.Deep, 2)-1)
	}
	f := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	rows := make(map[turns.ID]int)
	for i := range t.Sessions {
		s := &t.Sessions[i]
		up, isFork := 0, false
		if s.ForkedFrom != nil {
			up, isFork = rows[s.ForkedFrom.Session]
		}
		if len(out.Lanes) == lanesDrawn && s.ID != here {
			out.Left++
			continue
		}
		y := len(out.Lanes)*laneHeight + laneHeight/2
		begin := at(1)
		if s.ForkedFrom != nil {
			begin = at(s.ForkDepth)
		}
		l := lane{ID: s.ID, Name: visit.NameOf(s.Label, s.ID), Here: s.ID == here, Y: y, X: f(begin), End: f(max(at(s.Depth), begin)), Head: f(at(s.Depth)), Forked: s.ForkDepth, Turns: s.Turns, State: s.State}
		if isFork {
			top := up*laneHeight + laneHeight/2
			bend := min(8, y-top)
			l.From = fmt.Sprintf("M%.1f %dV%dQ%.1f %d %.1f %d", begin, top, y-bend, begin, y, begin+min(float64(bend), at(s.Depth)-begin), y)
		}
		for _, b := range s.Branches {
			for _, k := range b.Compactions {
				x := at(k.Depth)
				l.Compactions = append(l.Compactions, laneMark{URL: fmt.Sprintf("/ui/s/%s/c/%s", s.ID, k.ID), Depth: k.Depth, Path: fmt.Sprintf("M%.1f %dl5 5l-5 5l-5 -5z", x, y-5), Hit: fmt.Sprintf("M%.1f %dh20v24h-20z", x-10, y-12)})
			}
		}
		rows[s.ID] = len(out.Lanes)
		out.Lanes = append(out.Lanes, l)
	}
	out.Height = len(out.Lanes) * laneHeight
	out.X, out.W = f(at(from)-4), f(max(at(to)-at(from)+8, 8))
	return out
}
