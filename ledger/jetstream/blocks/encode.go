package blocks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// Encoder writes records as the server does. A block file is the records one after
// the other.
type Encoder struct{ sum *checksum }

// NewEncoder returns an encoder for one block of a stream.
func NewEncoder(stream string, block uint32) (*Encoder, error) {
	c, err := newBlockChecksum(stream, block)
	return &Encoder{c}, err
}

// Append appends the record with Seq, Subject, Header, Payload and Stored of r to b.
// Block, Offset and Bytes are not used.
func (e *Encoder) Append(b []byte, r Record) ([]byte, error) {
	length := r.Size()
	if length > maxRecord || len(r.Subject) > math.MaxUint16 || !isSubject(r.Subject) {
		return b, fmt.Errorf("record %d of %d bytes on subject %q cannot be stored", r.Seq, length, r.Subject)
	}
	at, le := len(b), binary.LittleEndian
	flagged := uint32(length)
	if len(r.Header) > 0 {
		flagged |= headersFlag
	}
	b = le.AppendUint32(b, flagged)
	b = le.AppendUint64(b, r.Seq)
	b = le.AppendUint64(b, uint64(r.Stored.UnixNano()))
	b = le.AppendUint16(b, uint16(len(r.Subject)))
	b = append(b, r.Subject...)
	if len(r.Header) > 0 {
		b = append(le.AppendUint32(b, uint32(len(r.Header))), r.Header...)
	}
	b = append(b, r.Payload...)
	raw := b[at:]
	e.sum.digest.Reset()
	_, _ = e.sum.digest.Write(raw[4:20])
	_, _ = e.sum.digest.Write(raw[headSize : headSize+len(r.Subject)])
	_, _ = e.sum.digest.Write(b[len(b)-len(r.Header)-len(r.Payload):])
	return append(b, e.sum.digest.Sum(e.sum.sum[:0])...), nil
}

// Size is how many bytes the record takes in a block.
func (r Record) Size() int64 {
	length := headSize + len(r.Subject) + len(r.Header) + len(r.Payload) + sumSize
	if len(r.Header) > 0 {
		length += 4
	}
	return int64(length)
}

// MaxBlock is the size at which the server begins another block, in bytes.
const MaxBlock = maxBlock

// Path returns the file of a block under the folder of its stream.
func Path(number uint32) string { return blockPath(number) }

// SubjectAt returns the subject of the damaged record at the place of d, as far as its
// bytes can still be read; "" if they can't. Nothing vouches for it.
func SubjectAt(dir string, d *Damage) (string, error) {
	f, err := os.Open(filepath.Join(dir, d.File))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, headSize+math.MaxUint8)
	n, err := f.ReadAt(b, d.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if b = b[:n]; n < headSize {
		return "", nil
	}
	if h := parseHead(b); headSize+h.subject <= int64(n) {
		if s := string(b[headSize:][:h.subject]); isSubject(s) {
			return s, nil
		}
	}
	return "", nil
}
