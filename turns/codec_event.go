package turns

import "encoding/binary"

// appendEvent appends the encoding of e to b: the bytes that encMode writes, which the
// tests compare. An event is encoded several times on its way to the log, and the
// library takes five times as long. Rare members are left to the library.
func appendEvent(b []byte, e *Event) ([]byte, error) {
	m := members{b: append(b, 0xb8, 0)} // a map of up to 255 pairs; the number follows
	start := len(b)
	m.uint(1, e.Version)
	m.uint(2, uint64(e.Kind))
	m.bytes(3, e.ID[:])
	m.key(4)
	m.b = appendText(appendText(append(m.b, 0x82), string(e.Chain.Entity)), e.Chain.ID)
	m.uint(5, e.Index)
	if !e.Prev.IsZero() {
		m.bytes(6, e.Prev[:])
	}
	if e.Claimed != 0 {
		m.int(7, e.Claimed)
	}
	m.int(8, e.Recorded)
	m.text(9, e.Actor)
	if !e.Digest.IsZero() {
		m.bytes(10, e.Digest[:])
	}
	m.ref(11, e.Parent)
	m.count(12, e.Depth)
	m.id(13, e.Segment)
	m.count(14, uint64(e.Halves))
	m.count(15, e.Calls)
	if !e.Tokens.IsZero() {
		m.key(16)
		m.b = appendText(append(m.b, 0x83), e.Tokens.Counter)
		m.b = appendHead(appendHead(m.b, 0, e.Tokens.Messages), 0, e.Tokens.Response)
	}
	m.rare(17, e.Span, e.Span != nil)
	m.rare(18, e.Usage, e.Usage != nil)
	m.count(19, e.Open)
	m.rare(20, e.Origin, e.Origin != nil)
	m.rare(21, e.ForkOf, e.ForkOf != nil)
	m.id(22, e.Root)
	m.text(23, e.Agent)
	m.text(24, string(e.Role))
	m.ref(25, e.SpawnedBy)
	m.count(26, e.Late)
	m.count(27, e.Abandoned)
	m.count(28, e.UserTexts)
	m.ref(30, e.To)
	m.count(31, uint64(e.State))
	m.id(32, e.Successor)
	m.rare(33, e.Flush, e.Flush != nil)
	m.rare(34, e.Policy, e.Policy != nil)
	m.rare(35, true, e.Timed)
	m.rare(36, e.Memory, e.Memory != nil)
	m.rare(37, e.Document, e.Document != nil)
	m.rare(38, e.Learned, len(e.Learned) > 0)
	m.rare(39, e.External, e.External != nil)
	m.rare(40, e.Blobs, len(e.Blobs) > 0)
	m.count(41, uint64(e.Encoding))
	if len(e.Keys) > 0 {
		m.key(42)
		m.b = appendHead(m.b, 4, uint64(len(e.Keys)))
		for _, k := range e.Keys {
			m.b = appendBytes(m.b, k[:])
		}
	}
	if len(e.Body) > 0 {
		m.bytes(43, e.Body)
	}
	m.text(44, e.Sender)
	if m.err != nil {
		return nil, m.err
	}
	if m.pairs < 24 { // the shortest form of the number is in the head itself
		copy(m.b[start+1:], m.b[start+2:])
		m.b = m.b[:len(m.b)-1]
		m.b[start] = 0xa0 | m.pairs
	} else {
		m.b[start+1] = m.pairs
	}
	return m.b, nil
}

// members writes the pairs of a map whose keys are numbers. Methods named after a type
// that has a zero value leave out a zero value, except uint, int and bytes.
type members struct {
	b     []byte
	pairs byte
	err   error
}

func (m *members) key(k uint64) {
	m.b = appendHead(m.b, 0, k)
	m.pairs++
}

func (m *members) uint(k, n uint64) {
	m.key(k)
	m.b = appendHead(m.b, 0, n)
}

func (m *members) count(k, n uint64) {
	if n != 0 {
		m.uint(k, n)
	}
}

func (m *members) int(k uint64, n int64) {
	m.key(k)
	if n < 0 {
		m.b = appendHead(m.b, 1, uint64(^n))
		return
	}
	m.b = appendHead(m.b, 0, uint64(n))
}

func (m *members) bytes(k uint64, v []byte) {
	m.key(k)
	m.b = appendBytes(m.b, v)
}

func (m *members) text(k uint64, s string) {
	if s != "" {
		m.key(k)
		m.b = appendText(m.b, s)
	}
}

func (m *members) id(k uint64, id ID) {
	if !id.IsZero() {
		m.bytes(k, id[:])
	}
}

func (m *members) ref(k uint64, r Ref) {
	if !r.IsZero() {
		m.key(k)
		m.b = appendBytes(appendBytes(append(m.b, 0x82), r.Session[:]), r.Turn[:])
	}
}

// rare writes a member with the library.
func (m *members) rare(k uint64, v any, present bool) {
	if !present || m.err != nil {
		return
	}
	b, err := encMode.Marshal(v)
	m.key(k)
	m.b, m.err = append(m.b, b...), err
}

// appendHead appends the head of a CBOR item: its major type and its number in the
// shortest form.
func appendHead(b []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

func appendBytes(b, v []byte) []byte { return append(appendHead(b, 2, uint64(len(v))), v...) }

func appendText(b []byte, s string) []byte { return append(appendHead(b, 3, uint64(len(s))), s...) }
