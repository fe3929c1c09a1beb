package search

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

var large = flag.Int("search-turns", 0, "measure an index of so many turns")

// TestLargeIndex measures an index: the processor time of making it, its bytes, and phrase
// queries. It runs with -search-turns N.
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
	measureIndex(t, fmt.Sprintf("%d turns of 100 words", *large), src, text, func() string { return fmt.Sprintf(`"word%d word%d"`, zipf.Uint64(), zipf.Uint64()) })

	src, text = newSource(), 0
	var pairs []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || d.IsDir() || ext != ".go" && ext != ".md" {
			return err
		}
		b, err := os.ReadFile(path)
		for len(b) > 0 {
			n := min(len(b), 1000)
			for n < len(b) && !utf8.RuneStart(b[n]) {
				n++
			}
			src.add(turnOf(fmt.Sprintf("s%d", len(src.docs)%200), string(b[:n])))
			if f := strings.Fields(string(b[:n])); len(f) > 3 {
				pairs = append(pairs, f[1]+" "+f[2])
			}
			text, b = text+n, b[n:]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	measureIndex(t, fmt.Sprintf("%d pieces of this repository", len(src.docs)), src, text, func() string { return `"a ` + pairs[rng.IntN(len(pairs))] + `"` })
}

func measureIndex(t *testing.T, what string, src *fakeSource, text int, query func() string) {
	t.Helper()
	dir, begin, used := t.TempDir(), time.Now(), processor()
	x, stop := open(t, dir, src, 0)
	made, took := processor()-used, time.Since(begin)
	var times []time.Duration
	for range 200 {
		q, err := Parse(query())
		if err != nil {
			continue
		}
		at := time.Now()
		if _, err := x.Search(t.Context(), q, Filter{Tenant: "default", Agent: "alice"}); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(at))
	}
	slices.Sort(times)
	stop()
	x, stop = open(t, dir, src, 0) // it removes the files that merges replaced
	adv, err := x.idx.Advanced()
	if err != nil {
		t.Fatal(err)
	}
	segments := adv.StatsMap()["num_files_on_disk"]
	stop()
	var size int64
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d bytes of text: %v of processor time, %v passed; %.2f bytes of index a byte of text in %v files; phrase p50 %v, p99 %v",
		what, text, made.Round(time.Millisecond), took.Round(time.Millisecond), float64(size)/float64(text), segments, times[len(times)/2], times[len(times)*99/100])
}

// processor returns the processor time of the process.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
