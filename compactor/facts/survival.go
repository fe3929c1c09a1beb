package facts

import (
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/compactor/summary"
	"nexus/turns"
)

// survived counts the covered turns' facts of one kind, and how many the context
// still holds.
type survived struct {
	Total int `json:"total"`
	Kept  int `json:"kept"`
}

// Survey says which facts of covered turns a context still holds. The zero Survey has
// no facts.
type Survey struct {
	facts   map[Fact]bool // the value says whether the context still holds it
	finder  *Finder       // of the covered turns
	Partial bool          // there were more facts than a survey considers
}

// NewSurvey surveys the distinct facts of the covered turns, and which of them the
// replacement or the kept turns contain. It asks no model and knows nothing about any
// summarizer. It passes over the text once.
//
// A line of the covered turns is kept where it is a line of what is shown, or part of one
// line of the replacement. At last a fact is looked for in the text of the context: a name
// or a path may be a piece of a longer word there, as in "src/a.go:20:func", and a command a
// piece of an argument.
func NewSurvey(covered, kept []summary.HalfTurn, replacement []turns.Message) Survey {
	const tokensPerFact = 16 // about; a map that grows costs as much as the facts
	tokens := uint64(0)
	for i := range covered {
		tokens += covered[i].Tokens
	}
	s := Survey{facts: make(map[Fact]bool, min(tokens/tokensPerFact, maxFacts)), finder: NewFinder(covered)}
	for i := range slices.Backward(covered) {
		s.finder.Each(&covered[i], func(f Fact) {
			if len(s.facts) < maxFacts {
				s.facts[f] = false
			} else if _, ok := s.facts[f]; !ok {
				s.Partial = true
			}
		})
	}
	for i := range kept {
		s.show(kept[i].Messages)
	}
	s.show(replacement)
	lines := linesOf(replacement)
	for f, in := range s.facts {
		switch {
		case in:
		case f.Kind == pathKind:
			s.facts[f] = NamesGroupedPath(lines.words, f.Text)
		case isLine(f.Kind):
			s.facts[f] = lines.quotes(f.Text)
		}
	}
	s.findPieces(textOfContext(kept, replacement))
	return s
}

// findPieces marks the facts that stand in a text, with no letter or digit next to them. It
// passes over the text once: it looks up what stands there with the length of a fact where
// the first bytes of one do.
func (s *Survey) findPieces(text string) {
	const first = minFactBytes
	lengths := make(map[string][]int) // of lost facts, by their first bytes
	kinds := make(map[string][]string)
	for f, in := range s.facts {
		if in || f.Kind == numberKind || len(f.Text) < first {
			continue
		}
		if at := f.Text[:first]; !slices.Contains(lengths[at], len(f.Text)) {
			lengths[at] = append(lengths[at], len(f.Text))
		}
		kinds[f.Text] = append(kinds[f.Text], f.Kind)
	}
	if len(kinds) == 0 {
		return
	}
	for i := 0; i+first <= len(text); i++ {
		if isWordAt(text, i-1) && isWordAt(text, i) {
			continue
		}
		for _, n := range lengths[text[i:i+first]] {
			if i+n > len(text) || isWordAt(text, i+n-1) && isWordAt(text, i+n) && n < maxFactBytes-utf8Max {
				continue
			}
			for _, k := range kinds[text[i:i+n]] {
				if isLine(k) || !goesOn(text, i, i+n) {
					s.facts[Fact{k, text[i : i+n]}] = true
				}
			}
		}
	}
}

// goesOn reports whether a name in a text is a piece of another one, as a-b is in x-a-b and
// a/b in a/b.go.
func goesOn(text string, begin, end int) bool {
	before := begin > 0 && text[begin-1] == '-' && isWordAt(text, begin-2)
	after := end < len(text) && (text[end] == '-' || text[end] == '.') && isWordAt(text, end+1)
	return before || after
}

