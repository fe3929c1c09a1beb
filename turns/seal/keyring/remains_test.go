package keyring

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"nexus/turns"
	"nexus/turns/seal"
)

// underKey returns a digest that follows from a session's key of the event at an index, zero where that
// was taken.
func underKey(t *testing.T, c seal.Content, index uint64) turns.Hash {
	t.Helper()
	id := turns.ID{1}
	e := &turns.Event{ID: turns.ID{2}, Kind: turns.KindState, Chain: turns.SessionChain(id), Index: index, Digest: turns.Hash{3}}
	switch err := seal.Seal(e, nil, one{id: c}, nil, nil); {
	case errors.Is(err, turns.ErrErased):
		return turns.Hash{}
	case err != nil:
		t.Fatal(err)
	}
	return e.Digest
}

// one is a keyring of a session.
type one map[turns.ID]seal.Content

// Content implements [seal.Keyring].
func (o one) Content(id turns.ID) (seal.Content, error) { return o[id], nil }

// What is left of a key opens all but what was taken, in both stores, also after more is taken.
func TestAPuncturedKeyOpensAllButWhatWasTaken(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "keys"))
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
			if err := ring.Puncture(idOf(2), 1, 0); !errors.Is(err, seal.ErrNoKey) {
				t.Errorf("of a key that is not here: %v", err)
			}
			taken := map[uint64]bool{}
			later := map[uint64]turns.Hash{} // of events that came behind a puncture
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
				if _, err := ring.Key(id); !errors.Is(err, seal.ErrPunctured) {
					t.Errorf("the whole key: %v", err)
				}
				if _, err := ring.Create(id, &counter{}); !errors.Is(err, seal.ErrPunctured) {
					t.Errorf("Create: %v", err)
				}
				if err := ring.Put(id, whole); !errors.Is(err, seal.ErrPunctured) {
					t.Errorf("Put: %v", err)
				}
				for i := range uint64(512) { // what had begun before the first puncture
					want := underKey(t, whole.Content(), i)
					if taken[i] {
						want = turns.Hash{}
					}
					if got := underKey(t, c, i); got != want || c.Has(i) == taken[i] {
						t.Errorf("round %d: event %d is under %v, want %v", round, i, got, want)
					}
				}
				if !c.SameOrigin(whole.Content()) {
					t.Errorf("round %d: the shared key is another one", round)
				}
				for i, want := range later {
					if got := underKey(t, c, i); !taken[i] && got != want {
						t.Errorf("round %d: event %d, which came later, is under %v, want %v", round, i, got, want)
					}
				}
				later[begun+250] = underKey(t, c, begun+250) // it comes before the next puncture
				if got := underKey(t, c, 100_000); got.IsZero() || got == underKey(t, whole.Content(), 100_000) {
					t.Errorf("round %d: what has not begun has no key, or one of the old key", round)
				}
				left, err := seal.DecodeRemains(c.Remains().Encode())
				if err != nil || !left.Content().Same(c) {
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
	left, err := k.Content().Puncture(10, []uint64{5}, &counter{100})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(idOf(3), seal.Key{3}); err != nil {
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
		if err := s.Put(idOf(1), k); !errors.Is(err, seal.ErrPunctured) {
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
