package evidence

import (
	"strings"
	"unicode"

	"nexus/compactor/facts"
	"nexus/compactor/summary"
	"nexus/turns"
)

// PartAt is a part of a half.
type PartAt struct{ Message, Part int }

// eachPart yields the text of each part of a half that has one.
func eachPart(h *summary.HalfTurn, yield func(at PartAt, role turns.Role, p *turns.Part, text string)) {
	for i := range h.Messages {
		for j := range h.Messages[i].Parts {
			p := &h.Messages[i].Parts[j]
			if text := Text(p); text != "" {
				yield(PartAt{i, j}, h.Messages[i].Role, p, text)
			}
		}
	}
}

// Text returns the text of a part as a reader takes it: arguments and results without the
// escapes of JSON, and no reasoning, which belongs to its model alone.
func Text(p *turns.Part) string {
	switch p.Type {
	case turns.Text:
		return summary.PartText(p)
	case turns.ToolCall:
		if p.Ref != nil && len(p.Arguments) == 0 {
			return p.Name + "\n" + p.Ref.Preview
		}
		return p.Name + "\n" + facts.ValuesText(p.Arguments)
	case turns.ToolCallResponse:
		if text, ok := p.Response.Text(); ok || p.Ref != nil || p.Response.Kind() == '[' {
			if p.Ref == nil && ok {
				return text
			}
			return summary.ResultText(p)
		}
		return facts.ValuesText(p.Response)
	}
	return ""
}

// plainWords calls found for each word of a text in lower case: a run of letters and
// digits of at least three characters, or a character of a script without spaces.
func plainWords(text string, found func(string)) {
	from := -1
	chars := 0
	end := func(i int) {
		if from >= 0 && chars >= 3 {
			found(strings.ToLower(text[from:i]))
		}
		from, chars = -1, 0
	}
	for i, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai):
			end(i)
			found(string(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if from < 0 {
				from = i
			}
			chars++
		default:
			end(i)
		}
	}
	end(len(text))
}

// oneLine returns s in one line of at most n characters.
func oneLine(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
