package search

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// lookedFor is invented turns: long ones that hold the words of the queries far apart, as tool
// outputs and plans do, and short ones that somebody looks for. The text of each wanted turn
// is a key of its queries.
func lookedFor() (src *fakeSource, wanted map[string][]string, ids map[string]string) {
	wanted = map[string][]string{
		"Use a lock file instead.":                                {"lock file"},
		"We keep one retry budget for each tenant.":               {"retry budget"},
		"func isAncestorOf(a, b Node) bool { return walk(a, b) }": {"isAncestorOf", "func isAncestorOf"},
		"The dead letter queue is read once a day.":               {"dead letter queue", "letter queue"},
		"set max_pack_bytes to 4096 for small hosts":              {"max_pack_bytes"},
		"Please rename the feature flag to slow_start.":           {"feature flag", "slow_start"},
		"The connection pool leaks where the query is cancelled":  {"connection pool"},
		"parseHTTPHeader drops the last byte":                     {"parseHTTPHeader"},
		"the build cache is keyed by the lock hash":               {"build cache"},
		"Never write to the audit table from a worker.":           {"audit table"},
	}
	words := strings.Fields("lock file retry budget is ancestor of dead letter queue max pack bytes feature flag slow start connection pool parse http header build cache audit table " +
		"the a to and in func return error value open read write test path name node tree list map key step plan call result")
	rng := rand.New(rand.NewPCG(7, 7))
	src, ids = newSource(), make(map[string]string)
	long := func(n int) string {
		text := make([]string, n)
		for i := range text {
			text[i] = words[rng.IntN(len(words))]
			if i > 0 && rng.IntN(3) > 0 { // most words in a row are of no query
				text[i] = fmt.Sprintf("w%d", rng.IntN(900))
			}
		}
		return strings.Join(text, " ")
	}
	texts := make([]string, 0, len(wanted))
	for text := range wanted {
		texts = append(texts, text)
	}
	at := 0
	for i := range 400 {
		d := turnOf("s", long(40+rng.IntN(1200)))
		if i%3 == 0 {
			d.Output = []string{long(2000)}
		}
		src.add(d)
		if i%37 == 5 && at < len(texts) {
			ids[texts[at]] = DocumentID(src.add(turnOf("s", texts[at])), 0)
			at++
		}
	}
	for _, prose := range []string{"it is ancestor of nothing, as the last walk says", "she parses the http of a header", "the slow one is at the start", "pack no more bytes than the max"} {
		src.add(turnOf("s", prose))
	}
	return src, wanted, ids
}

// Words side by side and whole identifiers count for more. The figures are of the corpus
// above: mean reciprocal rank, and how many of the wanted turns come first, by the words
// alone and with the extras.
func TestWordsInARowAndIdentifiersCountForMore(t *testing.T) {
	src, wanted, ids := lookedFor()
	x, _ := open(t, t.TempDir(), src, 100)
	var mrr, base float64
	n, first := 0, 0
	for text, queries := range wanted {
		for _, query := range queries {
			q, err := Parse(query)
			if err != nil {
				t.Fatal(err)
			}
			r, err := x.Search(t.Context(), q, Filter{Tenant: "default"})
			if err != nil {
				t.Fatal(err)
			}
			place, before := 0, 1
			var score float64
			for i, h := range r.Hits {
				if h.ID == ids[text] {
					place, score = i+1, h.Base
				}
			}
			for _, h := range r.Hits {
				if h.Base > score {
					before++
				}
			}
			if place == 0 {
				t.Errorf("%s: it is not found", query)
				continue
			}
			if n++; place == 1 {
				first++
			}
			mrr, base = mrr+1/float64(place), base+1/float64(before)
			t.Logf("%-20s place %d, by the words alone %d of %d", query, place, before, len(r.Hits))
			if place > 3 {
				t.Errorf("%s: place %d", query, place)
			}
		}
	}
	mrr, base = mrr/float64(n), base/float64(n)
	t.Logf("mean reciprocal rank %.2f, by the words alone %.2f; %d of %d come first", mrr, base, first, n)
	if mrr < 0.9 || mrr < base {
		t.Errorf("mean reciprocal rank %.2f, by the words alone %.2f", mrr, base)
	}
}

func TestExtrasOfTexts(t *testing.T) {
	for _, c := range []struct {
		query, text string
		want        string
	}{
		{"lock file", "use a lock file", "[true]"},
		{"lock file", "a lockFile, a lock_file", "[true]"},
		{"lock file", "lock the file", "[false]"},
		{"the lock file", "the lock", "[false]"},
		{"isAncestorOf x", "isAncestorOf", "[true false]"},
		{"isAncestorOf", "is ancestor of", "[false]"},
		{`"lock file" x`, "lock file x", "[]"},
		{"lock fil*", "lock file", "[]"},
		{"the of", "the of", "[true]"},
	} {
		q, err := Parse(c.query)
		if err != nil {
			t.Fatal(err)
		}
		m := q.Matches()
		if q.Find(c.text, m); fmt.Sprint(m.extras) != c.want {
			t.Errorf("%s in %q: %v, want %s", c.query, c.text, m.extras, c.want)
		}
	}
}
