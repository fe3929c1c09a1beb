package content

import (
	"context"
	"fmt"
	"io"
	"slices"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal"
)

// Seal is the payload of ev with body in it.
func (cs *Store) Seal(ctx context.Context, tenant string, root turns.ID, ev *turns.Event, body any, keys []turns.ID) ([]byte, error) {
	if body != nil {
		if err := cs.offload(ctx, tenant, root, ev, body); err != nil {
			return nil, err
		}
		b, err := turns.EncodeBody(body)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(keys, turns.ID.Compare)
		if err := seal.Seal(ev, b, cs.Keyring(), slices.Compact(keys), cs.Rand); err != nil {
			return nil, err
		}
	}
	return ev.Encode()
}

// Keyring is the keyring for seal, nil where nothing is sealed.
func (cs *Store) Keyring() seal.Keyring {
	if cs.Keys == nil {
		return nil
	}
	return cs.Keys
}

// Key is a session's content key; the zero key where nothing is sealed.
func (cs *Store) Key(id turns.ID) (seal.Key, error) {
	if cs.Keys == nil {
		return seal.Key{}, nil
	}
	return cs.Keys.Key(id)
}

// Open opens a stored event's body.
func (cs *Store) Open(ev *turns.Event, body any) error { return OpenBody(cs.Keyring(), ev, body) }

// OpenBody opens an event's body with the keys of ring. One that can be
// unsealed and not read is [ledger.ErrCorrupt]: nobody's request is wrong.
func OpenBody(ring seal.Keyring, ev *turns.Event, body any) error {
	if len(ev.Body) == 0 && ev.Encoding == 0 {
		return nil
	}
	b, err := seal.Open(ev, ring)
	if err != nil {
		return fmt.Errorf("open %s %s: %w", ev.Kind, ev.ID, err)
	}
	if err := turns.DecodeBody(b, body); err != nil {
		return fmt.Errorf("%w: the body of %s %s: %v", ledger.ErrCorrupt, ev.Kind, ev.ID, err)
	}
	return nil
}

// Keys is the key store as the engine uses it. A nil Keys means that nothing
// is sealed.
type Keys interface {
	seal.Keyring
	Create(id turns.ID, rand io.Reader) (seal.Key, error)
	Put(id turns.ID, k seal.Key) error
}
