package cost

import (
	"testing"

	"nexus/ledger/api"
)

func TestACompactionThatOnlyClearsResultsAskedNoModel(t *testing.T) {
	for name, tc := range map[string]struct {
		k    *api.Compaction
		want bool
	}{
		"none":                      {nil, false},
		"our own":                   {&api.Compaction{Provenance: "nexus", Covered: 4}, false},
		"a summary":                 {&api.Compaction{Provenance: "imported", Covered: 4}, true},
		"a summary, parts shorter":  {&api.Compaction{Provenance: "imported", Covered: 4, Elided: 2}, true},
		"a summary of what is gone": {&api.Compaction{Provenance: "imported"}, true},
		"results that are cleared":  {&api.Compaction{Provenance: "imported", Elisions: make([]api.Elision, 1)}, false},
	} {
		if got := asksModel(tc.k); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
