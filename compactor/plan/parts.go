package plan

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// target is a message, or one tool result, that may be shortened.
type target struct {
	at    view.PartAt   // its first part
	parts []view.PartAt // the parts to shorten
	chars uint64        // UTF-16 units
	size  uint64        // tokens
}

// ChooseShortened chooses parts of p to shorten, and the text to show for each. It
// chooses until the policy's expected saving reaches excess tokens. It skips parts
// that are shortened already.
func ChooseShortened(p view.Path, e policy.Elide, excess uint64) map[view.PartAt]turns.ElidedPart {
	shown := p.ElidedAt()
	chosen := make(map[view.PartAt]turns.ElidedPart)
	tools := make(map[string]string) // the names of calls, by their ids
	p.EachPart(func(_ view.PartAt, _ *turns.Message, q *turns.Part) {
		if q.Type == turns.ToolCall {
			tools[q.ID] = q.Name
		}
	})
	toolOf := func(q *turns.Part) string {
		if q.Type != turns.ToolCallResponse {
			return ""
		}
		return cmp.Or(tools[q.ID], q.Name)
	}
	saved := uint64(0)
	add := func(at view.PartAt, part turns.ElidedPart) (tokens uint64) {
		e := turns.Elision{Message: uint64(at.Message), Part: uint64(at.Part)}
		if tokens = view.Saving(p.CountedBy(), &p.Halves[at.Half], e, &part); tokens > 0 {
			part.Tool = toolOf(p.Part(at))
			chosen[at] = part
		}
		return tokens
	}
	if e.ImageMark != "" {
		for _, x := range imageResults(p, shown) {
			q := p.Part(x.at)
			text := x.text
			if !strings.HasPrefix(text, e.ImageMark) {
				text = strings.TrimSuffix(e.ImageMark+"\n"+text, "\n")
			}
			gone := uint64(0)
			for _, at := range x.beside {
				gone += add(at, view.ElidedTo(p.Part(at), string(view.Cleared), ""))
			}
			mark := view.ElidedTo(q, string(view.Elided), text)
			if saved += gone + add(x.at, mark); gone > 0 { // the mark says so, also where it is longer than the result
				mark.Tool = toolOf(q)
				chosen[x.at] = mark
			}
		}
	}
	for _, pass := range targets(p, e, shown) {
		for _, t := range pass {
			if saved >= excess {
				return chosen
			}
			for _, at := range t.parts {
				add(at, shortenedPart(e, p.Part(at), chosen[at]))
			}
			saved += t.size - tokens.Share(t.size, e.Retain)
		}
	}
	return chosen
}

// imageResult is a tool result that holds images.
type imageResult struct {
	at     view.PartAt
	text   string        // of the result, without the images
	beside []view.PartAt // images that are parts of the same message, behind the result
}

// imageResults returns the tool results that hold images, in their own content or as parts
// behind them in the message, and are not shortened yet.
func imageResults(p view.Path, shown map[view.PartAt]bool) (out []imageResult) {
	p.EachPart(func(at view.PartAt, m *turns.Message, q *turns.Part) {
		if q.Type != turns.ToolCallResponse || shown[at] {
			return
		}
		text, n := summary.WithoutImages(q)
		r := imageResult{at: at, text: text}
		for k := at.Part + 1; k < len(m.Parts) && m.Parts[k].Type != turns.ToolCallResponse; k++ {
			if b := (view.PartAt{Half: at.Half, Message: at.Message, Part: k}); summary.IsImage(&m.Parts[k]) && !shown[b] {
				r.beside = append(r.beside, b)
			}
		}
		if n > 0 || len(r.beside) > 0 {
			out = append(out, r)
		}
	})
	return out
}

