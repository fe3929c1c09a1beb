package compare

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// Kind is a kind of fact.
type Kind int

// The kinds of facts:
//
//   - Paths: a word with a slash and a letter.
//   - Identifiers: a word of four characters or more that has letters and also a digit, a joint (_ . -), or a capital after a
//     small letter.
//   - Numbers: a word without letters that has at least three digits.
//   - Lines: a whole line of 30 characters or more. The line numbers of a listing do not belong to it.
//
// A word is a run of ASCII letters, digits and _ . - / ~ @.
//
// This finder of words and lines is independent on purpose. Package summary has another
// one, for the survival report and for the check of what models write, and package extractive
// has its own. Compare judges summaries, so it must not share a summarizer's idea of which
// words matter. What is an error, summary alone says (decision 86). A change here also changes
// the figures in docs/policies/comparison.md.
const (
	Paths Kind = iota
	Identifiers
	Numbers
	Lines
	kinds
)

// Kinds returns all kinds, in order.
func Kinds() []Kind { return []Kind{Paths, Identifiers, Numbers, Lines} }

// String returns the kind's name: paths, identifiers, numbers, lines.
func (k Kind) String() string {
	return [...]string{"paths", "identifiers", "numbers", "lines"}[k]
}

// fact is a piece of text that an agent may need again.
type fact struct {
	kind Kind
	text string
}

// maxWord bounds the length of a word: a longer one is data that nobody names again.
const maxWord = 200

// eachFact calls found for each fact of a text, also for repeated ones.
func eachFact(text string, found func(fact)) {
	for line := range strings.SplitSeq(text, "\n") {
		line = trimLine(line)
		if l := unlisted(line); utf8.RuneCountInString(l) >= minLine {
			found(fact{Lines, l})
		}
		eachWord(line, func(w string) {
			if k, ok := kindOf(w); ok {
				found(fact{k, w})
			}
		})
	}
}

// eachWord calls found for each word of a line, without surrounding punctuation.
func eachWord(line string, found func(string)) {
	for i := 0; i < len(line); {
		if !inWord(line[i]) {
			i++
			continue
		}
		from := i
		for i < len(line) && inWord(line[i]) {
			i++
		}
		if w := trimWord(line[from:i]); w != "" && len(w) <= maxWord {
			found(w)
		}
	}
}

func inWord(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '_' || c >= '-' && c <= '/' || c == '~' || c == '@' // - . /
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// trimWord removes the end of a sentence, the slash after a folder, and the "./"
// before a relative path, so that each thing has one spelling.
func trimWord(w string) string {
	w = strings.TrimLeft(strings.TrimRight(w, ".-/@~"), "-@")
	for strings.HasPrefix(w, "./") {
		w = w[2:]
	}
	switch {
	case strings.HasPrefix(w, "//"): // the rest of a URL
		return strings.TrimLeft(w, "/")
	case strings.HasPrefix(w, "..") && !strings.HasPrefix(w, "../"): // an ellipsis
		return strings.TrimLeft(w, ".")
	}
	return w
}

func kindOf(w string) (Kind, bool) {
	letters, digits, slashes, joints, humps := 0, 0, 0, 0, 0
	for i := range len(w) {
		switch c := w[i]; {
		case isLetter(c):
			letters++
			if i > 0 && c < 'a' && w[i-1] >= 'a' && w[i-1] <= 'z' {
				humps++
			}
		case isDigit(c):
			digits++
		case c == '/':
			slashes++
		case c == '_' || c == '-' || c == '.':
			joints++
		}
	}
	switch {
	case slashes > 0 && letters > 0:
		return Paths, true
	case letters > 0 && digits+joints+humps > 0 && len(w) >= 4:
		return Identifiers, true
	case letters == 0 && digits >= 3:
		return Numbers, true
	}
	return 0, false
}

// minLine is the least length of a line that counts as a fact, in characters.
// Shorter lines (a brace, a return) stand everywhere.
const minLine = 30

// unlisted returns a trimmed line without what a listing writes before it: a number
// and an arrow, a tab, a bar, a colon or two blanks (cat -n, grep -n).
func unlisted(line string) string {
	n := 0
	for n < len(line) && isDigit(line[n]) {
		n++
	}
	if n == 0 || n > 7 {
		return line
	}
	for _, sep := range [...]string{"→", "\t", "|", ":", "  "} {
		if rest, ok := strings.CutPrefix(line[n:], sep); ok {
			return trimLine(rest)
		}
	}
	return line
}

func trimLine(line string) string { return strings.TrimSpace(line) }

// eachText calls found for the texts of messages: text, reasoning, arguments and
// results. It skips the names of JSON members, which belong to the tool, and
// everything that is not text.
func eachText(ms []turns.Message, found func(string)) {
	for i := range ms {
		for j := range ms[i].Parts {
			switch p := &ms[i].Parts[j]; p.Type {
			case turns.Text, turns.Reasoning:
				found(p.Content)
			case turns.ToolCall:
				eachString(p.Arguments, found)
			case turns.ToolCallResponse:
				eachString(p.Response, found)
			}
		}
	}
}

// eachWritten is eachText for what a response says to others, without reasoning.
func eachWritten(m *turns.Message, found func(string)) {
	for j := range m.Parts {
		switch p := &m.Parts[j]; p.Type {
		case turns.Text:
			found(p.Content)
		case turns.ToolCall:
			eachString(p.Arguments, found)
		}
	}
}

// eachString calls found for the strings and numbers of a JSON value.
func eachString(v turns.Raw, found func(string)) {
	for i := 0; i < len(v); {
		switch c := v[i]; {
		case c == '"':
			end := i + 1
			for end < len(v) && v[end] != '"' {
				if v[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(v) {
				return
			}
			text := v[i : end+1]
			i = end + 1
			for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
				i++
			}
			if i < len(v) && v[i] == ':' {
				continue // a member's name
			}
			if b, err := jsontext.AppendUnquote(nil, text); err == nil {
				found(string(b))
			}
		case isDigit(c) || c == '-':
			end := i + 1
			for end < len(v) && (isDigit(v[end]) || strings.IndexByte("+-.eE", v[end]) >= 0) {
				end++
			}
			found(string(v[i:end]))
			i = end
		default:
			i++
		}
	}
}
