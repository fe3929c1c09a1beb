package compactor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"nexus/turns"
	"nexus/turns/tokens"
)

// partAt is a part of a path: the index of its half, of its message there, and its own.
type partAt struct{ half, message, part int }

func (a partAt) compare(b partAt) int {
	return cmp.Or(cmp.Compare(a.half, b.half), cmp.Compare(a.message, b.message), cmp.Compare(a.part, b.part))
}

// target is a message, or one result of a tool, that may be shortened.
type target struct {
	at    partAt   // its first part
	parts []partAt // what is shortened in it
	chars uint64   // UTF-16 units
	size  uint64   // tokens
}

// shorten is a choice of parts of p to show shortened, beside those that are
// already: enough, by what the policy expects, to take excess tokens off. Each
// comes with what is shown for it.
func (p Path) shorten(e Elide, excess uint64) map[partAt]turns.ElidedPart {
	shown := p.elidedAt()
	chosen := make(map[partAt]turns.ElidedPart)
	saved := uint64(0)
	add := func(at partAt, part turns.ElidedPart) (tokens uint64) {
		e := turns.Elision{Message: uint64(at.message), Part: uint64(at.part)}
		if tokens = saving(p.counter(), &p.Halves[at.half], e, &part); tokens > 0 {
			chosen[at] = part
		}
		return tokens
	}
	if e.ImageMark != "" {
		for _, at := range p.imageResults(shown) {
			q := p.part(at)
			text := resultWithoutImages(q)
			if !strings.HasPrefix(text, e.ImageMark) {
				text = strings.TrimSuffix(e.ImageMark+"\n"+text, "\n")
			}
			saved += add(at, elidedTo(q, string(Elided), text))
		}
	}
	for _, pass := range p.targets(e, shown) {
		for _, t := range pass {
			if saved >= excess {
				return chosen
			}
			for _, at := range t.parts {
				add(at, e.shortened(p.part(at), chosen[at]))
			}
			saved += t.size - tokens.Share(t.size, e.Retain)
		}
	}
	return chosen
}

func (p Path) part(at partAt) *turns.Part {
	return &p.Halves[at.half].Messages[at.message].Parts[at.part]
}

// elidedAt is where elisions are in force.
func (p Path) elidedAt() map[partAt]bool {
	if p.InForce == nil || len(p.InForce.Span.Elisions) == 0 {
		return nil
	}
	halves := p.index()
	out := make(map[partAt]bool, len(p.InForce.Span.Elisions))
	for _, e := range p.InForce.Span.Elisions {
		if i, ok := halves[halfKey{e.Turn, e.Half}]; ok {
			out[partAt{i, int(e.Message), int(e.Part)}] = true
		}
	}
	return out
}

// imageResults are the results of tools that hold images, not yet shortened.
func (p Path) imageResults(shown map[partAt]bool) (out []partAt) {
	p.eachPart(func(at partAt, m *turns.Message, q *turns.Part) {
		if q.Type == turns.ToolCallResponse && !shown[at] && q.Response.Kind() == '[' && resultWithoutImages(q) != resultText(q) {
			out = append(out, at)
		}
	})
	return out
}

func (p Path) eachPart(f func(at partAt, m *turns.Message, q *turns.Part)) {
	for i := range p.Halves {
		for j := range p.Halves[i].Messages {
			m := &p.Halves[i].Messages[j]
			for k := range m.Parts {
				f(partAt{i, j, k}, m, &m.Parts[k])
			}
		}
	}
}

