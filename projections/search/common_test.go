package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search/query"
)

// askLibrary is [opened.ask] as the library does it: it sorts by the score and the id of each document.
func (x opened) askLibrary(ctx context.Context, what query.Query, f Filter) (ids []string, total uint64, err error) {
	q := query.NewBooleanQuery([]query.Query{what}, nil, nil)
	q.AddFilter(f.query())
	req := bleve.NewSearchRequestOptions(q, MaxHits, 0, false)
	req.SortBy([]string{"-_score", "-_id"})
	res, err := x.idx.SearchInContext(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	for _, h := range res.Hits {
		ids = append(ids, h.ID)
	}
	return ids, res.Total, nil
}

// The best documents of a word that most documents have, and of several, are those of the library: in an index of
// several segments, with many equal scores, for one agent and for all.
func TestBestDocumentsAreThoseOfTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 11))
	src := newSource()
	for i := range 6000 {
		d := turnOf(fmt.Sprintf("s%d", i%50), "thing "+strings.Repeat("thing ", rng.IntN(3))+fmt.Sprintf("w%d common", rng.IntN(4)))
		if rng.IntN(3) == 0 {
			d.Output = []string{strings.Repeat("thing other ", rng.IntN(4))}
		}
		if rng.IntN(9) == 0 {
			d.Calls = []string{"run thing", "doThing"}
		}
		if rng.IntN(40) == 0 {
			d.Said = []string{strings.Repeat("thing and more words ", 1+rng.IntN(200))}
		}
		if rng.IntN(20) == 0 {
			d.Agent = "bob"
		}
		more := []Document{d}
		if rng.IntN(10) == 0 {
			more = append(more, turnOf("m", "thing learned"), turnOf("m", "thing"))
		}
		src.add(more...)
	}
	x, _ := open(t, t.TempDir(), src, 500)
	for _, text := range []string{"thing", "things", "thin*", "common", "thing common", "w1", `"thing common"`, "other thing", "doThing", "thing zebra", "zebra"} {
		for _, f := range []Filter{{Tenant: "default"}, {Tenant: "default", Agent: "alice"}, {Tenant: "default", Agent: "bob"}, {Tenant: "none"}, {Tenant: "default", Kinds: []string{"turn"}}, {Tenant: "default", In: []Place{{Session: "s3"}, {Session: "s4"}, {Session: "m"}}}} {
			q, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range []Query{q, q.Loose()} {
				_, err = x.read(t.Context(), func(x opened, _ *Result) error {
					any, want, err := x.queries(t.Context(), q)
					if err != nil {
						return err
					}
					for _, what := range []query.Query{query.NewConjunctionQuery(any), query.NewDisjunctionQuery(any)} {
						ids, total, err := x.askLibrary(t.Context(), what, f)
						if err != nil {
							return err
						}
						hits, n, err := x.ask(t.Context(), what, want, f)
						if err != nil {
							return err
						}
						var got []string
						for _, h := range hits {
							got = append(got, h.ID)
						}
						slices.Sort(ids)
						if slices.Sort(got); n != total || !slices.Equal(got, ids) {
							t.Errorf("%q of %+v: %d of %d documents, want %d of %d; the first that differs is %d", text, f, len(got), n, len(ids), total, firstDifference(got, ids))
						}
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func firstDifference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// A ranking is over when its caller is.
func TestRankingEndsWithItsCaller(t *testing.T) {
	src := newSource()
	for range MaxHits + 1 {
		src.add(turnOf("s", "thing"))
	}
	x, _ := open(t, t.TempDir(), src, 0)
	_, err := x.read(t.Context(), func(x opened, _ *Result) error {
		q, err := Parse("thing")
		if err != nil {
			return err
		}
		all, want, err := x.queries(t.Context(), q)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := x.ask(ctx, query.NewConjunctionQuery(all), want, Filter{Tenant: "default"}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Of words that most of many documents have, the newest are found, ranked, and the others behind
// them; also where few pass the filter. A word that fewer have is looked for in all.
func TestOfCommonWordsTheNewestAreFound(t *testing.T) {
	src := newSource()
	for i := range minCommon + 2000 {
		text := "thing in a text of some words of which none is another"
		switch {
		case i == 5:
			text = "thing thing"
		case i == minCommon+1990:
			text = "thing thing thing"
		}
		if i%3 > 0 {
			text += " common"
		}
		d := turnOf(fmt.Sprintf("s%d", i%4), text)
		if i < 200 {
			d.Agent = "bob"
		}
		if i%5 == 0 {
			src.add(d, turnOf("s", "hay"))
		} else {
			src.add(d)
		}
	}
	last := uint64(len(src.docs))
	x, _ := open(t, t.TempDir(), src, 0)
	find := func(text string, f Filter) Result {
		t.Helper()
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Search(t.Context(), q, f)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := find("thing", Filter{Tenant: "default"})
	if len(r.Hits) != maxNewest || r.All != maxNewest || !r.Cut || r.Hits[0].ID != DocumentID(minCommon+1991, 0) || r.Hits[0].Score <= r.Hits[1].Score || r.Hits[maxNewest-1].Score <= 0 {
		t.Errorf("%d hits, all %d, cut %v, the first %+v", len(r.Hits), r.All, r.Cut, r.Hits[0])
	}
	got := make(map[string]bool)
	for _, h := range r.Hits {
		got[h.ID] = true
	}
	for seq := last; seq > last-maxNewest; seq-- {
		if !got[DocumentID(seq, 0)] {
			t.Fatalf("document %d of %d is missing", seq, last)
		}
	}
	if r := find("thing", Filter{Tenant: "default", Agent: "bob"}); len(r.Hits) != 200 || r.Cut || r.Hits[0].ID != DocumentID(6, 0) {
		t.Errorf("bob: %d hits, cut %v, the first %+v", len(r.Hits), r.Cut, r.Hits[:min(len(r.Hits), 1)])
	}
	if r := find("thing", Filter{Tenant: "none"}); len(r.Hits) != 0 || r.Cut {
		t.Errorf("another tenant: %d hits", len(r.Hits))
	}
	// Of two words one is not common: all documents with both are ranked.
	if r := find("thing common", Filter{Tenant: "default"}); len(r.Hits) != MaxHits || r.Hits[0].ID != DocumentID(minCommon+1991, 0) || r.Hits[1].ID != DocumentID(6, 0) {
		t.Errorf("two words: %d hits, the first %+v", len(r.Hits), r.Hits[:2])
	}
}

// BenchmarkWordOfMany searches for a word that each of 20,000 turns has, and for one that every third has.
func BenchmarkWordOfMany(b *testing.B) {
	src := newSource()
	for i := range 20_000 {
		text := fmt.Sprintf("Where is thing %d? Answer %d: it is in **file-%d.go**, below `func main`.", i, i, i)
		if i%3 == 0 {
			text += " Third."
		}
		src.add(turnOf("s", text))
	}
	x, _ := open(b, b.TempDir(), src, 0)
	for _, word := range []string{"thing", "third"} {
		b.Run(word, func(b *testing.B) {
			q, err := Parse(word)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			used := processor()
			for b.Loop() {
				if r, err := x.Search(b.Context(), q, Filter{Tenant: "default"}); err != nil || len(r.Hits) < maxNewest {
					b.Fatal(len(r.Hits), err)
				}
			}
			b.ReportMetric(float64((processor()-used).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
		})
	}
}
