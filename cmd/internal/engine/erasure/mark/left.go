package mark

import (
	"bytes"
	"strings"

	"nexus/turns"
)

// IsIn reports whether something was taken out of a part.
func IsIn(p *turns.Part) bool {
	return bytes.Contains(p.ContentBytes(), []byte(Marker)) || isWhole(p)
}

// isWhole reports whether a part says nothing but what [Part] left there.
func isWhole(p *turns.Part) bool {
	left := *p
	Part(&left)
	return bytes.Equal(left.ContentBytes(), p.ContentBytes())
}

// IsLeftOf reports whether a part is what is left of another one: anything may have stood in the
// place of each marker.
func IsLeftOf(p, before *turns.Part) bool {
	if p.Type == turns.Text && p.Content == Marker { // of a picture, as agents write it
		return true
	}
	return p.Type == before.Type && p.ID == before.ID && p.Name == before.Name && (isWhole(p) || fits(string(before.ContentBytes()), string(p.ContentBytes())))
}

// fits reports whether a text with markers is another one with anything in the place of each.
func fits(before, left string) bool {
	pieces := strings.Split(left, Marker)
	if len(pieces) == 1 {
		return before == left
	}
	rest, ok := strings.CutPrefix(before, pieces[0])
	if !ok {
		return false
	}
	last := len(pieces) - 1
	for _, p := range pieces[1:last] {
		if _, rest, ok = strings.Cut(rest, p); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, pieces[last])
}
