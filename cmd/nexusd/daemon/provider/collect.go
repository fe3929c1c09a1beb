package provider

import (
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// collector puts an answer together while its pieces come, and hands them on.
type collector struct {
	emit  func(Event) error
	parts []part
}

type part struct {
	turns.Part
	text  strings.Builder
	sums  []string
	ended bool
}

// begin opens a part, and returns its place.
func (c *collector) begin(t turns.PartType, id, name string) (int, error) {
	if len(c.parts) == turns.MaxParts {
		return 0, lost("it has over %d parts", turns.MaxParts)
	}
	if t == turns.ToolCall && (id == "" || name == "" || len(id) > turns.MaxName || len(name) > turns.MaxName) {
		return 0, lost("a tool call without an id or a name, or with one that is too long")
	}
	for i := range c.parts {
		if t == turns.ToolCall && c.parts[i].ID == id {
			return 0, lost("two tool calls have the same id")
		}
	}
	c.parts = append(c.parts, part{Part: turns.Part{Type: t, ID: id, Name: name}})
	i := len(c.parts) - 1
	return i, c.emit(Event{Kind: Begin, Index: i, Type: t, ID: id, Name: name})
}

// add adds to the text of a part, or to a call's arguments.
func (c *collector) add(i int, kind Kind, text string) error {
	if text == "" || c.parts[i].ended {
		return nil
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	c.parts[i].text.WriteString(text)
	return c.emit(Event{Kind: kind, Index: i, Type: c.parts[i].Type, Text: text})
}

// summarize adds to summary n of a reasoning part.
func (c *collector) summarize(i, n int, text string) error {
	p := &c.parts[i]
	if text == "" || p.ended {
		return nil
	}
	if n < 0 || n > len(p.sums) || n > 1000 {
		return lost("the summaries of its reasoning are not in order")
	}
	if n == len(p.sums) {
		p.sums = append(p.sums, "")
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	p.sums[n] += text
	return c.emit(Event{Kind: SummaryDelta, Index: i, Type: p.Type, Summary: n, Text: text})
}

// end closes a part. ext is what belongs to it beyond its text; nil: nothing.
func (c *collector) end(i int, ext any) error {
	p := &c.parts[i]
	if p.ended {
		return nil
	}
	p.ended = true
	text := p.text.String()
	switch {
	case p.Type == turns.Reasoning && text == "":
		p.Content = strings.Join(p.sums, "\n\n")
	case p.Type != turns.ToolCall:
		p.Content = text
	case strings.TrimSpace(text) == "":
		p.Arguments = turns.Raw("{}")
	default:
		if p.Arguments = turns.Raw(text); !isJSON(p.Arguments) {
			p.Arguments = turns.RawText(text) // kept as the model wrote it
		}
	}
	if ext != nil {
		b, err := turns.EncodeJSON(ext)
		if err != nil {
			return lost("what belongs to a part can't be kept")
		}
		p.Ext = b
	}
	return c.emit(Event{Kind: End, Index: i, Type: p.Type, Part: &p.Part})
}

// last ends all parts that are open.
func (c *collector) last(ext func(i int) any) error {
	for i := range c.parts {
		var x any
		if ext != nil && !c.parts[i].ended {
			x = ext(i)
		}
		if err := c.end(i, x); err != nil {
			return err
		}
	}
	return nil
}

// message is the whole answer.
func (c *collector) message(reason string) turns.Message {
	m := turns.Message{Role: turns.Assistant, FinishReason: reason}
	for i := range c.parts {
		m.Parts = append(m.Parts, c.parts[i].Part)
	}
	return m
}

func isJSON(b []byte) bool {
	var v turns.Raw
	return json.Unmarshal(b, &v) == nil
}

// refusalExt marks a text that is a refusal.
var refusalExt = map[string]any{"responses": map[string]bool{"refusal": true}}

// reasonOf is a provider's reason to end, in the ledger's words.
func reasonOf(word string) string {
	switch word {
	case "length", "max_tokens", "max_output_tokens", "model_context_window_exceeded":
		return "length"
	case "content_filter", "refusal", "safety":
		return "content_filter"
	case "tool_calls", "function_call", "tool_use":
		return "tool_call"
	}
	return "stop"
}
