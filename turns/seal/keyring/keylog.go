package keyring

import (
	"bytes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"nexus/turns"
	"nexus/turns/seal"
	"nexus/turns/seal/internal/crypt"
)

// The bytes of the key log and of the file of its epoch's key; docs/FORMAT.md has them in
// tables. Numbers are unsigned, most significant byte first.
const (
	logMagic   = "NEXUSLOG"
	epochMagic = "NEXUSEPK"
	logVersion = 1

	headerSize = 8 + 1 + 7 + 8 + 16 + 32 + 4 // magic, version, zeros, epoch, store, check under the epoch's key, CRC
	headSize   = 32 + 4                      // of a record: head and its CRC
	// recordExtra is what a record takes beyond its body: a head before it and one behind it.
	recordExtra = 2*headSize + crypt.NonceSize + crypt.TagSize
	maxBody     = seal.MaxRemains // bytes of a record's body

	epochBlock  = 8 + 1 + 8 + 16 + 32 + 32 // magic, version, epoch, store, key, check
	epochSecond = 4096                     // where the file repeats the block
	epochFile   = epochSecond + epochBlock
)

// What the keys that follow from an epoch's key are for.
const (
	logKey       = "nexus.key.v1 key log"
	logNonceKey  = "nexus.key.v1 key log nonce"
	logHeaderKey = "nexus.key.v1 key log header"
)

// logDomain starts what the seal of a record binds it to: domain, epoch, head.
const logDomain = "nexus.keylog.v1\x00"

// recordKind is what a record says of the key of its id.
type recordKind byte

const (
	recordKey       recordKind = 1 // the key
	recordDestroyed recordKind = 2 // it was destroyed; no body
	recordLeft      recordKind = 3 // what is left of a key from which events were taken; no body: it was lost to damage. No whole key takes its place
	recordLost      recordKind = 4 // both copies of an earlier epoch had damage there; no body. Id zero: nobody knows whose key it was
)

// head is the part of a record that is readable without the epoch key.
type head struct {
	kind   recordKind
	last   bool   // the one behind the body
	place  uint16 // in the write that the record belongs to, from 0
	length int    // of the body, in bytes
	number uint64 // of the record in the log, from 1
	id     turns.ID
}

// size is the length of the whole record.
func (h head) size() int { return recordExtra + h.length }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (h head) append(dst []byte) []byte {
	from := len(dst)
	last := byte(0)
	if h.last {
		last = 1
	}
	dst = append(dst, byte(h.kind), last)
	dst = binary.BigEndian.AppendUint16(dst, h.place)
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.length))
	dst = binary.BigEndian.AppendUint64(dst, h.number)
	dst = append(dst, h.id[:]...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli))
}

// headAt returns the head at an offset of a log, and false if there is no sound one.
func headAt(log []byte, at int) (h head, ok bool) {
	if at < 0 || at+headSize > len(log) {
		return head{}, false
	}
	b := log[at : at+headSize]
	length := binary.BigEndian.Uint32(b[4:])
	if b[1] > 1 || length > maxBody || binary.BigEndian.Uint32(b[32:]) != crc32.Checksum(b[:32], castagnoli) {
		return head{}, false
	}
	return head{kind: recordKind(b[0]), last: b[1] == 1, place: binary.BigEndian.Uint16(b[2:]), length: int(length),
		number: binary.BigEndian.Uint64(b[8:]), id: turns.ID(b[16:32])}, true
}

// storeID names a store, in each of its files: 16 random bytes, made with the store and never
// changed. Files that name another one are not ours.
type storeID [16]byte

// epoch seals and opens the records of one log. Safe for concurrent use.
type epoch struct {
	number uint64
	store  storeID
	key    seal.Key
	aead   cipher.AEAD
	nonces seal.Key
	header []byte // of the log
}

func newEpoch(number uint64, store storeID, key seal.Key) *epoch {
	e := &epoch{number: number, store: store, key: key, aead: crypt.AEAD(crypt.Derive(key, logKey)), nonces: crypt.Derive(key, logNonceKey)}
	e.header = logHeader(logVersion, number, store, key)
	return e
}

func logHeader(version byte, number uint64, store storeID, key seal.Key) []byte {
	b := append([]byte(logMagic), version, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, number)
	b = append(b, store[:]...)
	sum := crypt.MAC(crypt.Derive(key, logHeaderKey), b)
	b = append(b, sum[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func (e *epoch) aad(h head) []byte {
	b := make([]byte, 0, len(logDomain)+8+headSize)
	b = binary.BigEndian.AppendUint64(append(b, logDomain...), e.number)
	h.last = false
	b = h.append(b)
	return b[:len(b)-4]
}

// append appends the record of h and body to dst. The nonce is a keyed digest of all that is
// sealed. So two records with one nonce are the same record: a number that is used again,
// behind a write that failed, gives away nothing.
func (e *epoch) append(dst []byte, h head, body []byte) []byte {
	h.length, h.last = len(body), false
	aad := e.aad(h)
	nonce := crypt.MAC(e.nonces, aad, body)
	dst = h.append(dst)
	dst = append(dst, nonce[:crypt.NonceSize]...)
	dst = e.aead.Seal(dst, nonce[:crypt.NonceSize], body, aad)
	h.last = true
	return h.append(dst)
}

// open returns the body of the record of h that begins at an offset of a log. The heads in
// the log are not looked at.
func (e *epoch) open(log []byte, at int, h head) (body []byte, ok bool) {
	if at+h.size() > len(log) {
		return nil, false
	}
	b := log[at+headSize : at+h.size()-headSize]
	body, err := e.aead.Open(nil, b[:crypt.NonceSize], b[crypt.NonceSize:], e.aad(h))
	return body, err == nil
}

// encodeEpoch is the file of an epoch's key: a checked block, twice.
func encodeEpoch(number uint64, store storeID, key seal.Key) []byte {
	b := append([]byte(epochMagic), logVersion)
	b = binary.BigEndian.AppendUint64(b, number)
	b = append(b, store[:]...)
	b = append(b, key[:]...)
	sum := sha256.Sum256(b)
	b = append(b, sum[:]...)
	return append(append(b, make([]byte, epochSecond-epochBlock)...), b...)
}

// blockAt returns the block of an epoch's key at an offset, and false if there is no sound one.
func blockAt(b []byte, at int) ([]byte, bool) {
	if len(b) < at+epochBlock {
		return nil, false
	}
	block := b[at : at+epochBlock]
	if string(block[:8]) != epochMagic {
		return nil, false
	}
	sum := sha256.Sum256(block[:epochBlock-sha256.Size])
	return block, bytes.HasSuffix(block, sum[:])
}

// decodeEpoch returns the store and the key of an epoch. One sound block is enough. Errors:
// [turns.ErrUnsupported] for a version that this build does not know; [turns.ErrCorrupt].
func decodeEpoch(b []byte, number uint64) (storeID, seal.Key, error) {
	for _, at := range []int{0, epochSecond} {
		block, ok := blockAt(b, at)
		switch {
		case !ok:
		case block[8] != logVersion:
			return storeID{}, seal.Key{}, fmt.Errorf("%w: version %d of an epoch key, this build knows %d", turns.ErrUnsupported, block[8], logVersion)
		case binary.BigEndian.Uint64(block[9:]) == number:
			return storeID(block[17:33]), seal.Key(block[33:65]), nil
		}
	}
	return storeID{}, seal.Key{}, fmt.Errorf("%w: no sound key of epoch %d (%d bytes)", turns.ErrCorrupt, number, len(b))
}
