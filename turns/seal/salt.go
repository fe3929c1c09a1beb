package seal

import (
	"crypto/sha256"
	"encoding/binary"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
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
	return turns.Hash(crypt.ShortMAC(&block, n[:]))
}

// salterOf is the salter of e, whose key is k.
func salterOf(e *turns.Event, k Key) salter { return k.extracted().salterOf(e) }

func (x extracted) salterOf(e *turns.Event) salter {
	if len(e.Keys) == 0 {
		return salter{}
	}
	return salter{x.derive(saltKey), e.ID}
}
