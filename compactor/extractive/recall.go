package extractive

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"nexus/compactor/facts"
)

// parse reads a summary of this package, section by section. Lines outside of
// sections are foreign. A text that does not begin with a section's name is foreign
// as a whole.
func parse(text string) (got map[string][]string, foreign []string) {
	got = make(map[string][]string)
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		if strings.ContainsFunc(line, unshown) {
			line = oneLine(line, len(line)) // another summarizer wrote it
		}
		line = strings.TrimRight(line, " \r")
		switch item, ok := strings.CutPrefix(line, "- "); {
		case strings.TrimSpace(line) == "":
		case len(foreign) == 0 && slices.Contains(sectionNames[:], line):
			section = line
		case len(foreign) == 0 && line == "DATA": // an earlier build's name for FACTS
			section = data
		case ok && section != "" && len(foreign) == 0 && item == noItem:
		case ok && section != "" && len(foreign) == 0:
			got[section] = append(got[section], item)
		default:
			foreign = append(foreign, line)
		}
	}
	return got, foreign
}

// unshown reports whether a summary of this package never holds r.
func unshown(r rune) bool {
	return unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || turnsDirection(r)
}

// pointer separates an item from the turn that it points to.
func pointer(item string) (text string, depth uint64) {
	i := strings.LastIndex(item, " [t")
	if i <= 0 || !strings.HasSuffix(item, "]") {
		return item, 0
	}
	n, err := strconv.ParseUint(item[i+3:len(item)-1], 10, 64)
	if err != nil {
		return item, 0
	}
	return item[:i], n
}

// recall reads an earlier summary. Its content competes with that of the turns: the
// task and its limits stay because of their weight, and everything else makes room
// for newer content.
func (h *history) recall(previous string) {
	previous, late := facts.CutLate(previous)
	got, foreign := parse(previous)
	h.recalled = previous != ""
	got[data] = append(late, got[data]...)
	for i, item := range got[task] {
		if text, ok := strings.CutPrefix(item, newest); ok {
			item = text
			text, depth := pointer(text)
			h.newest = request{text, depth}
			h.asked = h.newest
		} else if i == 0 {
			text, depth := pointer(item)
			h.asked = request{text, depth}
		}
		h.recallUnits(&h.userRequests, item, i-len(got[task]), i == 0, askWeight)
		h.task = true
	}
	for i, item := range got[decisions] {
		h.recallUnits(&h.statements, item, i-len(got[decisions]), false, sayWeight)
	}
	for i, item := range got[progress] {
		text, depth := pointer(item)
		h.acts.recall(text, depth, i-len(got[progress]))
	}
	for _, item := range got[remaining] {
		if text, depth := pointer(item); depth == 0 { // what points at a turn was open there; the turns since tell more
			h.old = append(h.old, text)
		}
	}
	rank := 0
	for _, item := range got[data] {
		said, where := recallData(item)
		eachRecalled(item, func(w string) {
			h.facts.remember(w, rank, said, where)
			rank++
		})
	}
	for _, s := range [...]string{task, decisions, progress, remaining} {
		for _, item := range got[s] {
			text, _ := pointer(item)
			scanFacts(text, func(w string) { h.facts.remember(w, 40, nil, nil) })
		}
	}
	h.recallForeign(foreign)
}

func (h *history) recallUnits(pool *[]unit, item string, order int, first bool, weight func(string) float64) {
	text, depth := pointer(item)
	place := 0
	for part := range strings.SplitSeq(text, gap) {
		unitsOfLine(part, func(s string) {
			*pool = append(*pool, unit{text: s, depth: depth, order: order, place: place, worth: weight(s), lead: place == 0, task: first})
			place++
		})
		place++ // units between the two are gone
	}
}

// recallForeign reads a summary by another summarizer. Its first lines state the
// task, so they count as a first request. Its units follow those of our own
// sections, which have negative ordinals, and before those of the first half: none
// of them joins an item that points at a turn.
func (h *history) recallForeign(lines []string) {
	place := 0
	for i, line := range lines {
		if i >= 2000 {
			break
		}
		scanFacts(line, func(w string) { h.facts.remember(w, 20+i, nil, nil) })
		unitsOfLine(strings.TrimSpace(line), func(s string) {
			u := unit{text: s, place: place, worth: .5 + max(askWeight(s), sayWeight(s)), lead: place == 0, task: !h.task && place < 4}
			h.userRequests = append(h.userRequests, u)
			place++
		})
	}
	h.task = h.task || place > 0
	h.userRequests = bound(h.userRequests)
}
