package seal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"

	"nexus/turns"
)

// What is left of a key opens all but what was taken, in both stores, also after more is taken.
func TestAPuncturedKeyOpensAllButWhatWasTaken(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, ring := range map[string]keyStore{"store": s, "memory": new(Memory)} {
		t.Run(name, func(t *testing.T) {
			id := idOf(1)
			whole, err := ring.Create(id, &counter{})
			if err != nil {
				t.Fatal(err)
			}
			if err := ring.Puncture(idOf(2), 1, 0); !errors.Is(err, ErrNoKey) {
				t.Errorf("of a key that is not here: %v", err)
			}
			taken := map[uint64]bool{}
			later := map[uint64]Key{} // of events that came behind a puncture
			for round, take := range [][]uint64{{3}, {3, 4, 700}, {0, 255, 256}, {2000}} {
				begun := uint64(300 + 300*round)
				if err := ring.Puncture(id, begun, take...); err != nil {
					t.Fatal(err)
				}
				for _, i := range take {
					taken[i] = true
				}
				c, err := ring.Content(id)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := ring.Key(id); !errors.Is(err, ErrPunctured) {
					t.Errorf("the whole key: %v", err)
				}
				if _, err := ring.Create(id, &counter{}); !errors.Is(err, ErrPunctured) {
					t.Errorf("Create: %v", err)
				}
				if err := ring.Put(id, whole); !errors.Is(err, ErrPunctured) {
					t.Errorf("Put: %v", err)
				}
				for i := range uint64(512) { // what had begun before the first puncture
					k, err := c.event(i)
					if taken[i] != errors.Is(err, turns.ErrErased) || !taken[i] && (err != nil || k != whole.event(i)) {
						t.Errorf("round %d: event %d: %v", round, i, err)
					}
				}
				for _, p := range infosOfContent {
					if c.derive(p) != whole.derive(p) {
						t.Errorf("round %d: the key by %q is another one", round, p)
					}
				}
				for i, want := range later {
					if k, err := c.event(i); !taken[i] && (err != nil || k != want) {
						t.Errorf("round %d: event %d, which came later: %v", round, i, err)
					}
				}
				if later[begun+250], err = c.event(begun + 250); err != nil { // it comes before the next puncture
					t.Fatal(err)
				}
				if k, err := c.event(100_000); err != nil || k == whole.event(100_000) {
					t.Errorf("round %d: what has not begun has no key, or one of the old key: %v", round, err)
				}
				left, err := DecodeRemains(c.Remains().Encode())
				if err != nil || !(Content{left: left}).Same(c) {
					t.Errorf("round %d: it does not read as it was written: %v", round, err)
				}
			}
			if err := ring.Puncture(id, 1<<40, 1); !errors.Is(err, turns.ErrTooLarge) {
				t.Errorf("of a chain too long: %v", err)
			}
			if err := ring.Destroy(id); err != nil {
				t.Fatal(err)
			}
			if _, err := ring.Content(id); !errors.Is(err, turns.ErrErased) {
				t.Errorf("after Destroy: %v", err)
			}
		})
	}
}

