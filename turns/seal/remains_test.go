package seal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"nexus/turns"
)

func TestReadContentRefusesWhatIsNoKey(t *testing.T) {
	left, err := (Key{1}).Content().Puncture(1, []uint64{0}, rand.Reader)
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
		r, err := c.Puncture(begun, indexes, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return r.Content()
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
	for _, p := range infosOfContent {
		if twice.derive(p) != k.derive(p) {
			t.Errorf("the key by %q is another one", p)
		}
	}
	if once.Taken() != 2 || twice.Taken() != 4 || k.Taken() != 0 {
		t.Errorf("taken %d, %d, %d", once.Taken(), twice.Taken(), k.Taken())
	}
	if err := k.CheckTake(MaxRemains/33*chunkEvents, 1); !errors.Is(err, turns.ErrTooLarge) {
		t.Errorf("too many chunks: %v", err)
	}
	if err := k.CheckTake(700, 1, 2); err != nil {
		t.Error(err)
	}
}
