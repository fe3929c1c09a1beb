package seal

import (
	"fmt"
	"io"
	"sync"

	"nexus/turns"
)

// Memory is a keyring in memory, for tests and simulations. The zero Memory is
// empty and ready for use; it must not be copied after its first use.
type Memory struct {
	mu        sync.Mutex
	keys      map[turns.ID]*Key // nil: destroyed
	onDestroy []func()
}

// Create is [Store.Create], without a disk.
func (m *Memory) Create(id turns.ID, rand io.Reader) (Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.keys[id]; ok {
		if k == nil {
			return Key{}, erased(id)
		}
		return *k, nil
	}
	k, err := newKey(rand)
	if err != nil {
		return Key{}, err
	}
	m.set(id, &k)
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
	switch old, ok := m.keys[id]; {
	case ok && old == nil:
		return erased(id)
	case ok && *old != k:
		return different(id)
	}
	m.set(id, &k)
	return nil
}

// Key implements [Keyring].
func (m *Memory) Key(id turns.ID) (Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch k, ok := m.keys[id]; {
	case !ok:
		return Key{}, noKey(id)
	case k == nil:
		return Key{}, erased(id)
	default:
		return *k, nil
	}
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

func (m *Memory) set(id turns.ID, k *Key) {
	if m.keys == nil {
		m.keys = make(map[turns.ID]*Key)
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
