package compactor

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/turns"
)

// Memory is a fact that a summarizer found worth keeping beyond the session's
// context.
type Memory struct {
	Kind   string      // what the template calls its type: lower-case letters, digits and "_"; "" where it has none
	Text   string      // one line, without any of our tags
	Source []turns.Ref // the turns that it comes from, in the order of the path; nil where none are named
}

// maxMemories bounds the memories of one answer.
const maxMemories = 500

// Parse is the summary and the memories in a model's answer, by the template's
// shape. Halves are what it was asked about: the turns that a memory names are
// looked up there by depth, others are dropped.
//
// Error: [ErrRefused], which holds nothing of the answer.
func (t Template) Parse(answer string, halves []HalfTurn) (Output, error) {
	answer = strings.TrimSpace(answer)
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
	// A tag of ours inside, in any case or spacing, is refused: nobody can say
	// which of two tags the model meant, and which one it copied.
	if out.Text == "" || tagged(out.Text) {
		return Output{}, refused("its summary is empty, or has a tag in it")
	}
	for i, m := range out.Memories {
		if tagged(m.Text) { // its white space has become spaces, which a tag may have
			return Output{}, refused("a tag in memory %d", i)
		}
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

// parseBlocks reads <summary>…</summary> and <memories>…</memories>: each once,
// in any order, nothing outside.
func parseBlocks(answer string) (Output, error) {
	blocks := map[string]string{}
	for rest := answer; rest != ""; {
		name := ""
		for _, n := range [...]string{"summary", "memories"} {
			if strings.HasPrefix(rest, "<"+n+">") {
				name = n
			}
		}
		if name == "" {
			return Output{}, refused("something stands outside of <summary> and <memories>")
		}
		if _, twice := blocks[name]; twice {
			return Output{}, refused("<%s> twice", name)
		}
		body, after, closed := strings.Cut(rest[len(name)+2:], "</"+name+">")
		if !closed {
			return Output{}, refused("<%s> is not closed", name)
		}
		blocks[name], rest = strings.TrimSpace(body), strings.TrimSpace(after)
	}
	if len(blocks) != 2 {
		return Output{}, refused("<summary> or <memories> is missing")
	}
	out := Output{Text: blocks["summary"]}
	for line := range strings.Lines(blocks["memories"]) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		text, ok := bullet(line)
		if !ok {
			return Output{}, refused("a line in <memories> is no bullet")
		}
		if text != "" {
			out.Memories = append(out.Memories, Memory{Text: text})
		}
	}
	return out, nil
}

// bullet is a line without the mark before it.
func bullet(line string) (string, bool) {
	for _, mark := range [...]string{"-", "*", "•"} {
		if text, ok := strings.CutPrefix(line, mark); ok && (text == "" || text[0] == ' ' || text[0] == '\t') {
			return oneLine(text), true
		}
	}
	return "", false
}

// factsJSON is the answer of shape [Facts].
type factsJSON struct {
	Summary string     `json:"episodic_summary"`
	Facts   []factJSON `json:"semantic_facts"`
}

type factJSON struct {
	Type  string   `json:"type"`
	Text  string   `json:"text"`
	Turns []uint64 `json:"turns"` // depths
}

// parseFacts reads the JSON object, which may stand in a ```json fence.
func parseFacts(answer string, halves []HalfTurn) (Output, error) {
	var v factsJSON
	if err := turns.DecodeJSON([]byte(unfence(answer)), &v); err != nil {
		return Output{}, refused("it is not the JSON object that was asked for") // err may quote it
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

// unfence is what stands in a fence of ```json, where the whole answer is one.
func unfence(answer string) string {
	body, ok := strings.CutPrefix(answer, "```json\n")
	if !ok {
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

// tagged reports whether something in s reads as a tag of ours.
func tagged(s string) bool { return escape(s) != s }

// oneLine is s with each run of white space as one space, and none at the ends.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Distinct is memories without those that say what an earlier one of the same
// kind says, or a line of the known notes: the same text but for white space,
// bullets and a full stop at the end. A repeated memory's sources go to the
// first. The input is not changed.
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
	type said struct{ kind, text string }
	first := map[said]int{}
	var out []Memory
	for _, m := range memories {
		text := strings.TrimSuffix(oneLine(m.Text), ".")
		if old[text] {
			continue
		}
		i, again := first[said{m.Kind, text}]
		if !again {
			first[said{m.Kind, text}] = len(out)
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
