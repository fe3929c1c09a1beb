package policy

import (
	"errors"
	"slices"
	"testing"

	"nexus/turns"
)

// Parse gives the policy of its name and version whose settings these are, and names
// each fault below /settings.
func TestParse(t *testing.T) {
	nexus, _ := Builtin("nexus")
	p, err := Parse("mine", 3, nexus.Bytes())
	must(t, err)
	want := nexus
	want.Name, want.Version = "mine", 3
	if p.Digest() != want.Digest() {
		t.Errorf("%s, want %s", p.Bytes(), want.Bytes())
	}
	// That of docs/API.md.
	_, err = Parse("mine", 1, turns.Raw(`{"mode": "before_call", "trigger_ratio": 0.8, "target_ratio": 0.5, "keep_tokens": 4000, "summary_max_ratio": 0.1,
 "max_strikes": 2, "replacement_role": "user", "context_window": 200000}`))
	must(t, err)
	for set, fields := range map[string][]string{
		`[]`:                      {"/settings"},
		`{"keep":1}`:              {"/settings/keep"},
		`{"mode":"x","mode":"y"}`: {"/settings/mode"},
		`{"keep_tokens":"x"}`:     {"/settings/keep_tokens"},
	} {
		_, err := Parse("mine", 1, turns.Raw(set))
		if got := faultFields(err); !slices.Equal(got, fields) || !errors.Is(err, turns.ErrMalformed) {
			t.Errorf("%s: faults at %v, want %v (%v)", set, got, fields, err)
		}
	}
	_, err = Parse("mine", 1, turns.Raw(`{}`))
	if got := faultFields(err); !slices.Contains(got, "/settings/mode") || !slices.Contains(got, "/settings/context_window") {
		t.Errorf("faults at %v", got)
	}
}
