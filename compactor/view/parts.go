package view

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
)

// PartAt names a part of a path by the indexes of its half, its message in the half,
// and itself in the message.
type PartAt struct{ Half, Message, Part int }

// Compare orders parts by their place on the path.
func (a PartAt) Compare(b PartAt) int {
	return cmp.Or(cmp.Compare(a.Half, b.Half), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Part, b.Part))
}

// Part returns the part of p at a place.
func (p Path) Part(at PartAt) *turns.Part {
	return &p.Halves[at.Half].Messages[at.Message].Parts[at.Part]
}

// ElidedAt returns the places where elisions are in force.
func (p Path) ElidedAt() map[PartAt]bool {
	if p.InForce == nil || len(p.InForce.Span.Elisions) == 0 {
		return nil
	}
	halves := p.index()
	out := make(map[PartAt]bool, len(p.InForce.Span.Elisions))
	for _, e := range p.InForce.Span.Elisions {
		if i, ok := halves[halfKey{e.Turn, e.Half}]; ok {
			out[PartAt{i, int(e.Message), int(e.Part)}] = true
		}
	}
	return out
}

// Shortened returns the elisions in force by their places.
func (p Path) Shortened() map[PartAt]turns.ElidedPart {
	out := make(map[PartAt]turns.ElidedPart)
	if f := p.InForce; f != nil && len(f.Span.Elisions) == len(f.Body.Elided) {
		halves := p.index()
		for i, e := range f.Span.Elisions {
			if k, ok := halves[halfKey{e.Turn, e.Half}]; ok {
				out[PartAt{k, int(e.Message), int(e.Part)}] = f.Body.Elided[i]
			}
		}
	}
	return out
}

// EachPart calls f for every part of p, in path order.
func (p Path) EachPart(f func(at PartAt, m *turns.Message, q *turns.Part)) {
	for i := range p.Halves {
		for j := range p.Halves[i].Messages {
			m := &p.Halves[i].Messages[j]
			for k := range m.Parts {
				f(PartAt{i, j, k}, m, &m.Parts[k])
			}
		}
	}
}

// ElidedTo returns the record of p when it is shown as the text show.
func ElidedTo(p *turns.Part, method, show string) turns.ElidedPart {
	return turns.ElidedPart{
		Method: method, Show: show,
		Before: uint64(utf8.RuneCountInString(summary.PartText(p))), After: uint64(utf8.RuneCountInString(show)),
	}
}

// Elisions returns all elisions in force after a plan shortens chosen, in path
// order. Parts that were shortened before stay as they are shown, unless chosen
// holds them too. from is the index of the first kept half.
func (p Path) Elisions(from int, chosen map[PartAt]turns.ElidedPart) ([]turns.Elision, []turns.ElidedPart) {
	all := make(map[PartAt]turns.ElidedPart, len(chosen))
	if f := p.InForce; f != nil && len(f.Span.Elisions) > 0 && len(f.Span.Elisions) == len(f.Body.Elided) {
		halves := p.index()
		for i, e := range f.Span.Elisions {
			if k, ok := halves[halfKey{e.Turn, e.Half}]; ok {
				all[PartAt{k, int(e.Message), int(e.Part)}] = f.Body.Elided[i]
			}
		}
	}
	for at, part := range chosen {
		all[at] = part
	}
	places := make([]PartAt, 0, len(all))
	for at := range all {
		if at.Half >= from {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, PartAt.Compare)
	var elisions []turns.Elision
	var parts []turns.ElidedPart
	for _, at := range places {
		h := &p.Halves[at.Half]
		elisions = append(elisions, turns.Elision{Turn: h.Ref, Half: h.Half, Message: uint64(at.Message), Part: uint64(at.Part)})
		parts = append(parts, all[at])
	}
	return elisions, parts
}
