package summary

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/turns"
)

// ErrRefused means that a summary fails a check of shape, size or substance.
var ErrRefused = errors.New("summary refused")

// maxMemories bounds the memories of one answer.
const maxMemories = 500

// Parse reads the summary and the memories in a model's answer, by the template's
// shape. halves are what the model was asked about. Parse looks up there, by depth,
// the turns that a memory names, and drops unknown ones.
//
// Error: [ErrRefused], which holds nothing of the answer.
func (t Template) Parse(answer string, halves []HalfTurn) (Output, error) {
	answer = withoutReasoning(answer)
	if answer == "" || !utf8.ValidString(answer) {
		return Output{}, refused("it is empty, or not UTF-8")
	}
	var out Output
	var err error
	switch t.Shape {
	case Blocks:
		out, err = parseBlocks(answer)
	case Facts:
		out, err = parseFacts(answer, halves)
	default:
		return Output{Text: answer}, nil
	}
	if err != nil {
		return Output{}, err
	}
	if out.Text == "" {
		return Output{}, refused("its summary is empty")
	}
	if len(out.Memories) > maxMemories {
		return Output{}, refused("%d memories, the limit is %d", len(out.Memories), maxMemories)
	}
	out.Memories = Distinct(out.Memories, nil)
	return out, nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// withoutReasoning removes the reasoning that a model wrote before its answer,
// because some servers return both as one text. It returns "" for reasoning alone.
func withoutReasoning(answer string) string {
	if answer = strings.TrimSpace(answer); answer == "" {
		return ""
	}
	for _, name := range [...]string{"think", "thinking", "reasoning"} {
		begin, end := "<"+name+">", "</"+name+">"
		if strings.HasPrefix(answer, begin) {
			_, rest, _ := strings.Cut(answer, end)
			return strings.TrimSpace(rest)
		}
		// Some servers put the opening tag into the prompt.
		if before, rest, ok := strings.Cut(answer, "\n"+end+"\n"); ok && !strings.ContainsAny(answer[:1], "<{`") && !strings.Contains(before, begin) {
			return strings.TrimSpace(rest)
		}
	}
	return answer
}

// parseBlocks reads <summary>…</summary> and <memories>…</memories>: each once, in
// any order, with nothing outside. Inside, other tags with these names are data, as
// in code and HTML, if only one reading is possible.
func parseBlocks(answer string) (Output, error) {
	answer = unfence(answer)
	var blocks map[string]string
	for _, names := range [...][2]string{{"summary", "memories"}, {"memories", "summary"}} {
		first, ok := strings.CutPrefix(answer, "<"+names[0]+">")
		if !ok {
			continue
		}
		second, ok := strings.CutSuffix(first, "</"+names[1]+">")
		if !ok {
			return Output{}, refused("it does not end with </%s>", names[1])
		}
		for at := 0; ; {
			i := strings.Index(second[at:], "</"+names[0]+">")
			if i < 0 {
				break
			}
			body := second[:at+i]
			at += i + len(names[0]) + 3
			rest, ok := strings.CutPrefix(strings.TrimSpace(second[at:]), "<"+names[1]+">")
			if !ok {
				continue
			}
			b := map[string]string{names[0]: strings.TrimSpace(body), names[1]: strings.TrimSpace(rest)}
			if ambiguous(b["summary"]) || ambiguous(b["memories"]) {
				continue
			}
			if blocks != nil {
				return Output{}, refused("it can be read in two ways")
			}
			blocks = b
		}
	}
	if blocks == nil {
		return Output{}, refused("it is not one <summary> and one <memories> with nothing outside, or has a tag of these in one")
	}
	out := Output{Text: blocks["summary"]}
	for line := range strings.Lines(blocks["memories"]) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		text, ok := bullet(line)
		if !ok || ambiguous(text) {
			return Output{}, refused("a line in <memories> is no bullet, or has a tag in it")
		}
		if text != "" {
			out.Memories = append(out.Memories, Memory{Text: text})
		}
	}
	return out, nil
}

