package engine_test

import (
	"slices"
	"testing"

	"nexus/cmd/internal/engine/memories"
	"nexus/ledger/api"
	"nexus/turns"
)

// A memory of hidden sessions alone is recalled by nobody who does not ask for it. One without a
// source, or that a session which is seen states too, stays; and so does what a recipe names.
func TestMemoriesOfHiddenSessionsAreRecalledOnlyWhenAsked(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	gone, seen := create(t, e, 8000, "nexus"), create(t, e, 8000, "nexus")
	add(t, e, gone.ID, say("1", "a"))
	add(t, e, seen.ID, say("2", "b"))
	only := save(t, e, api.SaveMemory{Text: "The needle is red.", Session: gone.ID})
	save(t, e, api.SaveMemory{Text: "The needle is long.", Session: gone.ID})
	save(t, e, api.SaveMemory{Text: "The needle is long.", Session: seen.ID}) // said again
	save(t, e, api.SaveMemory{Text: "The needle is sharp.", Visibility: "all"})
	hide(t, e, gone.ID, true)

	all, left := []string{"The needle is long.", "The needle is red.", "The needle is sharp."}, []string{"The needle is long.", "The needle is sharp."}
	hits := func(hs []api.MemoryHit) (out []string) {
		for _, h := range hs {
			out = append(out, h.Text)
		}
		return sorted(out)
	}
	founds := func(q api.Search) (out []string) {
		for _, h := range find(t, w, e, alice, q).Hits {
			out = append(out, h.Snippet)
		}
		return sorted(out)
	}
	for name, tc := range map[string]struct{ got, want []string }{
		"list":                      {sorted(texts(list(t, e, alice, api.ListMemories{}))), left},
		"list hidden":               {sorted(texts(list(t, e, alice, api.ListMemories{Hidden: true}))), all},
		"search":                    {hits(must(e.Memories.Search(t.Context(), alice, api.SearchMemories{Text: "needle"}))(t).Hits), left},
		"search hidden":             {hits(must(e.Memories.Search(t.Context(), alice, api.SearchMemories{Text: "needle", Hidden: true}))(t).Hits), all},
		"by words":                  {hits(recall(t, e, seen.ID, memories.RecallQuery{Text: "needle", Limit: 9}).Hits), left},
		"newest facts":              {hits(recall(t, e, seen.ID, memories.RecallQuery{Facts: 9}).Hits), left},
		"in itself":                 {hits(recall(t, e, gone.ID, memories.RecallQuery{Facts: 9}).Hits), all},
		"by a recipe":               {hits(recall(t, e, seen.ID, memories.RecallQuery{IDs: []turns.ID{only.ID}}).Hits), []string{"The needle is red."}},
		"all that is stored":        {founds(api.Search{Text: "needle"}), left},
		"all that is stored hidden": {founds(api.Search{Text: "needle", Hidden: true}), all},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: %q, want %q", name, tc.got, tc.want)
		}
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
