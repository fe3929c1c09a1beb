package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/ledger"
)

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
	x.mu.Lock()
	idx := x.idx
	x.mu.Unlock()
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
		x.mu.Lock()
		_, old := x.idx.(panicking)
		at, moved := x.at.Seq, x.moved
		x.mu.Unlock()
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
