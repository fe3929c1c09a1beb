package facts

import (
	"slices"
	"strings"
	"unicode"

	"nexus/compactor/summary"
	"nexus/turns"
)

// Finder finds the facts of halves. It knows which call each result belongs to: a line of
// a file that a tool read is no error, though it says so. And it knows what files the calls name:
// a slash alone makes no path. Safe for concurrent use.
type Finder struct {
	calls map[string]call
	files knownFiles
}

// NewFinder returns the finder of facts for some halves.
func NewFinder(halves []summary.HalfTurn) *Finder {
	f := &Finder{calls: make(map[string]call), files: make(knownFiles)}
	for i := range halves {
		for j := range halves[i].Messages {
			for k := range halves[i].Messages[j].Parts {
				if p := &halves[i].Messages[j].Parts[k]; p.Type == turns.ToolCall {
					c := callOf(p)
					f.calls[p.ID] = c
					f.files.addCall(p, c)
				}
			}
		}
	}
	return f
}

// Each calls found for each fact of a half, also for repeated ones.
func (f *Finder) Each(h *summary.HalfTurn, found func(Fact)) {
	for i := range h.Messages {
		m := &h.Messages[i]
		isUsers := h.Half == turns.MessagesHalf && m.Role == turns.User && !slices.Contains(h.Program, i)
		for j := range m.Parts {
			p := &m.Parts[j]
			switch p.Type {
			case turns.ToolCall:
				f.eachName(argumentText(p.Arguments), found)
				c := callOf(p)
				for _, command := range c.commands {
					foundLine(commandKind, command, found)
				}
			case turns.ToolCallResponse:
				c, known := f.calls[p.ID]
				if !known {
					c = call{tool: p.Name}
				}
				r := resultOf(p)
				f.eachName(r.output, found)
				if text, refused := refusal(r.output); refused {
					eachSentenceOfUser(text, found)
					continue
				}
				r.eachError(c, func(line string) { foundLine(errorKind, line, found) })
			default:
				f.eachName(p.Content, found)
				if isUsers && p.Type == turns.Text {
					eachSentenceOfUser(summary.Request(p.Content), found)
				}
			}
		}
	}
}

// eachSentenceOfUser calls found for the sentences of what a person wrote, without code
// between fences, which is seldom the person's own.
func eachSentenceOfUser(text string, found func(Fact)) {
	if strings.HasPrefix(text, "[tool result without its call]") || strings.HasPrefix(text, "[result of a tool call that is not in the transcript") { // importers write it
		return
	}
	fenced, n := false, 0
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced || n >= maxUserFacts {
			continue
		}
		summary.EachSentence(line, func(s string) {
			if s = trimLine(s); strings.IndexFunc(s, unicode.IsLetter) >= 0 {
				n++
				foundLine(userKind, s, found)
			}
		})
	}
}

// eachName is EachName with the kinds that words with a slash have next to the calls of f.
func (f *Finder) eachName(text string, found func(Fact)) {
	EachName(text, func(x Fact) {
		if x.Kind == pathKind {
			x.Kind = f.files.kindOfPath(x.Text)
		}
		if x.Kind != "" {
			found(x)
		}
	})
}

// foundLine reports a whole line, clipped. A quote counts only if it is a line of
// its own.
func foundLine(kind, line string, found func(Fact)) {
	if line = trimLine(line); len(line) >= minFactBytes {
		found(Fact{kind, line})
	}
}

// trimLine returns a line as facts have it: clipped, without what lists and quotes put
// around it.
func trimLine(line string) string {
	line = strings.Trim(line, " \t\r-*>`$")
	return line[:runeStart(line, min(len(line), maxFactBytes))]
}
