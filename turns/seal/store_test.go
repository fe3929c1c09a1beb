package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"nexus/turns"
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
	Keyring
	Create(turns.ID, io.Reader) (Key, error)
	Put(turns.ID, Key) error
	Destroy(turns.ID) error
}

func TestMemoryAndStoreAgree(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	for name, ring := range map[string]keyStore{"store": s, "memory": new(Memory)} {
		t.Run(name, func(t *testing.T) {
			r := &counter{}
			if _, err := ring.Key(idOf(1)); !errors.Is(err, ErrNoKey) {
				t.Errorf("Key before Create: %v, want ErrNoKey", err)
			}
			k, err := ring.Create(idOf(1), r)
			if err != nil || k == (Key{}) {
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
			if err := ring.Put(idOf(1), Key{1}); !errors.Is(err, ErrDifferent) {
				t.Errorf("Put of another key: %v, want ErrDifferent", err)
			}
			if err := ring.Put(idOf(2), Key{2}); err != nil {
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
			if got, err := ring.Key(idOf(2)); err != nil || got != (Key{2}) {
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
		s, err := OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	want := map[turns.ID]Key{}
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

// TestStoreRepairsADamagedCopy breaks each copy in turn, in every way a file breaks.
func TestStoreRepairsADamagedCopy(t *testing.T) {
	id := idOf(1)
	k := Key{1, 2, 3}
	good := encodeKey(id, k)
	flip := func(i int) []byte { b := bytes.Clone(good); b[i] ^= 1; return b }
	broken := map[string][]byte{
		"missing": nil, "empty": {}, "torn": good[:40], "zeros": make([]byte, keyFileSize), "longer": append(bytes.Clone(good), 0),
		"another's key": encodeKey(idOf(2), k), "tombstone": encodeTomb(id),
	}
	for i := range good {
		broken[fmt.Sprintf("byte %d", i)] = flip(i)
	}
	write := func(d *memDisk, path string, b []byte) {
		if b == nil {
			delete(d.live, path)
		} else if err := d.Write(path, b); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range broken {
		for i, side := range copies {
			t.Run(name+" "+side, func(t *testing.T) {
				d := newMemDisk()
				s := mustOpen(t, d)
				if err := s.Put(id, k); err != nil {
					t.Fatal(err)
				}
				path, other := s.path(side, id, keyFile), s.path(copies[1-i], id, keyFile)
				write(d, path, b)
				s = mustOpen(t, d)
				var warned []string
				s.Warn = func(err error) { warned = append(warned, err.Error()) }
				if got, err := s.Key(id); err != nil || got != k {
					t.Fatalf("Key: %v", err)
				}
				if len(warned) != 1 || !strings.Contains(warned[0], path) {
					t.Errorf("warned of %q, want %s", warned, path)
				}
				if got, err := d.Read(path); err != nil || !bytes.Equal(got, good) {
					t.Errorf("not repaired: %x, %v", got, err)
				}

				// The other one breaks too.
				write(d, path, b)
				write(d, other, good[:88])
				s = mustOpen(t, d)
				_, err := s.Key(id)
				if err == nil || errors.Is(err, ErrNoKey) || errors.Is(err, turns.ErrErased) || !errors.Is(err, turns.ErrCorrupt) ||
					!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), other) {
					t.Errorf("both broken: %v", err)
				}
				if _, err := s.Create(id, &counter{}); !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("Create over two broken copies: %v", err)
				}
				if got, _ := d.Read(other); !bytes.Equal(got, good[:88]) {
					t.Error("a broken copy was written over")
				}
			})
		}
	}
}

func TestTwoDifferentCopiesAreCorrupt(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	if err := s.Put(idOf(1), Key{1}); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(s.path(copyB, idOf(1), keyFile), encodeKey(idOf(1), Key{2})); err != nil {
		t.Fatal(err)
	}
	if _, err := mustOpen(t, d).Key(idOf(1)); !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "different") {
		t.Errorf("Key: %v", err)
	}
}

// TestStoreCacheIsBounded: what fell out of memory is read again, and is still durable.
func TestStoreCacheIsBounded(t *testing.T) {
	const room = 64
	s := mustOpen(t, newMemDisk())
	s.cache = newKeyCache(room)
	for n := range room + 100 {
		if err := s.Put(idOf(n), Key(sha256.Sum256(fmt.Append(nil, n)))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.cache.byID); n != room {
		t.Errorf("%d keys in memory, want %d", n, room)
	}
	for n := range room + 100 {
		if k, err := s.Key(idOf(n)); err != nil || k != Key(sha256.Sum256(fmt.Append(nil, n))) {
			t.Fatalf("key %d: %v", n, err)
		}
	}
	if len(s.locks) > 0 {
		t.Errorf("%d locks are left of keys that nobody reads", len(s.locks))
	}
}

// TestKeysBeyondTheCacheAreMostlyFound: sessions that take turns, one more of them than
// there is room for, do not read files at each turn. A walk over many sessions, as that of a
// verification, leaves the keys in memory that are in use.
func TestKeysBeyondTheCacheAreMostlyFound(t *testing.T) {
	const room, rounds = 64, 200
	d := &readsCounted{memDisk: newMemDisk()}
	s := mustOpen(t, d.memDisk)
	s.disk, s.cache = d, newKeyCache(room)
	use := func(n int) {
		t.Helper()
		if _, err := s.Key(idOf(n)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 * room {
		if err := s.Put(idOf(n), Key{byte(n), byte(n >> 8), 1}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range room + 1 {
		use(n)
	}
	d.reads = 0
	for range rounds {
		for n := range room + 1 {
			use(n)
		}
	}
	// Some 6 of 65 keys a round are not in memory, at 4 reads each.
	if most := rounds * (room + 1) * 4 / 4; d.reads > most {
		t.Errorf("a cycle over one key too many: %d reads of files, want at most %d", d.reads, most)
	}

	const busy = room / 4
	walked := 0
	d.reads = 0
	for n := busy; n < 10*room; n++ {
		use(n)
		walked += 4
		for k := range busy {
			use(k)
		}
	}
	if again := d.reads - walked; again > walked/20 {
		t.Errorf("a walk over %d keys: %d more reads for the %d keys in use", 10*room-busy, again, busy)
	}
}

// readsCounted counts the reads of files.
type readsCounted struct {
	*memDisk
	reads int
}

func (d *readsCounted) Read(name string) ([]byte, error) {
	d.reads++
	return d.memDisk.Read(name)
}

// TestAKeyWaitsForNoOtherKey: while the disk hangs in a file of one key, the others of its
// folder are read.
func TestAKeyWaitsForNoOtherKey(t *testing.T) {
	slow := idOf(0)
	same := 1
	for fan(idOf(same)) != fan(slow) {
		same++
	}
	d := &hangs{disk: osDisk{}, reached: make(chan struct{}), release: make(chan struct{})}
	s, err := openStore(t.TempDir(), osDisk{})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []turns.ID{slow, idOf(same)} {
		if err := s.Put(id, Key{byte(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	s.cache.clear()
	s.disk, d.name = d, s.path(copyA, slow, keyFile)
	var wg sync.WaitGroup
	wg.Go(func() {
		if k, err := s.Key(slow); err != nil || k != (Key{1}) {
			t.Errorf("the slow key: %v", err)
		}
	})
	<-d.reached
	if k, err := s.Key(idOf(same)); err != nil || k != (Key{2}) {
		t.Errorf("the other key: %v", err)
	}
	close(d.release)
	wg.Wait()
}

// hangs is a disk on which one read waits for release.
type hangs struct {
	disk
	name             string
	reached, release chan struct{}
}

func (d *hangs) Read(name string) ([]byte, error) {
	if name == d.name {
		close(d.reached)
		<-d.release
	}
	return d.disk.Read(name)
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var got [8]Key
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
	s, err := openStore("/keys", d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
