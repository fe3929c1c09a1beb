package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"

	"nexus/turns"
	"nexus/turns/seal/internal/crypt"
)

// The blobs of a tree of forks, or of a channel.
//
// The digest of content is keyed by the tree, so that equal content is stored once in it,
// and nobody without that key can test a guess. The digest is also the key that the blob is
// sealed under, and what it is stored under is a hash of it: so whoever can read a reference
// can read the blob, whatever became of the tree's key; and who has the stream, the headers
// and even the tree's key, but no reference, can read none that he can't guess.

// BlobDigest is the digest that content is stored under. Equal content has
// equal digests within what shares k, a tree of forks, and nowhere else.
func BlobDigest(k deriver, content []byte) turns.Hash {
	return crypt.MAC(k.derive(blobDigestKey), content)
}

// NewBlobDigest returns a hash whose Sum is the [BlobDigest] of the size bytes that
// are written to it.
func NewBlobDigest(k deriver, size uint64) hash.Hash {
	d := k.derive(blobDigestKey)
	h := hmac.New(sha256.New, d[:])
	crypt.WriteLength(h, size)
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
		sealed, err = crypt.Encrypt(Key(digest).derive(blobKey), []byte{byte(enc)}, packed, blobAAD(enc, address), bytes.NewReader(nonce.Sum(nil)))
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
	packed, err := crypt.Decrypt(Key(digest).derive(blobKey), sealed[1:], blobAAD(enc, BlobAddress(digest)))
	if err != nil {
		return nil, err
	}
	return decompress(enc, packed)
}
