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

// A plan does not cover messages that no response has seen, above all the newest
// tool results: an agent that loses its newest result calls the tool again and
// again. If they do not fit, the plan shows only their ends.

// unseenMark replaces the omitted middle of an unseen part, if the policy has no
// mark of its own.
const unseenMark = "[… {omitted} of {chars} characters are left out here …]"

// fitUnanswered chooses how to shorten what no response has seen, largest parts
// first, if it would leave no room for a summary.
func (m planner) fitUnanswered() map[view.PartAt]turns.ElidedPart {
	p, s := m.path, m.sizes
	from := len(p.Halves)
	for from > 0 && p.Halves[from-1].Half == turns.MessagesHalf {
		from--
	}
	size, room := p.ShownFrom(from), tokens.Sub(s.Target, s.Replacement())
	if size <= room || size+s.Replacement() <= s.Room && m.trigger.Kind != TriggerOverflow {
		return nil
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
	chosen, remaining := make(map[view.PartAt]turns.ElidedPart), size
	show := func(of part, method view.Status, text string) {
		q := view.ElidedTo(p.Part(of.at), string(method), text)
		e := turns.Elision{Message: uint64(of.at.Message), Part: uint64(of.at.Part)}
		if n := view.Saving(p.CountedBy(), &p.Halves[of.at.Half], e, &q); n > 0 {
			if was, ok := chosen[of.at]; ok {
				remaining += view.Saving(p.CountedBy(), &p.Halves[of.at.Half], e, &was)
			}
			chosen[of.at], remaining = q, tokens.Sub(remaining, n)
		}
	}
	oldest := slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	// Cut all large parts to one length: the longest at which they all fit.
	for bound := room; remaining > room && bound >= 32; bound -= max(1, bound/4) {
		for _, of := range parts {
			if of.size <= bound {
				break
			}
			if p.Part(of.at).Type == turns.Reasoning {
				show(of, view.Cleared, "")
				continue
			}
			keep := float64(bound) / float64(of.size)
			e := policy.Elide{HeadRatio: keep * 0.5, TailRatio: keep * 0.4, Mark: cmp.Or(m.policy.Elide.Mark, unseenMark)}
			show(of, view.Trimmed, TrimToEnds(e, of.text))
		}
	}
	// Many small parts still exceed the room: clear the oldest, except for the
	// first.
	for i := 1; remaining > room && i < len(oldest)-1; i++ {
		if p.Part(oldest[i].at).Type == turns.Reasoning {
			show(oldest[i], view.Cleared, "")
		} else {
			show(oldest[i], view.Cleared, "[…]")
		}
	}
	if remaining == size {
		return nil
	}
	return chosen
}

// shortened returns the path with parts shown shortened, for its sizes.
func (m planner) shortened(shortens map[view.PartAt]turns.ElidedPart) view.Path {
	p := m.path
	if len(shortens) == 0 {
		return p
	}
	elisions, parts := p.Elisions(0, shortens)
	p.Halves = slices.Clone(p.Halves)
	for i, n := range p.SavedBy(elisions, parts) {
		p.Halves[i].Saved = n
	}
	return p
}
