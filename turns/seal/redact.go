package seal

import (
	"fmt"

	"nexus/turns"
)

// Redact is the body of a redacted event that puts after in the place of the body of e. was is the redacted body that
// e has now; nil: its own.
// Errors: those of [Open]; [turns.ErrMalformed] for bytes that are no body of the kind with as many parts.
func Redact(e *turns.Event, ring Keyring, was *turns.RedactedBody, after []byte) (*turns.RedactedBody, error) {
	if was != nil {
		return turns.Redact(e.Kind, was.Body, after, nil, was)
	}
	before, k, err := open(e, ring)
	if err != nil {
		return nil, err
	}
	if k == (Key{}) {
		return nil, fmt.Errorf("%w: event %s is not sealed: no key can be taken", turns.ErrUnsupported, e.ID)
	}
	return turns.Redact(e.Kind, before, after, salterOf(e, k).salt, nil)
}

// Taken is how many events were taken from the key.
func (c Content) Taken() (n uint64) {
	if c.left == nil {
		return 0
	}
	for _, chunk := range c.left.chunks {
		if chunk.events != nil {
			n += chunkEvents - uint64(len(chunk.events))
		}
	}
	return n
}

// SameOrigin reports whether two keys are, or are left of, one key.
func (c Content) SameOrigin(other Content) bool {
	return c.derive(sharedKey) == other.derive(sharedKey)
}

// CheckTake says whether events can be taken from the key of a chain of begun events. Errors: [turns.ErrTooLarge].
func (c Content) CheckTake(begun uint64, indexes ...uint64) error {
	_, err := c.puncture(begun, indexes, zeros{})
	return err
}

// zeros is the randomness of a key that nobody uses.
type zeros struct{}

// Read implements [io.Reader].
func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// isLeftOf reports whether r has no key that other lacks: it is left of it, after more was taken.
func (r *Remains) isLeftOf(other *Remains) bool {
	if len(r.chunks) < len(other.chunks) || len(r.infos) != len(other.infos) {
		return false
	}
	for p, k := range other.infos {
		if r.infos[p] != k {
			return false
		}
	}
	for i, c := range r.chunks {
		if c.events == nil {
			var had Key
			switch {
			case i >= len(other.chunks):
				had = other.fresh.chunk(uint64(i))
			case other.chunks[i].events != nil:
				return false
			default:
				had = other.chunks[i].key
			}
			if c.key != had {
				return false
			}
			continue
		}
		for at, k := range c.events {
			if had, err := other.event(uint64(i)*chunkEvents + uint64(at)); err != nil || had != k {
				return false
			}
		}
	}
	return true
}

// Covers reports whether the key of an event was derived from this key, or from what it is left of: not from a new key that took its
// place somewhere else.
func (c Content) Covers(index uint64) bool {
	return c.left == nil || index/chunkEvents < uint64(len(c.left.chunks))
}

// IsLeftOf reports whether c is what is left of other after more events were taken.
func (c Content) IsLeftOf(other Content) bool {
	switch {
	case c.left == nil:
		return false
	case other.left == nil:
		return c.left.of(other.whole)
	}
	return c.left.isLeftOf(other.left)
}
