package rows

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Encode returns the row of a fold, or of another value, in CBOR.
func Encode(v any) ([]byte, error) { return cbor.Marshal(v) }

// Decode reads a row that [Encode] made.
func Decode(b []byte, v any) error { return cbor.Unmarshal(b, v) }

// The rows that are written and read once a turn have an encoding of their own: numbers as
// varints, hashes and ids as they are, and of a reference what its turn does not say. Such a
// row has a third of its bytes in CBOR, and is decoded in a tenth of the time.

// How a reference is stored: two bits of the row's first number.
const (
	refNone  = iota
	refLocal // of the row's own session: the turn
	refFull  // session and turn
	refSelf  // the row's own turn
)

// turnRefs are the references of a turn, in the order of their bits.
func turnRefs(t *Turn) [8]*turns.Ref {
	return [8]*turns.Ref{&t.Parent, &t.Jump, &t.Compaction, &t.Previous, &t.Enclosing, &t.Reported, &t.Above, &t.AboveJump}
}

// turnNumbers are the numbers of a turn, in the order of the row.
func turnNumbers(t *Turn) [15]*uint64 {
	return [15]*uint64{&t.Depth, &t.Sum, &t.Messages, &t.Response, &t.Calls, (*uint64)(&t.Cut), &t.Replaced, &t.Saved,
		&t.Index, &t.Seq, &t.Open, &t.Cycles, &t.Input, &t.Rank, &t.Opened}
}

// The flags of a row, above the bits of its references.
const (
	flagImported = 1 << (16 + iota)
	flagDropped
	flagCall
	flagOpens // the turn opens its segment, which is not stored then
)

// Encode returns the row of t.
func (t *Turn) Encode() []byte {
	b := make([]byte, 4, 192)
	var bits uint32
	for i, r := range turnRefs(t) {
		how := uint32(refFull)
		switch {
		case r.IsZero():
			how = refNone
		case *r == t.Ref:
			how = refSelf
		case r.Session == t.Ref.Session:
			how = refLocal
			b = append(b, r.Turn[:]...)
		default:
			b = append(append(b, r.Session[:]...), r.Turn[:]...)
		}
		bits |= how << (2 * i)
	}
	for _, f := range []struct {
		set bool
		bit uint32
	}{{t.Imported, flagImported}, {t.Dropped, flagDropped}, {t.Call, flagCall}, {t.Segment == t.Ref.Turn, flagOpens}} {
		if f.set {
			bits |= f.bit
		}
	}
	binary.BigEndian.PutUint32(b, bits)
	if bits&flagOpens == 0 {
		b = append(b, t.Segment[:]...)
	}
	b = append(b, t.Hash[:]...)
	b = append(b, byte(t.Kind), byte(t.Halves))
	for _, n := range turnNumbers(t) {
		b = binary.AppendUvarint(b, *n)
	}
	return binary.AppendVarint(b, t.Recorded)
}

// DecodeTurn reads the row of ref. Errors: [ledger.ErrCorrupt].
func DecodeTurn(ref turns.Ref, b []byte) (t Turn, err error) {
	d := decoder{b: b}
	t = Turn{Node: lineage.Node{Ref: ref}}
	bits := uint32(0)
	if head := d.take(4); head != nil {
		bits = binary.BigEndian.Uint32(head)
	}
	for i, r := range turnRefs(&t) {
		switch bits >> (2 * i) & 3 {
		case refLocal:
			r.Session = ref.Session
			copy(r.Turn[:], d.take(16))
		case refFull:
			copy(r.Session[:], d.take(16))
			copy(r.Turn[:], d.take(16))
		case refSelf:
			*r = ref
		}
	}
	t.Imported, t.Dropped, t.Call = bits&flagImported != 0, bits&flagDropped != 0, bits&flagCall != 0
	if t.Segment = ref.Turn; bits&flagOpens == 0 {
		copy(t.Segment[:], d.take(16))
	}
	copy(t.Hash[:], d.take(32))
	if kinds := d.take(2); kinds != nil {
		t.Kind, t.Halves = turns.Kind(kinds[0]), turns.Halves(kinds[1])
	}
	for _, n := range turnNumbers(&t) {
		*n = d.number()
	}
	v, n := binary.Varint(d.b)
	if n <= 0 || n != len(d.b) || d.short {
		return Turn{}, fmt.Errorf("%w: projection row of turn %s, of %d bytes", ledger.ErrCorrupt, ref, len(b))
	}
	t.Recorded = v
	return t, nil
}

