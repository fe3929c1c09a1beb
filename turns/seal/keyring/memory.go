package keyring

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"nexus/turns"
	"nexus/turns/seal"
)

// Memory is a keyring in memory, for tests and simulations. The zero Memory is
// empty and ready for use; it must not be copied after its first use.
type Memory struct {
	mu        sync.Mutex
	keys      map[turns.ID]*seal.Content // nil: destroyed
	onDestroy []func()
}

// Create is [Store.Create], without a disk.
func (m *Memory) Create(id turns.ID, rand io.Reader) (seal.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, err := m.content(id); !errors.Is(err, seal.ErrNoKey) {
		return whole(id, c, err)
	}
	k, err := seal.NewKey(rand)
	if err != nil {
		return seal.Key{}, err
	}
	m.set(id, k.Content())
	return k, nil
}

// Begin is [Store.Begin], without a disk.
func (m *Memory) Begin(id turns.ID, rand io.Reader) (seal.Key, func() error, error) {
	k, err := m.Create(id, rand)
	return k, func() error { return nil }, err
}

// Put is [Store.Put], without a disk.
func (m *Memory) Put(id turns.ID, k seal.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.content(id)
	if errors.Is(err, seal.ErrNoKey) {
		m.set(id, k.Content())
		return nil
	}
	old, err := whole(id, c, err)
	if err == nil && old != k {
		err = different(id)
	}
	return err
}

// Key is [Store.Key].
func (m *Memory) Key(id turns.ID) (seal.Key, error) {
	c, err := m.Content(id)
	return whole(id, c, err)
}

// Content implements [seal.Keyring].
func (m *Memory) Content(id turns.ID) (seal.Content, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content(id)
}

func (m *Memory) content(id turns.ID) (seal.Content, error) {
	switch c, ok := m.keys[id]; {
	case !ok:
		return seal.Content{}, noKey(id)
	case c == nil:
		return seal.Content{}, erased(id)
	default:
		return *c, nil
	}
}

// Puncture is [Store.Puncture], without a disk.
func (m *Memory) Puncture(id turns.ID, begun uint64, indexes ...uint64) error {
	if len(indexes) == 0 {
		return nil
	}
	return m.take(take{id: id, begun: begun, indexes: indexes})
}

// PutRemains is [Store.PutRemains], without a disk.
func (m *Memory) PutRemains(id turns.ID, left *seal.Remains) error {
	return m.take(take{id: id, put: left})
}

func (m *Memory) take(t take) error {
	m.mu.Lock()
	c, err := m.content(t.id)
	left, changed, err := t.of(c, err)
	if changed && err == nil {
		m.set(t.id, left.Content())
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
		m.change(id, nil)
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

func (m *Memory) set(id turns.ID, c seal.Content) { m.change(id, &c) }

func (m *Memory) change(id turns.ID, c *seal.Content) {
	if m.keys == nil {
		m.keys = make(map[turns.ID]*seal.Content)
	}
	m.keys[id] = c
}
