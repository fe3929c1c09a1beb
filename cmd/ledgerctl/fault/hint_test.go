package fault

import (
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"sessions", "log", "show", "compact", "compare"}
	for typed, want := range map[string]string{"sesions": "sessions", "lgo": "log", "shwo": "show", "ses": "sessions", "compct": "compact", "frobnicate": "", "x": "", "": ""} {
		if got := nearest(typed, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
}
