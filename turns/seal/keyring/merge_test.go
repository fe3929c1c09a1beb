package keyring

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/internal/crypt"
)

// sample is a store with three keys and a destroyed one, and the keys. The log has the
// records of idOf(9), destroyed, idOf(0), idOf(1) and idOf(2), which were made one by one.
func sample(t testing.TB) (*memDisk, *Store, map[turns.ID]seal.Key) {
	d := newMemDisk()
	s, err := open("/keys", d)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Destroy(idOf(9)); err != nil {
		t.Fatal(err)
	}
	want := map[turns.ID]seal.Key{}
	for n := range 3 {
		want[idOf(n)] = seal.Key{byte(n + 1), 9}
		if err := s.Put(idOf(n), want[idOf(n)]); err != nil {
			t.Fatal(err)
		}
	}
	return d, s, want
}

// clone is a copy of a disk on which all is durable.
func (d *memDisk) clone() *memDisk {
	out := newMemDisk()
	for name, n := range d.live {
		if n != nil {
			n = &inode{data: bytes.Clone(n.data), disk: bytes.Clone(n.data)}
			out.all = append(out.all, n)
		}
		out.live[name], out.durable[name] = n, n
	}
	return out
}

// set makes b the content of a file.
func (d *memDisk) set(name string, b []byte) {
	if b == nil {
		delete(d.live, name)
		return
	}
	d.live[name] = &inode{data: bytes.Clone(b), disk: bytes.Clone(b)}
}

func (d *memDisk) get(name string) []byte { return d.live[name].data }

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1 << (at % 8)
	return b
}

// holdsAll checks that a store has keys and the destroyed one, but for one that is broken.
func holdsAll(t *testing.T, s *Store, want map[turns.ID]seal.Key, broken turns.ID) {
	t.Helper()
	for id, k := range want {
		if got, err := s.Key(id); id != broken && (err != nil || got != k) {
			t.Errorf("Key: %v", err)
		}
	}
	if _, err := s.Key(idOf(9)); !errors.Is(err, turns.ErrErased) && broken != idOf(9) {
		t.Errorf("the destroyed key: %v", err)
	}
}

// TestDamageOfOneCopyIsMended breaks each file of each copy in turn, at each byte and in every
// way a file breaks.
func TestDamageOfOneCopyIsMended(t *testing.T) {
	whole, s, want := sample(t)
	for _, side := range sides {
		for _, suffix := range []string{logSuffix, epochSuffix} {
			name := s.name(side, s.epoch.number, suffix)
			good := whole.get(name)
			broken := map[string][]byte{"missing": nil, "empty": {}, "zeros": make([]byte, len(good)), "longer": append(bytes.Clone(good), 1)}
			for i := range good {
				if i < 200 || i%7 == 0 || i > len(good)-200 {
					broken[fmt.Sprintf("byte %d", i)] = flipped(good, i)
				}
				if i%10 == 0 {
					broken[fmt.Sprintf("cut at %d", i)] = good[:i]
					broken[fmt.Sprintf("zeros from %d", i)] = append(bytes.Clone(good[:i]), make([]byte, min(64, len(good)-i))...)
				}
			}
			for how, b := range broken {
				d := whole.clone()
				d.set(name, b)
				s := mustOpen(t, d)
				var warned []string
				s.Warn = func(err error) { warned = append(warned, err.Error()) }
				holdsAll(t, s, want, turns.ID{})
				if !bytes.Equal(d.get(name), good) || len(d.live) != len(whole.live) {
					t.Errorf("%s, %s: not mended", name, how)
				}
				// A copy b that ends earlier, and a tail of a that no record has, are what a crash leaves.
				crash := suffix == logSuffix && (side == copyB && headerSize <= len(b) && len(b) < len(good) || how == "longer")
				if !crash && (len(warned) != 1 || !strings.Contains(warned[0], name)) {
					t.Errorf("%s, %s: warned of %q", name, how, warned)
				}
				if t.Failed() {
					return
				}
			}
		}
	}
}

