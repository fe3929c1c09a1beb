package seal

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"nexus/turns"
)

// Memory is a keyring in memory, for tests and simulations. The zero Memory is
// empty and ready for use; it must not be copied after its first use.
type Memory struct {
	mu        sync.Mutex
	keys      map[turns.ID]*Content // nil: destroyed
	onDestroy []func()
}

// Create is [Store.Create], without a disk.
func (m *Memory) Create(id turns.ID, rand io.Reader) (Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, err := m.content(id); !errors.Is(err, ErrNoKey) {
		return whole(id, c, err)
	}
	k, err := newKey(rand)
	if err != nil {
		return Key{}, err
	}
	m.set(id, &Content{whole: k})
	return k, nil
}

// Begin is [Store.Begin], without a disk.
func (m *Memory) Begin(id turns.ID, rand io.Reader) (Key, func() error, error) {
	k, err := m.Create(id, rand)
	return k, func() error { return nil }, err
}

// Put is [Store.Put], without a disk.
func (m *Memory) Put(id turns.ID, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.content(id)
	if errors.Is(err, ErrNoKey) {
		m.set(id, &Content{whole: k})
		return nil
	}
	old, err := whole(id, c, err)
	if err == nil && old != k {
		err = different(id)
	}
	return err
}

// Key is [Store.Key].
func (m *Memory) Key(id turns.ID) (Key, error) {
	c, err := m.Content(id)
	return whole(id, c, err)
}

// Content implements [Keyring].
func (m *Memory) Content(id turns.ID) (Content, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content(id)
}

func (m *Memory) content(id turns.ID) (Content, error) {
	switch c, ok := m.keys[id]; {
	case !ok:
		return Content{}, noKey(id)
	case c == nil:
		return Content{}, erased(id)
	default:
		return *c, nil
	}
}

// whole is the key of id, if c is one.
func whole(id turns.ID, c Content, err error) (Key, error) {
	if err == nil && c.left != nil {
		err = punctured(id)
	}
	return c.whole, err
}

// Puncture is [Store.Puncture], without a disk.
func (m *Memory) Puncture(id turns.ID, begun uint64, indexes ...uint64) error {
	if len(indexes) == 0 {
		return nil
	}
	return m.take(take{id: id, begun: begun, indexes: indexes})
}

// PutRemains is [Store.PutRemains], without a disk.
func (m *Memory) PutRemains(id turns.ID, left *Remains) error { return m.take(take{id: id, put: left}) }

func (m *Memory) take(t take) error {
	m.mu.Lock()
	c, err := m.content(t.id)
	left, changed, err := t.of(c, err)
	if changed && err == nil {
		m.set(t.id, &Content{left: left})
	}
	onDestroy := m.onDestroy
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("take from the key of %s: %w", t.id, err)
	}
	for _, f := range onDestroy {
		f()
	}
	return nil
}

// Destroy is [Store.Destroy], without a disk.
func (m *Memory) Destroy(ids ...turns.ID) error {
	m.mu.Lock()
	for _, id := range ids {
		m.set(id, nil)
	}
	onDestroy := m.onDestroy
	m.mu.Unlock()
	for _, f := range onDestroy {
		f()
	}
	return nil
}

// OnDestroy is [Store.OnDestroy].
func (m *Memory) OnDestroy(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onDestroy = append(m.onDestroy, f)
}

func (m *Memory) set(id turns.ID, k *Content) {
	if m.keys == nil {
		m.keys = make(map[turns.ID]*Content)
	}
	m.keys[id] = k
}

func newKey(rand io.Reader) (k Key, err error) {
	if _, err := io.ReadFull(rand, k[:]); err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return k, nil
}

func erased(id turns.ID) error {
	return fmt.Errorf("%w: the key of %s is destroyed", turns.ErrErased, id)
}

func noKey(id turns.ID) error { return fmt.Errorf("%w: of %s", ErrNoKey, id) }

func different(id turns.ID) error {
	return fmt.Errorf("put the key of %s: another key is here: %w", id, ErrDifferent)
}
