package search

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var large = flag.Int("search-turns", 0, "measure an index of so many turns")

// TestLargeIndex measures an index: its rate, its bytes, and phrase queries. It runs with
// -search-turns N.
func TestLargeIndex(t *testing.T) {
	if *large == 0 {
		t.Skip("-search-turns N")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 4, 50_000)
	src, text := newSource(), 0
	for i := range *large {
		var b strings.Builder
		for range 100 {
			fmt.Fprintf(&b, "word%d ", zipf.Uint64())
		}
		text += b.Len()
		src.add(turnOf(fmt.Sprintf("s%d", i%200), b.String()))
	}
	dir, begin := t.TempDir(), time.Now()
	x, _ := open(t, dir, src, 0)
	took := time.Since(begin)
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a merge removed it
		}
		if info, err := d.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Duration
	for range 200 {
		q := fmt.Sprintf(`"word%d word%d"`, zipf.Uint64(), zipf.Uint64())
		at := time.Now()
		search(t, x, q, Filter{Agent: "alice"})
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	t.Logf("%d turns, %d bytes of text: %.0f turns/s, %.2f bytes of index a byte of text, phrase p50 %v, p99 %v", *large, text, float64(*large)/took.Seconds(), float64(size)/float64(text), times[100], times[198])
}
