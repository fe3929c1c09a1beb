package fault

import (
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"sessions", "log", "show", "compact", "compare", "code", "help"}
	for typed, want := range map[string]string{"sesions": "sessions", "lgo": "log", "shwo": "show", "ses": "sessions", "compct": "compact", "frobnicate": "", "x": "", "": "", "nope": "", "keep": ""} {
		if got := nearest(typed, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
}
