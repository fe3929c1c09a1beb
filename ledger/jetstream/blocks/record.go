package blocks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/minio/highwayhash"
)

// The sizes and flags of a record. maxBlock bounds every record but the first of
// its block: the server begins a new block before a record that would end beyond it.
const (
	headSize  = 22
	sumSize   = 8
	minRecord = headSize + sumSize
	maxRecord = 32 << 20
	maxBlock  = 8 << 20

	headersFlag   = 1 << 31 // of the length
	erasedFlag    = 1 << 63 // of the sequence
	tombstoneFlag = 1 << 62
)

// Record is one stored message and where it is. Subject, Header and Payload are
// valid until the next record is read.
type Record struct {
	Seq     uint64
	Subject string
	Header  []byte // as on the wire, NATS/1.0 line included; nil: the message has none
	Payload []byte
	Stored  time.Time // when the server stored it
	Block   uint32    // number of the block file
	Offset  int64     // of the record in its block
	Bytes   int64     // of the whole record, as the server counts them
}

// head is the first 22 bytes of a record. No checksum covers length, headers and subject.
type head struct {
	length  int64 // of the whole record
	headers bool
	seq     uint64 // with its flags
	stored  int64  // Unix time in nanoseconds
	subject int64  // bytes of the subject
}

func parseHead(b []byte) head {
	le := binary.LittleEndian
	l := le.Uint32(b)
	return head{
		length: int64(l &^ headersFlag), headers: l&headersFlag != 0,
		seq: le.Uint64(b[4:]), stored: int64(le.Uint64(b[12:])), subject: int64(le.Uint16(b[20:])),
	}
}

// isPossible reports whether the lengths agree with each other.
func (h head) isPossible() bool { return h.length <= maxRecord && h.content() <= h.length-sumSize }

// content is the offset of what follows the subject, and the length of the header if there is one.
func (h head) content() int64 {
	at := headSize + h.subject
	if h.headers {
		at += 4
	}
	return at
}

// checksum is the keyed hash of the records of one block, or of one file.
type checksum struct {
	digest *highwayhash.Digest64
	sum    [sumSize]byte
}

// newChecksum returns the hash with the key that the server derives from name.
func newChecksum(name string) (*checksum, error) {
	key := sha256.Sum256([]byte(name))
	d, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return nil, fmt.Errorf("checksum of %s: %w", name, err)
	}
	return &checksum{digest: d}, nil
}

// newBlockChecksum returns the hash for the records of a block.
func newBlockChecksum(stream string, number uint32) (*checksum, error) {
	return newChecksum(stream + "-" + strconv.FormatUint(uint64(number), 10))
}

// matches reports whether the checksum at the end of the record is right. h is
// possible, and raw has h.length bytes.
func (c *checksum) matches(raw []byte, h head) bool {
	end := len(raw) - sumSize
	c.digest.Reset()
	_, _ = c.digest.Write(raw[4:20])
	_, _ = c.digest.Write(raw[headSize : headSize+h.subject])
	_, _ = c.digest.Write(raw[h.content():end])
	return bytes.Equal(c.digest.Sum(c.sum[:0]), raw[end:])
}

// decode returns the record in raw, whose checksum is right. The checksum does
// not cover the lengths of subject and header, so decode checks what they
// delimit. A fault is described, with its kind.
func decode(raw []byte, h head) (r Record, kind Kind, detail string) {
	r = Record{
		Seq: h.seq, Stored: time.Unix(0, h.stored).UTC(), Bytes: h.length,
		Subject: string(raw[headSize : headSize+h.subject]), Payload: raw[h.content() : len(raw)-sumSize],
	}
	if !isSubject(r.Subject) {
		return r, Subject, "the subject is none that a message can have"
	}
	if !h.headers {
		return r, "", ""
	}
	n := int64(binary.LittleEndian.Uint32(raw[h.content()-4:]))
	if n > int64(len(r.Payload)) {
		return r, Header, fmt.Sprintf("a header of %d bytes does not fit in", n)
	}
	r.Header, r.Payload = r.Payload[:n:n], r.Payload[n:]
	if end := []byte("\r\n\r\n"); !bytes.HasPrefix(r.Header, []byte("NATS/1.0")) || bytes.Index(r.Header, end) != len(r.Header)-len(end) {
		return r, Header, "the header does not end where its length says"
	}
	return r, "", ""
}

// isSubject reports whether a message can be published to s.
func isSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" || token == "*" || token == ">" {
			return false
		}
	}
	return strings.IndexFunc(s, isBlank) < 0
}

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }
