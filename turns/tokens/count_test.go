package tokens

import (
	"strings"
	"testing"
)

func TestClipEndsWithWholeRuneAndMark(t *testing.T) {
	long := strings.Repeat("aé", 400)
	for _, n := range []uint64{0, 1, 2, 3, 10, 100, 200} {
		got := Approx{}.Clip(long, n)
		if got == "" && n < 4 {
			continue
		}
		rest, marked := strings.CutSuffix(got, " [cut]")
		if !marked || !strings.HasPrefix(long, rest) || strings.ToValidUTF8(got, "?") != got {
			t.Errorf("Clip to %d tokens = %q", n, got)
		}
		if have := (Approx{}).Text(got); have > n {
			t.Errorf("Clip to %d tokens has %d", n, have)
		}
	}
	if got := (Approx{}).Clip("short", 10); got != "short" {
		t.Errorf("Clip of a text that fits = %q", got)
	}
}

func TestSubNeverWraps(t *testing.T) {
	if got := Sub(3, 5); got != 0 {
		t.Errorf("Sub(3, 5) = %d", got)
	}
	if got := Sub(5, 3); got != 2 {
		t.Errorf("Sub(5, 3) = %d", got)
	}
}
