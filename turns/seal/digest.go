package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"nexus/turns"
)

// RequestDigest is the digest of what a request asks for: SHA-256 of what (noun.verb) and
// its canonical JSON, each after its length. [Seal] stores it under a key of the event, so
// that nobody without that key can test a guess of the body against a header.
func RequestDigest(what string, canonical []byte) turns.Hash {
	h := sha256.New()
	for _, p := range [][]byte{[]byte("nexus.request.v1"), []byte(what), canonical} {
		writeLength(h, uint64(len(p)))
		h.Write(p)
	}
	return turns.Hash(h.Sum(nil))
}

// SameRequest reports whether a stored event has the digest of a request, for ever: as
// long as the event can be opened. The keys of one without a body are those of its chain.
// Errors: those of ring.
func SameRequest(e *turns.Event, ring Keyring, request turns.Hash) (bool, error) {
	k, err := eventKey(keyed(e, ring), ring)
	if errors.Is(err, ErrNoKey) && len(e.Keys) == 0 { // stored while nothing was sealed
		want := storedDigest(Key{}, request)
		if hmac.Equal(want[:], e.Digest[:]) {
			return true, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("is event %s of this request? %w", e.ID, err)
	}
	want := storedDigest(k, request)
	return hmac.Equal(want[:], e.Digest[:]), nil
}

// keyed is e with the keys that its digest is under: its own, or, where it has no body, the key of
// its session.
func keyed(e *turns.Event, ring Keyring) *turns.Event {
	session, ok := e.Chain.Session()
	if len(e.Keys) > 0 || len(e.Body) > 0 || ring == nil || !ok {
		return e
	}
	h := *e
	h.Keys = []turns.ID{session}
	return &h
}

func storedDigest(k Key, request turns.Hash) turns.Hash {
	return mac(k.derive(requestKey), request[:])
}

// SuccessorMark is a number that a ledger alone can give to the successor of a session
// whose content key k is.
func SuccessorMark(k deriver, ledger [16]byte, session turns.ID) turns.Hash {
	return mac(k.derive(successorKey), ledger[:], session[:])
}

// BlobDigest is the digest that content is stored under. Equal content has
// equal digests within what shares k, a tree of forks, and nowhere else.
func BlobDigest(k deriver, content []byte) turns.Hash {
	return mac(k.derive(blobDigestKey), content)
}

// NewBlobDigest returns a hash whose Sum is the [BlobDigest] of the size bytes that
// are written to it.
func NewBlobDigest(k deriver, size uint64) hash.Hash {
	d := k.derive(blobDigestKey)
	h := hmac.New(sha256.New, d[:])
	writeLength(h, size)
	return h
}

// UnsealedKey is the key of the digests of a tree's blobs where nothing is sealed.
// It is no secret. It separates the trees: a blob is found only through a session
// of its own tree, and a digest reveals nothing about another tree.
func UnsealedKey(root turns.ID) Key {
	return sha256.Sum256(append([]byte(unsealedPrefix), root[:]...))
}

const unsealedPrefix = "nexus.unsealed.v1\x00"

// CheckBlob checks that content has a digest.
// Errors: [turns.ErrCorrupt].
func CheckBlob(k deriver, digest turns.Hash, content []byte) error {
	if got := BlobDigest(k, content); !hmac.Equal(got[:], digest[:]) {
		return fmt.Errorf("%w: the content of blob %s has another digest", turns.ErrCorrupt, BlobAddress(digest))
	}
	return nil
}

// LabelDigest is the token of a label in a subject: 32 lower-case hex digits,
// the first 128 bits of an HMAC-SHA-256. K is zero where sealing is off.
func LabelDigest(k Key, tenant, agent, label string) string {
	h := mac(k.derive(labelKey), []byte(tenant), []byte(agent), []byte(label))
	return hex.EncodeToString(h[:16])
}

// ChannelDigest returns the id of a channel's chain, 32 lower-case hex digits, and the id
// of its content key: parts of an HMAC-SHA-256. k is the ledger's key, zero if nothing is
// sealed. The id of the key begins with six bytes 0xff, so that no session can have it
// ([turns.ID.IsReserved]): headers show it, and who opens a session gets its key.
func ChannelDigest(k Key, tenant, agent, channel string) (chain string, key turns.ID) {
	h := mac(k.derive(channelKey), []byte(tenant), []byte(agent), []byte(channel))
	copy(key[:], "\xff\xff\xff\xff\xff\xff")
	copy(key[6:], h[16:])
	return hex.EncodeToString(h[:16]), key
}

// PolicyName returns the keyed digest of the name of a policy in a tenant. k is the
// ledger's key, zero if nothing is sealed.
func PolicyName(k Key, tenant, name string) turns.Hash {
	return mac(k.derive(policyKey), []byte(tenant), []byte(name))
}

// AgentKeyID returns the id of the content key of an agent: six bytes 0xff, so that no
// session can have it ([turns.ID.IsReserved]), and ten of a keyed digest of the agent's
// name. ledger is the ledger's key, zero if nothing is sealed. Every daemon of a ledger
// computes the same id.
func AgentKeyID(ledger Key, tenant, agent string) (id turns.ID) {
	copy(id[:], "\xff\xff\xff\xff\xff\xff")
	h := mac(ledger.derive(agentKey), []byte(tenant), []byte(agent))
	copy(id[6:], h[:])
	return id
}

// MemoryText returns the keyed digest of a memory. Two memories of an agent with one
// digest are the same: they have the same kind and visibility, and the same text but for
// white space and a full stop at the end. k is the agent's key, zero if nothing is
// sealed; branch is the session of the branch that sees the memory, zero if all do.
func MemoryText(k deriver, kind turns.MemoryKind, private bool, branch turns.ID, text string) turns.Hash {
	scope := []byte{byte(kind), 0}
	if private {
		scope[1] = 1
	}
	return mac(k.derive(memoryKey), append(scope, branch[:]...), []byte(turns.NormalMemory(text)))
}

// DocumentText returns the keyed digest of the text of an agent's document.
func DocumentText(k deriver, text string) turns.Hash {
	return mac(k.derive(memoryKey), []byte("document"), []byte(text))
}

// mac is HMAC-SHA-256 of parts, each after its length in 8 bytes, most
// significant first: ("ab","c") and ("a","bc") differ.
func mac(k Key, parts ...[]byte) turns.Hash {
	// crypto/hmac allocates nine objects for what one hash and two blocks on the stack do
	// (RFC 2104; the key is half a block).
	var inner [sha256.BlockSize]byte
	var outer [sha256.BlockSize + sha256.Size]byte
	copy(inner[:], k[:])
	copy(outer[:], k[:])
	for i := range inner {
		inner[i] ^= 0x36
		outer[i] ^= 0x5c
	}
	h := sha256.New()
	h.Write(inner[:])
	for _, p := range parts {
		writeLength(h, uint64(len(p)))
		h.Write(p)
	}
	h.Sum(outer[:sha256.BlockSize])
	return sha256.Sum256(outer[:])
}

func writeLength(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

// The blobs of a tree of forks, or of a channel.
//
// The digest of content is keyed by the tree, so that equal content is stored once in it,
// and nobody without that key can test a guess. The digest is also the key that the blob is
// sealed under, and what it is stored under is a hash of it: so whoever can read a reference
// can read the blob, whatever became of the tree's key; and who has the stream, the headers
// and even the tree's key, but no reference, can read none that he can't guess.

// blobDomain starts what the seal of a blob binds it to: domain, encoding, address.
const blobDomain = "nexus.blob.v1\x00"

// BlobAddress is what a blob is stored under. It can be shown: the digest does not follow
// from it.
func BlobAddress(digest turns.Hash) turns.Hash { return (&turns.BlobRef{Digest: digest}).Address() }

func blobAAD(enc turns.Encoding, address turns.Hash) []byte {
	return append(append([]byte(blobDomain), byte(enc)), address[:]...)
}

// SealBlob compresses content, where that makes it smaller, and seals it under its
// digest. The first byte of the result is the encoding.
//
// The nonce is a keyed hash of what is encrypted. So the same content is sealed to the same
// bytes, and a retry completes an upload that a crash cut short; and where another build
// compresses the content to other bytes, these have another nonce: no two plaintexts share one.
// Errors: [turns.ErrTooLarge] over [turns.MaxBody].
func SealBlob(digest turns.Hash, content []byte) ([]byte, error) {
	address := BlobAddress(digest)
	if len(content) > turns.MaxBody {
		return nil, fmt.Errorf("%w: seal blob %s: %d bytes, the limit is %d", turns.ErrTooLarge, address, len(content), turns.MaxBody)
	}
	var sealed []byte
	err := compressed(content, func(packed []byte, enc turns.Encoding) (err error) {
		enc |= turns.Sealed
		key := Key(digest).derive(blobNonceKey)
		nonce := hmac.New(sha256.New, key[:])
		nonce.Write(blobAAD(enc, address))
		nonce.Write(packed)
		sealed, err = encrypt(Key(digest).derive(blobKey), []byte{byte(enc)}, packed, blobAAD(enc, address), bytes.NewReader(nonce.Sum(nil)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("seal blob %s: %w", address, err)
	}
	return sealed, nil
}

// OpenBlob is the content that [SealBlob] was given. That the digest is that of the
// content [CheckBlob] says, by the key of its tree. Errors: [turns.ErrCorrupt] for another digest or
// altered bytes; [turns.ErrUnsupported], [turns.ErrTooLarge]. They name the address.
func OpenBlob(digest turns.Hash, sealed []byte) ([]byte, error) {
	content, err := openBlob(digest, sealed)
	if err != nil {
		return nil, fmt.Errorf("open blob %s: %w", BlobAddress(digest), err)
	}
	return content, nil
}

func openBlob(digest turns.Hash, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, fmt.Errorf("%w: empty", turns.ErrCorrupt)
	}
	enc := turns.Encoding(sealed[0])
	if enc&^turns.Zstd != turns.Sealed {
		return nil, fmt.Errorf("%w: encoding %d", turns.ErrUnsupported, enc)
	}
	packed, err := decrypt(Key(digest).derive(blobKey), sealed[1:], blobAAD(enc, BlobAddress(digest)))
	if err != nil {
		return nil, err
	}
	return decompress(enc, packed)
}
