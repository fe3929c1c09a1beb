package content

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nexus/turns"
)

func TestBoundOfAPreambleIsAboveItsEncoding(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat("a", rapid.SampledFrom([]int{0, 1, 23, 24, 255, 256, 65535, 65536}).Draw(t, "n"))
	})
	rapid.Check(t, func(t *rapid.T) {
		var p turns.Preamble
		for range rapid.IntRange(0, 30).Draw(t, "sections") {
			p.System = append(p.System, turns.Section{Name: text.Draw(t, "name"), Content: text.Draw(t, "content")})
		}
		for range rapid.IntRange(0, 300).Draw(t, "tools") {
			p.Tools = append(p.Tools, turns.Raw(`{"name":"`+text.Draw(t, "tool")+`"}`))
		}
		b, err := turns.EncodeBody(&p)
		if err != nil {
			return // too large for any body
		}
		if bound := boundOfPreamble(p); bound < len(b) || bound > len(b)+64+16*(len(p.System)+len(p.Tools)) {
			t.Errorf("a bound of %d bytes for %d", bound, len(b))
		}
	})
}
