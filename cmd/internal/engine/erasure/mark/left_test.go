package mark

import "testing"

func TestFitsTakesAnythingForAMarkerAlone(t *testing.T) {
	for _, x := range []struct {
		was, now string
		want     bool
	}{
		{"abc", "abc", true}, {"abc", "abd", false}, {"a word b", "a [redacted] b", true}, {"a word c", "a [redacted] b", false},
		{"x a y a z", "x [redacted] y [redacted] z", true}, {"x a y", "x [redacted] y [redacted] z", false}, {"anything", "[redacted]", true},
		{"b", "a[redacted]", false}, {"ab", "ab[redacted]b", false}, {"", "", true},
	} {
		if got := fits(x.was, x.now); got != x.want {
			t.Errorf("%q, %q: %v", x.was, x.now, got)
		}
	}
}
