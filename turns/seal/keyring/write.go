package keyring

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"nexus/turns"
	"nexus/turns/seal"
)

// groupBytes is how many bytes of records one write has at most, unless one record is longer.
const groupBytes = 256 << 10

// group is what one write has.
type group struct {
	ids  []turns.ID
	keys []seal.Key
	back []bool        // the key may take the place of a damaged one
	inA  chan struct{} // closed when a has the keys, or the write failed
	done chan struct{}
	err  error // after done
}

func newGroup() *group { return &group{inA: make(chan struct{}), done: make(chan struct{})} }

// Create is the key of id, made of 32 bytes from rand if there is none yet. It
// is durable, in both copies, when Create returns it. Errors: those of Key but
// for [seal.ErrNoKey], and the disk's; Create can then be called again.
func (s *Store) Create(id turns.ID, rand io.Reader) (seal.Key, error) {
	return s.store(id, false, func() (seal.Key, error) { return seal.NewKey(rand) })
}

// Begin is Create for one who goes on while the second copy is written. The key that it returns is
// there after any crash, in one copy. durable waits until it is in both; its error means that
// it may be in one only, until the next call of the store or the next open mends that.
func (s *Store) Begin(id turns.ID, rand io.Reader) (k seal.Key, durable func() error, err error) {
	failed := func(err error) (seal.Key, func() error, error) {
		return seal.Key{}, nil, fmt.Errorf("store the key of %s: %w", id, err)
	}
	for {
		if err := s.recover(); err != nil {
			return failed(err)
		}
		g := s.underWay(id)
		if g == nil {
			if k, err = s.Key(id); !canBeSet(err, false) {
				return k, func() error { return nil }, err
			}
			if k, err = seal.NewKey(rand); err != nil {
				return seal.Key{}, nil, err
			}
			var first bool
			if g, first = s.join(id, k, false); first {
				go s.write(g) // Close waits for it
			}
		}
		<-g.inA
		if k, err = s.Key(id); err == nil {
			return k, func() error { <-g.done; return g.err }, nil
		}
		if <-g.done; g.err != nil {
			return failed(g.err)
		}
	}
}

// underWay returns the group of a write that has a key of id, nil if there is none.
func (s *Store) underWay(id turns.ID) *group {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pending[id]
}

// Put stores a key that was made elsewhere, durably like Create. It puts back one that is
// damaged in both copies, unless events were taken from it. Errors: [ErrDifferent] if id has another key;
// [seal.ErrPunctured] where what is left of it is here, or was; those of Create.
func (s *Store) Put(id turns.ID, k seal.Key) error {
	old, err := s.store(id, true, func() (seal.Key, error) { return k, nil })
	if err == nil && old != k {
		return different(id)
	}
	return err
}

// store returns the durable key of id: the one that is there, or else the one that choose makes. With
// back, that takes the place of one that is damaged.
func (s *Store) store(id turns.ID, back bool, choose func() (seal.Key, error)) (seal.Key, error) {
	for {
		if err := s.recover(); err != nil {
			return seal.Key{}, fmt.Errorf("store the key of %s: %w", id, err)
		}
		if g := s.underWay(id); g != nil { // perhaps in a alone
			if <-g.done; g.err != nil {
				return seal.Key{}, fmt.Errorf("store the key of %s: %w", id, g.err)
			}
		}
		k, err := s.Key(id)
		if !canBeSet(err, back) {
			return k, err
		}
		if k, err = choose(); err != nil {
			return seal.Key{}, err
		}
		g, first := s.join(id, k, back)
		if first {
			s.write(g)
		}
		if <-g.done; g.err != nil {
			return seal.Key{}, fmt.Errorf("store the key of %s: %w", id, g.err)
		}
	}
}

// join puts a key into the group of the next write, and reports whether it is the first one
// there: then the caller writes the group. If a write under way or to come has a key for id,
// join returns the group of that.
func (s *Store) join(id turns.ID, k seal.Key, back bool) (g *group, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.pending[id]; g != nil {
		return g, false
	}
	if s.group == nil || (len(s.group.ids)+1)*(recordExtra+len(k)) > groupBytes {
		s.group, first = newGroup(), true
	}
	g = s.group
	g.ids, g.keys, g.back = append(g.ids, id), append(g.keys, k), append(g.back, back)
	s.pending[id] = g
	return g, first
}

// write writes a group, which takes in others until a is free.
func (s *Store) write(g *group) {
	defer close(g.done)
	inA := sync.OnceFunc(func() { close(g.inA) })
	defer inA()
	g.err = s.append(g, inA)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range g.ids {
		delete(s.pending, id)
	}
}

// append writes the records of a group to both copies, and calls inA between. Those whose key came
// to be there, or was destroyed, while the group waited, are left out.
func (s *Store) append(g *group, inA func()) error {
	s.stageA.Lock()
	s.mu.Lock()
	if s.group == g {
		s.group = nil
	}
	err := s.usable()
	var has []int // which of g are written
	for i, id := range g.ids {
		if _, err := s.keys.get(id); canBeSet(err, g.back[i]) {
			has = append(has, i)
		}
	}
	s.mu.Unlock()
	if err != nil || len(has) == 0 {
		s.stageA.Unlock()
		return err
	}
	at, next, path := s.end, s.next, s.logName
	records := make([]byte, 0, len(has)*(recordExtra+len(seal.Key{})))
	for place, i := range has {
		records = s.epoch.append(records, head{kind: recordKey, place: uint16(place), number: next, id: g.ids[i]}, g.keys[i][:])
		next++
	}
	s.next, s.end = next, at+int64(len(records))
	if err := s.disk.WriteAt(path(copyA), records, at); err != nil {
		s.fail(err)
	} else {
		s.mu.Lock()
		for _, i := range has {
			s.keys.byID[g.ids[i]] = g.keys[i]
			delete(s.keys.broken, g.ids[i])
		}
		s.mu.Unlock()
		inA()
	}
	s.stageB.Lock()
	s.stageA.Unlock()
	defer s.stageB.Unlock()
	s.mu.RLock()
	err = s.usable() // an error too if the write before failed in b: this one would leave a gap
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	err = s.disk.WriteAt(path(copyB), records, at)
	if err != nil {
		s.fail(err)
	}
	return err
}

// canBeSet reports whether an id for which get returned err can have a key.
func canBeSet(err error, back bool) bool {
	return errors.Is(err, seal.ErrNoKey) || back && errors.Is(err, turns.ErrCorrupt) && !errors.Is(err, seal.ErrPunctured)
}