// targets are what may be shortened, pass by pass, each in the order of choice.
func (p Path) targets(e Elide, shown map[partAt]bool) [3][]target {
	var tools, assistants, users []target
	first := true
	for i := range p.Halves {
		h := &p.Halves[i]
		for j := range h.Messages {
			m := &h.Messages[j]
			t := target{at: partAt{i, j, 0}}
			for k := range m.Parts {
				q, at := &m.Parts[k], partAt{i, j, k}
				n, size := tokens.UTF16Len(partText(q)), p.counter().Part(q)
				if shown[at] {
					n = 0
				}
				switch {
				case q.Type == turns.ToolCallResponse:
					one := target{at: at, parts: []partAt{at}, chars: n, size: size}
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
			case isAssistant(h, j):
				assistants = append(assistants, t)
			case m.Role == turns.User && !isResult(m):
				if first && (p.InForce == nil || len(p.InForce.Body.Replacement) == 0) {
					t.parts = nil // the task that the user began with
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

// partText is the text of a part that counts for its length.
func partText(p *turns.Part) string {
	switch p.Type {
	case turns.ToolCallResponse:
		return resultText(p)
	case turns.Text, turns.Reasoning:
		if p.Ref != nil {
			return p.Ref.Preview
		}
		return p.Content
	}
	return ""
}

// shortened is what is shown for p: its two ends, or, of reasoning, nothing.
// have is what is shown for it already in this pass: its text without images.
func (e Elide) shortened(p *turns.Part, have turns.ElidedPart) turns.ElidedPart {
	if p.Type == turns.Reasoning {
		return elidedTo(p, string(Cleared), "")
	}
	text := partText(p)
	if have.Method != "" {
		text = have.Show
	}
	return elidedTo(p, string(Trimmed), e.ends(text))
}

// ends is the two ends of s and the mark between them; s where that is no shorter.
func (e Elide) ends(s string) string {
	n := tokens.UTF16Len(s)
	head := min(tokens.Share(n, e.HeadRatio), orMax(e.HeadCap))
	tail := min(tokens.Share(n, e.TailRatio), orMax(e.TailCap))
	a, b := headUnits(s, head), tailUnits(s, tail)
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
		return maxTokens
	}
	return n
}

func elidedTo(p *turns.Part, method, show string) turns.ElidedPart {
	return turns.ElidedPart{
		Method: method, Show: show,
		Before: uint64(utf8.RuneCountInString(partText(p))), After: uint64(utf8.RuneCountInString(show)),
	}
}

// resultWithoutImages is the text of a result, and nothing for its other parts.
func resultWithoutImages(p *turns.Part) string {
	parts, ok := resultParts(p)
	if !ok {
		return resultText(p)
	}
	var out []string
	for i := range parts {
		if parts[i].Type == turns.Text {
			out = append(out, parts[i].Content)
		}
	}
	return strings.Join(out, "\n")
}

// resultParts is a response that is a list of parts.
func resultParts(p *turns.Part) ([]turns.Part, bool) {
	if p.Response.Kind() != '[' {
		return nil, false
	}
	var parts []turns.Part
	if err := turns.DecodeJSON(p.Response, &parts); err != nil {
		return nil, false
	}
	return parts, true
}

// headUnits is the beginning of s of at most n UTF-16 units, whole characters.
func headUnits(s string, n uint64) string {
	for i, r := range s {
		w := uint64(max(1, utf16.RuneLen(r)))
		if w > n {
			return s[:i]
		}
		n -= w
	}
	return s
}

// tailUnits is the end of s of at most n UTF-16 units, whole characters.
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

// grouped is n with commas, as in 45,000.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// elisions is all that is in force after the plan shortens chosen, in path
// order: what was shortened before stays as it was shown. From is the index of
// the first half that is kept.
func (p Path) elisions(from int, chosen map[partAt]turns.ElidedPart) ([]turns.Elision, []turns.ElidedPart) {
	all := make(map[partAt]turns.ElidedPart, len(chosen))
	if f := p.InForce; f != nil && len(f.Span.Elisions) > 0 && len(f.Span.Elisions) == len(f.Body.Elided) {
		halves := p.index()
		for i, e := range f.Span.Elisions {
			if k, ok := halves[halfKey{e.Turn, e.Half}]; ok {
				all[partAt{k, int(e.Message), int(e.Part)}] = f.Body.Elided[i]
			}
		}
	}
	for at, part := range chosen {
		all[at] = part
	}
	places := make([]partAt, 0, len(all))
	for at := range all {
		if at.half >= from {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, partAt.compare)
	var elisions []turns.Elision
	var parts []turns.ElidedPart
	for _, at := range places {
		h := &p.Halves[at.half]
		elisions = append(elisions, turns.Elision{Turn: h.Ref, Half: h.Half, Message: uint64(at.message), Part: uint64(at.part)})
		parts = append(parts, all[at])
	}
	return elisions, parts
}

// pruned is the view v of halves that are shown: results behind the newest
// assistant messages, shortened or cleared. Lengths are in code points.
func (v Prune) pruned(halves []shownHalf) {
	seen := uint64(0) // assistant messages behind
	for i := len(halves) - 1; i >= 0; i-- {
		h := &halves[i]
		copied := false
		for j := len(h.Messages) - 1; j >= 0; j-- {
			if isAssistant(&h.HalfTurn, j) {
				seen++
				continue
			}
			if seen < v.KeepAssistants {
				continue
			}
			for k := range h.Messages[j].Parts {
				q := h.Messages[j].Parts[k]
				if q.Type != turns.ToolCallResponse {
					continue
				}
				show, status := v.result(&q, seen)
				if status == "" {
					continue
				}
				if !copied {
					h.Messages, copied = slices.Clone(h.Messages), true
				}
				parts := slices.Clone(h.Messages[j].Parts)
				parts[k] = show
				h.Messages[j].Parts = parts
				if h.source.Status == Verbatim {
					h.source.Status = ""
				}
				h.source.Status = mixStatus(h.source.Status, status)
				h.source.Why = fmt.Sprintf("a tool result behind %d assistant messages", seen)
			}
		}
	}
}

// result is what the view shows for a tool result behind so many assistant
// messages; no status: as it is.
func (v Prune) result(p *turns.Part, behind uint64) (turns.Part, Status) {
	clears := v.ClearAfter > 0 && behind >= v.ClearAfter
	text := func(s string) (string, Status) {
		switch n := uint64(utf8.RuneCountInString(s)); {
		case clears && n > uint64(utf8.RuneCountInString(v.ClearMark)):
			return v.ClearMark, Cleared
		case !clears && n > max(v.SoftTrimChars, v.HeadChars+v.TailChars+uint64(utf8.RuneCountInString(v.TrimMark))):
			return headRunes(s, v.HeadChars) + v.TrimMark + tailRunes(s, v.TailChars), Trimmed
		}
		return s, ""
	}
	if parts, ok := resultParts(p); ok && slices.ContainsFunc(parts, func(q turns.Part) bool { return q.Type != turns.Text }) {
		var status Status
		for i := range parts {
			if parts[i].Type == turns.Text {
				s, did := text(parts[i].Content)
				if did != "" {
					parts[i].Content, status = s, did
				}
			}
		}
		if status == "" {
			return *p, ""
		}
		b, err := turns.EncodeJSON(parts)
		if err != nil {
			return *p, ""
		}
		out := *p
		out.Response = b
		return out, status
	}
	s, did := text(resultText(p))
	if did == "" {
		return *p, ""
	}
	return turns.Part{Type: p.Type, ID: p.ID, Name: p.Name, IsError: p.IsError, Response: turns.RawText(strings.ToValidUTF8(s, "\uFFFD"))}, did
}

func headRunes(s string, n uint64) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func tailRunes(s string, n uint64) string {
	i := len(s)
	for ; i > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}