// A folder with what is left of keys reads as it was, and takes it in the place of the whole key.
func TestRemainsTakeThePlaceOfTheWholeKey(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	k, err := s.Create(idOf(1), &counter{})
	if err != nil {
		t.Fatal(err)
	}
	left, err := k.Content().puncture(10, []uint64{5}, &counter{100})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(idOf(3), Key{3}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutRemains(idOf(3), left); !errors.Is(err, ErrDifferent) {
		t.Errorf("of another key: %v", err)
	}
	for range 2 {
		for _, id := range []turns.ID{idOf(1), idOf(2)} {
			if err := s.PutRemains(id, left); err != nil {
				t.Fatal(err)
			}
		}
		s = mustOpen(t, d)
	}
	for _, id := range []turns.ID{idOf(1), idOf(2)} {
		c, err := s.Content(id)
		if err != nil || !bytes.Equal(c.Remains().Encode(), left.Encode()) {
			t.Errorf("%v: %v", id, err)
		}
	}
	if have, _ := s.IDs(); len(have) != 3 {
		t.Errorf("%d keys, want 3", len(have))
	}
}

// Where both copies of what is left are damaged, no older whole key takes its place, and what is left does, also
// after the damage was dropped by a rewrite.
func TestDamagedRemainsAreNotReplacedByTheWholeKey(t *testing.T) {
	d := newMemDisk()
	s := mustOpen(t, d)
	k, err := s.Create(idOf(1), &counter{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Puncture(idOf(1), 10, 5); err != nil {
		t.Fatal(err)
	}
	c, err := s.Content(idOf(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, side := range sides {
		n := d.live[s.logName(side)]
		n.data[headerSize+headSize+100] ^= 1
		n.disk = bytes.Clone(n.data)
	}
	s = mustOpen(t, d)
	for range 2 {
		if _, err := s.Content(idOf(1)); !errors.Is(err, turns.ErrCorrupt) {
			t.Errorf("damaged remains: %v", err)
		}
		if err := s.Put(idOf(1), k); !errors.Is(err, ErrPunctured) {
			t.Errorf("Put of the whole key: %v", err)
		}
		if err := s.Destroy(idOf(9)); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, d)
	}
	if err := s.PutRemains(idOf(1), c.Remains()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Content(idOf(1)); err != nil || !got.Same(c) {
		t.Errorf("put back: %v", err)
	}
}

func TestReadContentRefusesWhatIsNoKey(t *testing.T) {
	left, err := (Key{1}).Content().puncture(1, []uint64{0}, &counter{})
	if err != nil {
		t.Fatal(err)
	}
	b := left.Encode()
	for i := range b {
		if _, err := ReadContent(nil, b[:i]); !errors.Is(err, turns.ErrCorrupt) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	for _, tc := range [][2][]byte{{make([]byte, 31), nil}, {make([]byte, 32), b}, {nil, append(bytes.Clone(b), 0)}} {
		if _, err := ReadContent(tc[0], tc[1]); !errors.Is(err, turns.ErrCorrupt) {
			t.Errorf("%d and %d bytes: %v", len(tc[0]), len(tc[1]), err)
		}
	}
}

// TestWhatIsLeftOfWhatIsLeft: after more was taken it is left of what was there before, and not the other way round; of another key never.
func TestWhatIsLeftOfWhatIsLeft(t *testing.T) {
	k, other := goldenKey(1).Content(), goldenKey(0).Content()
	take := func(c Content, begun uint64, indexes ...uint64) Content {
		r, err := c.puncture(begun, indexes, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return Content{left: r}
	}
	once := take(k, 700, 3, 300)
	twice := take(once, 1500, 4, 1400)
	for _, c := range []struct {
		of, other Content
		want      bool
	}{{once, k, true}, {twice, once, true}, {twice, k, true}, {once, twice, false}, {k, once, false}, {once, other, false}, {take(k, 700, 3, 300), once, true}, {once, once, true}} {
		if got := c.of.IsLeftOf(c.other); got != c.want {
			t.Errorf("%d taken, left of %d: %v", c.of.Taken(), c.other.Taken(), got)
		}
	}
	if k.Covers(1<<40) == false || !once.Covers(767) || once.Covers(768) {
		t.Error("what it covers")
	}
	if once.Taken() != 2 || twice.Taken() != 4 || k.Taken() != 0 {
		t.Errorf("taken %d, %d, %d", once.Taken(), twice.Taken(), k.Taken())
	}
	if err := k.CheckTake(MaxPunctured/33*chunkEvents, 1); !errors.Is(err, turns.ErrTooLarge) {
		t.Errorf("too many chunks: %v", err)
	}
	if err := k.CheckTake(700, 1, 2); err != nil {
		t.Error(err)
	}
}
