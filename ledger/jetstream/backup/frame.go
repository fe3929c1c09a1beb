package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"nexus/ledger"
	"nexus/ledger/jetstream/blocks"
	"nexus/turns"
)

// magic begins a file.
const magic = "nexus-backup v1\n"

// A frame is its head and its body. The head is the kind, the length of the body, the
// checksum of these five bytes, and the checksum of the body. With a checksum of its own a
// wrong length is damage, and never a file that ends early.
const (
	headSize  = 13
	maxFrame  = 40 << 20 // a record of a stream has at most 32 MiB
	beginKind = 'b'
	endKind   = 'e'
	logKind   = 'l'
	blobKind  = 'c' // a chunk of a blob
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errShort: the file ends within a frame.
var errShort = errors.New("the file ends within a frame")

// appendFrame appends the frame whose body add appends.
func appendFrame(b []byte, kind byte, add func([]byte) []byte) []byte {
	at := len(b)
	b = add(append(b, make([]byte, headSize)...))
	head, body := b[at:at+headSize], b[at+headSize:]
	head[0] = kind
	binary.LittleEndian.PutUint32(head[1:], uint32(len(body)))
	binary.LittleEndian.PutUint32(head[5:], crc32.Checksum(head[:5], castagnoli))
	binary.LittleEndian.PutUint32(head[9:], crc32.Checksum(body, castagnoli))
	return b
}

// readFrame reads a frame into buf, which it may grow, and returns it whole. io.EOF: there
// is none. errShort; [ledger.ErrCorrupt].
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	if cap(buf) < headSize {
		buf = make([]byte, headSize, 64<<10)
	}
	buf = buf[:headSize]
	if _, err := io.ReadFull(r, buf); errors.Is(err, io.ErrUnexpectedEOF) {
		return buf, errShort
	} else if err != nil {
		return buf, err
	}
	n := int(binary.LittleEndian.Uint32(buf[1:]))
	if crc32.Checksum(buf[:5], castagnoli) != binary.LittleEndian.Uint32(buf[5:]) || n > maxFrame {
		return buf, fmt.Errorf("%w: the head of a frame has a wrong checksum", ledger.ErrCorrupt)
	}
	if cap(buf) < headSize+n {
		buf = append(make([]byte, 0, headSize+n), buf...)
	}
	buf = buf[:headSize+n]
	if _, err := io.ReadFull(r, buf[headSize:]); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return buf, errShort
	} else if err != nil {
		return buf, err
	}
	if crc32.Checksum(buf[headSize:], castagnoli) != binary.LittleEndian.Uint32(buf[9:]) {
		return buf, fmt.Errorf("%w: a frame has a wrong checksum", ledger.ErrCorrupt)
	}
	return buf, nil
}

// Stream names a stream of the ledger.
type Stream struct {
	Blobs  bool
	Number uint64 // of the stream of blobs; 0 for the log
}

// recordHead is the size of a record's body before its subject: the number of the stream,
// the position, the time, and the lengths of the subject and of the header.
const recordHead = 8 + 8 + 8 + 2 + 4

// AppendRecord appends the frame of a record to b.
func AppendRecord(b []byte, s Stream, r blocks.Record) ([]byte, error) {
	size := recordHead + len(r.Subject) + len(r.Header) + len(r.Payload)
	if len(r.Subject) > math.MaxUint16 || size > maxFrame {
		return b, fmt.Errorf("%w: record %d of %d bytes", ledger.ErrTooLarge, r.Seq, size)
	}
	kind := byte(logKind)
	if s.Blobs {
		kind = blobKind
	}
	return appendFrame(b, kind, func(b []byte) []byte {
		le := binary.LittleEndian
		b = le.AppendUint64(b, s.Number)
		b = le.AppendUint64(b, r.Seq)
		b = le.AppendUint64(b, uint64(r.Stored.UnixNano()))
		b = le.AppendUint16(b, uint16(len(r.Subject)))
		b = le.AppendUint32(b, uint32(len(r.Header)))
		b = append(append(b, r.Subject...), r.Header...)
		return append(b, r.Payload...)
	}), nil
}

// parseRecord returns the record in a frame. It shares the frame's memory.
func parseRecord(frame []byte) (s Stream, r blocks.Record, err error) {
	body, le := frame[headSize:], binary.LittleEndian
	if len(body) < recordHead {
		return s, r, fmt.Errorf("%w: a record of %d bytes", ledger.ErrCorrupt, len(body))
	}
	s = Stream{Blobs: frame[0] == blobKind, Number: le.Uint64(body)}
	r.Seq, r.Stored = le.Uint64(body[8:]), time.Unix(0, int64(le.Uint64(body[16:]))).UTC()
	subject, header := int(le.Uint16(body[24:])), int(le.Uint32(body[26:]))
	rest := body[recordHead:]
	if subject+header > len(rest) || header < 0 {
		return s, r, fmt.Errorf("%w: record %d: its parts are longer than it", ledger.ErrCorrupt, r.Seq)
	}
	r.Subject, r.Payload = string(rest[:subject]), rest[subject+header:]
	if header > 0 {
		r.Header = rest[subject : subject+header : subject+header]
	}
	return s, r, nil
}

// Begin is the frame that begins a run.
type Begin struct {
	Ledger  string    `json:"ledger"`  // UUID
	Created time.Time `json:"created"` // of the log's stream: tells a ledger from one that was restored from it
	Sealed  bool      `json:"sealed"`  // it needs content keys
	Run     uint64    `json:"run"`     // from 1
	Began   time.Time `json:"began"`
}

// Place is where a stream ends.
type Place struct {
	Seq uint64     `json:"seq,string"`
	Sum turns.Hash `json:"sum"` // of the record there
}

// Totals is what a file holds.
type Totals struct {
	Log         Place  `json:"log"`
	BlobStream  uint64 `json:"blob_stream"` // number of the stream that holds the blobs
	Blobs       Place  `json:"blobs"`
	LogRecords  uint64 `json:"log_records,string"`
	BlobRecords uint64 `json:"blob_records,string"` // of all streams of blobs that are in the file
	Chains      uint64 `json:"chains"`
	// Lost and Broken count the records of the log that a repair gave up, and those that do
	// not continue their chains, with all after them on these: the ledger had them so.
	Lost   uint64 `json:"lost"`
	Broken uint64 `json:"broken"`
	Keys   uint64 `json:"keys"` // content keys that events name
}

// End is the frame that ends a run. Digest is the SHA-256 of all bytes of the file before it.
type End struct {
	Run    uint64     `json:"run"`
	Begin  Begin      `json:"begin"` // again: damage there must not hide whose records these are
	Ended  time.Time  `json:"ended"`
	Totals Totals     `json:"totals"`
	Bytes  int64      `json:"bytes,string"` // before this frame
	Digest turns.Hash `json:"digest"`
}

func appendJSON(b []byte, kind byte, v any) ([]byte, error) {
	text, err := turns.EncodeJSON(v)
	if err != nil {
		return b, err
	}
	return appendFrame(b, kind, func(b []byte) []byte { return append(b, text...) }), nil
}
