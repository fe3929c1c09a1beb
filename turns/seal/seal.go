package seal

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
)

// Seal compresses body, where that makes it smaller, seals it under keys, and sets
// Encoding, Keys, Commitment and Body of e. It puts Digest, which on entry is that of
// the request ([RequestDigest]) or zero, under the event's key. The first key is that of
// the event's chain; more than one: a key derived from all of them, so that whoever
// destroys one makes the body unreadable. With a nil ring it compresses only, and keys
// nothing. A nil body leaves e without one.
//
// The seal binds the body to all of e's header. So Seal comes last: a change of e after
// it makes the body corrupt. e is changed only where Seal succeeds.
//
// Errors: [turns.ErrTooLarge] for a body over [turns.MaxBody], those of ring
// and of rand, [turns.ErrMalformed] for no key or too many.
func Seal(e *turns.Event, body []byte, ring Keyring, keys []turns.ID, rand io.Reader) error {
	h := *e
	if err := seal(&h, body, ring, keys, rand); err != nil {
		return fmt.Errorf("seal event %s: %w", e.ID, err)
	}
	*e = h
	return nil
}

func seal(e *turns.Event, body []byte, ring Keyring, keys []turns.ID, rand io.Reader) error {
	if len(body) > turns.MaxBody {
		return fmt.Errorf("%w: the body is %d bytes, the limit is %d", turns.ErrTooLarge, len(body), turns.MaxBody)
	}
	e.Encoding, e.Keys, e.Body, e.Commitment = 0, nil, nil, turns.Hash{}
	if ring != nil && body != nil {
		if len(keys) == 0 {
			return fmt.Errorf("%w: no key", turns.ErrMalformed)
		}
		e.Keys = sortKeys(keys)
	}
	if body == nil && e.Digest.IsZero() {
		return nil
	}
	key, err := eventKey(keyed(e, ring), ring)
	if err != nil {
		return err
	}
	k := key.extracted() // three keys are derived from it
	if !e.Digest.IsZero() {
		e.Digest = k.storedDigest(e.Digest)
	}
	if body == nil {
		return nil
	}
	if e.Commitment, err = turns.Commit(e.Kind, body, k.salterOf(e).salt); err != nil {
		return err
	}
	if ring == nil {
		packed, enc := compress(make([]byte, 0, len(body)), body)
		if enc == 0 {
			packed = bytes.Clone(body)
		}
		e.Encoding, e.Body = enc, packed
		return nil
	}
	return compressed(body, func(packed []byte, enc turns.Encoding) error {
		e.Encoding = enc | turns.Sealed
		aad, err := e.HeaderBytes()
		if err == nil {
			e.Body, err = crypt.Encrypt(k.derive(bodyKey), nil, packed, aad, rand)
		}
		return err
	})
}

// sortKeys is keys with the first left where it is, and the rest sorted, each once.
func sortKeys(keys []turns.ID) []turns.ID {
	rest := slices.DeleteFunc(slices.Clone(keys[1:]), func(id turns.ID) bool { return id == keys[0] })
	slices.SortFunc(rest, turns.ID.Compare)
	return append([]turns.ID{keys[0]}, slices.Compact(rest)...)
}

// Open is the body that [Seal] was given: CBOR for [turns.DecodeBody]. The
// caller owns it. It allocates at most [turns.MaxBody] bytes and what the
// decoder needs.
//
// Errors: [turns.ErrErased] if one of the keys is destroyed, [ErrNoKey],
// [turns.ErrCorrupt] for a wrong key or an altered body or header,
// [turns.ErrTooLarge].
func Open(e *turns.Event, ring Keyring) ([]byte, error) {
	body, _, err := open(e, ring)
	return body, err
}

// open is [Open], with the event's key: the zero Key where the body is not sealed.
func open(e *turns.Event, ring Keyring) (body []byte, k Key, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the body of event %s: %w", e.ID, err)
		}
	}()
	if e.Encoding > turns.Zstd|turns.Sealed {
		return nil, k, fmt.Errorf("%w: body encoding %d", turns.ErrUnsupported, e.Encoding)
	}
	packed := e.Body
	if e.Encoding&turns.Sealed != 0 {
		if k, err = eventKey(e, ring); err != nil {
			return nil, k, err
		}
		aad, err := e.HeaderBytes()
		if err != nil {
			return nil, k, err
		}
		if packed, err = crypt.Decrypt(k.derive(bodyKey), e.Body, aad); err != nil {
			return nil, k, err
		}
	}
	body, err = decompress(e.Encoding, packed)
	return body, k, err
}
