package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"nexus/ledger/api"
)

// apart returns a text of n words with both words of a phrase, but not in a row. Of such
// texts of 100 words, one in eleven has the hash of the pair by chance.
func apart(rng *rand.Rand, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("w%x", rng.IntN(5000))
	}
	i := rng.IntN(n / 2)
	words[i], words[i+2+rng.IntN(n/2-2)] = "left", "right"
	return strings.Join(words, " ")
}

// A phrase that one of 20,000 turns with its words has is found, though this is the oldest
// and the longest of them, and though the index takes more of them for it than a reply may
// have hits.
func TestAPhraseIsFoundBehindAllThatLookLikeIt(t *testing.T) {
	w := newWorld()
	e, _ := w.SearchEngine(t, t.TempDir())
	s := create(t, e, 0, "nexus").ID
	rng := rand.New(rand.NewPCG(1, 2))
	want := add(t, e, s, say("turn left right there "+strings.Repeat("filler ", 400), "yes")).ID
	for range 20_000 {
		add(t, e, s, say(apart(rng, 100), ""))
	}
	find(t, w, e, alice, seek("filler")) // the index has all
	for name, text := range map[string]int{"one page": 8 << 20, "many pages": 100_000} {
		e.Search.PageText = text
		read := e.Reader.Projections.EventBytes()
		r, pages := seek(`"left right"`), 0
		var hits []api.SearchHit
		for more := true; more; more = r.After != "" {
			got := find(t, w, e, alice, r)
			if got.Cut {
				t.Errorf("%s: a reply says that hits are missing", name)
			}
			pages++
			hits = append(hits, got.Hits...)
			r.After = got.Next
		}
		if len(hits) != 1 || hits[0].Turn != want || (pages == 1) != (name == "one page") {
			t.Errorf("%s: %d hits on %d pages: %+v", name, len(hits), pages, hits)
		}
		if n := e.Reader.Projections.EventBytes() - read; n < 500_000 || n > 4_000_000 { // of 14 MB; about one turn in eleven is a candidate
			t.Errorf("%s: %d bytes of events are read for the candidates", name, n)
		}
	}
}