// TestMissingCopiesAreMadeAgain removes all files of one copy.
func TestMissingCopiesAreMadeAgain(t *testing.T) {
	for _, side := range sides {
		d, _, want := sample(t)
		for name := range d.live {
			if strings.HasPrefix(name, "/keys/"+side) {
				delete(d.live, name)
			}
		}
		s := mustOpen(t, d)
		holdsAll(t, s, want, turns.ID{})
		if a, b := d.get(s.logName(copyA)), d.get(s.logName(copyB)); !bytes.Equal(a, b) || len(a) < 4*recordExtra {
			t.Errorf("without %s: copies of %d and %d bytes", side, len(a), len(b))
		}
	}
}

// TestAFlipInBothCopiesBreaksOneKey flips a bit of one record in both copies, each pair of
// bytes: the key of the record is broken, or all are there.
func TestAFlipInBothCopiesBreaksOneKey(t *testing.T) {
	whole, s, want := sample(t)
	a, b := s.logName(copyA), s.logName(copyB)
	good := whole.get(a)
	for at := headerSize; at < len(good); {
		h, ok := headAt(good, at)
		if !ok {
			t.Fatalf("no record at %d", at)
		}
		breaks := 0
		for i := range h.size() {
			for _, j := range []int{0, 5, 20, headSize + 3, headSize + crypt.NonceSize + 2, h.size() - headSize - 1, h.size() - headSize, h.size() - 1, i} {
				d := whole.clone()
				d.set(a, flipped(good, at+i))
				d.set(b, flipped(good, at+j))
				s := mustOpen(t, d)
				holdsAll(t, s, want, h.id)
				k, err := s.Key(h.id)
				inBody := func(i int) bool { return i >= headSize && i < h.size()-headSize }
				if !inBody(i) || !inBody(j) { // one of four heads and one of two bodies are left
					if h.kind == recordKey && (err != nil || k != want[h.id]) || !bytes.Equal(d.get(a), good) || !bytes.Equal(d.get(b), good) {
						t.Fatalf("record %d, bytes %d and %d: not mended, %v", h.number, i, j, err)
					}
					continue
				}
				breaks++
				if h.kind == recordDestroyed { // its head says that there is no key, whatever the body was
					if !errors.Is(err, turns.ErrErased) || !errors.Is(s.Put(h.id, seal.Key{1}), turns.ErrErased) {
						t.Fatalf("record %d, bytes %d and %d: %v; a destroyed key can be put back", h.number, i, j, err)
					}
					continue
				}
				_, err2 := s.Create(h.id, &counter{})
				for _, err := range []error{err, err2} { // TestADamagedKeyIsPutBack has Put
					if !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), b) {
						t.Fatalf("record %d, bytes %d and %d: %v", h.number, i, j, err)
					}
				}
				if !bytes.Equal(d.get(a), flipped(good, at+i)) || !bytes.Equal(d.get(b), flipped(good, at+j)) {
					t.Fatalf("record %d, bytes %d and %d: a damaged copy was written over", h.number, i, j)
				}
				if i%16 > 0 {
					continue
				}
				added, err := s.Create(idOf(50), &counter{})
				if err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, d)
				holdsAll(t, s, want, h.id)
				if k, err := s.Key(idOf(50)); err != nil || k != added {
					t.Fatalf("a key that was made behind damage: %v", err)
				}
				if err := s.Destroy(idOf(50)); err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, d)
				holdsAll(t, s, want, h.id)
				if _, err := s.Key(h.id); !errors.Is(err, turns.ErrCorrupt) {
					t.Fatalf("the broken key after a rewrite: %v", err)
				}
				if err := s.Destroy(h.id); err != nil {
					t.Fatal(err)
				}
				if _, err := mustOpen(t, d).Key(h.id); !errors.Is(err, turns.ErrErased) {
					t.Fatalf("the broken key, destroyed: %v", err)
				}
			}
		}
		if breaks == 0 {
			t.Errorf("no flip broke record %d", h.number)
		}
		at += h.size()
	}
}