// targets returns what may be shortened, one list a pass, each in the order of
// choice.
func targets(p view.Path, e policy.Elide, shown map[view.PartAt]bool) [3][]target {
	var tools, assistants, users []target
	first := true
	for i := range p.Halves {
		h := &p.Halves[i]
		for j := range h.Messages {
			m := &h.Messages[j]
			t := target{at: view.PartAt{Half: i, Message: j, Part: 0}}
			for k := range m.Parts {
				q, at := &m.Parts[k], view.PartAt{Half: i, Message: j, Part: k}
				n, size := tokens.UTF16Len(summary.PartText(q)), p.CountedBy().Part(q)
				if shown[at] {
					n = 0
				}
				switch {
				case q.Type == turns.ToolCallResponse:
					one := target{at: at, parts: []view.PartAt{at}, chars: n, size: size}
					if q.IsError || shown[at] {
						one.parts = nil
					}
					tools = append(tools, one)
				case q.Type == turns.Text, q.Type == turns.Reasoning && e.ClearReasoning:
					t.chars, t.size = t.chars+n, t.size+size
					if n >= e.MinChars && q.Type == turns.Text || n > 0 && q.Type == turns.Reasoning {
						t.parts = append(t.parts, at)
					}
				}
			}
			switch {
			case summary.IsAssistant(h, j):
				assistants = append(assistants, t)
			case m.Role == turns.User && !summary.IsResult(m):
				if first && (p.InForce == nil || len(p.InForce.Body.Replacement) == 0) {
					t.parts = nil // the user's first task stays whole
				}
				first = false
				users = append(users, t)
			}
		}
	}
	var out [3][]target
	for i, c := range []struct {
		on  bool
		all []target
	}{{e.Tools, tools}, {e.Assistants, assistants}, {e.Users, users}} {
		if !c.on {
			continue
		}
		c.all = c.all[:max(0, len(c.all)-int(min(e.ProtectRecent, uint64(len(c.all)))))]
		out[i] = slices.DeleteFunc(slices.Clone(c.all), func(t target) bool { return len(t.parts) == 0 || t.chars < e.MinChars })
	}
	slices.SortStableFunc(out[0], func(a, b target) int { return cmp.Compare(b.chars, a.chars) })
	return out
}

// shortenedPart returns how p is shown: its two ends or, for reasoning, nothing.
// have is how this pass already shows it, without images.
func shortenedPart(e policy.Elide, p *turns.Part, have turns.ElidedPart) turns.ElidedPart {
	if p.Type == turns.Reasoning {
		return view.ElidedTo(p, string(view.Cleared), "")
	}
	text := summary.PartText(p)
	if have.Method != "" {
		text = have.Show
	}
	return view.ElidedTo(p, string(view.Trimmed), TrimToEnds(e, text))
}

// TrimToEnds returns the two ends of s with the mark between them, or s if that is
// not shorter.
func TrimToEnds(e policy.Elide, s string) string {
	n := tokens.UTF16Len(s)
	head := min(tokens.Share(n, e.HeadRatio), orMax(e.HeadCap))
	tail := min(tokens.Share(n, e.TailRatio), orMax(e.TailCap))
	a, b := tokens.HeadUTF16(s, head), tailUnits(s, tail)
	mark := strings.NewReplacer("{chars}", grouped(n), "{omitted}", grouped(n-tokens.UTF16Len(a)-tokens.UTF16Len(b)),
		"{head}", grouped(tokens.UTF16Len(a)), "{tail}", grouped(tokens.UTF16Len(b))).Replace(e.Mark)
	out := a + "\n" + mark + "\n" + b
	if len(out) >= len(s) {
		return s
	}
	return out
}

func orMax(n uint64) uint64 {
	if n == 0 {
		return policy.MaxTokens
	}
	return n
}

// tailUnits returns the longest suffix of s with at most n UTF-16 units, in whole
// characters.
func tailUnits(s string, n uint64) string {
	i := len(s)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		w := uint64(max(1, utf16.RuneLen(r)))
		if w > n {
			break
		}
		n -= w
		i -= size
	}
	return s[i:]
}

// grouped returns n with commas, as in 45,000.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
