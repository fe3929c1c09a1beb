package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"nexus/turns"
)

// Key is a content key: 32 random bytes. It is never used as it is; every use
// has a key of its own, derived from it.
type Key [32]byte

// String keeps a key out of logs.
func (Key) String() string { return "key" }

// GoString keeps a key out of logs.
func (Key) GoString() string { return "key" }

// ErrNoKey: the key was never here.
var ErrNoKey = errors.New("no key")

// Keyring gives content keys by their id: that of the session whose content
// they seal. Implementations: [Store], [Memory]. Safe for concurrent use.
type Keyring interface {
	// Key is the key of id. Errors: [turns.ErrErased]: destroyed; [ErrNoKey]:
	// never here; others for a key that is here but can't be read.
	Key(id turns.ID) (Key, error)
}

// Seal compresses body, where that makes it smaller, seals it under keys, and
// sets Encoding, Keys and Body of e. More than one key: a key derived from all
// of them, so that whoever destroys one makes the body unreadable. With a nil
// ring it compresses only.
//
// The seal binds the body to all of e's header. So Seal comes last: a change of
// e after it makes the body corrupt.
//
// Errors: [turns.ErrTooLarge] for a body over [turns.MaxBody], those of ring
// and of rand, [turns.ErrMalformed] for no key or too many.
func Seal(e *turns.Event, body []byte, ring Keyring, keys []turns.ID, rand io.Reader) error {
	if len(body) > turns.MaxBody {
		return fmt.Errorf("%w: seal event %s: the body is %d bytes, the limit is %d", turns.ErrTooLarge, e.ID, len(body), turns.MaxBody)
	}
	if ring == nil {
		packed, enc := compress(make([]byte, 0, len(body)), body)
		if enc == 0 {
			packed = bytes.Clone(body)
		}
		e.Encoding, e.Keys, e.Body = enc, nil, packed
		return nil
	}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, turns.ID.Compare)
	keys = slices.Compact(keys)
	k, err := combined(ring, keys)
	if err != nil {
		return fmt.Errorf("seal event %s: %w", e.ID, err)
	}
	h := *e
	err = compressed(body, func(packed []byte, enc turns.Encoding) error {
		h.Encoding, h.Keys = enc|turns.Sealed, keys
		aad, err := h.HeaderBytes()
		if err == nil {
			h.Body, err = encrypt(k.derive(bodyKey), nil, packed, aad, rand)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("seal event %s: %w", e.ID, err)
	}
	e.Encoding, e.Keys, e.Body = h.Encoding, h.Keys, h.Body
	return nil
}

// Open is the body that [Seal] was given: CBOR for [turns.DecodeBody]. The
// caller owns it. It allocates at most [turns.MaxBody] bytes and what the
// decoder needs.
//
// Errors: [turns.ErrErased] if one of the keys is destroyed, [ErrNoKey],
// [turns.ErrCorrupt] for a wrong key or an altered body or header,
// [turns.ErrTooLarge].
func Open(e *turns.Event, ring Keyring) ([]byte, error) {
	body, err := open(e, ring)
	if err != nil {
		return nil, fmt.Errorf("open the body of event %s: %w", e.ID, err)
	}
	return body, nil
}

func open(e *turns.Event, ring Keyring) ([]byte, error) {
	if e.Encoding > turns.Zstd|turns.Sealed {
		return nil, fmt.Errorf("%w: body encoding %d", turns.ErrUnsupported, e.Encoding)
	}
	packed := e.Body
	if e.Encoding&turns.Sealed != 0 {
		if ring == nil {
			return nil, fmt.Errorf("%w: it is sealed under %v", ErrNoKey, e.Keys)
		}
		k, err := combined(ring, e.Keys)
		if err != nil {
			return nil, err
		}
		aad, err := e.HeaderBytes()
		if err != nil {
			return nil, err
		}
		if packed, err = decrypt(k.derive(bodyKey), e.Body, aad); err != nil {
			return nil, err
		}
	}
	return decompress(e.Encoding, packed)
}

// combined is the key of a list of key ids, sorted: the key itself of one, a
// key derived from all of several.
func combined(ring Keyring, ids []turns.ID) (Key, error) {
	if len(ids) == 0 || len(ids) > turns.MaxKeys {
		return Key{}, fmt.Errorf("%w: %d keys", turns.ErrMalformed, len(ids))
	}
	if len(ids) == 1 {
		return ring.Key(ids[0])
	}
	all := make([]byte, 0, len(ids)*len(Key{}))
	for _, id := range ids {
		k, err := ring.Key(id)
		if err != nil {
			return Key{}, err
		}
		all = append(all, k[:]...)
	}
	return expand(all, combinedKey), nil
}
