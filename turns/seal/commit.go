package seal

import (
	"fmt"

	"nexus/turns"
)

// OpenCommitted is [Open] for who does not trust the writer: it checks as well that the body
// is what the header commits to. Errors: those of Open; [turns.ErrCorrupt].
func OpenCommitted(e *turns.Event, ring Keyring) ([]byte, error) {
	body, k, err := open(e, ring)
	if err == nil {
		err = checkCommitment(e, body, k)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

func checkCommitment(e *turns.Event, body []byte, k Key) error {
	got, err := turns.Commit(e.Kind, body, salterOf(e, k).salt)
	if err == nil && got != e.Commitment {
		err = fmt.Errorf("the body has commitment %s, the header %s", got, e.Commitment)
	}
	if err != nil {
		return fmt.Errorf("%w: event %s: %v", turns.ErrCorrupt, e.ID, err)
	}
	return nil
}

// Disclose is a leaf of the body of e, which anyone can check against e's header; see
// [turns.Disclosed].
// Errors: those of [Open]; [turns.ErrMalformed] for a leaf that the body has not.
func Disclose(e *turns.Event, ring Keyring, leaf int) (*turns.Disclosed, error) {
	body, k, err := open(e, ring)
	if err != nil {
		return nil, err
	}
	return turns.Disclose(e.Kind, body, salterOf(e, k).salt, leaf)
}
