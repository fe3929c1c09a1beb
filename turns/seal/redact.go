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
