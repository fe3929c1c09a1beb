package view

import (
	"slices"
	"sync/atomic"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Rendering is how the halves of a path were rendered, without what ends a context. A
// path that has the same halves and more after them is rendered from there. Requests
// share it; nobody changes it.
type Rendering struct {
	inForce *InForce
	halves  []summary.HalfTurn // that were rendered
	state   renderer           // after them
	grown   *atomic.Bool       // a path has gone on in the room behind the lists of state
}

// Size returns about how many bytes of memory x takes beside the halves.
func (x *Rendering) Size() int {
	if x == nil {
		return 0
	}
	const message, source = 112, 192
	return message*len(x.state.out.Messages) + source*len(x.state.out.Sources)
}

// IsOf reports whether x is of these halves, with their messages as they are in memory.
func (x *Rendering) IsOf(halves []summary.HalfTurn) bool {
	return len(x.halves) == len(halves) && x.beginsAs(halves)
}

// beginsAs reports whether x is of the first of these halves.
func (x *Rendering) beginsAs(halves []summary.HalfTurn) bool {
	if len(x.halves) > len(halves) {
		return false
	}
	if len(x.halves) > 0 && &x.halves[0] == &halves[0] {
		return true
	}
	for i := range x.halves {
		if !sameHalf(&x.halves[i], &halves[i]) {
			return false
		}
	}
	return true
}

// rendersAlone reports whether what a context shows of a half does not depend on the
// halves after it, nor on a compaction's own texts.
func (p *Path) rendersAlone() bool {
	f := p.InForce
	return p.View.When == "" && (f == nil || len(f.Span.Elisions)+len(f.Body.Elided)+len(f.Body.Nudge) == 0)
}

// rendering returns the state of r after all halves of p, nil if no later path can go on
// from it: a late message is a change of what stands before it, and a path without halves is
// rendered from its beginning.
func (r *renderer) rendering(p *Path) *Rendering {
	if !p.rendersAlone() || len(r.late) > 0 || len(p.Halves) == 0 {
		return nil
	}
	x := &Rendering{inForce: p.InForce, halves: slices.Clip(p.Halves), state: *r, grown: new(atomic.Bool)}
	x.state.open, x.state.late = slices.Clone(r.open), nil // no two paths add to one list
	return x
}

// resume returns a renderer that has rendered the first n halves of p. n is 0 if x is of
// another path, or by another counter.
func (x *Rendering) resume(p *Path, c tokens.Counter) (r renderer, n int) {
	fresh := renderer{counter: c, real: c}
	if x == nil || x.inForce != p.InForce || x.state.counter.Name() != c.Name() || !p.rendersAlone() || !x.beginsAs(p.Halves) {
		return fresh, 0
	}
	r = x.state
	r.counter, r.real, r.open = c, c, slices.Clone(r.open)
	return r, len(x.halves)
}

// sameHalf reports whether two halves are one, with the same messages in memory.
func sameHalf(a, b *summary.HalfTurn) bool {
	return a.Ref == b.Ref && a.Half == b.Half && a.Erased == b.Erased && sameMessages(a.Messages, b.Messages)
}

func sameMessages(a, b []turns.Message) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
