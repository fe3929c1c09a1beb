package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"nexus/turns"
)

// salter gives the salts of the leaves of one event.
type salter struct {
	key   Key
	event turns.ID
}

// salt is that of a leaf: 32 zero bytes where nothing is sealed.
func (s salter) salt(leaf int) turns.Hash {
	if s == (salter{}) {
		return turns.Hash{}
	}
	var block [sha256.BlockSize]byte
	copy(block[:], s.key[:])
	var n [len(s.event) + 8]byte
	copy(n[:], s.event[:])
	binary.BigEndian.PutUint64(n[len(s.event):], uint64(leaf))
	return turns.Hash(hmacShort(&block, n[:]))
}

// CheckCommitment checks that body, as [Open] gave it, is what the header of e commits to.
// Errors: [turns.ErrCorrupt], those of ring.
func CheckCommitment(e *turns.Event, body []byte, ring Keyring) error {
	k, err := eventKey(e, ring)
	if err != nil {
		return fmt.Errorf("check the commitment of event %s: %w", e.ID, err)
	}
	got, err := turns.Commit(e.Kind, body, salterOf(e, k).salt)
	if err == nil && got != e.Commitment {
		err = fmt.Errorf("the body has commitment %s, the header %s", got, e.Commitment)
	}
	if err != nil {
		return fmt.Errorf("%w: event %s: %v", turns.ErrCorrupt, e.ID, err)
	}
	return nil
}

func salterOf(e *turns.Event, k Key) salter {
	if e.Encoding&turns.Sealed == 0 {
		return salter{}
	}
	return salter{k.derive(saltKey), e.ID}
}

// Disclose is a leaf of the body of e, which anyone can check against e's header; see
// [turns.Disclosed].
// Errors: those of [Open]; [turns.ErrMalformed] for a leaf that the body has not.
func Disclose(e *turns.Event, ring Keyring, leaf int) (*turns.Disclosed, error) {
	body, err := Open(e, ring)
	if err != nil {
		return nil, err
	}
	k, err := eventKey(e, ring)
	if err != nil {
		return nil, err
	}
	return turns.Disclose(e.Kind, body, salterOf(e, k).salt, leaf)
}
