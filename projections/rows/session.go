package rows

import (
	"encoding/binary"

	"github.com/fxamacker/cbor/v2"

	"nexus/ledger"
	"nexus/turns"
)

// EncodeSession returns what [Encode] returns for the fold of a session. Each batch writes the row of each session that
// it has a record of, and the library finds the fields by reflection.
func EncodeSession(s *ledger.Session) ([]byte, error) {
	m := members{b: make([]byte, 2, 512)} // the head of the map
	m.id(1, s.ID)
	m.text(2, s.Tenant)
	m.text(3, s.Agent)
	if s.Kind != "" {
		m.text(4, string(s.Kind))
	}
	m.id(5, s.Root)
	m.array(6, 3)
	m.bytes(s.Origin.Ledger[:])
	m.string(s.Origin.Tenant)
	m.bytes(s.Origin.Session[:])
	if f := s.ForkOf; f != nil {
		m.array(7, 3)
		m.ref(f.At)
		m.bytes(f.Hash[:])
		m.head(0, uint64(f.Mode))
	}
	m.refUnlessZero(8, s.Spawned)
	m.time(9, s.Recorded)
	m.key(10)
	m.head(5, 3)
	m.head(0, 1)
	m.head(0, s.Tail.Seq)
	m.head(0, 2)
	m.head(0, s.Tail.Index)
	m.head(0, 3)
	m.bytes(s.Tail.Hash[:])
	m.refUnlessZero(11, s.Head)
	m.refUnlessZero(12, s.Last)
	m.idUnlessZero(20, s.Segment)
	m.count(13, uint64(s.State))
	m.idUnlessZero(14, s.Successor)
	m.count(15, s.Settings)
	m.count(16, s.Turns)
	m.count(17, s.Compactions)
	m.time(18, s.Updated)
	m.key(19)
	usage := members{b: append(m.b, 0)}
	for i, n := range []uint64{s.Usage.InputTokens, s.Usage.OutputTokens, s.Usage.CacheRead, s.Usage.CacheCreation} {
		usage.count(byte(1+i), n)
	}
	usage.b[len(m.b)] = 5<<5 | byte(usage.n)
	m.b = usage.b
	m.array(25, 3) // the library leaves out no struct that is an array
	m.head(0, s.Uncounted.Calls)
	m.head(0, s.Uncounted.Input)
	m.head(0, s.Uncounted.Output)
	m.count(26, s.Ended)
	m.count(27, s.Described)
	m.count(28, s.Notes)
	m.yes(29, s.Hidden)
	m.count(30, s.HiddenAt)
	m.yes(22, s.Timed)
	if s.First != 0 {
		m.time(23, s.First)
	}
	if s.Latest != 0 {
		m.time(24, s.Latest)
	}
	for i := range s.Flushes {
		if s.Flushes[i] == (turns.Flush{}) {
			continue
		}
		b, err := cbor.Marshal(s.Flushes) // rare
		if err != nil {
			return nil, err
		}
		m.key(21)
		m.b = append(m.b, b...)
		break
	}
	if m.n < 24 {
		m.b = m.b[1:]
		m.b[0] = 5<<5 | byte(m.n)
	} else {
		m.b[0], m.b[1] = 5<<5|24, byte(m.n)
	}
	return m.b, nil
}

// members are those of a map in CBOR: its bytes so far, and how many there are. Keys are under 256.
type members struct {
	b []byte
	n int
}

func (m *members) key(k byte) {
	m.head(0, uint64(k))
	m.n++
}

// head appends the head of an item: its major type, and its number in the shortest form.
func (m *members) head(major byte, n uint64) {
	major <<= 5
	switch {
	case n < 24:
		m.b = append(m.b, major|byte(n))
	case n < 1<<8:
		m.b = append(m.b, major|24, byte(n))
	case n < 1<<16:
		m.b = binary.BigEndian.AppendUint16(append(m.b, major|25), uint16(n))
	case n < 1<<32:
		m.b = binary.BigEndian.AppendUint32(append(m.b, major|26), uint32(n))
	default:
		m.b = binary.BigEndian.AppendUint64(append(m.b, major|27), n)
	}
}

func (m *members) array(k byte, n uint64) {
	m.key(k)
	m.head(4, n)
}

func (m *members) bytes(b []byte) {
	m.head(2, uint64(len(b)))
	m.b = append(m.b, b...)
}

func (m *members) string(s string) {
	m.head(3, uint64(len(s)))
	m.b = append(m.b, s...)
}

func (m *members) text(k byte, s string) {
	m.key(k)
	m.string(s)
}

func (m *members) id(k byte, id turns.ID) {
	m.key(k)
	m.bytes(id[:])
}

func (m *members) idUnlessZero(k byte, id turns.ID) {
	if !id.IsZero() {
		m.id(k, id)
	}
}

func (m *members) ref(r turns.Ref) {
	m.head(4, 2)
	m.bytes(r.Session[:])
	m.bytes(r.Turn[:])
}

func (m *members) refUnlessZero(k byte, r turns.Ref) {
	if !r.IsZero() {
		m.key(k)
		m.ref(r)
	}
}

// count is a number that is left out where it is zero.
func (m *members) count(k byte, n uint64) {
	if n != 0 {
		m.key(k)
		m.head(0, n)
	}
}

// time is a number that may be negative.
func (m *members) time(k byte, n int64) {
	m.key(k)
	if n < 0 {
		m.head(1, uint64(^n))
		return
	}
	m.head(0, uint64(n))
}

// yes is a boolean that is left out where it is false.
func (m *members) yes(k byte, b bool) {
	if b {
		m.key(k)
		m.b = append(m.b, 0xf5)
	}
}
