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
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	s, err := OpenStore(filepath.Join(t.TempDir(), "keys"), nil)
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

// onDisk are the keys that the files of a folder give.
func onDisk(t *testing.T, dir string) map[Key]bool {
	d := newMemDisk()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		d.live[path] = &inode{b}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return d.keys(false)
}

func TestDestroyedKeyLeavesNoBytesOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	open := func() *Store {
		s, err := OpenStore(dir, nil)
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
	left := onDisk(t, dir)
	for id, k := range want {
		if left[k] != (id != idOf(3)) {
			t.Errorf("key of %s on the disk: %v", id, left[k])
		}
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

// damaged is a store with three keys, the disk that it is on, and its files.
func damaged(t *testing.T) (d *memDisk, files [2][2]string) {
	d = newMemDisk()
	s := mustOpen(t, d)
	for n := range 3 {
		if err := s.Put(idOf(n), Key{byte(n + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range copies {
		files[i] = [2]string{s.path(i, s.epoch.number, logFile), s.path(i, s.epoch.number, epochFile)}
	}
	return d, files
}

// TestStoreRepairsADamagedCopy breaks each file of each copy in turn, in every way a file breaks.
func TestStoreRepairsADamagedCopy(t *testing.T) {
	for side := range copies {
		for file, what := range []string{"log", "epoch key"} {
			good, files := damaged(t)
			path := files[side][file]
			whole := good.live[path].data
			broken := map[string][]byte{"missing": nil, "empty": {}, "torn": whole[:len(whole)/2], "zeros": make([]byte, len(whole)), "longer": append(bytes.Clone(whole), 7)}
			for i := range whole {
				b := bytes.Clone(whole)
				b[i] ^= 1
				broken[fmt.Sprintf("byte %d", i)] = b
			}
			if file == 0 {
				broken["a slot less"] = whole[:len(whole)-slotSize]
				broken["slots that changed places"] = slices.Concat(whole[:slotSize], whole[2*slotSize:3*slotSize], whole[slotSize:2*slotSize], whole[3*slotSize:])
			}
			for name, b := range broken {
				t.Run(what+" "+copies[side]+" "+name, func(t *testing.T) {
					d := good.without("")
					if b == nil {
						delete(d.live, path)
					} else {
						d.live[path].data = bytes.Clone(b)
					}
					var warned []string
					s, err := openStore("/keys", d, func(err error) { warned = append(warned, err.Error()) })
					if err != nil {
						t.Fatal(err)
					}
					for n := range 3 {
						if k, err := s.Key(idOf(n)); err != nil || k != (Key{byte(n + 1)}) {
							t.Errorf("key %d: %v", n, err)
						}
					}
					if name != "longer" && (len(warned) != 1 || !strings.Contains(warned[0], path)) {
						t.Errorf("warned of %q, want %s", warned, path)
					}
					if got, err := d.Read(path); err != nil || !bytes.Equal(got, whole) {
						t.Errorf("not repaired: %x, %v", got, err)
					}
				})
			}
		}
	}
}

// TestARecordThatBothCopiesLostIsNamed: a record that is damaged in both copies costs its own key only,
// nothing is written over it, no other key is made in its place, and it can be put back.
func TestARecordThatBothCopiesLostIsNamed(t *testing.T) {
	for _, at := range []int{0, 20, 60, slotSize - 1} { // id, nonce, sealed bytes, tag
		for n := range 3 {
			t.Run(fmt.Sprintf("byte %d of record %d", at, n), func(t *testing.T) {
				d, files := damaged(t)
				for i := range copies {
					d.live[files[i][0]].data[(n+1)*slotSize+max(at, 16*i)] ^= 0x80 // of the id in one copy only
				}
				before := bytes.Clone(d.live[files[0][0]].data)
				s := mustOpen(t, d)
				for other := range 3 {
					k, err := s.Key(idOf(other))
					if other != n && (err != nil || k != (Key{byte(other + 1)})) {
						t.Errorf("key %d: %v", other, err)
					}
					if other == n && (!errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), files[0][0]) || !strings.Contains(err.Error(), files[1][0])) {
						t.Errorf("the damaged key: %v", err)
					}
				}
				if _, err := s.Create(idOf(n), &counter{}); !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("Create in the place of a damaged key: %v", err)
				}
				if _, err := s.Create(idOf(7), &counter{}); err != nil {
					t.Errorf("another key: %v", err)
				}
				if got := d.live[files[0][0]].data; !bytes.Equal(got[:len(before)], before) {
					t.Error("what is damaged was written over")
				}
				if err := s.Destroy(idOf(8)); err != nil { // another epoch keeps what was lost
					t.Fatal(err)
				}
				s = mustOpen(t, d)
				if _, err := s.Key(idOf(n)); !errors.Is(err, turns.ErrCorrupt) {
					t.Errorf("in another epoch: %v", err)
				}
				if err := s.Put(idOf(n), Key{byte(n + 1)}); err != nil {
					t.Fatalf("put back: %v", err)
				}
				if k, err := mustOpen(t, d).Key(idOf(n)); err != nil || k != (Key{byte(n + 1)}) {
					t.Errorf("after it was put back: %v", err)
				}
			})
		}
	}
}

func TestStoreWithoutAHeadOrAnEpochKeyDoesNotOpen(t *testing.T) {
	for file := range 2 {
		d, files := damaged(t)
		for i := range copies {
			d.live[files[i][file]].data[10] ^= 1
		}
		_, err := openStore("/keys", d, nil)
		if !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), files[0][file]) || !strings.Contains(err.Error(), files[1][file]) {
			t.Errorf("both copies damaged: %v", err)
		}
		d, files = damaged(t)
		for i := range copies { // a later build's
			b := d.live[files[i][file]].data
			b[8] = 9
			if file == 1 {
				sum := sha256.Sum256(b[:len(b)-32])
				copy(b[len(b)-32:], sum[:])
			}
		}
		if _, err := openStore("/keys", d, nil); !errors.Is(err, turns.ErrUnsupported) {
			t.Errorf("a later version: %v", err)
		}
	}
	d, _ := damaged(t)
	d.live["/keys/a/0f"] = nil
	if _, err := openStore("/keys", d, nil); !errors.Is(err, turns.ErrUnsupported) || !strings.Contains(err.Error(), "/keys/a/0f") {
		t.Errorf("a folder that another build made: %v", err)
	}
}

func TestTwoDifferentCopiesAreCorrupt(t *testing.T) {
	d, files := damaged(t)
	s := mustOpen(t, d)
	if err := s.Put(idOf(5), Key{5}); err != nil {
		t.Fatal(err)
	}
	other := s.epoch.appendRecord(nil, 4, idOf(5), entry{recordKey, Key{6}})
	copy(d.live[files[1][0]].data[4*slotSize:], other)
	if _, err := mustOpen(t, d).Key(idOf(5)); !errors.Is(err, turns.ErrCorrupt) {
		t.Errorf("two keys of an id: %v", err)
	}
	if k, err := mustOpen(t, d).Key(idOf(1)); err != nil || k != (Key{2}) {
		t.Errorf("another key: %v", err)
	}
}

// TestKeysShareTheirSyncs: calls that wait for the disk are written together.
func TestKeysShareTheirSyncs(t *testing.T) {
	d := &slow{memDisk: newMemDisk(), reached: make(chan struct{}, 100), release: make(chan struct{})}
	s, err := openStore("/keys", d, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.on.Store(true)
	var wg sync.WaitGroup
	create := func(n int) {
		wg.Go(func() {
			if _, err := s.Create(idOf(n), rand.Reader); err != nil {
				t.Error(err)
			}
		})
	}
	create(0)
	<-d.reached // the first is being written: the others wait
	for n := range 20 {
		create(n + 1)
	}
	for {
		s.mu.RLock()
		n := len(s.waiting)
		s.mu.RUnlock()
		if n == 20 {
			break
		}
		runtime.Gosched()
	}
	if _, err := s.Key(idOf(3)); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key that is not durable yet: %v", err)
	}
	d.on.Store(false)
	close(d.release)
	wg.Wait()
	if got := d.appends.Load(); got != 4 {
		t.Errorf("21 keys took %d writes, want 2 in each copy", got)
	}
	for n := range 21 {
		if _, err := s.Key(idOf(n)); err != nil {
			t.Error(err)
		}
	}
}

// slow is a disk whose writes wait for release.
type slow struct {
	*memDisk
	on               atomic.Bool
	appends          atomic.Int64
	reached, release chan struct{}
}

func (d *slow) Append(name string, at int, b []byte) error {
	d.appends.Add(1)
	if d.on.Load() {
		d.reached <- struct{}{}
		<-d.release
	}
	return d.memDisk.Append(name, at, b)
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "keys"), nil)
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
	s, err := openStore("/keys", d, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