// decoder reads a row. After a read beyond its end, short is set and every read gives
// nothing.
type decoder struct {
	b     []byte
	short bool
}

func (d *decoder) take(n int) []byte {
	if d.short || n > len(d.b) {
		d.short = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || d.short {
		d.short = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// A row of a place begins with one of these.
const placeSession, placeRecord = 0, 1

// Encode returns the row of p.
func (p *Place) Encode() []byte {
	if p.Subject == "" {
		b := make([]byte, 1, 27)
		return binary.AppendUvarint(append(b, p.Session[:]...), p.Index)
	}
	b := make([]byte, 1, 8+len(p.Subject)+len(p.Payload))
	b[0] = placeRecord
	b = append(binary.AppendUvarint(b, uint64(len(p.Subject))), p.Subject...)
	return append(b, p.Payload...)
}

// DecodePlace reads the row of the record at seq. The payload is a part of b. Errors:
// [ledger.ErrCorrupt].
func DecodePlace(seq uint64, b []byte) (p Place, err error) {
	d := decoder{b: b}
	bad := func() error { // made where it is needed: most rows are whole
		return fmt.Errorf("%w: projection row of record %d, of %d bytes", ledger.ErrCorrupt, seq, len(b))
	}
	kind := d.take(1)
	switch {
	case d.short:
		return p, bad()
	case kind[0] == placeSession:
		copy(p.Session[:], d.take(16))
		p.Index = d.number()
		if d.short || len(d.b) > 0 {
			return Place{}, bad()
		}
	case kind[0] == placeRecord:
		n := d.number()
		if d.short || n == 0 || n > uint64(len(d.b)) {
			return p, bad()
		}
		p.Subject, p.Payload = string(d.take(int(n))), d.b
	default:
		return p, bad()
	}
	return p, nil
}

// An event row of a turn is 1 byte and where its payload is; of any other
// event, 0 and the payload.

// Pointer returns the row of an event that is a turn.
func Pointer(segment turns.ID, depth uint64) []byte {
	b := make([]byte, 25)
	b[0] = 1
	copy(b[1:], segment[:])
	binary.BigEndian.PutUint64(b[17:], depth)
	return b
}

// Inline returns the row of an event that is no turn.
func Inline(payload []byte) []byte { return append([]byte{0}, payload...) }

// Follow reads the row of an event of a session: the payload, or the key that the payload is
// under. Errors: [ledger.ErrCorrupt].
func Follow(session turns.ID, row []byte) (payload, at []byte, err error) {
	switch {
	case len(row) > 0 && row[0] == 0:
		return row[1:], nil, nil
	case len(row) != 25:
		return nil, nil, fmt.Errorf("%w: projection row of an event of session %s, of %d bytes", ledger.ErrCorrupt, session, len(row))
	}
	return nil, Number(Payloads.Key(session, IDAt(row, 1)), NumberAt(row, 17)), nil
}

// Encode returns the row of a.
func (a *AsideChain) Encode() []byte { return append(Number(nil, a.Seq), a.Why...) }

// DecodeAside reads the row of a chain that was set aside; ok is false if it is none.
func DecodeAside(k, v []byte) (a AsideChain, ok bool) {
	if len(k) < 2 || len(v) < 8 {
		return a, false
	}
	return AsideChain{Subject: string(k[1 : len(k)-1]), Seq: NumberAt(v, 0), Why: string(v[8:])}, true
}