// bullet returns a line without its list mark.
func bullet(line string) (string, bool) {
	for _, mark := range [...]string{"-", "*", "•"} {
		if text, ok := strings.CutPrefix(line, mark); ok && (text == "" || text[0] == ' ' || text[0] == '\t') {
			return oneLine(text), true
		}
	}
	return "", false
}

// factsJSON is an answer of shape [Facts].
type factsJSON struct {
	Summary string     `json:"episodic_summary"`
	Facts   []factJSON `json:"semantic_facts"`
}

type factJSON struct {
	Type  string   `json:"type"`
	Text  string   `json:"text"`
	Turns []uint64 `json:"turns"` // depths
}

// parseFacts reads the JSON object, which may be fenced. Tags in it are data.
func parseFacts(answer string, halves []HalfTurn) (Output, error) {
	var v factsJSON
	if err := turns.DecodeJSON([]byte(unfence(answer)), &v); err != nil {
		return Output{}, refused("it is not the JSON object that was asked for") // err may quote the answer
	}
	out := Output{Text: strings.TrimSpace(v.Summary)}
	at := make(map[uint64]turns.Ref, len(halves))
	for i := range halves {
		at[halves[i].Depth] = halves[i].Ref
	}
	for i, f := range v.Facts {
		m := Memory{Kind: f.Type, Text: oneLine(f.Text)}
		if !isKind(m.Kind) || m.Text == "" {
			return Output{}, refused("semantic_facts/%d: no type, or no text", i)
		}
		slices.Sort(f.Turns)
		for _, depth := range slices.Compact(f.Turns) {
			if ref, ok := at[depth]; ok {
				m.Source = append(m.Source, ref)
			}
		}
		out.Memories = append(out.Memories, m)
	}
	return out, nil
}

// unfence returns the content of the fence if the whole answer is one, with or
// without a language's name.
func unfence(answer string) string {
	first, body, ok := strings.Cut(answer, "\n")
	if !ok || !strings.HasPrefix(first, "```") || strings.ContainsAny(first[3:], "` <{") {
		return answer
	}
	if body, ok = strings.CutSuffix(body, "\n```"); !ok {
		return answer
	}
	return body
}

func isKind(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// ambiguous reports whether a tag within s might end a block or begin another. Then
// it is unknown which tag the model meant and which one it copied.
func ambiguous(s string) bool {
	open := 0
	for {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			return false
		}
		s = s[i+1:]
		switch name, closes := tagOf(s, markers[:]); {
		case name == "memories":
			return true
		case name == "summary" && closes:
			open--
		case name == "summary":
			open++
		}
		if open < 0 {
			return true
		}
	}
}

// oneLine returns s with each run of white space as one space, and none at the ends.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Distinct returns memories without repeated ones. A memory is repeated if an
// earlier one of the same kind or a line of the known notes has the same text,
// except for white space, bullets and a final full stop. The first gets the sources
// of the repeated ones. The input does not change.
func Distinct(memories []Memory, known []string) []Memory {
	old := map[string]bool{}
	for _, note := range known {
		for line := range strings.Lines(note) {
			line = oneLine(line)
			if text, ok := bullet(line); ok {
				line = text
			}
			old[strings.TrimSuffix(line, ".")] = true
		}
	}
	type identity struct{ kind, text string }
	first := map[identity]int{}
	var out []Memory
	for _, m := range memories {
		text := strings.TrimSuffix(oneLine(m.Text), ".")
		if old[text] {
			continue
		}
		i, again := first[identity{m.Kind, text}]
		if !again {
			first[identity{m.Kind, text}] = len(out)
			m.Source = slices.Clone(m.Source)
			out = append(out, m)
			continue
		}
		for _, ref := range m.Source {
			if !slices.Contains(out[i].Source, ref) {
				out[i].Source = append(out[i].Source, ref)
			}
		}
	}
	return out
}
