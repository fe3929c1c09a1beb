package blocks

import (
	"fmt"
	"strings"

	"nexus/ledger"
)

// Kind says what is wrong at a place.
type Kind string

// The kinds of damage.
const (
	Checksum  Kind = "checksum"  // a whole record whose checksum is wrong
	Length    Kind = "length"    // a length that no record has, or that is not the record's
	Short     Kind = "short"     // the block ends inside a record
	Zeros     Kind = "zeros"     // zero bytes where a record should be
	Bytes     Kind = "bytes"     // bytes that belong to no record and to no torn write
	Repeated  Kind = "repeated"  // a sequence that an earlier record has, or passed
	Missing   Kind = "missing"   // sequences that no record has
	Tombstone Kind = "tombstone" // a delete marker
	Erased    Kind = "erased"    // a record that was deleted
	Subject   Kind = "subject"   // a subject that no message has
	Header    Kind = "header"    // a header that is none
	Refused   Kind = "refused"   // Options.Valid refused the record
	File      Kind = "file"      // a block file is misnamed, or all are missing; a purge was begun
	Meta      Kind = "meta"      // meta.inf or meta.sum
)

// Damage is one place where the folder is not what the server wrote and kept.
// Unwrap gives [ledger.ErrCorrupt].
type Damage struct {
	Kind   Kind
	File   string // under the folder of the stream
	Offset int64  // in File
	Bytes  int64  // that cannot be read; 0: the bytes are sound, the sequence is not
	// First and Last are the sequences that are damaged or missing. First is 0 if
	// the damage has no sequence or it is not known, Last is 0 if only First is known.
	First, Last uint64
	Detail      string
}

func (d *Damage) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %d", d.File, d.Offset)
	if d.Bytes > 0 {
		fmt.Fprintf(&b, ", %d bytes", d.Bytes)
	}
	switch {
	case d.First == 0:
	case d.Last == d.First:
		fmt.Fprintf(&b, ", record %d", d.First)
	case d.Last == 0:
		fmt.Fprintf(&b, ", records from %d", d.First)
	default:
		fmt.Fprintf(&b, ", records %d to %d", d.First, d.Last)
	}
	fmt.Fprintf(&b, ": %s", d.Kind)
	if d.Detail != "" {
		fmt.Fprintf(&b, ": %s", d.Detail)
	}
	return b.String()
}

// Unwrap gives ErrCorrupt.
func (d *Damage) Unwrap() error { return ledger.ErrCorrupt }

// Tail is what a write that did not finish left at the end of the newest block.
// The server truncates the block there at its next start.
type Tail struct {
	Block  uint32
	Offset int64
	Bytes  int64
	Seq    uint64 // of the record that was being written; 0: not known
	Zeros  bool   // all bytes are zero
	// Later counts the blocks after Block, with [Options.Unsynced]: nothing in them was
	// acknowledged either. The server would take their records for those that follow.
	Later int
}
