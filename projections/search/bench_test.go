package search

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/mapping"
)

var (
	large      = flag.Int("search-turns", 0, "measure an index of so many turns")
	largeWords = flag.Int("search-words", 100, "with -search-turns: so many words each")
	compare    = flag.String("search-compare", "", "with -search-turns: compare it with grep, library or both")
)

// TestLargeIndex measures an index: the processor time of making it, its bytes, and phrase
// queries. It runs with -search-turns N. With -search-compare grep,library it measures the
// same phrases with grep -F over the texts in a file of JSON lines that was just read, and the
// same documents in an index of the library with its own text field.
func TestLargeIndex(t *testing.T) {
	if *large == 0 {
		t.Skip("-search-turns N")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.1, 4, 50_000)
	src, text := newSource(), 0
	for i := range *large {
		var b strings.Builder
		for range *largeWords {
			fmt.Fprintf(&b, "word%d ", zipf.Uint64())
		}
		text += b.Len()
		src.add(turnOf(fmt.Sprintf("s%d", i%200), b.String()))
	}
	measureIndex(t, fmt.Sprintf("%d turns of %d words", *large, *largeWords), src, text, func() string { // words that stand in a turn
		words := strings.Fields(src.docs[rng.IntN(len(src.docs))][0].Said[0])
		i := rng.IntN(len(words) - 1)
		return words[i] + " " + words[i+1]
	})
	if *compare != "" {
		return
	}

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
	measureIndex(t, fmt.Sprintf("%d pieces of this repository", len(src.docs)), src, text, func() string { return pairs[rng.IntN(len(pairs))] })
}

func measureIndex(t *testing.T, what string, src *fakeSource, text int, query func() string) {
	t.Helper()
	dir, begin, used := t.TempDir(), time.Now(), processor()
	x, stop := open(t, dir, src, 0)
	made, took := processor()-used, time.Since(begin)
	phrases := make([]string, 200)
	for i := range phrases {
		phrases[i] = query()
	}
	var times, works, greps []time.Duration
	jsonl := ""
	if strings.Contains(*compare, "grep") {
		jsonl = writeJSONL(t, src)
	}
	for i, phrase := range phrases {
		q, err := Parse(`"` + phrase + `"`)
		if err != nil {
			continue
		}
		at, used := time.Now(), processor()
		r, err := x.Search(t.Context(), q, Filter{Tenant: "default", Agent: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		exact := r.confirmed(t, src, q, 20)
		times, works = append(times, time.Since(at)), append(works, processor()-used)
		if jsonl != "" && i%20 == 0 { // between the others, so that both have the same neighbours
			greps = append(greps, grep(t, phrase, jsonl, exact > 0))
		}
	}
	slices.Sort(times)
	slices.Sort(works)
	stop()
	x, stop = open(t, dir, src, 0) // it removes the files that merges replaced
	adv, err := x.idx.Advanced()
	if err != nil {
		t.Fatal(err)
	}
	segments := adv.StatsMap()["num_files_on_disk"]
	stop()
	size := bytesIn(t, dir)
	t.Logf("%s, %d bytes of text: %v of processor time, %v passed; %.2f bytes of index a byte of text in %v files; phrase p50 %v (%v of processor time), p99 %v, a page of 20 compared with the texts",
		what, text, made.Round(time.Millisecond), took.Round(time.Millisecond), float64(size)/float64(text), segments, times[len(times)/2], works[len(works)/2], times[len(times)*99/100])
	if jsonl != "" {
		slices.Sort(greps)
		t.Logf("grep -F p50 %v: %.0f times as long", greps[len(greps)/2].Round(time.Millisecond), float64(greps[len(greps)/2])/float64(times[len(times)/2]))
	}
	if strings.Contains(*compare, "library") {
		bare, bytes := bareLibrary(t, src)
		t.Logf("the library alone: %v of processor time, %.2f bytes of index a byte of text; a rebuild has %.2f times its rate", bare.Round(time.Millisecond), float64(bytes)/float64(text), float64(bare)/float64(made))
	}
}

// confirmed returns how many of the first hits have q in their texts, up to limit. A reply
// compares them as this does.
func (r Result) confirmed(t *testing.T, src *fakeSource, q Query, limit int) (n int) {
	for _, h := range r.Hits[:r.All] {
		seq, item, err := ParseDocumentID(h.ID)
		if err != nil {
			t.Fatal(err)
		}
		if q.Find(src.docs[seq-1][item].Said[0], q.Matches()).Units == q.Len() {
			if n++; n == limit {
				break
			}
		}
	}
	return n
}

// writeJSONL writes the texts of src as lines of JSON, and reads the file.
func writeJSONL(t *testing.T, src *fakeSource) string {
	name := filepath.Join(t.TempDir(), "turns.jsonl")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i, docs := range src.docs {
		fmt.Fprintf(w, "{\"turn\":%d,\"text\":%q}\n", i, docs[0].Said[0])
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	grep(t, "nothing has these", name, false)
	return name
}

// grep returns how long grep -F takes to count the lines of a file with a text.
func grep(t *testing.T, text, file string, found bool) time.Duration {
	at := time.Now()
	out, err := exec.CommandContext(t.Context(), "grep", "-c", "-F", "-e", text, file).Output()
	took := time.Since(at)
	if n := strings.TrimSpace(string(out)); n == "" || found == (n == "0") {
		t.Fatalf("grep %q: %q lines, %v; the index has it: %v", text, n, err, found)
	}
	return took
}

// bareLibrary makes an index of the documents of src as the library does by default: the
// text with its standard analyzer, and the fields that bound a search as keywords. It
// returns the processor time, and the bytes of the index.
func bareLibrary(t *testing.T, src *fakeSource) (time.Duration, int64) {
	doc := mapping.NewDocumentMapping()
	for _, name := range []string{"kind", "tenant", "agent", "session"} {
		f := mapping.NewKeywordFieldMapping()
		f.Store = false
		doc.AddFieldMappingsAt(name, f)
	}
	f := mapping.NewTextFieldMapping()
	f.Store = false
	doc.AddFieldMappingsAt("text", f)
	m := bleve.NewIndexMapping()
	m.DefaultMapping = doc
	dir, used := filepath.Join(t.TempDir(), "bare"), processor()
	idx, err := bleve.NewUsing(dir, m, scorch.Name, "scorch", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(src.docs); {
		b, bytes := idx.NewBatch(), 0
		for ; i < len(src.docs) && b.Size() < batchRecords && bytes < batchBytes; i++ {
			d := src.docs[i][0]
			if err := b.Index(d.ID, map[string]any{"kind": d.Kind, "tenant": d.Tenant, "agent": d.Agent, "session": d.Session, "text": d.Said[0]}); err != nil {
				t.Fatal(err)
			}
			bytes += d.size()
		}
		if err := idx.Batch(b); err != nil {
			t.Fatal(err)
		}
	}
	took := processor() - used
	if err := idx.Close(); err != nil {
		t.Fatal(err)
	}
	return took, bytesIn(t, dir)
}

// bytesIn returns the bytes of the files in a folder.
func bytesIn(t *testing.T, dir string) (size int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
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
	return size
}

// processor returns the processor time of the process.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