// TestARecordThatIsGoneInBothCopiesIsAKeyOfNobody: no key is made in the place of one that
// may have been lost. Keys that are there go on.
func TestARecordThatIsGoneInBothCopiesIsAKeyOfNobody(t *testing.T) {
	whole, s, want := sample(t)
	good := whole.get(s.logName(copyA))
	second := headerSize + recordExtra + recordExtra + len(seal.Key{}) // the record of idOf(1)
	for name, to := range map[string]int{"one record": second + recordExtra + len(seal.Key{}), "the rest": len(good)} {
		t.Run(name, func(t *testing.T) {
			d := whole.clone()
			b := bytes.Clone(good)
			clear(b[second:to])
			for _, side := range sides {
				d.set(s.logName(side), b)
			}
			for range 2 { // as it is, and after a rewrite
				s := mustOpen(t, d)
				if k, err := s.Key(idOf(0)); err != nil || k != want[idOf(0)] {
					t.Errorf("a key that is there: %v", err)
				}
				_, err := s.Key(idOf(1))
				_, err2 := s.Create(idOf(60), &counter{})
				for _, err := range []error{err, err2} {
					if !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), s.logName(copyA)) {
						t.Errorf("a key that is not there: %v", err)
					}
				}
				if err := s.Destroy(idOf(70)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestTornTailsAreCut cuts both copies at each pair of lengths: all records that one of them has
// whole are there.
func TestTornTailsAreCut(t *testing.T) {
	whole, s, want := sample(t)
	a, b := s.logName(copyA), s.logName(copyB)
	good := whole.get(a)
	first := headerSize + recordExtra // the tombstone
	size := recordExtra + len(seal.Key{})
	for la := first; la <= len(good); la += 3 {
		for lb := first; lb <= len(good); lb += 5 {
			d := whole.clone()
			d.set(a, good[:la])
			d.set(b, good[:lb])
			s := mustOpen(t, d)
			n := (max(la, lb) - first) / size
			for i := range 3 {
				k, err := s.Key(idOf(i))
				if i < n && (err != nil || k != want[idOf(i)]) || i >= n && !errors.Is(err, seal.ErrNoKey) {
					t.Fatalf("%d and %d bytes of %d: key %d: %v", la, lb, len(good), i, err)
				}
			}
			if got := d.get(a); !bytes.Equal(got, good[:first+n*size]) || !bytes.Equal(got, d.get(b)) {
				t.Fatalf("%d and %d bytes: the copies have %d and %d", la, lb, len(got), len(d.get(b)))
			}
			k, err := s.Create(idOf(7), &counter{})
			if got, err2 := mustOpen(t, d).Key(idOf(7)); err != nil || err2 != nil || got != k {
				t.Fatalf("behind a torn tail: %v, %v", err, err2)
			}
		}
	}
}

// TestDamageIsNotTakenForATornWrite: a has damage in a record, and b ends before it. Behind it a
// has another write, so its record was durable in both once.
func TestDamageIsNotTakenForATornWrite(t *testing.T) {
	whole, s, want := sample(t)
	good := whole.get(s.logName(copyA))
	size := recordExtra + len(seal.Key{})
	second := headerSize + recordExtra + size // the record of idOf(1)
	for i := range size {
		for _, end := range []int{headerSize, second, second + size/2} {
			a := flipped(good, second+i)
			d := whole.clone()
			d.set(s.logName(copyA), a)
			d.set(s.logName(copyB), good[:end])
			s := mustOpen(t, d)
			holdsAll(t, s, want, idOf(1))
			if _, err := s.Key(idOf(1)); err != nil && !errors.Is(err, turns.ErrCorrupt) {
				t.Fatalf("byte %d, b has %d bytes: %v", i, end, err)
			}
		}
	}
}

func TestDifferentKeysOfOneIDAreCorrupt(t *testing.T) {
	whole, s, want := sample(t)
	good := whole.get(s.logName(copyA))
	last := len(good) - recordExtra - len(seal.Key{})
	h, _ := headAt(good, last)
	other := append(bytes.Clone(good[:last]), s.epoch.append(nil, h, bytes.Repeat([]byte{5}, 32))...)
	h.number++
	twice := s.epoch.append(bytes.Clone(good), h, bytes.Repeat([]byte{5}, 32))
	for name, logs := range map[string]copies{"in two copies": {good, other}, "in one log": {twice, twice}} {
		d := whole.clone()
		for i, side := range sides {
			d.set(s.logName(side), logs[i])
		}
		s := mustOpen(t, d)
		if _, err := s.Key(h.id); !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), "different") {
			t.Errorf("%s: %v", name, err)
		}
		holdsAll(t, s, want, h.id)
		if !bytes.Equal(d.get(s.logName(copyA)), logs[0]) || !bytes.Equal(d.get(s.logName(copyB)), logs[1]) {
			t.Errorf("%s: a copy was written over", name)
		}
	}
}

// TestWhatAnotherBuildWroteIsRefused: nothing is dropped, and nothing changed.
func TestWhatAnotherBuildWroteIsRefused(t *testing.T) {
	whole, s, _ := sample(t)
	e := s.epoch
	good := whole.get(s.logName(copyA))
	add := func(h head, body []byte) []byte {
		h.number, h.id = 5, idOf(3)
		return e.append(bytes.Clone(good), h, body)
	}
	epochFileOf := func(version byte) []byte { // both blocks
		b := encodeEpoch(e.number, e.store, e.key)
		for _, at := range []int{0, epochSecond} {
			b[at+8] = version
			sum := sha256.Sum256(b[at : at+65])
			copy(b[at+65:], sum[:])
		}
		return b
	}
	for name, x := range map[string]struct {
		suffix string
		b      []byte
	}{
		"a record of kind 3":     {logSuffix, add(head{kind: 3}, make([]byte, 100))},
		"a record of kind 200":   {logSuffix, add(head{kind: 200}, nil)},
		"a key of 33 bytes":      {logSuffix, add(head{kind: recordKey}, make([]byte, 33))},
		"a log of version 2":     {logSuffix, append(logHeader(2, e.number, e.store, e.key), good[headerSize:]...)},
		"an epoch key version 2": {epochSuffix, epochFileOf(2)},
	} {
		d := whole.clone()
		for _, side := range sides {
			d.set(s.name(side, e.number, x.suffix), x.b)
		}
		before := d.clone()
		if _, err := open("/keys", d); !errors.Is(err, turns.ErrUnsupported) {
			t.Errorf("%s: %v, want unsupported", name, err)
		}
		sameFiles(t, name, d, before)
	}
}

// TestAFolderThatCanNotBeReadIsRefused: no new keys are made in the place of the old ones.
func TestAFolderThatCanNotBeReadIsRefused(t *testing.T) {
	whole, s, _ := sample(t)
	for name, x := range map[string]struct {
		change func(d *memDisk)
		want   error
		names  string
	}{
		"one file a key": {func(d *memDisk) {
			for _, side := range sides {
				d.set(s.name(side, 2, logSuffix), nil)
				d.set(s.name(side, 2, epochSuffix), nil)
				d.live["/keys/"+side+"/3f"] = nil
				d.set("/keys/"+side+"/3f/01K8000001041061050R3GG281.key", make([]byte, 89))
			}
		}, turns.ErrUnsupported, "/keys/a/3f"},
		"no log": {func(d *memDisk) {
			for _, side := range sides {
				d.set(s.name(side, 2, logSuffix), nil)
			}
		}, turns.ErrCorrupt, ".epoch"},
		"no epoch key": {func(d *memDisk) {
			for _, side := range sides {
				d.set(s.name(side, 2, epochSuffix), nil)
			}
		}, turns.ErrCorrupt, "/keys/b/0000000000000002.epoch"},
		"two epoch keys": {func(d *memDisk) { d.set(s.name(copyB, 2, epochSuffix), encodeEpoch(2, s.epoch.store, seal.Key{5})) }, turns.ErrCorrupt, "different"},
		"another epoch key": {func(d *memDisk) {
			for _, side := range sides {
				d.set(s.name(side, 2, epochSuffix), encodeEpoch(2, s.epoch.store, seal.Key{5}))
			}
		}, turns.ErrCorrupt, "/keys/a/0000000000000002.log"},
	} {
		d := whole.clone()
		x.change(d)
		before := d.clone()
		if _, err := open("/keys", d); !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.names) {
			t.Errorf("%s: %v", name, err)
		}
		sameFiles(t, name, d, before)
	}
}

// TestAFlipInEachEpochKeyIsMended: a file has its key twice.
func TestAFlipInEachEpochKeyIsMended(t *testing.T) {
	whole, s, want := sample(t)
	good := whole.get(s.name(copyA, 2, epochSuffix))
	for i := range epochBlock {
		d := whole.clone()
		for _, side := range sides {
			d.set(s.name(side, 2, epochSuffix), flipped(good, i))
		}
		s := mustOpen(t, d)
		holdsAll(t, s, want, turns.ID{})
		if !bytes.Equal(d.get(s.name(copyA, 2, epochSuffix)), good) || !bytes.Equal(d.get(s.name(copyB, 2, epochSuffix)), good) {
			t.Fatalf("byte %d: not mended", i)
		}
	}
}

func sameFiles(t *testing.T, name string, got, want *memDisk) {
	t.Helper()
	if len(got.live) != len(want.live) {
		t.Errorf("%s: %d files, %d before", name, len(got.live), len(want.live))
	}
	for file, n := range want.live {
		if g := got.live[file]; n != nil && (g == nil || !bytes.Equal(g.data, n.data)) {
			t.Errorf("%s: %s was changed", name, file)
		}
	}
}

// TestLogBytes compares the bytes with those of docs/FORMAT.md.
func TestLogBytes(t *testing.T) {
	var key, content seal.Key
	var id turns.ID
	for i := range key {
		key[i], content[i] = byte(i), byte(0x80+i)
		id[i%16] = byte(0x40 + i%16)
	}
	var store storeID
	for i := range store {
		store[i] = byte(0xe0 + i)
	}
	e := newEpoch(3, store, key)
	got := e.append(nil, head{kind: recordKey, place: 2, number: 7, id: id}, content[:])
	for name, x := range map[string]struct {
		got  []byte
		want string
	}{
		"header": {e.header, goldenHeader},
		"record": {got, goldenRecord},
		"block":  {encodeEpoch(3, store, key)[:epochBlock], goldenBlock},
	} {
		if hex.EncodeToString(x.got) != strings.ReplaceAll(x.want, " ", "") {
			t.Errorf("%s: %x", name, x.got)
		}
	}
	if h, ok := headAt(got, 0); !ok || h != (head{kind: recordKey, place: 2, length: 32, number: 7, id: id}) {
		t.Errorf("the head: %+v, %v", h, ok)
	}
	if body, ok := e.open(got, 0, head{kind: recordKey, place: 2, length: 32, number: 7, id: id}); !ok || !bytes.Equal(body, content[:]) {
		t.Errorf("the body: %x, %v", body, ok)
	}
	if _, ok := newEpoch(4, store, key).open(got, 0, head{kind: recordKey, place: 2, length: 32, number: 7, id: id}); ok {
		t.Error("a record of another epoch opens")
	}
	for _, h := range []head{{kind: recordDestroyed, place: 2, number: 7}, {kind: recordKey, place: 2, number: 8}, {kind: recordKey, place: 3, number: 7}} {
		if h.id, h.length = id, 32; h.kind > 0 {
			if _, ok := e.open(got, 0, h); ok {
				t.Errorf("the record opens as %+v", h)
			}
		}
	}
}

// TestLogBytesOfWhatIsLeft compares a record of kind 3 with that of docs/FORMAT.md, by its digest: it has a key for each event.
func TestLogBytesOfWhatIsLeft(t *testing.T) {
	var key, content seal.Key
	var id turns.ID
	var store storeID
	fresh := make([]byte, len(key))
	for i := range key {
		key[i], content[i], fresh[i] = byte(i), byte(0x80+i), byte(0xa0+i)
		id[i%16], store[i%16] = byte(0x40+i%16), byte(0xe0+i%16)
	}
	left, err := content.Content().Puncture(700, []uint64{3, 300}, bytes.NewReader(fresh))
	if err != nil {
		t.Fatal(err)
	}
	body := left.Encode()
	e := newEpoch(3, store, key)
	got := e.append(nil, head{kind: recordLeft, place: 0, number: 8, id: id}, body)
	const wantBody, wantRecord = "28529656bbb3f0044032ca29bfaeebdfc4dc83884244dc5f112d8bfc1c41ef7f", "7b7aeb1b4949dc2bec53d814976cd2b78477ec0925d31037b032ad633661d78e"
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != wantBody {
		t.Errorf("a body of %d bytes, SHA-256 %x", len(body), sum)
	}
	if sum := sha256.Sum256(got); hex.EncodeToString(sum[:]) != wantRecord {
		t.Errorf("a record of %d bytes, SHA-256 %x", len(got), sum)
	}
	if plain, ok := e.open(got, 0, head{kind: recordLeft, length: len(body), number: 8, id: id}); !ok || !bytes.Equal(plain, body) {
		t.Error("it does not open")
	}
	again, err := seal.DecodeRemains(body)
	if err != nil || !bytes.Equal(again.Encode(), body) {
		t.Errorf("it reads as something else: %v", err)
	}
}

// TestANonceIsNotUsedForTwoRecords: also if a number is used again, behind a write that failed.
func TestANonceIsNotUsedForTwoRecords(t *testing.T) {
	e := newEpoch(1, storeID{}, seal.Key{1})
	seen := map[string]string{}
	for number := range uint64(20) {
		for k := range byte(20) {
			for kind := range recordKind(3) {
				r := e.append(nil, head{kind: kind, number: number, id: idOf(int(number))}, bytes.Repeat([]byte{k}, 32))
				nonce := string(r[headSize : headSize+crypt.NonceSize])
				if old, ok := seen[nonce]; ok && old != string(r) {
					t.Fatal("two records have one nonce")
				}
				seen[nonce] = string(r)
			}
		}
	}
}

// FuzzMerge: whatever two files hold, they are read without a panic, a key is one that was
// sealed, and what was mended says the same again.
func FuzzMerge(f *testing.F) {
	d, s, want := sample(f)
	good := d.get(s.logName(copyA))
	e := s.epoch
	f.Add(good, good, uint16(3), uint16(900))
	f.Add(good, good[:300], uint16(100), uint16(100))
	f.Add(good[:200], []byte{}, uint16(100), uint16(100))
	f.Fuzz(func(t *testing.T, a, b []byte, i, j uint16) {
		if int(i) < len(a) {
			a = flipped(a, int(i))
		}
		if int(j) < len(b) {
			b = flipped(b, int(j))
		}
		d := newMemDisk()
		for _, dir := range []string{"/keys", "/keys/a", "/keys/b"} {
			d.live[dir], d.durable[dir] = nil, nil
		}
		for i, side := range sides {
			d.set(filepath.Join("/keys", side, "0000000000000002.epoch"), encodeEpoch(2, e.store, e.key))
			d.set(filepath.Join("/keys", side, "0000000000000002.log"), [][]byte{a, b}[i])
		}
		s, err := open("/keys", d)
		if err != nil {
			return
		}
		for id, k := range s.keys.byID {
			if k != want[id] {
				t.Errorf("a key that nobody sealed: %s", id)
			}
		}
		again := mustOpen(t, d)
		if fmt.Sprint(again.keys.erased, len(again.keys.byID), len(again.keys.broken), again.keys.lost != nil) !=
			fmt.Sprint(s.keys.erased, len(s.keys.byID), len(s.keys.broken), s.keys.lost != nil) || again.end != s.end || again.next != s.next {
			t.Errorf("opened again it says something else")
		}
	})
}

// TestRandomDamageOfBothCopies: what is read is what was sealed, corrupt, or of a record that
// the end of both files cut off.
func TestRandomDamageOfBothCopies(t *testing.T) {
	whole, s, want := sample(t)
	good := whole.get(s.logName(copyA))
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		d := whole.clone()
		for _, side := range sides {
			b := bytes.Clone(good)
			for range r.IntN(4) {
				at := r.IntN(len(b))
				if r.IntN(2) == 0 {
					b[at] ^= 1 << r.IntN(8)
				} else {
					clear(b[at:min(len(b), at+r.IntN(200))])
				}
			}
			d.set(s.logName(side), b)
		}
		s, err := open("/keys", d)
		if err != nil {
			if !errors.Is(err, turns.ErrCorrupt) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		for id, k := range want {
			if got, err := s.Key(id); err == nil && got != k || err != nil && !errors.Is(err, turns.ErrCorrupt) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if _, err := s.Key(idOf(9)); !errors.Is(err, turns.ErrErased) && !errors.Is(err, turns.ErrCorrupt) {
			t.Fatalf("seed %d: the destroyed key: %v", seed, err)
		}
	}
}

// As in docs/FORMAT.md: epoch 3 of store e0 e1 … ef, the epoch's key 00 01 … 1f, the id 40 41 … 4f, the content key
// 80 81 … 9f, record 7, the third of its write.
const (
	goldenHeader = "4e455855534c4f47 01 00000000000000 0000000000000003 e0e1e2e3e4e5e6e7e8e9eaebecedeeef 2d7c574f539b358b8f9166441a283d640d29f3bfbb8aabaf37ead9aa6ddfda84 6e1e7c38"
	goldenRecord = "01 00 0002 00000020 0000000000000007 404142434445464748494a4b4c4d4e4f 76b615d3" +
		"4ee114a4d8dc0d1b38e4536e 19212310e64cf764e98a8fafb77b2ab6f179edb6f80189e043f8c852f8ef4b00 2b371b88aeac7a01c8a809903110dc6e" +
		"01 01 0002 00000020 0000000000000007 404142434445464748494a4b4c4d4e4f 0e11755e"
	goldenBlock = "4e4558555345504b 01 0000000000000003 e0e1e2e3e4e5e6e7e8e9eaebecedeeef 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 1d9f1646f8a23ddaf46f6b6226019355c489b9f3f58a560b9a6cc33714a961b0"
)

// TestALogCutBeforeItsHeaderEndsIsDamage: a log gets its name with its header in it, so no crash leaves less of both copies. A
// store that took it for an empty one would make other keys.
func TestALogCutBeforeItsHeaderEndsIsDamage(t *testing.T) {
	whole, s, _ := sample(t)
	a, b := s.logName(copyA), s.logName(copyB)
	for n := range headerSize {
		d := whole.clone()
		d.set(a, d.get(a)[:n])
		d.set(b, d.get(b)[:n])
		if _, err := open(s.dir, d); !errors.Is(err, turns.ErrCorrupt) {
			t.Errorf("%d bytes of each copy: %v", n, err)
		}
	}
}

// TestTheCopyOfAnotherStoreIsRefused: with a higher epoch it would be taken for ours, and our keys destroyed.
func TestTheCopyOfAnotherStoreIsRefused(t *testing.T) {
	whole, s, want := sample(t) // epoch 2
	other := newMemDisk()
	o, err := open(s.dir, other)
	if err != nil {
		t.Fatal(err)
	}
	moveOn := func() {
		if err := o.Destroy(idOf(100 + int(o.epoch.number))); err != nil {
			t.Fatal(err)
		}
	}
	for epoch := uint64(1); epoch <= 4; epoch++ { // lower, the same, higher
		if o.epoch.number != epoch {
			t.Fatalf("epoch %d, want %d", o.epoch.number, epoch)
		}
		for _, side := range sides {
			for _, suffixes := range [][]string{{epochSuffix, logSuffix}, {epochSuffix}, {logSuffix}} {
				for _, keep := range []bool{true, false} { // our files beside them
					if !keep && (epoch == 2 && len(suffixes) == 1) {
						continue // one of ours is replaced anyway
					}
					d := whole.clone()
					for _, suffix := range []string{epochSuffix, logSuffix} {
						if !keep {
							delete(d.live, s.name(side, 2, suffix))
						}
					}
					for _, suffix := range suffixes {
						d.set(s.name(side, epoch, suffix), other.get(o.name(copyA, epoch, suffix)))
					}
					name := fmt.Sprintf("epoch %d, %v in %s, ours beside them %v", epoch, suffixes, side, keep)
					before := d.clone()
					if _, err := open(s.dir, d); !errors.Is(err, ErrOtherStore) || !strings.Contains(err.Error(), s.name(side, epoch, suffixes[len(suffixes)-1])) &&
						!strings.Contains(err.Error(), s.name(side, epoch, suffixes[0])) {
						t.Errorf("%s: %v", name, err)
					}
					sameFiles(t, name, d, before)
					for _, suffix := range suffixes { // taken away again
						delete(d.live, s.name(side, epoch, suffix))
					}
					again, err := open(s.dir, d)
					if err != nil {
						t.Errorf("%s: and taken away: %v", name, err)
						continue
					}
					holdsAll(t, again, want, turns.ID{})
				}
			}
		}
		moveOn()
	}
}

// TestAFolderExchangedUnderAnOpenStoreIsRefused: a step failed, and the store that is read again is another one.
func TestAFolderExchangedUnderAnOpenStoreIsRefused(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	other := newMemDisk()
	o := mustOpen(t, other)
	for n := range 3 {
		if err := o.Destroy(idOf(n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, side := range sides {
		for _, suffix := range []string{epochSuffix, logSuffix} {
			delete(d.live, s.name(side, 1, suffix))
			d.set(s.name(side, 4, suffix), other.get(o.name(side, 4, suffix)))
		}
	}
	s.fail(errInjected)
	before := d.clone()
	if _, err := s.Create(idOf(9), new(counter)); !errors.Is(err, ErrOtherStore) {
		t.Error(err)
	}
	sameFiles(t, "exchanged", d, before)
}

// TestAStoreWhoseLogsAreGoneIsNotBegunAnew: nor in the first epoch, where a crash of the first open leaves no log either.
func TestAStoreWhoseLogsAreGoneIsNotBegunAnew(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	if _, err := s.Create(idOf(1), new(counter)); err != nil {
		t.Fatal(err)
	}
	for _, side := range sides {
		delete(d.live, s.logName(side))
	}
	before := d.clone()
	if _, err := open(s.dir, d); !errors.Is(err, turns.ErrCorrupt) || !strings.Contains(err.Error(), s.name(copyB, 1, epochSuffix)) {
		t.Error(err)
	}
	sameFiles(t, "no log", d, before)
}
