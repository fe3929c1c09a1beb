package extractive

import (
	"fmt"
	"slices"
	"strings"

	"nexus/compactor/summary"
	"nexus/turns/tokens"
)

// The names of the sections, in order.
const (
	task      = "TASK"
	decisions = "DECISIONS"
	progress  = "PROGRESS"
	remaining = "REMAINING"
	data      = "FACTS"
)

var sectionNames = [...]string{task, decisions, progress, remaining, data}

// dropOrder is the order in which sections lose their last items where not all fit.
var dropOrder = [...]string{data, decisions, progress, remaining, task}

// The sections' shares of the budget, in hundredths. FACTS gets the rest.
const (
	taskShare      = 24 // beside the newest request
	newestShare    = 12
	decisionsShare = 14
	progressShare  = 20
	remainingShare = 8
)

const (
	gap     = " … " // separates units of one item that were not adjacent
	inView  = "asked to keep in view: "
	newest  = "newest request: "
	maxView = 400

	inWork     = "in work at the end of these turns: "
	lastFailed = "failed last: "
	maxOpen    = 120 // bytes of a request or a command in REMAINING

	maxNewest = 2_400 // bytes of the newest request
)

// draft holds the items of each section.
type draft map[string][]string

// draft fills the sections: first what was asked and is open, then what was done and
// wrote, then the facts that none of these names.
func (s *Summarizer) draft(h *history, in *summary.Input) draft {
	focus, bound := in.Focus, in.MaxTokens
	d := make(draft)
	cost := func(text string) uint64 { return s.counter.Text(text) + 2 }
	share := func(n uint64) uint64 { return bound * n / 100 }
	room := bound

	forTask := share(taskShare)
	if focus != "" {
		item := inView + oneLine(focus, maxView)
		if c := cost(item); c <= forTask {
			d[task] = []string{item}
			forTask -= c
		}
	}
	last := h.newestItem(share(newestShare), cost)
	older := h.userRequests
	if last != "" {
		older = slices.DeleteFunc(slices.Clone(older), func(u unit) bool { return strings.Contains(last, u.text) })
		d[task] = append(d[task], last)
	}
	d[task] = append(items(choose(older, h.now, forTask, cost)), d[task]...)
	d[remaining] = h.remaining(share(remainingShare), cost)
	d[progress] = h.progress(share(progressShare), cost)
	d[decisions] = items(choose(h.statements, h.now, share(decisionsShare), cost))
	room = tokens.Sub(room, s.counter.Text(d.String())+4)
	d[data] = h.facts.data(d.String(), in.Quoted, room, s.counter.Text)
	if room = tokens.Sub(bound, s.counter.Text(d.String())+4); room > bound/20 {
		facts := strings.Join(d[data], "\n")
		others := slices.DeleteFunc(slices.Clone(h.statements), func(u unit) bool { return strings.Contains(facts, u.text) })
		d[decisions] = items(choose(others, h.now, share(decisionsShare)+room, cost))
	}
	return d
}

// newestItem returns the newest request word for word, or its beginning where it is
// longer than share; "" without one, or if there is no room for a useful part of it.
func (h *history) newestItem(share uint64, cost func(string) uint64) string {
	if h.newest.text == "" {
		return ""
	}
	for n := maxNewest; n >= 120; n = n * 3 / 4 {
		if item := point(newest+oneLine(h.newest.text, n), h.newest.depth); cost(item) <= share {
			return item
		}
	}
	return ""
}

// String returns the draft as text: each section's name alone on its line, then its
// items, one line each, beginning with "- ".
func (d draft) String() string {
	var b strings.Builder
	for _, name := range sectionNames {
		if len(d[name]) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(name)
		for _, item := range d[name] {
			b.WriteString("\n- ")
			b.WriteString(item)
		}
	}
	return b.String()
}

