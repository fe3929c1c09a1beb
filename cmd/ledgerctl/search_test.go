package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"nexus/cmd/ledgerctl/internal/searchview"
	"nexus/cmd/ledgerctl/internal/terminal"
	"nexus/ledger/api"
)

// pagesOf answers a search with one page after the other.
func pagesOf(t *testing.T, pages ...api.SearchHits) func(context.Context, api.Search) (*api.SearchHits, error) {
	asked := 0
	return func(_ context.Context, r api.Search) (*api.SearchHits, error) {
		if asked == len(pages) || asked > 0 && r.After != pages[asked-1].Next {
			t.Fatalf("page %d is asked for after %q", asked, r.After)
		}
		asked++
		return &pages[asked-1], nil
	}
}

// A page without a hit that names a next one is no end.
func TestFindHitsGoesOnBehindAnEmptyPage(t *testing.T) {
	hit := func(text string, some bool) api.SearchHit { return api.SearchHit{Snippet: text, Some: some} }
	for name, x := range map[string]struct {
		all   bool
		limit int
		pages []api.SearchHits
		want  string
		more  bool
		said  string
	}{
		"up to the limit":                      {limit: 2, want: "a b", more: true, pages: []api.SearchHits{{Next: "1"}, {Hits: []api.SearchHit{hit("a", false)}, Next: "2"}, {Next: "3"}, {Hits: []api.SearchHit{hit("b", false)}, Next: "4"}}},
		"to the end":                           {limit: 2, pages: []api.SearchHits{{Next: "1"}, {Next: "2"}, {}}},
		"all":                                  {all: true, limit: 1, want: "a b", more: true, pages: []api.SearchHits{{Hits: []api.SearchHit{hit("a", false)}, Next: "1"}, {Next: "2"}, {Hits: []api.SearchHit{hit("b", false)}, Cut: true}}},
		"some of the words on a later page":    {all: true, limit: 9, want: "a", more: true, said: "nothing has all of the words", pages: []api.SearchHits{{Next: "1"}, {Hits: []api.SearchHit{hit("a", true)}, Next: "2"}}},
		"some of the words behind all of them": {all: true, limit: 9, want: "a b", pages: []api.SearchHits{{Hits: []api.SearchHit{hit("a", false)}, Next: "1"}, {Hits: []api.SearchHit{hit("b", false), hit("c", true)}, Next: "2"}}},
		"behind":                               {all: true, limit: 9, said: "the newest 7 events", pages: []api.SearchHits{{Behind: 7}}},
	} {
		var said strings.Builder
		e := newEnv(&terminal.Terminal{Out: io.Discard, Err: &said})
		hits, more, err := searchview.Find(t.Context(), e.Terminal, pagesOf(t, x.pages...), api.Search{Page: api.Page{Limit: x.limit}}, x.all)
		var got []string
		for _, h := range hits {
			got = append(got, h.Snippet)
		}
		if err != nil || strings.Join(got, " ") != x.want || more != x.more || !strings.Contains(said.String(), x.said) || (x.said == "") != (said.Len() == 0) {
			t.Errorf("%s: %q, more %v, %v, said %q", name, got, more, err, said.String())
		}
	}
}
