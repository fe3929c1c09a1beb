package blocks

import (
	"fmt"
	"io"
)

// headsRead is how many bytes LastSeq reads at a time. A read costs as much as the copy of
// some records; what it reads of large ones beyond their heads is wasted.
const headsRead = 32 << 10

// LastSeq walks over the heads of the records of a block file from offset off, where a
// record begins, to size. It returns the sequence of the last whole record, 0 if there is
// none, and where the next one begins. It checks no checksums: it is
// for a file that the server has just written. Errors: those of reading, and a
// [*Damage] for a head that is none.
func LastSeq(file io.ReaderAt, off, size int64) (seq uint64, next int64, err error) {
	buf := make([]byte, max(0, min(headsRead, size-off)))
	lo, hi := off, off // what buf holds of the file
	for size-off >= headSize {
		if off+headSize > hi {
			lo, hi = off, min(off+int64(len(buf)), size)
			if _, err := file.ReadAt(buf[:hi-lo], lo); err != nil {
				return seq, off, err
			}
		}
		h := parseHead(buf[off-lo : off-lo+headSize])
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
