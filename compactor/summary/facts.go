package summary

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// Fact is a piece of text that someone may need again.
type Fact struct{ Kind, Text string }

// The kinds of facts. The first three are whole lines or sentences, clipped.
const (
	UserKind       = "user"        // a sentence that a person wrote to the agent
	ErrorKind      = "errors"      // a line of what a tool returned as a failure
	CommandKind    = "commands"    // the first line of a command, or the file of a patch
	PathKind       = "paths"       // a file, a folder or an address, with a slash
	IdentifierKind = "identifiers" // a word with a joint, a digit, or a capital inside
	NumberKind     = "numbers"     // a word of three digits or more
)

// Kinds returns the kinds of facts, those that a person misses first in front.
func Kinds() []string {
	return []string{UserKind, ErrorKind, CommandKind, PathKind, IdentifierKind, NumberKind}
}

const (
	maxFactBytes = 200 // of a line or a word
	minFactBytes = 3
	maxUserFacts = 200 // of one message: a longer one is a document
)

// FactFinder finds the facts of halves. It knows which call each result belongs to: a line of
// a file that a tool read is no error, though it says so. And it knows what files the calls name:
// a slash alone makes no path. Safe for concurrent use.
type FactFinder struct {
	calls map[string]call
	files knownFiles
}

// NewFactFinder returns the finder of facts for some halves.
func NewFactFinder(halves []HalfTurn) *FactFinder {
	f := &FactFinder{calls: make(map[string]call), files: make(knownFiles)}
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
func (f *FactFinder) Each(h *HalfTurn, found func(Fact)) {
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
					foundLine(CommandKind, command, found)
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
				r.eachError(c, func(line string) { foundLine(ErrorKind, line, found) })
			default:
				f.eachName(p.Content, found)
				if isUsers && p.Type == turns.Text {
					eachSentenceOfUser(Request(p.Content), found)
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
		EachSentence(line, func(s string) {
			if s = trimLine(s); strings.IndexFunc(s, unicode.IsLetter) >= 0 {
				n++
				foundLine(UserKind, s, found)
			}
		})
	}
}

// eachName is EachName with the kinds that words with a slash have next to the calls of f.
func (f *FactFinder) eachName(text string, found func(Fact)) {
	EachName(text, func(x Fact) {
		if x.Kind == PathKind {
			x.Kind = f.files.kindOfPath(x.Text)
		}
		if x.Kind != "" {
			found(x)
		}
	})
}

// EachName calls found for the paths, identifiers and numbers of a text, also for
// repeated ones. A word with a slash that may be a path is one here.
func EachName(text string, found func(Fact)) {
	if strings.Contains(text, "</") { // the end of an element is no path
		text = strings.ReplaceAll(text, "</", "<")
	}
	for w := range eachWord(text) {
		if len(w) < minFactBytes || len(w) > maxFactBytes {
			continue
		}
		if kind := kindOf(w); kind != "" {
			found(Fact{kind, w})
		}
	}
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

// ValuesText returns the names, strings and numbers of a JSON value, a line each; what is no
// JSON is its own text.
func ValuesText(v turns.Raw) string { return scalarsText(v, true) }

// argumentText returns the strings and numbers of a JSON value, a line each. The names of
// members belong to the tool.
func argumentText(v turns.Raw) string { return scalarsText(v, false) }

func scalarsText(v turns.Raw, withNames bool) string {
	var b strings.Builder
	some := false
	eachScalar(v, func(text string, isName bool) {
		if some = true; isName && !withNames {
			return
		}
		b.WriteString(text)
		b.WriteByte('\n')
	})
	if !some {
		return string(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// eachScalar calls found for the names, strings and numbers of a JSON value, as far as it
// is one. isName is set for the name of a member.
func eachScalar(v turns.Raw, found func(text string, isName bool)) {
	d := jsontext.NewDecoder(strings.NewReader(string(v)), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return
		}
		if k := t.Kind(); k == '"' || k == '0' {
			in, n := d.StackIndex(d.StackDepth())
			found(t.String(), in == '{' && n%2 == 1)
		}
	}
}

// Words returns the words of a text, without punctuation at their ends.
func Words(s string) []string {
	return slices.Collect(eachWord(s))
}

// eachWord yields the words of a text, as Words has them: one may be empty.
func eachWord(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin := -1 // of the word that goes on
		for i, size := 0, 1; i < len(s); i += size {
			gap := false
			if c := s[i]; c < utf8.RuneSelf {
				gap, size = isGap[c], 1
			} else {
				var r rune
				r, size = utf8.DecodeRuneInString(s[i:])
				gap = r == '→' || unicode.IsSpace(r) // tools number the lines of a file as 3→import
			}
			switch {
			case !gap && begin < 0:
				begin = i
			case gap && begin >= 0:
				if !yield(trimWord(s[begin:i])) {
					return
				}
				begin = -1
			}
		}
		if begin >= 0 {
			yield(trimWord(s[begin:]))
		}
	}
}

// isGap says which bytes of ASCII stand between words.
var isGap = func() (is [utf8.RuneSelf]bool) {
	for _, c := range "\t\n\v\f\r \"'`,;()[]{}<>=|*&!?\\" {
		is[c] = true
	}
	return is
}()

// trimWord returns a word without the punctuation at its ends that may stand inside of one.
func trimWord(w string) string {
	isEnd := func(c byte) bool { return c == '.' || c == ':' || c == '-' || c == '+' }
	for w != "" && isEnd(w[0]) && !isHiddenPath(w) {
		w = w[1:]
	}
	for w != "" && isEnd(w[len(w)-1]) {
		w = w[:len(w)-1]
	}
	return w
}

// kindOf returns the kind of a word, "" if it is none of a fact's.
func kindOf(w string) string {
	digits, letters, slash, joint, upper := 0, 0, 0, 0, 0
	for i, r := range w {
		switch {
		case r >= 'a' && r <= 'z':
			letters++
		case r >= '0' && r <= '9':
			digits++
		case r == '/':
			slash++
		case r == '_' || r == '.' || r == '-' || r == ':':
			joint++
		case unicode.IsUpper(r):
			letters++
			if i > 0 {
				upper++
			}
		case unicode.IsLetter(r):
			letters++
		}
	}
	switch {
	case slash > 0 && letters > 1:
		if isPath(w) {
			return PathKind
		}
	case letters == 0 && digits >= 3:
		return NumberKind
	case letters > 2 && (digits > 0 || joint > 0 || (upper > 0 && upper < letters-1)):
		return IdentifierKind
	}
	return ""
}
