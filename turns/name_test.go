package turns

import (
	"regexp"
	"strings"
	"testing"
)

// TestNamesAreThoseOfTheirPatterns compares the checks of names and of senders with the
// patterns that they stand for.
func TestNamesAreThoseOfTheirPatterns(t *testing.T) {
	name, sender := regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`), regexp.MustCompile(`^U[A-Z2-7]{55}$`)
	for _, s := range []string{"", "-", "a", "a-", "0", "_", "A", strings.Repeat("a", 64), strings.Repeat("a", 65), "a\n", "a\x00", "a.b", "ä", "a b",
		"U" + strings.Repeat("A", 55), "U" + strings.Repeat("A", 54), "U" + strings.Repeat("A", 56), "A" + strings.Repeat("A", 55)} {
		if got, want := ValidName(s), name.MatchString(s); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", s, got, want)
		}
		if got, want := validSender(s), sender.MatchString(s); got != want {
			t.Errorf("validSender(%q) = %v, want %v", s, got, want)
		}
	}
	for c := range 256 { // each byte, at the beginning and behind it
		for _, s := range []string{string([]byte{byte(c)}), string([]byte{'a', byte(c)})} {
			if got, want := ValidName(s), name.MatchString(s); got != want {
				t.Errorf("ValidName(%q) = %v, want %v", s, got, want)
			}
		}
		for _, at := range []int{0, 1, 55} {
			b := []byte("U" + strings.Repeat("A", 55))
			b[at] = byte(c)
			if got, want := validSender(string(b)), sender.Match(b); got != want {
				t.Errorf("validSender(%q) = %v, want %v", b, got, want)
			}
		}
	}
}
