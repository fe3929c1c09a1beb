package seal

import (
	"encoding/binary"
	"fmt"
	"io"

	"nexus/turns/seal/internal/crypt"
)

// Key is a content key: 32 random bytes. It is never used as it is; every use
// has a key of its own, derived from it.
type Key [32]byte

// String keeps a key out of logs.
func (Key) String() string { return "key" }

// GoString keeps a key out of logs.
func (Key) GoString() string { return "key" }

// NewKey returns a key of 32 bytes from rand. Errors: rand's.
func NewKey(rand io.Reader) (k Key, err error) {
	if _, err := io.ReadFull(rand, k[:]); err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return k, nil
}

// purpose is what a derived key is for: the info of HKDF. The strings are part
// of the format.
type purpose string

const (
	chunkKey      purpose = "nexus.key.v1 chunk" // and the number of the chunk in 8 bytes
	eventKeyOf    purpose = "nexus.key.v1 event" // and the number in the chunk in a byte
	sharedKey     purpose = "nexus.key.v1 shared"
	combinedKey   purpose = "nexus.key.v1 combined"
	bodyKey       purpose = "nexus.key.v1 body"
	saltKey       purpose = "nexus.key.v1 salt"
	successorKey  purpose = "nexus.key.v1 successor"
	requestKey    purpose = "nexus.key.v1 request"
	blobKey       purpose = "nexus.key.v1 blob"
	blobDigestKey purpose = "nexus.key.v1 blob digest"
	blobNonceKey  purpose = "nexus.key.v1 blob nonce"
	labelKey      purpose = "nexus.key.v1 label"
	policyKey     purpose = "nexus.key.v1 policy"
	agentKey      purpose = "nexus.key.v1 agent"
	memoryKey     purpose = "nexus.key.v1 memory"
	channelKey    purpose = "nexus.key.v1 channel"
	tokenKey      purpose = "nexus.key.v1 token"
	tokenNonceKey purpose = "nexus.key.v1 token nonce"
)

func (k Key) derive(p purpose) Key { return crypt.Derive(k, string(p)) }

// extracted is a key from which several are derived.
type extracted crypt.Extracted

func (k Key) extracted() extracted { return extracted(crypt.Extract(k)) }

func (x extracted) derive(p purpose) Key { return crypt.Extracted(x).Derive(string(p)) }

// chunkEvents is how many events have their keys from one chunk.
const chunkEvents = 256

// event is the key of the event at an index of the chain whose content key k is.
func (k Key) event(index uint64) Key {
	return k.chunk(index / chunkEvents).derive(eventKeyOf + purpose([]byte{byte(index % chunkEvents)}))
}

// chunk is the key of a chunk of that chain.
func (k Key) chunk(n uint64) Key {
	return k.derive(chunkKey + purpose(binary.BigEndian.AppendUint64(nil, n)))
}