// isWordAt reports whether a byte of a text is of a word.
func isWordAt(text string, i int) bool {
	if i < 0 || i >= len(text) {
		return false
	}
	c := text[i]
	return c == '_' || c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// textOfContext returns the text of all that a context shows, arguments and results too.
func textOfContext(kept []summary.HalfTurn, replacement []turns.Message) string {
	var b strings.Builder
	add := func(ms []turns.Message) {
		for i := range ms {
			for j := range ms[i].Parts {
				p := &ms[i].Parts[j]
				text := p.Content
				switch p.Type {
				case turns.ToolCall:
					text = ValuesText(p.Arguments)
				case turns.ToolCallResponse:
					text = resultOf(p).output
				}
				b.WriteString(text)
				b.WriteByte('\n')
			}
		}
	}
	for i := range kept {
		add(kept[i].Messages)
	}
	add(replacement)
	return b.String()
}

// isLine reports whether facts of a kind are whole lines or sentences.
func isLine(kind string) bool {
	return kind == userKind || kind == errorKind || kind == commandKind
}

// show marks the facts that messages hold.
func (s *Survey) show(ms []turns.Message) {
	keep := func(f Fact) {
		if _, ok := s.facts[f]; ok {
			s.facts[f] = true
		}
	}
	line := func(text string) {
		if text = trimLine(text); len(text) >= minFactBytes {
			keep(Fact{userKind, text})
			keep(Fact{errorKind, text})
			keep(Fact{commandKind, text})
		}
	}
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			texts := []string{p.Content}
			switch p.Type {
			case turns.ToolCall:
				texts = append(callOf(p).commands, argumentText(p.Arguments))
			case turns.ToolCallResponse:
				texts = []string{resultOf(p).output}
			}
			for _, text := range texts {
				s.finder.eachName(text, keep)
				for l := range strings.SplitSeq(text, "\n") {
					line(l)
					line(errorText(l))
					if p.Type == turns.Text && ms[i].Role == turns.User {
						summary.EachSentence(l, line)
					}
				}
			}
		}
	}
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
func Survival(covered, kept []summary.HalfTurn, replacement []turns.Message) turns.Raw {
	return NewSurvey(covered, kept, replacement).Report()
}

// textLines is the lines of messages' texts, and for each word the numbers of the lines
// that hold it, ascending.
type textLines struct {
	lines []string
	words map[string][]int
}

func linesOf(ms []turns.Message) (t textLines) {
	t.words = make(map[string][]int)
	for i := range ms {
		for line := range strings.SplitSeq(summary.TextOf(&ms[i]), "\n") {
			n := len(t.lines)
			t.lines = append(t.lines, line)
			for w := range eachWord(line) {
				if in := t.words[w]; len(in) == 0 || in[len(in)-1] != n {
					t.words[w] = append(in, n)
				}
			}
		}
	}
	return t
}

// quotes reports whether one line holds a text. It looks where the rarest word of the text
// is.
func (t *textLines) quotes(text string) bool {
	words := Words(text)
	if n := len(words); n > 2 && len(text) >= maxFactBytes-utf8Max {
		words = words[:n-1] // the clipped text ends in a piece of a word
	}
	var at []int
	for _, w := range words {
		if w == "" {
			continue
		}
		in, ok := t.words[w]
		if !ok {
			return false
		}
		if at == nil || len(in) < len(at) {
			at = in
		}
	}
	return slices.ContainsFunc(at, func(n int) bool { return strings.Contains(t.lines[n], text) })
}

// utf8Max is by how much a clipped line may be shorter than its bound.
const utf8Max = 4

// wordLines returns, for each word of messages' texts, the numbers of the lines that hold
// it, ascending.
func wordLines(ms []turns.Message) map[string][]int { return linesOf(ms).words }

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
	User        survived `json:"user"`
	Errors      survived `json:"errors"`
	Commands    survived `json:"commands"`
	Paths       survived `json:"paths"`
	Identifiers survived `json:"identifiers"`
	Numbers     survived `json:"numbers"`
	Partial     bool     `json:"partial,omitzero"` // there were more facts than maxFacts
}

func (r *survivalReport) of(kind string) *survived {
	switch kind {
	case userKind:
		return &r.User
	case pathKind:
		return &r.Paths
	case identifierKind:
		return &r.Identifiers
	case numberKind:
		return &r.Numbers
	case commandKind:
		return &r.Commands
	}
	return &r.Errors
}
