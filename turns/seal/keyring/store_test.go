package keyring

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/internal/crypt"
)

func idOf(n int) turns.ID {
	h := sha256.Sum256(fmt.Appendf(nil, "id %d", n))
	return turns.ID(h[:16])
}

// counter is randomness that never repeats and is the same on every run.
type counter struct{ n uint64 }

func (c *counter) Read(b []byte) (int, error) {
	for i := 0; i < len(b); i += 32 {
		c.n++
		h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, c.n))
		copy(b[i:], h[:])
	}
	return len(b), nil
}

// keyStore is what Store and Memory have in common.
type keyStore interface {
	seal.Keyring
	Key(turns.ID) (seal.Key, error)
	Create(turns.ID, io.Reader) (seal.Key, error)
	Put(turns.ID, seal.Key) error
	Destroy(...turns.ID) error
	Puncture(turns.ID, uint64, ...uint64) error
	PutRemains(turns.ID, *seal.Remains) error
}

func TestMemoryAndStoreAgree(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	for name, ring := range map[string]keyStore{"store": s, "memory": new(Memory)} {
		t.Run(name, func(t *testing.T) {
			r := &counter{}
			if _, err := ring.Key(idOf(1)); !errors.Is(err, seal.ErrNoKey) {
				t.Errorf("Key before Create: %v, want ErrNoKey", err)
			}
			k, err := ring.Create(idOf(1), r)
			if err != nil || k == (seal.Key{}) {
				t.Fatalf("Create: %x, %v", k[:], err)
			}
			if again, err := ring.Create(idOf(1), r); err != nil || again != k {
				t.Errorf("second Create: %x, %v, want the first key", again[:], err)
			}
			if got, err := ring.Key(idOf(1)); err != nil || got != k {
				t.Errorf("Key: %x, %v", got[:], err)
			}
			if err := ring.Put(idOf(1), k); err != nil {
				t.Errorf("Put of the same key: %v", err)
			}
			if err := ring.Put(idOf(1), seal.Key{1}); !errors.Is(err, ErrDifferent) {
				t.Errorf("Put of another key: %v, want ErrDifferent", err)
			}
			if err := ring.Put(idOf(2), seal.Key{2}); err != nil {
				t.Errorf("Put: %v", err)
			}
			for _, id := range []turns.ID{idOf(1), idOf(3), idOf(1)} {
				if err := ring.Destroy(id); err != nil {
					t.Errorf("Destroy: %v", err)
				}
				_, e1 := ring.Key(id)
				_, e2 := ring.Create(id, r)
				for _, err := range []error{e1, e2, ring.Put(id, k)} {
					if !errors.Is(err, turns.ErrErased) {
						t.Errorf("after Destroy: %v, want ErrErased", err)
					}
				}
			}
			if got, err := ring.Key(idOf(2)); err != nil || got != (seal.Key{2}) {
				t.Errorf("Key of the other id: %x, %v", got[:], err)
			}
			if _, err := ring.Create(idOf(4), bytes.NewReader(make([]byte, 31))); err == nil {
				t.Error("Create of 31 random bytes succeeded")
			}
		})
	}
}

func TestDestroyedKeyLeavesNoBytesOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	open := func() *Store {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	want := map[turns.ID]seal.Key{}
	for n := range 20 {
		k, err := s.Create(idOf(n), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		want[idOf(n)] = k
	}
	if err := s.Destroy(idOf(3)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Key(idOf(1)); err == nil {
		t.Error("Key after Close succeeded")
	}
	s = open()
	for id, k := range want {
		got, err := s.Key(id)
		if id == idOf(3) {
			if !errors.Is(err, turns.ErrErased) {
				t.Errorf("destroyed key after reopening: %v", err)
			}
			continue
		}
		if err != nil || got != k {
			t.Errorf("Key after reopening: %v", err)
		}
	}
	gone := want[idOf(3)]
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		perm := os.FileMode(0o600)
		if e.IsDir() {
			perm = 0o700
		} else if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, gone[:]) {
			t.Errorf("%s holds a destroyed key (%v)", path, err)
		}
		if info.Mode().Perm() != perm {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), perm)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var got [8]seal.Key
	for i := range got {
		wg.Go(func() {
			k, err := s.Create(idOf(0), rand.Reader)
			if err != nil {
				t.Error(err)
			}
			got[i] = k
			if _, err := s.Create(idOf(i+1), rand.Reader); err != nil {
				t.Error(err)
			}
			if err := s.Destroy(idOf(i + 1)); err != nil {
				t.Error(err)
			}
			if _, err := s.Key(idOf(i + 1)); !errors.Is(err, turns.ErrErased) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range got {
		if k != got[0] {
			t.Fatal("two keys for one id")
		}
	}
}

func mustOpen(t *testing.T, d disk) *Store {
	t.Helper()
	s, err := open("/keys", d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// held counts what a disk is asked for, and holds the first write back until release.
type held struct {
	disk
	mu              sync.Mutex
	writes, renames int
	first, release  chan struct{}
}

func (d *held) WriteAt(name string, b []byte, at int64) error {
	d.mu.Lock()
	d.writes++
	n := d.writes
	d.mu.Unlock()
	if n == 1 {
		close(d.first)
		<-d.release
	}
	return d.disk.WriteAt(name, b, at)
}

func (d *held) Rename(from, to string) error {
	d.mu.Lock()
	d.renames++
	d.mu.Unlock()
	return d.disk.Rename(from, to)
}

// until waits for something that other goroutines do.
func until(ok func() bool) {
	for !ok() {
		runtime.Gosched()
	}
}

// TestCallersShareAWrite: while the first write is under way, all who come are one write.
func TestCallersShareAWrite(t *testing.T) {
	const callers = 50
	s := mustOpen(t, newMemDisk())
	d := &held{disk: s.disk, first: make(chan struct{}), release: make(chan struct{})}
	s.disk = d
	var wg sync.WaitGroup
	create := func(n int) {
		wg.Go(func() {
			if _, err := s.Create(idOf(n), rand.Reader); err != nil {
				t.Error(err)
			}
		})
	}
	create(0)
	<-d.first
	for n := range callers {
		create(n) // the first one twice
	}
	until(func() bool {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.group != nil && len(s.group.ids) == callers-1
	})
	close(d.release)
	wg.Wait()
	if d.writes != 4 {
		t.Errorf("%d writes, want two in each copy", d.writes)
	}
	again := mustOpen(t, d.disk)
	for n := range callers {
		k, err := s.Key(idOf(n))
		if got, err2 := again.Key(idOf(n)); err != nil || err2 != nil || got != k {
			t.Errorf("key %d: %v, opened again: %v", n, err, err2)
		}
	}
}

// TestErasuresShareARewrite: all who come while a write is under way are one rewrite.
func TestErasuresShareARewrite(t *testing.T) {
	const callers = 20
	s := mustOpen(t, newMemDisk())
	for n := range callers {
		if _, err := s.Create(idOf(n), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	d := &held{disk: s.disk, first: make(chan struct{}), release: make(chan struct{})}
	s.disk = d
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Create(idOf(100), rand.Reader); err != nil {
			t.Error(err)
		}
	})
	<-d.first
	epoch := s.epoch.number
	for n := range callers {
		wg.Go(func() {
			if err := s.Destroy(idOf(n / 2 * 2)); err != nil {
				t.Error(err)
			}
		})
	}
	until(func() bool {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.waiting != nil && len(s.waiting.ids) == callers
	})
	close(d.release)
	wg.Wait()
	if n := s.epoch.number - epoch; n != 1 || d.renames != 2 {
		t.Errorf("%d epochs and %d renames for %d erasures that came together", n, d.renames, callers)
	}
	again := mustOpen(t, d.disk)
	for n := range callers {
		if _, err := again.Key(idOf(n)); n%2 == 0 && !errors.Is(err, turns.ErrErased) || n%2 == 1 && err != nil {
			t.Errorf("key %d: %v", n, err)
		}
	}
	if k, err := again.Key(idOf(100)); err != nil || k == (seal.Key{}) {
		t.Error(err)
	}
}

// TestACreateThatWaitedMakesNoDestroyedKey: the id was destroyed between the choice of the key
// and its write.
func TestACreateThatWaitedMakesNoDestroyedKey(t *testing.T) {
	s := mustOpen(t, newMemDisk())
	g, first := s.join(idOf(1), seal.Key{1}, false)
	if !first {
		t.Fatal("another one writes")
	}
	if err := s.Destroy(idOf(1)); err != nil {
		t.Fatal(err)
	}
	if s.write(g); g.err != nil {
		t.Fatal(g.err)
	}
	for _, s := range []*Store{s, mustOpen(t, s.disk)} {
		if _, err := s.Key(idOf(1)); !errors.Is(err, turns.ErrErased) {
			t.Error(err)
		}
	}
	if end := int64(headerSize + recordExtra); s.end != end {
		t.Errorf("the log has %d bytes, want %d", s.end, end)
	}
}

// TestAFailedWriteIsAnErrorAndTheNextOneIsNot: no half record breaks what comes behind it, in
// this process and the next.
func TestAFailedWriteIsAnErrorAndTheNextOneIsNot(t *testing.T) {
	for how := range faults {
		for step := 1; step <= 2; step++ {
			d := newMemDisk()
			s := mustOpen(t, d)
			d.ops, d.fail, d.how = 0, step, how
			if _, err := s.Create(idOf(1), &counter{}); !errors.Is(err, errInjected) {
				t.Errorf("mode %d, step %d: %v", how, step, err)
			}
			switch _, err := s.Key(idOf(1)); {
			case step == 1 && !errors.Is(err, seal.ErrNoKey):
				t.Errorf("mode %d: a key that is not durable: %v", how, err)
			case step == 2 && err != nil: // it is in one copy
				t.Errorf("mode %d: no key of what the first copy has: %v", how, err)
			}
			want := map[turns.ID]seal.Key{}
			for n := range 4 {
				k, err := s.Create(idOf(n), &counter{uint64(10 * n)})
				if err != nil {
					t.Fatal(err)
				}
				want[idOf(n)] = k
			}
			d.cutPower(never)
			s = mustOpen(t, d)
			for id, k := range want {
				if got, err := s.Key(id); err != nil || got != k {
					t.Errorf("mode %d, step %d: %v", how, step, err)
				}
			}
		}
	}
}

// TestAStoreWhoseDiskStaysBrokenRefuses: Create fails until the disk works, what is in memory is
// read, and Destroy does not say that it is done.
func TestAStoreWhoseDiskStaysBrokenRefuses(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	k, err := s.Create(idOf(1), &counter{})
	if err != nil {
		t.Fatal(err)
	}
	d.dead = true
	for range 3 {
		if _, err := s.Create(idOf(2), &counter{5}); !errors.Is(err, errInjected) {
			t.Errorf("Create: %v", err)
		}
		if err := s.Destroy(idOf(1)); !errors.Is(err, errInjected) {
			t.Errorf("Destroy: %v", err)
		}
		if got, err := s.Key(idOf(1)); err != nil || got != k {
			t.Errorf("Key: %v", err)
		}
	}
	d.dead = false
	if _, err := s.Create(idOf(2), &counter{5}); err != nil {
		t.Error(err)
	}
	if err := s.Destroy(idOf(1)); err != nil {
		t.Error(err)
	}
	if _, leak := d.leaks(map[seal.Key]bool{k: true}, true); leak {
		t.Error("the destroyed key is on the disk")
	}
}

// TestAnErasureDestroysTheOldEpoch: both copies of its key and its log are zeros, and unlinked.
func TestAnErasureDestroysTheOldEpoch(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	k, err := s.Create(idOf(1), &counter{})
	if err != nil {
		t.Fatal(err)
	}
	if _, leak := d.leaks(map[seal.Key]bool{k: true}, false); !leak {
		t.Error("the test finds no key that is there")
	}
	old := d.all
	if err := s.Destroy(idOf(1)); err != nil {
		t.Fatal(err)
	}
	for _, n := range old {
		if len(bytes.Trim(n.disk, "\x00")) > 0 {
			t.Error("a file of the old epoch has bytes")
		}
	}
	if names, _ := d.List("/keys/a"); len(names) != 2 || len(old) != 4 {
		t.Errorf("a/ has %v; %d old files", names, len(old))
	}
}

// To destroy again what is destroyed copies none of the other keys.
func TestARepeatedDestroyCopiesNoKeys(t *testing.T) {
	k := newKeys()
	for n := range 5000 {
		k.byID[idOf(n)] = seal.Key{byte(n)}
	}
	gone := &erasure{ids: []turns.ID{idOf(1), idOf(2)}}
	k, changed := k.after(gone)
	if _, err := k.get(idOf(1)); !changed || !errors.Is(err, turns.ErrErased) || len(k.byID) != 4998 {
		t.Fatalf("first: changed %v, %d keys, %v", changed, len(k.byID), err)
	}
	if n := testing.AllocsPerRun(10, func() { _, changed = k.after(gone) }); changed || n > 4 {
		t.Errorf("repeated: changed %v, %v allocations", changed, n)
	}
}

// TestRandomLives: keys are made, stored and destroyed with faults, kills and power cuts at
// random steps; what returned is so afterwards.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(400) {
		r := mathrand.New(mathrand.NewPCG(seed, 3))
		d := newMemDisk()
		s := mustOpen(t, d)
		have, maybe, gone := map[turns.ID]seal.Key{}, map[turns.ID]bool{}, map[turns.ID]bool{}
		destroyed := map[seal.Key]bool{}
		random := &counter{seed * 1000}
		cut := false
		for range 30 {
			if r.IntN(3) == 0 {
				d.ops, d.fail, d.how, d.after = 0, 1+r.IntN(14), fault(r.IntN(int(faults))), r.IntN(2) == 0
			}
			id := idOf(r.IntN(6))
			if r.IntN(4) == 0 {
				if maybe[id] = true; s.Destroy(id) == nil {
					gone[id], destroyed[have[id]] = true, true
				}
			} else if k, err := s.Create(id, random); err == nil {
				if old, ok := have[id]; ok && old != k || gone[id] {
					t.Fatalf("seed %d: Create gives another key, or a destroyed one", seed)
				}
				have[id] = k
			}
			switch r.IntN(4) {
			case 0:
				d.cutPower(coin(r.Uint64()))
				s, cut = mustOpen(t, d), true
			case 1:
				d.restart()
				s = mustOpen(t, d)
			case 2:
				d.restart()
			}
			if d.dead {
				continue
			}
			for id, k := range have {
				got, err := s.Key(id)
				switch {
				case gone[id] && !errors.Is(err, turns.ErrErased):
					t.Fatalf("seed %d: a destroyed key: %v", seed, err)
				case maybe[id] && errors.Is(err, turns.ErrErased):
				case err != nil || got != k:
					t.Fatalf("seed %d: a key that Create returned: %v", seed, err)
				}
			}
		}
		d.restart()
		mustOpen(t, d)
		delete(destroyed, seal.Key{})
		if k, leak := d.leaks(destroyed, !cut); leak {
			t.Fatalf("seed %d: %x was destroyed", seed, k[:])
		}
	}
}

// TestAFolderThatIsGoneIsNotBegunAnew: after a failed step the store opens itself anew, and takes
// an empty folder for no empty store.
func TestAFolderThatIsGoneIsNotBegunAnew(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	if _, err := s.Create(idOf(1), &counter{}); err != nil {
		t.Fatal(err)
	}
	for name, n := range d.live {
		if n != nil {
			delete(d.live, name)
		}
	}
	if _, err := s.Create(idOf(2), &counter{5}); err == nil {
		t.Error("a key was made in files that are gone")
	}
	for range 2 {
		if _, err := s.Create(idOf(2), &counter{5}); !errors.Is(err, turns.ErrCorrupt) {
			t.Errorf("Create: %v, want corrupt", err)
		}
	}
	if names, _ := d.List("/keys/a"); len(names) > 0 {
		t.Errorf("a/ has %v", names)
	}
}

// A key that both copies lost can be put back from elsewhere: Create makes none in its place, Put takes its
// place, also after an open and after another epoch began.
func TestADamagedKeyIsPutBack(t *testing.T) {
	for _, renewed := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "keys")
		s := must(Open(dir))(t)
		for n := range 3 {
			if err := s.Put(idOf(n), seal.Key{byte(n + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		paths := [2]string{s.logName(copyA), s.logName(copyB)}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		const second = headerSize + recordExtra + len(seal.Key{})
		for _, path := range paths {
			b := must(os.ReadFile(path))(t)
			b[second+headSize+crypt.NonceSize+3] ^= 1
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = must(Open(dir))(t)
		if renewed {
			if err := s.Destroy(idOf(9)); err != nil {
				t.Fatal(err)
			}
		}
		if ids, _ := s.IDs(); len(ids) != 2 {
			t.Errorf("%d ids have a key, want 2", len(ids))
		}
		if _, err := s.Create(idOf(1), &counter{}); !errors.Is(err, turns.ErrCorrupt) {
			t.Errorf("Create in the place of a damaged key: %v", err)
		}
		for range 2 { // the second time it is there
			if err := s.Put(idOf(1), seal.Key{2}); err != nil {
				t.Fatalf("put back: %v", err)
			}
		}
		if err := s.Put(idOf(1), seal.Key{3}); !errors.Is(err, ErrDifferent) {
			t.Errorf("another key, after it was put back: %v", err)
		}
		for what, s := range map[string]*Store{"at once": s, "after an open": must(Open(dir))(t)} {
			if k, err := s.Key(idOf(1)); err != nil || k != (seal.Key{2}) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := s.Destroy(idOf(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := must(Open(dir))(t).Key(idOf(1)); !errors.Is(err, turns.ErrErased) {
			t.Errorf("destroyed after it was put back: %v", err)
		}
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestBeginReturnsBeforeTheSecondCopy holds the second copy back: the key is there, in the first one, and
// neither durable nor a Create of the same key returns.
func TestBeginReturnsBeforeTheSecondCopy(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	s.stageB.Lock()
	k, durable, err := s.Begin(idOf(1), &counter{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Key(idOf(1)); err != nil || got != k {
		t.Errorf("Key: %v", err)
	}
	done := make(chan string, 2)
	go func() {
		if err := durable(); err != nil {
			t.Error(err)
		}
		done <- "durable"
	}()
	go func() {
		if again, err := s.Create(idOf(1), &counter{9}); err != nil || again != k {
			t.Errorf("Create gives another key: %v", err)
		}
		done <- "Create"
	}()
	for range 100 { // a chance for either to be wrong
		select {
		case name := <-done:
			t.Fatalf("%s returned while the key is in one copy", name)
		default:
			runtime.Gosched()
		}
	}
	s.stageB.Unlock()
	<-done
	<-done
	if again, durable, err := s.Begin(idOf(1), &counter{9}); err != nil || again != k || durable() != nil {
		t.Errorf("Begin again: %v", err)
	}
}