// fit returns the draft as text of at most bound tokens. The draft already fits,
// unless the counter's count of a text exceeds the sum of its parts; then fit drops
// the last items.
func (s *Summarizer) fit(d draft, bound uint64) string {
	for _, name := range dropOrder {
		for {
			text := d.String()
			if s.counter.Text(text) <= bound {
				return text
			}
			n := len(d[name])
			if n == 0 {
				break
			}
			if item, ok := withoutLastName(d[name][n-1]); name == data && ok {
				d[name][n-1] = item
			} else {
				d[name] = d[name][:n-1]
			}
		}
	}
	return ""
}

// withoutLastName drops the last name of a list; ok is false for another item and for a
// list of one name.
func withoutLastName(item string) (_ string, ok bool) {
	head, list, ok := splitList(item)
	i := strings.LastIndex(list, ", ")
	if !ok || i < 0 {
		return "", false
	}
	return head + ": " + list[:i], true
}

// smallest returns the start of the first request, for a bound that fits not even
// one item.
func (s *Summarizer) smallest(h *history, bound uint64) string {
	first := append(slices.Clone(h.userRequests), h.statements...)
	if len(first) == 0 {
		return ""
	}
	for n := len(first[0].text); n > 0; n /= 2 {
		if text := task + "\n- " + oneLine(first[0].text, n); s.counter.Text(text) <= bound {
			return text
		}
	}
	return ""
}

// items writes units as lines. Units of one half share a line, with a pointer to
// their turn.
func items(units []unit) (out []string) {
	var b strings.Builder
	for i, u := range units {
		b.WriteString(u.text)
		if i+1 < len(units) && units[i+1].order == u.order {
			if units[i+1].place == u.place+1 {
				b.WriteByte(' ')
			} else {
				b.WriteString(gap)
			}
			continue
		}
		out = append(out, point(b.String(), u.depth))
		b.Reset()
	}
	return out
}

func point(text string, depth uint64) string {
	if depth == 0 {
		return text
	}
	return fmt.Sprintf("%s [t%d]", text, depth)
}

// progress returns what was done, in the order of the last mention.
func (h *history) progress(share uint64, cost func(string) uint64) (out []string) {
	var in []*action
	for _, act := range h.acts.ranked(h.now) {
		c := cost(act.line()) + 3
		if c > share {
			if share < 12 {
				break
			}
			continue
		}
		share -= c
		in = append(in, act)
	}
	slices.SortStableFunc(in, func(a, b *action) int { return a.order - b.order })
	for _, act := range in {
		out = append(out, point(act.line(), act.depth))
	}
	return out
}

// remaining returns what is open: the request at hand, the last run if it failed, the to-do list, calls that wait, the last
// question, and the next step that the agent announced.
func (h *history) remaining(share uint64, cost func(string) uint64) (out []string) {
	add := func(item string, depth uint64) {
		item = point(item, depth)
		if c := cost(item); c <= share && !slices.Contains(out, item) {
			share -= c
			out = append(out, item)
		}
	}
	if len(h.waiting) > 0 {
		add("not answered yet: "+h.waiting[0].text, h.waiting[0].depth)
	}
	for _, t := range h.todo {
		add(t+h.acts.writtenSince(t, h.listed), 0)
	}
	if act := h.acts.lastRun(); act != nil && act.failing {
		add(lastFailed+oneLine(act.label, maxOpen), act.depth)
	}
	if h.asked.text == "" && h.now > 0 && h.recalled {
		h.asked.text = "the first request"
	}
	if len(h.waiting) == 0 && h.working && h.asked.text != "" {
		add(inWork+oneLine(h.asked.text, maxOpen), h.asked.depth)
	}
	for _, act := range h.acts.waiting() {
		add("no response yet: "+act.label, act.depth)
	}
	for _, u := range h.last {
		if announces(strings.ToLower(u.text)) {
			add(u.text, u.depth)
		}
	}
	for i, t := range h.old {
		if i < 3 {
			add(t+h.acts.writtenSince(t, 0), 0)
		}
	}
	return out
}
