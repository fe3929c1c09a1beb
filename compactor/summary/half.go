package summary

import (
	"fmt"
	"slices"
	"strings"

	"nexus/turns"
	"nexus/turns/tokens"
)

// IsAssistant reports whether message i of h is the model's. A response always is.
func IsAssistant(h *HalfTurn, i int) bool {
	return h.Half == turns.ResponseHalf || h.Messages[i].Role == turns.Assistant
}

// RunEnd returns the index after the last message of the run that begins at i.
func RunEnd(h *HalfTurn, i int) int {
	for i < len(h.Messages) && !IsAssistant(h, i) {
		i++
	}
	return i
}

// CommandOutput returns what a command printed, from a result of Codex's tools: without the
// lines of figures that the tool writes before "Output:". Another text is returned as it is.
func CommandOutput(text string) string {
	const mark, maxHead = "\nOutput:\n", 400
	i := strings.Index(text[:min(len(text), maxHead)], mark)
	begins := func(figure string) bool { return strings.HasPrefix(text, figure) }
	if i < 0 || !slices.ContainsFunc([]string{"Chunk ID: ", "Command: ", "Exit code: ", "Wall time: ", "Process exited with code "}, begins) {
		return text
	}
	return text[i+len(mark):]
}

// ResultText returns a response as text: strings and text parts as they are, other
// parts by their type, other JSON as JSON.
func ResultText(p *turns.Part) string {
	if p.Ref != nil {
		return fmt.Sprintf("%s\n[%d bytes are stored apart, %v]", p.Ref.Preview, p.Ref.Size, p.Ref.Address())
	}
	if s, ok := p.Response.Text(); ok {
		return s
	}
	if p.Response.Kind() != '[' {
		return string(p.Response)
	}
	parts, ok := ResultParts(p)
	if !ok {
		return string(p.Response)
	}
	var out []string
	for i := range parts {
		if q := &parts[i]; q.Type == turns.Text {
			out = append(out, q.Content)
		} else {
			out = append(out, fmt.Sprintf("[%s %s]", q.Type, q.MimeType))
		}
	}
	return strings.Join(out, "\n")
}

// ShownTokens returns the tokens of h as a context shows it.
func (h *HalfTurn) ShownTokens() uint64 {
	if h.Erased {
		return 0
	}
	return tokens.Sub(h.Tokens, h.Saved)
}

// Count returns the tokens of the messages of h by the path's counter c.
func (h *HalfTurn) Count(c tokens.Counter) (n uint64) {
	if h.Counts == nil {
		return tokens.Messages(c, h.Messages)
	}
	for _, k := range h.Counts {
		n += k
	}
	return n
}

// TextOf returns the text parts of m. For a text that was moved to a blob it returns
// the preview.
func TextOf(m *turns.Message) string {
	var out []string
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Type != turns.Text:
		case p.Ref != nil && p.Ref.Preview != "":
			out = append(out, p.Ref.Preview)
		case p.Content != "":
			out = append(out, p.Content)
		}
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// plainText returns a part as text; ok is false if a summarizer does not see it.
func plainText(p *turns.Part) (text string, ok bool) {
	switch p.Type {
	case turns.Text:
		if p.Ref != nil && p.Content == "" {
			text = movedPartText(p)
		} else {
			text, _ = cutImages(p.Content)
		}
	case turns.ToolCall:
		arguments := string(p.Arguments)
		if p.Ref != nil && arguments == "" {
			arguments = movedPartText(p)
		}
		arguments, _ = cutImages(arguments)
		text = fmt.Sprintf("[call %s %s]", p.Name, arguments)
	case turns.ToolCallResponse:
		text, _ = cutImages(ResultText(p))
		if p.IsError {
			text = "[error] [result] " + text
		} else {
			text = "[result] " + text
		}
	case turns.Reasoning: // reasoning is signed for its own model alone
		return "", false
	default:
		text = fmt.Sprintf("[%s %s]", p.Type, p.MimeType)
	}
	return text, true
}

// movedPartText returns what is shown for a part whose content is stored in a blob.
func movedPartText(p *turns.Part) string {
	return fmt.Sprintf("%s [%d bytes are stored apart]", p.Ref.Preview, p.Ref.Size)
}

// PartText returns the text whose length counts as the part's.
func PartText(p *turns.Part) string {
	switch p.Type {
	case turns.ToolCallResponse:
		return ResultText(p)
	case turns.Text, turns.Reasoning:
		if p.Ref != nil {
			return p.Ref.Preview
		}
		return p.Content
	}
	return ""
}

// ResultParts returns a response that is a list of parts.
func ResultParts(p *turns.Part) ([]turns.Part, bool) {
	if p.Response.Kind() != '[' {
		return nil, false
	}
	var parts []turns.Part
	if err := turns.DecodeJSON(p.Response, &parts); err != nil {
		return nil, false
	}
	return parts, true
}

// HalfTurn is one half of a normal turn: the messages newly sent, or the response
// received.
type HalfTurn struct {
	Ref      turns.Ref
	Depth    uint64
	Half     turns.Half
	Model    string          // of the turn; "": not known
	Messages []turns.Message // a response is one message
	Tokens   uint64
	Counts   []uint64 // tokens of each message by the path's counter, if they are known
	Saved    uint64   // how many of Tokens the elisions in force save: see view.Path.Settled
	Reported uint64   // for a response, the input tokens of its call by the provider's count; 0: not reported
	Erased   bool     // its content key was destroyed, so Messages is nil
	Pinned   bool     // every replacement quotes its user texts
	Program  []int    // indexes of the user's messages that a program wrote; see turns.ProgramMessages
}

// IsResult reports whether m holds tool results.
func IsResult(m *turns.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p turns.Part) bool { return p.Type == turns.ToolCallResponse })
}
