package facts

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
)

// LateHead begins what is added below a summary for turns that came while it was
// written. A line "- " and a line of a covered turn follow it, for each.
const LateHead = "\n\nUSED SINCE\nTurns that came while this summary was written use these, from the turns that it stands for:"

// CutLate returns a summary without what was added to it, and the lines that were.
func CutLate(text string) (rest string, lines []string) {
	rest, late, ok := strings.Cut(text, LateHead)
	if !ok {
		return text, nil
	}
	for l := range strings.SplitSeq(strings.Trim(late, "\n"), "\n") {
		lines = append(lines, strings.TrimPrefix(l, "- "))
	}
	return rest, lines
}

// Missing returns lines of the covered halves that hold facts which newer halves use
// and shown does not hold. It serves a summary that was written before the newer
// halves came.
//
// Facts are those of [Survival], and whole lines of 30 characters or more. A newer half
// uses what a response says or passes to a tool, and what a user says. What a tool
// returned to it stands in the context with it, so that is not missing.
//
// The lines are clipped around their fact. The fact that was used last comes first; each
// line is the newest one that says more of its fact than the fact itself, if there is
// one, with the depth of its turn; what a line before holds is not there again. At most maxMissing facts count.
func Missing(covered, newer, shown []summary.HalfTurn, replacement []turns.Message) []string {
	var order []string
	line := make(map[string]string)  // for each missing fact, the line that says the most of it
	depth := make(map[string]uint64) // and its turn's
	use := func(f string) {
		if _, ok := line[f]; !ok && len(order) < maxMissing {
			order, line[f] = append(order, f), ""
		}
	}
	for i := range slices.Backward(newer) {
		eachUsed(&newer[i], func(s string) { eachTerm(s, use) })
	}
	drop := func(f string) { delete(line, f) }
	for i := range shown {
		eachMessageText(shown[i].Messages, func(s string) { eachTerm(s, drop) })
	}
	for i := range newer {
		for _, m := range newer[i].Messages {
			if newer[i].Half == turns.MessagesHalf && m.Role != turns.User {
				eachMessageText([]turns.Message{m}, func(s string) { eachTerm(s, drop) })
			}
		}
	}
	eachMessageText(replacement, func(s string) { eachTerm(s, drop) })
	grouped := wordLines(replacement)
	for f := range line {
		if strings.Contains(f, "/") && NamesGroupedPath(grouped, f) {
			drop(f)
		}
	}
	if len(line) == 0 {
		return nil
	}
	for i := range covered {
		eachMessageText(covered[i].Messages, func(s string) {
			for l := range strings.SplitSeq(s, "\n") {
				l = strings.TrimSpace(l)
				eachTerm(l, func(f string) {
					if old, ok := line[f]; ok && (len(l) > len(f)+minSaid || len(old) <= len(f)+minSaid) {
						line[f], depth[f] = l, covered[i].Depth
					}
				})
			}
		})
	}
	var out []string
	for _, f := range order {
		if l := line[f]; l != "" && !slices.ContainsFunc(out, func(o string) bool { return strings.Contains(o, f) }) {
			out = append(out, fmt.Sprintf("%s [t%d]", clipAround(l, f), depth[f]))
		}
	}
	return out
}

const (
	maxMissing = 500 // bounds the facts that Missing looks for
	minTerm    = 30  // characters of a whole line that counts
	minSaid    = 8   // bytes that a line must have beside a fact to say something of it
	maxSaid    = 240 // bytes of a line that Missing returns
)

// eachTerm calls found for the words of a text that [kindOf] knows, and for its long
// lines.
func eachTerm(s string, found func(string)) {
	for l := range strings.SplitSeq(s, "\n") {
		if l = strings.TrimSpace(l); utf8.RuneCountInString(l) >= minTerm {
			found(l)
		}
		for _, w := range Words(l) {
			if len(w) >= 3 && len(w) <= 200 && kindOf(w) != "" {
				found(w)
			}
		}
	}
}

// eachUsed calls found for the texts of h that its author wrote: not for reasoning, and
// not for what tools returned.
func eachUsed(h *summary.HalfTurn, found func(string)) {
	for i := range h.Messages {
		m := &h.Messages[i]
		if h.Half == turns.MessagesHalf && m.Role != turns.User {
			continue
		}
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Type {
			case turns.Text:
				found(p.Content)
			case turns.ToolCall:
				eachJSONString(p.Arguments, found)
			}
		}
	}
}

// eachMessageText calls found for all texts of messages.
func eachMessageText(ms []turns.Message, found func(string)) {
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			found(p.Content)
			eachJSONString(p.Arguments, found)
			eachJSONString(p.Response, found)
		}
	}
}

// eachJSONString calls found for the strings of a JSON value, without the names of
// members, and for its numbers.
func eachJSONString(v turns.Raw, found func(string)) {
	eachScalar(v, func(text string, isName bool) {
		if !isName {
			found(text)
		}
	})
}

// clipAround returns at most maxSaid bytes of a line, with the fact in them.
func clipAround(line, fact string) string {
	if len(line) <= maxSaid {
		return line
	}
	from := max(0, min(strings.Index(line, fact)-maxSaid/3, len(line)-maxSaid))
	to := from + maxSaid
	for from > 0 && !utf8.RuneStart(line[from]) {
		from++
	}
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to--
	}
	out := line[from:to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(line) {
		out += "…"
	}
	return out
}
