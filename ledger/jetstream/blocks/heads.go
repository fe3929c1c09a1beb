package blocks

import (
	"fmt"
	"io"
)

// LastSeq walks over the heads of the records of a block file from offset off, where a
// record begins, to size. It returns the sequence of the last whole record, 0 if there is
// none, and where the next one begins. It reads no contents and checks no checksums: it is
// for a file that the server has just written. Errors: those of reading, and a
// [*Damage] for a head that is none.
func LastSeq(file io.ReaderAt, off, size int64) (seq uint64, next int64, err error) {
	var raw [headSize]byte
	for size-off >= headSize {
		if _, err := file.ReadAt(raw[:], off); err != nil {
			return seq, off, err
		}
		h := parseHead(raw[:])
		if !h.isPossible() {
			return seq, off, &Damage{Kind: Length, Offset: off, Detail: fmt.Sprintf("after record %d", seq)}
		}
		if h.length > size-off {
			break // it is being written
		}
		seq, off = h.seq&^(erasedFlag|tombstoneFlag), off+h.length
	}
	return seq, off, nil
}
