package main

import (
	"testing"

	"nexus/ledger/api"
)

// A compaction that another system made has no policy and no tier; it was shown
// with an empty name, and twice as imported.
func TestBy(t *testing.T) {
	for _, tc := range []struct {
		k    api.Compaction
		want string
	}{
		{api.Compaction{Policy: "balanced", Tier: "extractive", Provenance: "nexus"}, "balanced, extractive"},
		{api.Compaction{Policy: "gsv", Tier: "llm", Model: "m\x1b[1m", Provenance: "nexus"}, "gsv, llm " + printable("m\x1b[1m")},
		{api.Compaction{Provenance: "imported"}, "imported"},
	} {
		if got := by(&tc.k); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
