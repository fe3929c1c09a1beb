package acts

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"nexus/cmd/internal/explorer/views"
	"nexus/cmd/internal/explorer/visit"
	"nexus/ledger/api"
	"nexus/turns"
)

// marker stands in the place of what was taken out.
const marker = "[redacted]"

// maxSpans is how many places of a text one form takes out of a part.
const maxSpans = 1000

// spans returns where the text of the form stands in the part that it names. A form that is sure names the part as its preview
// read it, since spans count in what the part has now: of another part it would take out other bytes. Gone says that the part has
// nothing of the text any more, as when a form is sent twice.
func (p *takeOutPage) spans(v *visit.Visit, t *api.Turn, preview bool) (out []api.RedactSpan, err error) {
	switch {
	case p.Text == "":
		return nil, api.Errorf(api.Malformed, nil, "the form has no text")
	case strings.Contains(marker, p.Text):
		return nil, api.Errorf(api.Malformed, nil, "the marker %s has the text: a longer one can be taken out", marker)
	}
	if p.Chosen, err = numbers(v.R.PostForm["part"]); err != nil {
		return nil, err
	}
	if len(p.Chosen) > 1 {
		return nil, api.Errorf(api.Malformed, nil, "the form names %d parts: a text is taken out of one", len(p.Chosen))
	}
	part, content, err := contentOf(v, t, p.Chosen[0])
	if err != nil {
		return nil, err
	}
	places := placesOf(part, content, p.Text)
	sum := sha256.Sum256(content)
	p.As = hex.EncodeToString(sum[:])
	switch {
	case len(places) == 0:
		p.Gone = true
		return nil, nil
	case len(places) > maxSpans:
		return nil, api.Errorf(api.Malformed, nil, "the text stands in %d places of the part: at most %d are taken out by one form; take out the part", len(places), maxSpans)
	case !preview && v.R.PostForm.Get("as") != p.As:
		return nil, api.Errorf(api.Conflict, nil, "part %d is not as the preview read it: look at it again", p.Chosen[0])
	}
	for _, at := range places {
		out = append(out, api.RedactSpan{Part: p.Chosen[0], From: at[0], To: at[1], Digest: p.As})
	}
	return out, nil
}

// contentOf returns the part of a turn that has a number, and its content.
func contentOf(v *visit.Visit, t *api.Turn, number int) (*turns.Part, []byte, error) {
	n := 0
	for _, p := range eachPart(t) {
		if n++; n < number {
			continue
		}
		switch {
		case p.Ref == nil:
			return p, p.ContentBytes(), nil
		case p.InPieces() || p.Ref.Size > views.MaxContent:
			return nil, nil, api.Errorf(api.TooLarge, nil, "part %d is too large to look for a text in it here: take out the part, or the text wherever the session has it", number)
		}
		content, err := v.C.Content(v.R.Context(), t.Session, p.Ref)
		return p, content, err
	}
	return nil, nil, api.Errorf(api.Malformed, nil, "the turn has no part %d: it has %d, numbered from 1", number, n)
}

// placesOf returns where a text stands in the content of a part, as bytes [from, to), in order and without overlaps. In the JSON of
// a call or a result it is looked for in each string, however its characters are escaped there.
func placesOf(p *turns.Part, content []byte, text string) (out [][2]int) {
	if p.Type != turns.ToolCall && p.Type != turns.ToolCallResponse {
		return placesIn(string(content), text, func(i int) int { return i })
	}
	for i := 0; i < len(content); i++ {
		if content[i] != '"' {
			continue
		}
		value, at := unescaped(content, i+1)
		out = append(out, placesIn(value, text, func(i int) int { return int(at[i]) })...)
		i = int(at[len(value)]) // the sign that ends the string
	}
	return out
}

// placesIn returns where a text stands in a value. at is the place of each byte of that, and of its end.
func placesIn(value, text string, at func(int) int) (out [][2]int) {
	for from := 0; ; {
		i := strings.Index(value[from:], text)
		if i < 0 {
			return out
		}
		out = append(out, [2]int{at(from + i), at(from + i + len(text))})
		from += i + len(text)
	}
}

// unescaped reads the string of valid JSON whose first character is at from. at has for each byte of it where its character begins
// in the JSON, and at the end where the string does.
func unescaped(b []byte, from int) (value string, at []int32) {
	var out []byte
	i := from
	add := func(width int, r rune) {
		before := len(out)
		out = utf8.AppendRune(out, r)
		for range len(out) - before {
			at = append(at, int32(i))
		}
		i += width
	}
	for i < len(b) && b[i] != '"' {
		if b[i] != '\\' || i+1 >= len(b) {
			out, at = append(out, b[i]), append(at, int32(i))
			i++
			continue
		}
		switch c := b[i+1]; c {
		case 'u':
			r := unit(b, i)
			if second := unit(b, i+6); utf16.IsSurrogate(r) && utf16.DecodeRune(r, second) != utf8.RuneError {
				add(12, utf16.DecodeRune(r, second))
			} else {
				add(6, r)
			}
		case 'b':
			add(2, '\b')
		case 'f':
			add(2, '\f')
		case 'n':
			add(2, '\n')
		case 'r':
			add(2, '\r')
		case 't':
			add(2, '\t')
		default:
			add(2, rune(c))
		}
	}
	return string(out), append(at, int32(min(i, len(b))))
}

// unit returns the number in \uXXXX at i, [utf8.RuneError] where that is something else.
func unit(b []byte, i int) rune {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return utf8.RuneError
	}
	n, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
