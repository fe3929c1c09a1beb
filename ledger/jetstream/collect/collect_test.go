package collect_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	js "github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"nexus/ledger"
	"nexus/ledger/jetstream"
	"nexus/ledger/jetstream/blocks"
	"nexus/ledger/jetstream/collect"
	"nexus/ledger/jetstream/disk"
	"nexus/ledger/jetstream/embed"
	"nexus/ledger/jetstream/mark"
	"nexus/ledger/ledgertest"
	"nexus/turns"
)

var kills = flag.Bool("kills", false, "kill a process at every step of a collection, not at the main ones only")

// TestMain runs the model a few times. -rapid.checks=100 runs it longer.
func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set {
		if err := flag.Set("rapid.checks", "3"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const week = 7 * 24 * time.Hour

// folder is a data folder with an open server, log and mark, as the daemon has them.
type folder struct {
	t     testing.TB
	dir   string
	log   *jetstream.Log
	mark  *mark.Keeper
	close func()
}

// openFolder opens dir as the daemon does: it inspects the streams before the server opens
// them, and removes what a collection left.
func openFolder(t testing.TB, dir string) *folder {
	t.Helper()
	f := &folder{t: t, dir: dir}
	path := filepath.Join(dir, "mark")
	s, err := embed.Start(embed.Config{DataDir: dir, MaxStore: 1 << 30, BeforeStart: func() error {
		m, _, err := mark.Load(path)
		if errors.Is(err, os.ErrNotExist) {
			m.Ledger = "L"
		} else if err != nil {
			return err
		} else {
			found, err := disk.Inspect(context.Background(), dir, m, false)
			if err != nil {
				return err
			}
			m = found.Mark
			if err := disk.RemoveOthers(dir, m.BlobStream); err != nil {
				return err
			}
		}
		f.mark, err = mark.Open(path, m, func(err error) { t.Error(err) })
		return err
	}, AfterStop: func() error {
		sizes, err := disk.Sizes(dir, f.mark.Mark().BlobStream)
		return errors.Join(err, f.mark.Close(&sizes))
	}})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := s.LedgerConn()
	if err != nil {
		t.Fatal(err)
	}
	j, err := js.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	f.log, err = jetstream.Open(t.Context(), j, jetstream.Config{Create: true, Ledger: "L", CopyBlobs: true, Acked: f.mark.Acked, BlobStream: f.mark.Mark().BlobStream})
	if err != nil {
		t.Fatal(err)
	}
	f.close = sync.OnceFunc(func() {
		nc.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// content returns the content of blob n, its digest, and its size in chunks of 256 KiB.
func content(n, size int) (turns.Hash, []byte) {
	b := make([]byte, size)
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return turns.Hash(sha256.Sum256(b)), b
}

func (f *folder) putBlob(n, size int) turns.Hash {
	f.t.Helper()
	d, b := content(n, size)
	if err := f.log.Blobs().PutBlob(f.t.Context(), "t", d, b); err != nil {
		f.t.Fatal(err)
	}
	return d
}

// refer appends an event that names blobs, the first of a chain of its own.
func (f *folder) refer(n int, digests ...turns.Hash) error {
	var id turns.ID
	copy(id[:], fmt.Sprintf("%016d", n))
	ev := &turns.Event{Version: turns.Version, Kind: turns.KindOpened, ID: id, Chain: turns.SessionChain(id), Recorded: 1, Root: id, Agent: "a", Origin: &turns.Origin{Ledger: [16]byte{1}, Tenant: "t", Session: id}}
	slices.SortFunc(digests, func(a, b turns.Hash) int { return bytes.Compare(a[:], b[:]) })
	for _, d := range digests {
		ev.Blobs = append(ev.Blobs, turns.BlobLink{Address: d, Size: 1})
	}
	payload, err := ev.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.log.Append(f.t.Context(), ledger.SessionSubject("t", id, id), 0, payload)
	return err
}

// collect runs a collection as if so much time had passed.
func (f *folder) collect(later time.Duration, step func(string)) (collect.Report, error) {
	return collect.Run(f.t.Context(), collect.Config{Data: f.dir, Log: f.log, Blobs: f.log.Blobs(), Mark: f.mark, After: week, Now: time.Now().Add(later), Step: step})
}

// wants reports a blob that is not what was put.
func (f *folder) wants(n, size int) {
	f.t.Helper()
	d, b := content(n, size)
	if got, err := f.log.Blobs().GetBlob(f.t.Context(), "t", d); err != nil || !bytes.Equal(got, b) {
		f.t.Errorf("blob %d: %d bytes, %v", n, len(got), err)
	}
}

func (f *folder) wantsNone(n, size int) {
	f.t.Helper()
	d, _ := content(n, size)
	if _, err := f.log.Blobs().GetBlob(f.t.Context(), "t", d); !errors.Is(err, ledger.ErrNotFound) {
		f.t.Errorf("blob %d: %v, want not found", n, err)
	}
}

// stored returns the bytes of the block files of all streams of blobs and their copies.
func stored(t testing.TB, dir string) (sum int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(embed.StreamDir(dir, jetstream.BlobsName)), "*BLOBS*", "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// fill stores blobs 0 to 19, of which an event names the even ones, and restarts, so that no
// request relies on any.
func fill(t testing.TB, dir string) *folder {
	t.Helper()
	f := openFolder(t, dir)
	for n := range 20 {
		d := f.putBlob(n, sizes(n))
		if n%2 == 0 {
			if err := f.refer(n, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.close()
	return openFolder(t, dir)
}

// sizes gives blobs of one, two and four chunks.
func sizes(n int) int { return []int{5 << 10, 300 << 10, 900 << 10}[n%3] }

func (f *folder) wantsFilled(collected bool) {
	f.t.Helper()
	for n := range 20 {
		if n%2 == 1 && collected {
			f.wantsNone(n, sizes(n))
		} else {
			f.wants(n, sizes(n))
		}
	}
}

func TestUnreferencedBlobsAreCollectedAfterTheGraceTime(t *testing.T) {
	f := fill(t, t.TempDir())
	if err := f.log.Blobs().AwaitCopy(t.Context()); err != nil { // the server fills it by and by
		t.Fatal(err)
	}
	before := stored(t, f.dir)
	if out, err := f.collect(week-time.Hour, nil); err != nil || out.Collected != 0 || out.Unreferenced == 0 || out.Collectable != 0 {
		t.Fatalf("within the grace time: %+v, %v", out, err)
	}
	f.wantsFilled(false)
	out, err := f.collect(week+time.Hour, nil)
	if err != nil || out.Collected == 0 || out.Collected != out.Unreferenced || out.Number != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	f.wantsFilled(true)
	d, b := content(1, sizes(1)) // a late retry puts it again
	if err := f.log.Blobs().KeepBlob(t.Context(), "t", d); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("keep a collected blob: %v, want not found", err)
	}
	if err := f.log.Blobs().PutBlob(t.Context(), "t", d, b); err != nil {
		t.Fatal(err)
	}
	if err := f.refer(1, d); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a clean stop, and the next collection, of a stream that has the times of the first one
		f.close()
		f = openFolder(t, f.dir)
		f.wants(1, sizes(1))
		f.putBlob(100, 5<<10)
	}
	f.close()
	f = openFolder(t, f.dir)
	if out, err := f.collect(week+time.Hour, nil); err != nil || out.Number != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	f.wants(1, sizes(1))
	f.wantsNone(100, 5<<10)
	f.close()
	if after := stored(t, f.dir); after > before*6/10 {
		t.Errorf("the files of the blobs have %d bytes, before %d", after, before)
	} else {
		t.Logf("the files of the blobs: %d bytes before, %d after", before, after)
	}
	openFolder(t, f.dir).close()
}

func TestACopyKeepsTheAgeOfABlob(t *testing.T) {
	f := fill(t, t.TempDir())
	f.putBlob(3, sizes(3)) // held: it stays, and a copy of it is stored in the new stream
	if out, err := f.collect(week+time.Hour, nil); err != nil || out.Number != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	f.wants(3, sizes(3))
	f.wantsNone(5, sizes(5))
	if out, err := f.collect(3*week, nil); err != nil || out.Number != 1 || out.Unreferenced == 0 || out.Collectable != 0 {
		t.Fatalf("a blob that is held: %+v, %v", out, err)
	}
	f.close()
	f = openFolder(t, f.dir)
	defer f.close()
	var newest time.Time // of the first storings
	for r, err := range blocks.Records(t.Context(), embed.StreamDir(f.dir, jetstream.BlobsStream(1)), 0) {
		if err != nil {
			t.Fatal(err)
		}
		first := jetstream.StoredAt(r.Header, r.Stored)
		if !first.Before(r.Stored) {
			t.Errorf("chunk %d was stored first at %v, copied at %v", r.Seq, first, r.Stored)
		}
		if first.After(newest) {
			newest = first
		}
	}
	if out, err := f.collect(week-time.Since(newest)+time.Millisecond, nil); err != nil || out.Number != 2 {
		t.Fatalf("as old as its first storing: %+v, %v", out, err)
	}
	f.wantsNone(3, sizes(3))
}

func TestALargeShareIsWaitedFor(t *testing.T) {
	f := fill(t, t.TempDir())
	defer f.close()
	out, err := collect.Run(t.Context(), collect.Config{Data: f.dir, Log: f.log, Blobs: f.log.Blobs(), Mark: f.mark, After: week, Now: time.Now().Add(2 * week), Share: 0.9})
	if err != nil || out.Collectable == 0 || out.Collected != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	full := errors.New("no room")
	var asked int64
	if _, err := collect.Run(t.Context(), collect.Config{Data: f.dir, Log: f.log, Blobs: f.log.Blobs(), Mark: f.mark, After: week, Now: time.Now().Add(2 * week),
		Room: func(n int64) error { asked = n; return full }}); !errors.Is(err, full) || asked != 2*(out.Bytes-out.Collectable) {
		t.Fatalf("asked for %d: %v", asked, err)
	}
	f.wantsFilled(false)
}

// A collection that ends before it removed the old stream has collected; the next one removes it.
func TestTheNextCollectionRemovesWhatIsLeft(t *testing.T) {
	f := fill(t, t.TempDir())
	defer f.close()
	ctx, cancel := context.WithCancel(t.Context())
	out, err := collect.Run(ctx, collect.Config{Data: f.dir, Log: f.log, Blobs: f.log.Blobs(), Mark: f.mark, After: week, Now: time.Now().Add(2 * week), Step: func(step string) {
		if step == "remove" {
			cancel()
		}
	}})
	if err == nil || out.Collected == 0 || f.log.Blobs().Number() != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	f.wantsFilled(true)
	old := embed.StreamDir(f.dir, jetstream.BlobsName)
	if _, err := os.Stat(old); err != nil {
		t.Fatalf("the old stream: %v", err)
	}
	if out, err := f.collect(2*week, nil); err != nil || out.Collected != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old stream is still there: %v", err)
	}
	f.wantsFilled(true)
}

// A record that can't be read might name any blob.
func TestNothingIsCollectedIfARecordCanNotBeRead(t *testing.T) {
	f := fill(t, t.TempDir())
	defer f.close()
	if _, err := f.log.Append(t.Context(), "nexus.log.00.t.s.01ARZ3NDEKTSV4RRFFQ69G5FAV", 0, []byte(`{"lost":7}`)); err != nil {
		t.Fatal(err)
	}
	if out, err := f.collect(2*week, nil); !errors.Is(err, ledger.ErrCorrupt) || out.Collected != 0 {
		t.Errorf("%+v, %v", out, err)
	}
	f.wantsFilled(false)
}

// When the mark can't be written, nobody knows which stream the next start opens. Both hold the
// same, and neither gets anything more.
func TestNothingIsStoredAfterASwitchThatIsNotKnown(t *testing.T) {
	f := fill(t, t.TempDir())
	closed, err := mark.Open(filepath.Join(t.TempDir(), "mark"), f.mark.Mark(), func(error) {})
	if err == nil {
		err = closed.Close(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := collect.Run(t.Context(), collect.Config{Data: f.dir, Log: f.log, Blobs: f.log.Blobs(), Mark: closed, After: week, Now: time.Now().Add(2 * week)})
	if !errors.Is(err, collect.ErrSwitch) || out.Collected != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	d, b := content(60, 5<<10)
	if err := f.log.Blobs().PutBlob(t.Context(), "t", d, b); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("put: %v, want unavailable", err)
	}
	f.wantsFilled(false)
	f.close()
	for _, number := range []uint64{0, 1} { // what the mark may say
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(f.dir)); err != nil {
			t.Fatal(err)
		}
		m, _, err := mark.Load(filepath.Join(copied, "mark"))
		if err != nil {
			t.Fatal(err)
		}
		if m.BlobStream = number; number == 1 {
			m.Blobs, m.Closed = mark.Place{}, nil
		}
		k, err := mark.Open(filepath.Join(copied, "mark"), m, func(error) {})
		if err == nil {
			err = k.Close(nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		g := openFolder(t, copied)
		g.wantsFilled(number == 1)
		g.close()
	}
}

// Whoever relies on an old unreferenced blob at any step of a collection has it after it.
func TestABlobThatARequestReliesOnStays(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir).close()
	for _, at := range steps {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			f := openFolder(t, copied)
			defer f.close()
			put, fresh, kept := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			once := false
			rely := func() {
				d, b := content(3, sizes(3))
				put <- f.log.Blobs().PutBlob(t.Context(), "t", d, b)
				d, b = content(60, 900<<10) // nobody has put it before
				fresh <- f.log.Blobs().PutBlob(t.Context(), "t", d, b)
				d, _ = content(5, sizes(5))
				kept <- f.log.Blobs().KeepBlob(t.Context(), "t", d)
			}
			_, err := f.collect(2*week, func(step string) {
				if step != at || once {
					return
				}
				once = true
				if at == "copy late chunks" || at == "commit" || at == "committed" {
					go rely() // it waits for the switch
				} else {
					rely()
				}
			})
			if err != nil || !once {
				t.Fatalf("reached: %v, %v", once, err)
			}
			if err := errors.Join(<-put, <-fresh); err != nil {
				t.Error(err)
			}
			f.wants(3, sizes(3))
			f.wants(60, 900<<10)
			if err := <-kept; err == nil {
				f.wants(5, sizes(5))
			} else if !errors.Is(err, ledger.ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// Appends of events that name old unreferenced blobs, and reads of what is named, race with
// collections. What was acknowledged has its blobs, at any time.
func TestAppendsRaceWithCollections(t *testing.T) {
	const writers, old, rounds, each = 4, 200, 5, 100
	f := openFolder(t, t.TempDir())
	for n := range old {
		f.putBlob(n, 5<<10)
	}
	var until [rounds]time.Time // each collection has one blob more that is older than its grace time
	for r := range rounds {
		f.putBlob(10_000+r, 5<<10)
		until[r] = time.Now().Round(0) // of the clock that the server stores
	}
	f.close()
	f = openFolder(t, f.dir) // nothing is held any more
	defer f.close()
	var collected atomic.Bool
	var named [writers][]int
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 0; i < each && !collected.Load() && !t.Failed(); i++ {
				n := w + i*writers // an old one, then new ones
				d, b := content(n, 5<<10)
				if err := f.log.Blobs().PutBlob(t.Context(), "t", d, b); err != nil {
					t.Error(err)
				} else if err := f.refer(n, d); err != nil {
					t.Error(err)
				}
				named[w] = append(named[w], n)
				f.wants(named[w][i/2], 5<<10)
			}
		})
	}
	defer wg.Wait()
	defer collected.Store(true)
	for r := range rounds {
		now := time.Now().Round(0)
		out, err := collect.Run(t.Context(), collect.Config{Data: f.dir, Log: f.log, Blobs: f.log.Blobs(), Mark: f.mark, After: now.Sub(until[r]), Now: now})
		if err != nil || out.Collected == 0 || out.Number != uint64(r+1) {
			t.Fatalf("collection %d: %+v, %v", r+1, out, err)
		}
		f.wantsNone(10_000+r, 5<<10)
	}
	collected.Store(true)
	wg.Wait()
	all := slices.Concat(named[:]...)
	for _, n := range all {
		f.wants(n, 5<<10)
	}
	t.Logf("%d collections beside %d appends", rounds, len(all))
}

// steps are those of a collection, in order.
var steps = []string{"create", "copy", "read the log again", "read back", "switch", "copy late chunks", "commit", "committed", "remove", "removed"}

const childEnv = "NEXUS_TEST_COLLECT_KILL"

// TestKillDuringACollection kills a process at each step of a collection. The next one opens the
// folder, finds every blob that an event names, and collects.
func TestKillDuringACollection(t *testing.T) {
	if at := os.Getenv(childEnv); at != "" {
		step, dir, _ := strings.Cut(at, "|")
		f := openFolder(t, dir)
		_, err := f.collect(2*week, func(s string) {
			if s == step {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the kill comes
			}
		})
		t.Fatalf("the step was not reached: %v", err)
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	fill(t, dir).close()
	at := []string{"read back", "commit", "committed", "remove"}
	if *kills {
		at = steps
	}
	for _, at := range at {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(ledgertest.Within(t), os.Args[0], "-test.run=^TestKillDuringACollection$")
			child.Env = append(os.Environ(), childEnv+"="+at+"|"+copied)
			out, err := child.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%v\n%s", err, out)
			}
			f := openFolder(t, copied)
			committed := f.log.Blobs().Number() == 1
			f.wantsFilled(committed)
			if _, err := f.collect(2*week, nil); err != nil {
				t.Fatal(err)
			}
			if f.log.Blobs().Number() != 1 {
				t.Errorf("stream %d", f.log.Blobs().Number())
			}
			f.wantsFilled(true)
			f.close()
			openFolder(t, copied).close()
		})
	}
}

// TestModel puts, refers, collects, restarts and kills at random, and compares with a map.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "collect")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		f := openFolder(t, dir)
		defer func() { f.close() }()
		present, named, held := map[int]bool{}, map[int]bool{}, map[int]bool{}
		events := 0
		n := rapid.IntRange(0, 11)
		size := func(n int) int { return []int{1, 5 << 10, 300 << 10}[n%3] }
		check := func() {
			for i := range 12 {
				switch {
				case present[i]:
					f.wants(i, size(i))
				default:
					f.wantsNone(i, size(i))
				}
			}
			if t.Failed() {
				rt.FailNow()
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				i := n.Draw(rt, "blob")
				f.putBlob(i, size(i))
				present[i], held[i] = true, true
			},
			"refer": func(rt *rapid.T) {
				i := n.Draw(rt, "blob")
				d := f.putBlob(i, size(i))
				events++
				if err := f.refer(events, d); err != nil {
					rt.Fatal(err)
				}
				present[i], held[i], named[i] = true, true, true
			},
			"keep": func(rt *rapid.T) {
				i := n.Draw(rt, "blob")
				d, _ := content(i, size(i))
				if err := f.log.Blobs().KeepBlob(t.Context(), "t", d); (err == nil) != present[i] {
					rt.Fatalf("keep %d: %v", i, err)
				}
				held[i] = true
			},
			"collect": func(rt *rapid.T) {
				later := rapid.SampledFrom([]time.Duration{0, 2 * week}).Draw(rt, "later")
				if _, err := f.collect(later, nil); err != nil {
					rt.Fatal(err)
				}
				if later > 0 {
					for i := range present {
						if present[i] && !named[i] && !held[i] {
							delete(present, i)
						}
					}
				}
				check()
			},
			"restart": func(*rapid.T) {
				f.close()
				f, held = openFolder(t, dir), map[int]bool{}
				check()
			},
			"kill in a collection": func(rt *rapid.T) {
				at := rapid.SampledFrom([]string{"copy", "read back", "commit", "committed", "remove"}).Draw(rt, "step")
				image := ""
				if _, err := f.collect(2*week, func(step string) {
					if step != at || image != "" {
						return
					}
					image = dir + "-killed"
					if err := os.CopyFS(image, os.DirFS(dir)); err != nil { // what a kill leaves: each write is synced
						rt.Fatal(err)
					}
				}); err != nil {
					rt.Fatal(err)
				}
				f.close()
				if image != "" {
					if err := errors.Join(os.RemoveAll(dir), os.Rename(image, dir)); err != nil {
						rt.Fatal(err)
					}
				}
				before := f.log.Blobs().Number()
				f = openFolder(t, dir)
				if now := f.log.Blobs().Number(); image == "" || now == before {
					for i := range present {
						if present[i] && !named[i] && !held[i] {
							delete(present, i)
						}
					}
				}
				held = map[int]bool{}
				check()
			},
			"": func(*rapid.T) {},
		})
	})
}
