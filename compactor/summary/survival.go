package summary

import (
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
)

// maxFacts bounds how many facts a survival report considers.
const maxFacts = 20_000

// survived counts the covered turns' facts of one kind, and how many the context
// still holds.
type survived struct {
	Total int `json:"total"`
	Kept  int `json:"kept"`
}

// Fact is a piece of text that someone may need again. Kind is paths, identifiers,
// numbers, commands or errors.
type Fact struct{ Kind, Text string }

// Survey says which facts of covered turns a context still holds. The zero Survey has
// no facts.
type Survey struct {
	facts   map[Fact]bool // the value says whether the context still holds it
	Partial bool          // there were more facts than a survey considers
}

// NewSurvey surveys the distinct facts of the covered turns, and which of them the
// replacement or the kept turns contain. It asks no model and knows nothing about any
// summarizer. It passes over the text once.
func NewSurvey(covered, kept []HalfTurn, replacement []turns.Message) Survey {
	s := Survey{facts: make(map[Fact]bool)}
	for i := range covered {
		EachFact(covered[i].Messages, func(f Fact) {
			if len(s.facts) < maxFacts {
				s.facts[f] = false
			} else if _, ok := s.facts[f]; !ok {
				s.Partial = true
			}
		})
	}
	keep := func(f Fact) {
		if _, ok := s.facts[f]; ok {
			s.facts[f] = true
		}
	}
	for i := range kept {
		EachFact(kept[i].Messages, keep)
	}
	EachFact(replacement, keep)
	lines := wordLines(replacement)
	for f, in := range s.facts {
		if !in && f.Kind == "paths" && NamesGroupedPath(lines, f.Text) {
			s.facts[f] = true
		}
	}
	return s
}

// IsLost reports whether f is a fact of the covered turns that the context does not hold.
func (s Survey) IsLost(f Fact) bool {
	kept, ok := s.facts[f]
	return ok && !kept
}

// Report returns the counts of s as JSON: for each kind of facts, how many there were
// and how many the context still holds.
func (s Survey) Report() turns.Raw {
	report := survivalReport{Partial: s.Partial}
	for f, kept := range s.facts {
		of := report.of(f.Kind)
		of.Total++
		if kept {
			of.Kept++
		}
	}
	b, err := turns.EncodeJSON(report)
	if err != nil {
		return nil
	}
	return b
}

// Survival is the report of NewSurvey.
func Survival(covered, kept []HalfTurn, replacement []turns.Message) turns.Raw {
	return NewSurvey(covered, kept, replacement).Report()
}

// wordLines returns, for each word of messages' texts, the numbers of the lines that hold
// it, ascending.
func wordLines(ms []turns.Message) map[string][]int {
	at, n := make(map[string][]int), 0
	for i := range ms {
		for line := range strings.SplitSeq(TextOf(&ms[i]), "\n") {
			n++
			for _, w := range Words(line) {
				if in := at[w]; len(in) == 0 || in[len(in)-1] != n {
					at[w] = append(in, n)
				}
			}
		}
	}
	return at
}

// NamesGroupedPath reports whether one line holds a path's folder and the rest of the
// path, as in "under src/a: x.go y.go". lines says which lines hold each word, ascending.
func NamesGroupedPath(lines map[string][]int, path string) bool {
	for i := 1; i < len(path)-1; i++ {
		if path[i] != '/' {
			continue
		}
		rest := lines[path[i+1:]]
		for _, n := range lines[path[:i]] {
			if _, ok := slices.BinarySearch(rest, n); ok {
				return true
			}
		}
	}
	return false
}

// survivalReport is the report's JSON.
type survivalReport struct {
	Paths       survived `json:"paths"`
	Identifiers survived `json:"identifiers"`
	Numbers     survived `json:"numbers"`
	Commands    survived `json:"commands"`
	Errors      survived `json:"errors"`
	Partial     bool     `json:"partial,omitzero"` // there were more facts than maxFacts
}

func (r *survivalReport) of(kind string) *survived {
	switch kind {
	case "paths":
		return &r.Paths
	case "identifiers":
		return &r.Identifiers
	case "numbers":
		return &r.Numbers
	case "commands":
		return &r.Commands
	}
	return &r.Errors
}

// EachFact calls found for each fact of messages, also for repeated ones.
func EachFact(ms []turns.Message, found func(Fact)) {
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			scan(p.Content, found)
			if p.Arguments != nil {
				scan(ValuesText(p.Arguments), found)
				foundCommand(string(p.Arguments), found)
			}
			if s, ok := p.Response.Text(); ok {
				scan(s, found)
			} else {
				scan(ValuesText(p.Response), found)
			}
		}
	}
}

// ValuesText returns the names, strings and numbers of a JSON value, a line each; what is no
// JSON is its own text.
func ValuesText(v turns.Raw) string {
	var b strings.Builder
	eachScalar(v, func(text string, _ bool) {
		b.WriteString(text)
		b.WriteByte('\n')
	})
	if b.Len() == 0 {
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

// foundCommand reports the first line of the member "command" in a call's arguments,
// if that is a string.
func foundCommand(args string, found func(Fact)) {
	_, rest, ok := strings.Cut(args, `"command":`)
	rest = strings.TrimLeft(rest, " \t\r\n")
	if !ok || !strings.HasPrefix(rest, `"`) {
		return
	}
	end := 1
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return
	}
	if s, ok := turns.Raw(rest[:end+1]).Text(); ok {
		first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
		foundLine("commands", first, found)
	}
}

// foundLine reports a whole line, clipped. A quote counts only if it is a line of
// its own.
func foundLine(kind, line string, found func(Fact)) {
	line = strings.Trim(line, " \t\r-*>`$")
	line = line[:min(len(line), 200)]
	if len(line) > 2 {
		found(Fact{kind, line})
	}
}

// isError reports whether a line looks like an error message.
func isError(line string) bool {
	for _, w := range [...]string{"error", "Error", "ERROR", "panic:", "FAIL", "fatal", "Exception", "failed"} {
		if strings.Contains(line, w) {
			return true
		}
	}
	return false
}

// scan finds the facts of a text in one pass.
func scan(s string, found func(Fact)) {
	for line := range strings.SplitSeq(s, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "- $ ") {
			foundLine("commands", line, found)
		} else if isError(line) {
			foundLine("errors", line, found)
		}
	}
	for _, w := range Words(s) {
		if len(w) < 3 || len(w) > 200 {
			continue
		}
		if kind := kindOf(w); kind != "" {
			found(Fact{kind, w})
		}
	}
}

// Words returns the words of a text, without punctuation at their ends.
func Words(s string) []string {
	all := strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`,;()[]{}<>=|*&!?\\", r)
	})
	for i, w := range all {
		all[i] = strings.Trim(w, ".:-")
	}
	return all
}

func kindOf(w string) string {
	digits, letters, slash, joint, upper := 0, 0, 0, 0, 0
	for i, r := range w {
		switch {
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
		return "paths"
	case letters == 0 && digits >= 3:
		return "numbers"
	case letters > 2 && (digits > 0 || joint > 0 || (upper > 0 && upper < letters-1)):
		return "identifiers"
	}
	return ""
}
