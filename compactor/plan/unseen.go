package plan

import (
	"cmp"
	"slices"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// What no response has seen yet, the results of the last calls above all, is not
// covered: an agent whose newest result is gone calls the tool again, and again.
// Where it has no room it is shown by its ends.

// unseenMark stands for what is left out of a part that no response has seen,
// where the policy has no mark of its own.
const unseenMark = "[… {omitted} of {chars} characters are left out here …]"

// fitUnseen chooses to show shortened what no response has seen, the largest
// parts first, where it would leave no room for a summary.
func (plan *Plan) fitUnseen(s policy.Sizes) {
	p := plan.Path
	from := len(p.Halves)
	for from > 0 && p.Halves[from-1].Half == turns.MessagesHalf {
		from--
	}
	size, room := p.ShownFrom(from), tokens.Sub(s.Target, s.Summary)
	if size <= room || size+s.Summary <= s.Room && plan.Trigger.Kind != TriggerOverflow {
		return
	}
	type part struct {
		at   view.PartAt
		text string
		size uint64
	}
	var parts []part
	shown := p.ElidedAt()
	p.EachPart(func(at view.PartAt, m *turns.Message, q *turns.Part) {
		if at.Half < from || shown[at] || p.Halves[at.Half].Erased || q.Ref != nil {
			return
		}
		text := summary.PartText(q)
		switch q.Type {
		case turns.ToolCall:
			text = string(q.Arguments)
		case turns.ToolCallResponse, turns.Text, turns.Reasoning:
		default:
			return
		}
		parts = append(parts, part{at, text, p.CountedBy().Part(q)})
	})
	chosen, left := make(map[view.PartAt]turns.ElidedPart), size
	show := func(of part, method view.Status, text string) {
		q := view.ElidedTo(p.Part(of.at), string(method), text)
		e := turns.Elision{Message: uint64(of.at.Message), Part: uint64(of.at.Part)}
		if n := view.Saving(p.CountedBy(), &p.Halves[of.at.Half], e, &q); n > 0 {
			if was, ok := chosen[of.at]; ok {
				left += view.Saving(p.CountedBy(), &p.Halves[of.at.Half], e, &was)
			}
			chosen[of.at], left = q, tokens.Sub(left, n)
		}
	}
	oldest := slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	// Large parts are cut to the same length, the longest that has all of them fit.
	for most := room; left > room && most >= 32; most -= max(1, most/4) {
		for _, of := range parts {
			if of.size <= most {
				break
			}
			if p.Part(of.at).Type == turns.Reasoning {
				show(of, view.Cleared, "")
				continue
			}
			keep := float64(most) / float64(of.size)
			e := policy.Elide{HeadRatio: keep * 0.5, TailRatio: keep * 0.4, Mark: cmp.Or(plan.Policy.Elide.Mark, unseenMark)}
			show(of, view.Trimmed, Ends(e, of.text))
		}
	}
	// What is too much is many parts: the oldest are left out, but for the first.
	for i := 1; left > room && i < len(oldest)-1; i++ {
		if p.Part(oldest[i].at).Type == turns.Reasoning {
			show(oldest[i], view.Cleared, "")
		} else {
			show(oldest[i], view.Cleared, "[…]")
		}
	}
	if left < size {
		plan.Shortened = chosen
	}
}

// planned is the plan's path with what it chose to show shortened.
func (plan *Plan) planned() view.Path {
	p := plan.Path
	if len(plan.Shortened) == 0 {
		return p
	}
	elisions, parts := p.Elisions(0, plan.Shortened)
	p.Halves = slices.Clone(p.Halves)
	for i, n := range p.SavedBy(elisions, parts) {
		p.Halves[i].Saved = n
	}
	return p
}
