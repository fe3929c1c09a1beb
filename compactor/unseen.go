package compactor

import (
	"cmp"
	"slices"

	"nexus/turns"
)

// What no response has seen yet, the results of the last calls above all, is not
// covered: an agent whose newest result is gone calls the tool again, and again.
// Where it has no room it is shown by its ends.

// unseenMark stands for what is left out of a part that no response has seen,
// where the policy has no mark of its own.
const unseenMark = "[… {omitted} of {chars} characters are left out here …]"

// fitUnseen chooses to show shortened what no response has seen, the largest
// parts first, where it would leave no room for a summary.
func (plan *Plan) fitUnseen(s sizes) {
	p := plan.Path
	from := len(p.Halves)
	for from > 0 && p.Halves[from-1].Half == turns.MessagesHalf {
		from--
	}
	size, room := p.shownFrom(from), less(s.target, s.summary)
	if size <= room || size+s.summary <= s.room && plan.Trigger.Kind != TriggerOverflow {
		return
	}
	type large struct {
		at   partAt
		size uint64
	}
	var parts []large
	shown := p.elidedAt()
	p.eachPart(func(at partAt, m *turns.Message, q *turns.Part) {
		if at.half >= from && !shown[at] && !p.Halves[at.half].Erased && (q.Type == turns.ToolCallResponse || q.Type == turns.Text) && q.Ref == nil {
			parts = append(parts, large{at, p.counter().Part(q)})
		}
	})
	slices.SortStableFunc(parts, func(a, b large) int { return cmp.Compare(b.size, a.size) })
	// Each is cut to the same length, the longest that has all of them fit.
	most := room
	for range 16 {
		chosen, left := make(map[partAt]turns.ElidedPart), size
		for _, l := range parts {
			if l.size <= most {
				break
			}
			q := p.part(l.at)
			keep := float64(most) / float64(l.size)
			e := Elide{HeadRatio: keep * 0.5, TailRatio: keep * 0.4, Mark: cmp.Or(plan.Policy.Elide.Mark, unseenMark)}
			part := elidedTo(q, string(Trimmed), e.ends(partText(q)))
			if n := saving(p.counter(), &p.Halves[l.at.half], turns.Elision{Message: uint64(l.at.message), Part: uint64(l.at.part)}, &part); n > 0 {
				chosen[l.at], left = part, less(left, n)
			}
		}
		if left <= room || most < 32 {
			if left < size {
				plan.chosen = chosen
			}
			return
		}
		most -= max(1, most/4)
	}
}

// planned is the plan's path with what it chose to show shortened.
func (plan *Plan) planned() Path {
	p := plan.Path
	if len(plan.chosen) == 0 {
		return p
	}
	elisions, parts := p.elisions(0, plan.chosen)
	p.Halves = slices.Clone(p.Halves)
	for i, n := range p.savedBy(elisions, parts) {
		p.Halves[i].Saved = n
	}
	return p
}
