package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nexus/ledger"
	"nexus/turns"
)

// fakeSource is a log of documents in memory. Record i has docs[i-1].
type fakeSource struct {
	mu     sync.Mutex
	docs   [][]Document
	erased map[string]bool
	log    string
	more   chan struct{}
	before func(seq uint64) error // called before each read
}

func newSource(docs ...[]Document) *fakeSource {
	return &fakeSource{docs: docs, erased: map[string]bool{}, log: "log-1", more: make(chan struct{})}
}

func (s *fakeSource) Applied() (string, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log, uint64(len(s.docs))
}

func (s *fakeSource) WaitFor(ctx context.Context, seq uint64) error {
	for {
		s.mu.Lock()
		n, more := uint64(len(s.docs)), s.more
		s.mu.Unlock()
		if n >= seq {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ledger.ErrUnavailable
		}
	}
}

func (s *fakeSource) Hash(seq uint64) (turns.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return turns.HashEvent(fmt.Append(nil, seq, s.docs[seq-1])), nil
}

func (s *fakeSource) Documents(_ context.Context, seq uint64) ([]Document, error) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(seq); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.docs[seq-1]), func(d Document) bool {
		return slices.ContainsFunc(d.Keys, func(k string) bool { return s.erased[k] })
	}), nil
}

func (s *fakeSource) Erased(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.erased[key]
}

func (s *fakeSource) add(docs ...Document) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range docs {
		docs[i].ID = DocumentID(uint64(len(s.docs)+1), uint64(i))
	}
	s.docs = append(s.docs, docs)
	close(s.more)
	s.more = make(chan struct{})
	return uint64(len(s.docs))
}

// turnOf returns a turn of tenant default and agent alice.
func turnOf(session, text string) Document {
	return Document{Kind: "turn", Tenant: "default", Agent: "alice", Session: session, Segment: session + "/1", Depth: 1, Keys: []string{session}, Said: []string{text}}
}

