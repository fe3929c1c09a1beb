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
