package facts

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// Words splits as strings.FieldsFunc does at what its comment says, in any text, one that is no UTF-8 too. The
// dot of a hidden folder stays.
func TestWordsSplitAsFieldsDo(t *testing.T) {
	pieces := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"→", " ", "\n", "\u00a0", "\u0085", "\xff", "\xe2\x86", ".", ":-", "a.b", "x", "é", "/", "(", "\\", "!", "+1"}), rapid.String()))
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(pieces.Draw(t, "pieces"), "")
		want := strings.FieldsFunc(s, func(r rune) bool {
			return unicode.IsSpace(r) || strings.ContainsRune("\"'`,;()[]{}<>=|*&!?\\→", r)
		})
		for i, w := range want {
			for w != "" && strings.Contains(".:-+", w[:1]) && !isHiddenPath(w) {
				w = w[1:]
			}
			want[i] = strings.TrimRight(w, ".:-+")
		}
		if got := Words(s); !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", s, got, want)
		}
	})
}