// start runs an index over a folder; stop ends it.
func start(t testing.TB, dir string, src Source, batch int) (x *Index, stop func()) {
	t.Helper()
	x = New(Config{Dir: dir, BatchRecords: batch, Retry: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { x.Run(ctx, src); close(done) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return x, stop
}

// open runs an index until it has all of src.
func open(t testing.TB, dir string, src *fakeSource, batch int) (x *Index, stop func()) {
	t.Helper()
	x, stop = start(t, dir, src, batch)
	caughtUp(t, x, src)
	return x, stop
}

func caughtUp(t testing.TB, x *Index, src *fakeSource) {
	t.Helper()
	_, last := src.Applied()
	if err := x.WaitFor(t.Context(), last); err != nil {
		t.Fatal(err)
	}
}

func search(t testing.TB, x *Index, text string, f Filter) (ids []string) {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if f.Tenant == "" {
		f.Tenant = "default"
	}
	r, err := x.Search(t.Context(), q, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Hits {
		seq, item, err := ParseDocumentID(h.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, fmt.Sprintf("%d.%d", seq, item))
	}
	return ids
}

func TestSearchFindsWordsPhrasesIdentifiersAndPaths(t *testing.T) {
	src := newSource()
	src.add(turnOf("s", "The quick brown fox jumps over the lazy dog"))
	src.add(turnOf("s", "We renamed parseHTTPRequest in cmd/nexusd/main.go"))
	src.add(turnOf("s", "東京タワーへ行きました。天気は良かった"))
	src.add(Document{Kind: "turn", Tenant: "default", Agent: "alice", Session: "s", Tools: []string{"bash"}, Model: "m1",
		Calls: []string{"bash", `{"command":"grep -rn max_tokens_total ."}`}, Output: []string{"server.go:42: panic: nil pointer dereference"}})
	src.add(turnOf("s", "brown is not quick"))
	x, _ := open(t, t.TempDir(), src, 0)
	for text, want := range map[string]string{
		"fox":                     "1.0",
		"FOX dog":                 "1.0",
		`"quick brown"`:           "1.0",
		`"brown quick"`:           "",
		"quick brown":             "5.0 1.0",
		"parseHTTPRequest":        "2.0",
		"parse http request":      "2.0",
		"parseHTTPReq*":           "2.0",
		"pars*":                   "2.0",
		"parsehttprequest":        "2.0",
		"http":                    "2.0",
		"cmd/nexusd/main.go":      "2.0",
		"nexusd/main.go":          "2.0",
		"main.go":                 "2.0",
		"東京":                      "3.0",
		"天気":                      "3.0",
		"気天":                      "",
		"ﾀﾜｰ":                     "3.0",
		"max_tokens_total":        "4.0",
		"tokens":                  "4.0",
		`"nil pointer"`:           "4.0",
		"server.go:42":            "4.0",
		"fox zebra":               "1.0", // no document has both
		"zebra":                   "",
		"[a-z]+ OR (fox AND -x)":  "1.0",
		`unbalanced "lazy`:        "1.0",
		"f* fox":                  "1.0",
		"bash":                    "4.0",
		"\u200bfox\u0000":         "1.0",
		strings.Repeat("fox ", 9): "1.0",
	} {
		if got := strings.Join(search(t, x, text, Filter{}), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestSearchIsBoundedByItsFilter(t *testing.T) {
	src := newSource()
	add := func(change func(*Document)) {
		d := turnOf("s", "needle")
		change(&d)
		src.add(d)
	}
	add(func(d *Document) {})
	add(func(d *Document) { d.Tenant = "other" })
	add(func(d *Document) { d.Agent = "bob" })
	add(func(d *Document) { d.Session, d.Segment, d.Depth, d.Time = "s2", "s2/1", 700, 36*hour+5 })
	src.add()
	add(func(d *Document) { d.Kind, d.Session, d.Segment = "memory", "", "" })
	add(func(d *Document) { d.Tools, d.Model = []string{"bash", "read"}, "m1" })
	add(func(d *Document) {
		d.Source, d.Cwd, d.Branch, d.Roles = "codex", "/home/a/nexus/cmd", "main", []string{"user", "tool"}
	})
	x, _ := open(t, t.TempDir(), src, 0)
	for _, tc := range []struct {
		name string
		f    Filter
		want string
	}{
		{"tenant", Filter{}, "1.0 3.0 4.0 6.0 7.0 8.0"},
		{"agent", Filter{Agent: "alice"}, "1.0 4.0 6.0 7.0 8.0"},
		{"no such agent", Filter{Agent: "carol"}, ""},
		{"kind", Filter{Kinds: []string{"memory"}}, "6.0"},
		{"two kinds", Filter{Agent: "bob", Kinds: []string{"memory", "turn"}}, "3.0"},
		{"session", Filter{Kinds: []string{"turn"}, In: []Place{{Session: "s2"}}}, "4.0"},
		{"segment", Filter{Kinds: []string{"turn"}, In: []Place{{Segment: "s2/1", Lo: 1, Hi: 700}}}, "4.0"},
		{"segment above", Filter{Kinds: []string{"turn"}, In: []Place{{Segment: "s2/1", Lo: 1, Hi: 600}}}, ""},
		{"segment below", Filter{Kinds: []string{"turn"}, In: []Place{{Segment: "s2/1", Lo: 800, Hi: 900}}}, ""},
		{"tool", Filter{Tool: "read"}, "7.0"},
		{"model", Filter{Model: "m1"}, "7.0"},
		{"role", Filter{Role: "tool"}, "8.0"},
		{"source", Filter{Source: "codex"}, "8.0"},
		{"branch", Filter{Branch: "main"}, "8.0"},
		{"folder", Filter{Cwd: "/home/a/nexus/cmd"}, "8.0"},
		{"folder above", Filter{Cwd: "/home/a/"}, "8.0"},
		{"folder of a longer name", Filter{Cwd: "/home/a/nex"}, ""},
		{"through a position", Filter{Through: 3 * blockRecords}, "1.0 3.0 4.0 6.0 7.0 8.0"},
		{"from", Filter{From: 30 * hour}, "4.0"},
		{"from the same hour", Filter{From: 36*hour + 9}, "4.0"},
		{"from the next hour", Filter{From: 37 * hour}, ""},
		{"to", Filter{Agent: "bob", To: 36 * hour}, "3.0"},
		{"to on the day", Filter{Agent: "alice", To: 37 * hour, From: 1}, "1.0 4.0 6.0 7.0 8.0"},
		{"from to", Filter{From: 2 * hour, To: 3 * hour}, ""},
		{"from to over a day", Filter{From: 2 * hour, To: 37 * hour}, "4.0"},
		{"from to over a month", Filter{From: -20 * day, To: 30 * day}, "1.0 3.0 4.0 6.0 7.0 8.0"},
		{"long ago", Filter{To: -day}, ""},
	} {
		got := search(t, x, "needle", tc.f)
		slices.Sort(got)
		if s := strings.Join(got, " "); s != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, s, tc.want)
		}
	}
}

// corpus returns a source of n records with random words, and some without documents.
func corpus(n int) *fakeSource {
	rng := rand.New(rand.NewPCG(3, 9))
	src := newSource()
	for i := range n {
		if i%7 == 3 {
			src.add()
			continue
		}
		var words []string
		for range 3 + rng.IntN(20) {
			words = append(words, fmt.Sprintf("w%d", rng.IntN(40)))
		}
		src.add(turnOf(fmt.Sprintf("s%d", i%5), strings.Join(words, " ")), turnOf("m", words[0]))
	}
	return src
}

// answers returns what an index says to many queries.
func answers(t *testing.T, x *Index) (out []string) {
	for i := range 40 {
		for _, q := range []string{fmt.Sprintf("w%d", i), fmt.Sprintf("w%d w%d", i, (i*7)%40), fmt.Sprintf(`"w%d w%d"`, i, (i*3)%40)} {
			ids := search(t, x, q, Filter{})
			slices.Sort(ids) // scores depend on how documents lie in segments
			out = append(out, q+": "+strings.Join(ids, " "))
		}
	}
	return out
}

// An index that was stopped, or copied as a crash leaves it, anywhere between two reads
// has the same documents at the end as one that was made at once.
func TestACrashBetweenAnyTwoBatchesLosesNothing(t *testing.T) {
	const records = 40
	fresh, _ := open(t, t.TempDir(), corpus(records), 0)
	want := answers(t, fresh)
	src, dir := corpus(records), t.TempDir()
	var copies []string
	src.before = func(seq uint64) error {
		if seq%4 == 1 { // between batches
			to := t.TempDir()
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) { // a file that a merge replaced
				return err
			}
			copies = append(copies, to)
		}
		return nil
	}
	x, stop := open(t, dir, src, 4)
	if got := answers(t, x); !slices.Equal(got, want) {
		t.Fatal("batches of four have other hits than one of all")
	}
	stop()
	src.before = nil
	if len(copies) != records/4 {
		t.Fatalf("%d copies", len(copies))
	}
	for i, at := range copies {
		x, stop := open(t, at, src, 7)
		if got := answers(t, x); !slices.Equal(got, want) {
			t.Errorf("copy %d has other hits", i)
		}
		stop()
	}
	x, _ = open(t, dir, src, 0) // an ordinary restart
	if got := answers(t, x); !slices.Equal(got, want) {
		t.Error("a restart has other hits")
	}
}

// A batch is a file of a segment, and then a write of the library's list of files, with the
// checkpoint. A crash between the two leaves a file, whole or torn, that the list does not
// name: the index goes on from the checkpoint before it.
//
// Each copy is of a closed index: in one that is open the library merges and writes its list
// meanwhile, so a copy may have a list that names files which the copy lacks.
func TestACrashWithinABatchGoesOnFromTheCheckpointBefore(t *testing.T) {
	const records, batch = 40, 4
	all := corpus(records).docs
	src, dir := newSource(), t.TempDir()
	copyOf := func(dir string) string {
		to := t.TempDir()
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	var copies []string // of the index with 4, 8, … records
	var want []string
	for n := batch; n <= records; n += batch {
		src.docs = all[:n]
		x, stop := open(t, dir, src, batch)
		if n == records {
			want = answers(t, x)
		}
		stop()
		copies = append(copies, copyOf(dir))
	}
	segments := func(dir string) []string {
		names, err := filepath.Glob(filepath.Join(dir, "index", "store", "*.zap"))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	tried := 0
	for i := 0; i+1 < len(copies); i += 2 {
		had := segments(copies[i])
		list, err := os.ReadFile(filepath.Join(copies[i], "index", "store", "root.bolt"))
		if err != nil {
			t.Fatal(err)
		}
		for n, name := range []string{"missing", "whole", "torn", "empty"} {
			state, left := copyOf(copies[i]), 0
			for _, f := range segments(copies[i+1]) {
				base := filepath.Base(f)
				if slices.ContainsFunc(had, func(h string) bool { return filepath.Base(h) == base }) || bytes.Contains(list, []byte(base)) {
					continue
				}
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				left++
				if n == 0 {
					continue
				}
				if err := os.WriteFile(filepath.Join(state, "index", "store", base), [][]byte{b, b[:len(b)/2], nil}[n-1], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if left == 0 {
				continue // the library gave a number again
			}
			tried++
			var first uint64
			src.before = func(seq uint64) error { first = cmp.Or(first, seq); return nil }
			x, stop := open(t, state, src, batch)
			if got := answers(t, x); !slices.Equal(got, want) {
				t.Errorf("a segment that is %s behind record %d: other hits", name, (i+1)*batch)
			}
			stop()
			src.before = nil
			if want := uint64((i+1)*batch + 1); first != want {
				t.Errorf("a segment that is %s: it goes on from record %d, not %d", name, first, want)
			}
		}
	}
	if tried == 0 {
		t.Fatal("no copy is of use")
	}
}

// A restart goes on from the checkpoint, and reads nothing before it.
func TestARestartReadsOnlyWhatIsNew(t *testing.T) {
	src, dir := corpus(50), t.TempDir()
	_, stop := open(t, dir, src, 10)
	stop()
	first := src.add(turnOf("s", "news"))
	var read []uint64
	src.before = func(seq uint64) error { read = append(read, seq); return nil }
	x, _ := open(t, dir, src, 10)
	if !slices.Equal(read, []uint64{first}) || len(search(t, x, "news", Filter{})) != 1 {
		t.Errorf("read %v, want record %d alone", read, first)
	}
}

// logged is a logger that keeps what it is given.
func logged() (*slog.Logger, *bytes.Buffer) {
	b := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(b, nil)), b
}

// An index whose folder was deleted, that is of another log or schema, or whose files were
// damaged is made again.
func TestAnIndexThatCanNotBeUsedIsMadeAgain(t *testing.T) {
	fresh, _ := open(t, t.TempDir(), corpus(40), 0)
	want := answers(t, fresh)
	segments := func(t *testing.T, dir string) []string {
		files, err := filepath.Glob(filepath.Join(dir, "index", "store", "*.zap"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		return files
	}
	flip := func(t *testing.T, path string, at func(size int) int) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[at(len(b))] ^= 0x10
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	middle := func(n int) int { return n / 2 }
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *fakeSource, string)
	}{
		{"deleted", func(t *testing.T, _ *fakeSource, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}},
		{"another log", func(_ *testing.T, src *fakeSource, _ string) { src.log = "log-2" }},
		{"another record at the checkpoint", func(_ *testing.T, src *fakeSource, _ string) {
			src.docs[len(src.docs)-1] = append(slices.Clone(src.docs[len(src.docs)-1]), Document{ID: DocumentID(40, 9), Kind: "turn", Tenant: "x"})
		}},
		{"a flipped bit", func(t *testing.T, _ *fakeSource, dir string) { flip(t, segments(t, dir)[0], middle) }},
		{"a flipped bit at the end", func(t *testing.T, _ *fakeSource, dir string) {
			flip(t, segments(t, dir)[0], func(n int) int { return n - 1 })
		}},
		{"a short segment", func(t *testing.T, _ *fakeSource, dir string) {
			if err := os.Truncate(segments(t, dir)[0], 2); err != nil {
				t.Fatal(err)
			}
		}},
		{"no segment", func(t *testing.T, _ *fakeSource, dir string) {
			for _, f := range segments(t, dir) {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
		}}, // the library may go on from an older list
		{"no list of segments", func(t *testing.T, _ *fakeSource, dir string) {
			if err := os.Remove(filepath.Join(dir, "index", "store", "root.bolt")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a damaged list of segments", func(t *testing.T, _ *fakeSource, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "index", "store", "root.bolt"), bytes.Repeat([]byte{0xa5}, 64<<10), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"no description", func(t *testing.T, _ *fakeSource, dir string) {
			if err := os.Remove(filepath.Join(dir, "index", "index_meta.json")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src, dir := corpus(40), t.TempDir()
			_, stop := open(t, dir, src, 8)
			stop()
			tc.change(t, src, dir)
			x, stop := open(t, dir, src, 8)
			defer stop()
			if got := answers(t, x); !slices.Equal(got, want) {
				t.Error("other hits")
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 { // words of a session that is erased later must not stay
				t.Errorf("the folder holds %v, %v", left, err)
			}
		})
	}
}

// Damage that only a search meets ends no process: the index is made again.
func TestDamageThatASearchMeetsMakesTheIndexAgain(t *testing.T) {
	src, dir := corpus(30), t.TempDir()
	x, _ := open(t, dir, src, 0)
	want := answers(t, x)
	x.mu.RLock()
	idx := x.idx
	x.mu.RUnlock()
	q, err := Parse("w1")
	if err != nil {
		t.Fatal(err)
	}
	x.mu.Lock()
	x.idx = panicking{idx}
	x.mu.Unlock()
	if _, err := x.Search(t.Context(), q, Filter{Tenant: "default"}); !errors.Is(err, ledger.ErrUnavailable) {
		t.Fatalf("a search that panics: %v, want unavailable", err)
	}
	for {
		x.mu.RLock()
		_, old := x.idx.(panicking)
		at, moved := x.at.Seq, x.moved
		x.mu.RUnlock()
		if _, last := src.Applied(); !old && at == last {
			break
		}
		<-moved
	}
	if got := answers(t, x); !slices.Equal(got, want) {
		t.Error("other hits")
	}
}

// The documents of a destroyed key are found by nobody, and their words are in no file:
// whether it was destroyed while the index ran, before a crash, or while it was made.
func TestAnErasedKeyTakesItsWordsAlong(t *testing.T) {
	build := func() *fakeSource {
		src := newSource()
		for i := range 30 {
			src.add(turnOf("keep", fmt.Sprintf("common keeper%d", i)), turnOf("gone", fmt.Sprintf("common secretword%d", i)))
		}
		return src
	}
	erase := func(src *fakeSource) {
		src.mu.Lock()
		src.erased["gone"] = true
		src.mu.Unlock()
	}
	check := func(t *testing.T, x *Index) {
		t.Helper()
		for len(search(t, x, "secretw*", Filter{})) > 0 {
			runtime.Gosched()
		}
	}
	// words returns how many terms of the index begin with secret.
	words := func(t *testing.T, dir string, src *fakeSource) (n int) {
		t.Helper()
		x, stop := open(t, dir, src, 4)
		defer stop()
		err := dictionary(t.Context(), x.idx, fieldSaid, "secret", func(string, uint64) bool { n++; return true })
		if err != nil {
			t.Fatal(err)
		}
		if got := len(search(t, x, "common", Filter{})); got != 30 {
			t.Errorf("%d documents of the other session, want 30", got)
		}
		return n
	}
	t.Run("while it runs", func(t *testing.T) {
		src, dir := build(), t.TempDir()
		x, stop := open(t, dir, src, 4)
		erase(src)
		x.Erase()
		check(t, x)
		stop()
		if n := words(t, dir, src); n != 0 {
			t.Errorf("%d words of the erased session are in the files", n)
		}
	})
	t.Run("before a restart", func(t *testing.T) {
		src, dir := build(), t.TempDir()
		_, stop := open(t, dir, src, 4)
		stop()
		erase(src)
		x, stop := open(t, dir, src, 4)
		check(t, x)
		stop()
		if n := words(t, dir, src); n != 0 {
			t.Errorf("%d words of the erased session are in the files", n)
		}
	})
	t.Run("while it is made", func(t *testing.T) {
		src, dir := build(), t.TempDir()
		x := New(Config{Dir: dir, BatchRecords: 4, Retry: time.Millisecond})
		src.before = func(seq uint64) error {
			if seq == 15 {
				erase(src)
				x.Erase()
			}
			return nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { x.Run(ctx, src); close(done) }()
		caughtUp(t, x, src)
		check(t, x)
		cancel()
		<-done
		src.before = nil
		if n := words(t, dir, src); n != 0 {
			t.Errorf("%d words of the erased session are in the files", n)
		}
	})
}

// An error of the source is tried again; nothing is skipped, and it is logged once.
func TestAnErrorOfTheSourceIsTriedAgain(t *testing.T) {
	src := corpus(20)
	tries := 0
	src.before = func(seq uint64) error {
		if seq == 9 && tries < 3 {
			tries++
			return fmt.Errorf("%w: no blobs now", ledger.ErrUnavailable)
		}
		return nil
	}
	logger, out := logged()
	x := New(Config{Dir: t.TempDir(), BatchRecords: 4, Retry: time.Millisecond, Logger: logger})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { x.Run(ctx, src); close(done) }()
	caughtUp(t, x, src)
	fresh, _ := open(t, t.TempDir(), corpus(20), 0)
	if !slices.Equal(answers(t, x), answers(t, fresh)) {
		t.Error("other hits")
	}
	cancel()
	<-done
	if n := strings.Count(out.String(), "no blobs now"); n != 1 || tries != 3 {
		t.Errorf("%d tries, logged %d times: %s", tries, n, out)
	}
}

func TestHostileQueriesAreBoundedAndTyped(t *testing.T) {
	x, _ := open(t, t.TempDir(), corpus(20), 0)
	for name, text := range map[string]string{
		"empty": "", "space": " \t\n", "operators": `+-&|!(){}[]^"~*?:\/ "" ***`, "underscores": "___ _ __", "no words": "…—«»",
		"ten thousand terms": strings.Repeat("a ", 10_000), "a long word": strings.Repeat("x", 100_000),
		"many words": words(maxUnits + 1), "a long phrase": `"` + strings.Repeat("字", maxParts+1) + `"`,
	} {
		_, err := Parse(text)
		var f *turns.FieldError
		if !errors.As(err, &f) || f.Field != "/text" {
			t.Errorf("%s: %v, want an error of /text", name, err)
		}
	}
	for name, text := range map[string]string{
		"regular expression": `^(w1|w2)+.*$`, "a stem that all have": "w* w1*", "as many words as may be": words(maxUnits),
		"the longest phrase": `"` + strings.Repeat("字", maxParts) + `"`, "bytes that are no text": "w1 \xff\xfe\x00", "a query of fields": "tenant:other agent:bob w1",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r, err := x.Search(t.Context(), q, Filter{Tenant: "default"}); err != nil || len(r.Hits) > MaxHits {
			t.Errorf("%s: %d hits, %v", name, len(r.Hits), err)
		}
	}
}

// A text that says one word over and over costs one pass for each term of a phrase. The
// library's phrases take minutes for it.
func TestAPhraseInATextOfOneWordTakesOnePass(t *testing.T) {
	long := strings.Repeat("a ", 100_000)
	src := newSource()
	src.add(turnOf("s1", long+"b"))
	src.add(turnOf("s1", "a b b"))
	x, _ := open(t, t.TempDir(), src, 10)
	var q strings.Builder
	for n := 2; n <= 20; n++ {
		fmt.Fprintf(&q, "%q ", strings.TrimSpace(long[:2*n]))
	}
	for text, want := range map[string][]string{q.String(): {"1.0"}, `"a a b"`: {"1.0"}, `"a b"`: {"2.0", "1.0"}, `"b a"`: nil} {
		if got := search(t, x, text, Filter{}); !slices.Equal(got, want) {
			t.Errorf("%.20q finds %q, want %q", text, got, want)
		}
	}
	parsed, err := Parse(q.String())
	if err != nil {
		t.Fatal(err)
	}
	found := parsed.Find(long, parsed.Matches())
	if found.Units != 19 || len(found.Spans) > found.Units*maxSpans {
		t.Errorf("%d units at %d places", found.Units, len(found.Spans))
	}
	if s := Snip(long, found.Spans); len(s.Matches) == 0 {
		t.Errorf("%+v", s)
	}
}

// words returns n different words.
func words(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "q%d ", i)
	}
	return b.String()
}

func TestSnippetsMarkTheirMatches(t *testing.T) {
	long := strings.Repeat("filler words here, ", 40)
	for _, tc := range []struct{ text, query, want string }{
		{"the quick brown fox", "brown", "the quick [brown] fox"},
		{"the quick brown fox", `"quick brown"`, "the [quick brown] fox"},
		{"call parseHTTPRequest now", "http", "call parse[HTTP]Request now"},
		{"call parseHTTPRequest now", "parse http", "call [parse][HTTP]Request now"},
		{"see cmd/a.go.", "cmd/a.go", "see [cmd/a.go]."},
		{"東京タワーへ", "タワー", "東京[タワー]へ"},
		{"tokens token", "tok*", "[tokens] [token]"},
		{"a\nb\tc\x1b[31m\u202e fox", "fox", "a b c\ufffd[31m\ufffd [fox]"},
		{"nothing of it", "zebra", "nothing of it"},
		{"", "zebra", ""},
		{long + "needle " + long, "needle", "…" + long[len(long)-60:] + "[needle] " + long[:172] + "…"},
	} {
		q, err := Parse(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		s := Snip(tc.text, q.Find(tc.text, q.Matches()).Spans)
		r := []rune(s.Text)
		for _, m := range slices.Backward(s.Matches) {
			r = slices.Concat(r[:m[0]], []rune("["), r[m[0]:m[1]], []rune("]"), r[m[1]:])
		}
		if string(r) != tc.want {
			t.Errorf("%q in %.60q: %q\nwant %q", tc.query, tc.text, string(r), tc.want)
		}
	}
}

func FuzzSnip(f *testing.F) {
	f.Add("the quick brown fox", "quick* \"brown fox\"")
	f.Add("\xff東京\u202e", "東")
	f.Fuzz(func(t *testing.T, text, query string) {
		q, err := Parse(query)
		if err != nil {
			return
		}
		s := Snip(text, q.Find(text, q.Matches()).Spans)
		n := len([]rune(s.Text))
		if n > snippetChars+2 {
			t.Fatalf("%d characters", n)
		}
		last := 0
		for _, m := range s.Matches {
			if m[0] < last || m[1] <= m[0] || m[1] > n {
				t.Fatalf("%v of %d characters", s.Matches, n)
			}
			last = m[1]
		}
	})
}

// An index that rests between batches goes on at once when a search waits for it.
func TestASearchEndsTheRestOfTheIndex(t *testing.T) {
	src := corpus(12)
	all := src.docs
	src.docs = src.docs[:6]
	n := 6
	src.before = func(uint64) error { // an event comes with each batch
		if n < len(all) {
			src.mu.Lock()
			n++
			src.docs = all[:n]
			src.mu.Unlock()
		}
		return nil
	}
	x := New(Config{Dir: t.TempDir(), Retry: time.Millisecond, BatchRecords: 1, Rest: 1 << 40}) // the longest rest behind each
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { x.Run(ctx, src); close(done) }()
	defer func() { cancel(); <-done }()
	waiting, end := context.WithTimeout(ctx, 60*time.Second)
	defer end()
	if err := x.WaitFor(waiting, 12); err != nil {
		t.Fatal(err)
	}
	_, last := src.Applied()
	if x.Position() < 12 || last != 12 {
		t.Errorf("the index is at %d of %d", x.Position(), last)
	}
}

// Few hits are found without the library's scores, many with them. Both are ranked alike.
func TestTheBestOfManyHitsAreFound(t *testing.T) {
	src := newSource()
	for i := range MaxHits + 300 {
		text := "needle in a long text of many words that say nothing"
		if i == 7 || i == 9 {
			text = "needle needle"
		}
		d := turnOf(fmt.Sprint("s", i%100), text)
		src.add(d)
	}
	x, _ := open(t, t.TempDir(), src, 0)
	q, err := Parse("needle")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Filter{{Tenant: "default"}, {Tenant: "default", In: []Place{{Session: "s7"}, {Session: "s9"}, {Session: "s8"}}}} {
		r, err := x.Search(t.Context(), q, f)
		if err != nil {
			t.Fatal(err)
		}
		want := MaxHits
		if len(f.In) > 0 {
			want = 3 * (MaxHits + 300) / 100
		}
		if len(r.Hits) != want || r.All != want || r.Cut != (len(f.In) == 0) || r.Hits[0].ID != DocumentID(10, 0) || r.Hits[1].ID != DocumentID(8, 0) || r.Hits[1].Score <= r.Hits[2].Score {
			t.Errorf("%d hits of %d, cut %v, the first %+v", len(r.Hits), want, r.Cut, r.Hits[:min(len(r.Hits), 3)])
		}
	}
}

// What is behind the best hits is there once, newest first, whatever the size of a part.
func TestAllDocumentsWithTheWordsAreWalked(t *testing.T) {
	src := newSource()
	for i := range 50 {
		src.add(turnOf("s1", fmt.Sprint("needle ", i)), turnOf("s2", "hay"))
	}
	x, _ := open(t, t.TempDir(), src, 7)
	q, err := Parse("needle")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for seq := uint64(50); seq > 0; seq-- {
		want = append(want, DocumentID(seq, 0))
	}
	for _, size := range []int{1, 7, 50, 60} {
		var got []string
		for below, more := DocumentID(51, 0), true; more; {
			r, err := x.SearchBelow(t.Context(), q, Filter{Tenant: "default"}, below, size)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, h := range r.Hits {
				ids = append(ids, h.ID)
			}
			slices.Sort(ids)
			slices.Reverse(ids)
			got = append(got, ids...)
			below, more = r.Last, r.Cut
		}
		if len(want) != 50 || !slices.Equal(got, want) {
			t.Errorf("parts of %d: %q, want %q", size, got, want)
		}
	}
}

// A search that finds that the index lacks much does not wait for it, and ends its rest. So does
// one that finds damage: the index is made again at once.
func TestASearchEndsARest(t *testing.T) {
	for name, said := range map[string]func(*Index){
		"much is missing": (*Index).Hurry,
		"damage":          func(x *Index) { signal(x.broken) },
		"an erased key":   (*Index).Erase,
	} {
		t.Run(name, func(t *testing.T) { endRest(t, said) })
	}
}

func endRest(t *testing.T, said func(*Index)) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		ctx, cancel := context.WithCancel(t.Context())
		x, began := New(Config{Dir: t.TempDir()}), time.Now()
		var others sync.WaitGroup
		others.Go(func() {
			for ctx.Err() == nil {
				src.add(turnOf("s", "news"))
				time.Sleep(100 * time.Millisecond)
			}
		})
		others.Go(func() {
			time.Sleep(3500 * time.Millisecond)
			said(x)
		})
		if busy := x.rest(ctx, src, time.Hour); busy || time.Since(began) != 3500*time.Millisecond {
			t.Errorf("it rests for %v, %v", time.Since(began), busy)
		}
		cancel()
		others.Wait()
	})
}

// The index rests while events come, and not much longer than they do.
func TestARestEndsWhenNoMoreEventsCome(t *testing.T) {
	for _, tc := range []struct {
		name        string
		events      time.Duration // one each 100 ms, for so long
		d           time.Duration
		least, most time.Duration
		busy        bool
	}{
		{"none come", 0, time.Hour, calm, calm, false},
		{"they stop", 20 * time.Second, time.Hour, 20 * time.Second, 20*time.Second + 2*calm, false},
		{"they go on", time.Hour, 5 * time.Second, 5 * time.Second, 5 * time.Second, true},
		{"they go on for long", time.Hour, time.Hour, maxRest, maxRest, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				var events sync.WaitGroup
				events.Go(func() {
					for time.Since(began) < tc.events && ctx.Err() == nil {
						src.add(turnOf("s", "news"))
						time.Sleep(100 * time.Millisecond)
					}
				})
				busy := New(Config{Dir: t.TempDir()}).rest(ctx, src, tc.d)
				if took := time.Since(began); took < tc.least || took > tc.most || busy != tc.busy {
					t.Errorf("it rests for %v, and events come: %v; want %v to %v, %v", took, busy, tc.least, tc.most, tc.busy)
				}
				cancel()
				events.Wait()
			})
		})
	}
}
