package turns

import (
	"bytes"
	"unicode/utf8"
)

// readCanonical decodes a payload in one pass if it is the canonical encoding of an event
// of a common kind: not a compaction, a flush or a policy. ok is false for every other
// payload, which [Decode] then reads with the library to decide and to say what is wrong.
//
// Most payloads are stored ones that are read again and again (a replay, a verification),
// and the library takes ten times as long: it reads twice and encodes again to compare.
//
// Invariant: if ok, decodeAny returns the same event for payload.
func readCanonical(payload []byte) (e *Event, ok bool) {
	if e, ok = canonicalView(payload); ok && e.Body != nil {
		e.Body = bytes.Clone(e.Body)
	}
	return e, ok
}

// canonicalView is readCanonical of an event whose body is payload's memory.
func canonicalView(payload []byte) (e *Event, ok bool) {
	r := canonical{b: payload}
	n := r.head(5)
	e = new(Event)
	last := uint64(0)
	for range n {
		k := r.head(0)
		if r.bad || k <= last {
			return nil, false
		}
		last = k
		r.field(e, k)
	}
	// The fields that no encoding leaves out.
	if r.bad || len(r.b) > 0 || r.always != 1<<1|1<<2|1<<3|1<<4|1<<5|1<<8 || e.Version != Version || !e.Kind.defined() {
		return nil, false
	}
	return e, true
}

// canonical reads CBOR in its deterministic form (RFC 8949 section 4.2.1). After anything
// else it is bad, and what it returned before counts for nothing.
type canonical struct {
	b      []byte
	bad    bool
	always uint64 // bits of the keys read whose fields may be zero
}

// field reads the value of the event's field k. A zero value of a field that an encoder
// leaves out is not canonical.
func (r *canonical) field(e *Event, k uint64) {
	zero := false
	switch k {
	case 1, 2, 3, 4, 5, 8:
		r.always |= 1 << k
	}
	switch k {
	case 1:
		e.Version = r.head(0)
	case 2:
		e.Kind = Kind(r.small())
	case 3:
		r.fixed(e.ID[:])
	case 4:
		r.array(2)
		e.Chain.Entity, e.Chain.ID = Entity(r.text()), r.text()
	case 5:
		e.Index = r.head(0)
	case 6:
		zero = r.fixed(e.Prev[:])
	case 7:
		e.Claimed = r.int()
		zero = e.Claimed == 0
	case 8:
		e.Recorded = r.int()
	case 9:
		e.Actor = r.text()
		zero = e.Actor == ""
	case 10:
		zero = r.fixed(e.Digest[:])
	case 11:
		zero = r.ref(&e.Parent)
	case 12:
		zero = r.count(&e.Depth)
	case 13:
		zero = r.fixed(e.Segment[:])
	case 14:
		e.Halves = Halves(r.small())
		zero = e.Halves == 0
	case 15:
		zero = r.count(&e.Calls)
	case 16:
		r.array(3)
		e.Tokens.Counter, e.Tokens.Messages, e.Tokens.Response = r.text(), r.head(0), r.head(0)
		zero = e.Tokens.IsZero()
	case 18:
		e.Usage = new(Usage)
		r.usage(e.Usage)
	case 19:
		zero = r.count(&e.Open)
	case 20:
		e.Origin = new(Origin)
		r.array(3)
		r.fixed(e.Origin.Ledger[:])
		e.Origin.Tenant = r.text()
		r.fixed(e.Origin.Session[:])
	case 21:
		e.ForkOf = new(ForkOf)
		r.array(3)
		r.ref(&e.ForkOf.At)
		r.fixed(e.ForkOf.Hash[:])
		e.ForkOf.Mode = ForkMode(r.small())
	case 22:
		zero = r.fixed(e.Root[:])
	case 23:
		e.Agent = r.text()
		zero = e.Agent == ""
	case 24:
		e.Role = SessionKind(r.text())
		zero = e.Role == ""
	case 25:
		zero = r.ref(&e.SpawnedBy)
	case 26:
		zero = r.count(&e.Late)
	case 27:
		zero = r.count(&e.Abandoned)
	case 28:
		zero = r.count(&e.UserTexts)
	case 30:
		zero = r.ref(&e.To)
	case 31:
		e.State = State(r.small())
		zero = e.State == 0
	case 32:
		zero = r.fixed(e.Successor[:])
	case 40:
		e.Blobs = make([]BlobLink, r.list(36)) // the digest, its head, that of the array and a size
		for i := range e.Blobs {
			r.array(2)
			r.fixed(e.Blobs[i].Digest[:])
			e.Blobs[i].Size = r.head(0)
		}
		zero = len(e.Blobs) == 0
	case 41:
		e.Encoding = Encoding(r.small())
		zero = e.Encoding == 0
	case 42:
		e.Keys = make([]ID, r.list(17))
		for i := range e.Keys {
			r.fixed(e.Keys[i][:])
		}
		zero = len(e.Keys) == 0
	case 43:
		e.Body = r.take(r.head(2))
		zero = len(e.Body) == 0
	case 44:
		e.Sender = r.text()
		zero = e.Sender == ""
	default:
		r.bad = true
	}
	r.bad = r.bad || zero
}

// usage reads a usage: a map.
func (r *canonical) usage(u *Usage) {
	n := r.head(5)
	last := uint64(0)
	for range n {
		k := r.head(0)
		if r.bad || k <= last {
			r.bad = true
			return
		}
		last = k
		zero := true
		switch k {
		case 1:
			zero = r.count(&u.InputTokens)
		case 2:
			zero = r.count(&u.OutputTokens)
		case 3:
			zero = r.count(&u.CacheRead)
		case 4:
			zero = r.count(&u.CacheCreation)
		}
		r.bad = r.bad || zero
	}
}

// head reads the head of an item of a major type and returns its argument, in the
// shortest form only.
func (r *canonical) head(major byte) (n uint64) {
	if r.bad || len(r.b) == 0 || r.b[0]>>5 != major {
		r.bad = true
		return 0
	}
	short := uint64(r.b[0] & 31)
	r.b = r.b[1:]
	if short < 24 {
		return short
	}
	if short > 27 {
		r.bad = true
		return 0
	}
	size := 1 << (short - 24)
	if len(r.b) < size {
		r.bad = true
		return 0
	}
	for _, x := range r.b[:size] {
		n = n<<8 | uint64(x)
	}
	r.b = r.b[size:]
	least := uint64(24) // of what needs so many bytes
	if size > 1 {
		least = 1 << (4 * size)
	}
	if n < least {
		r.bad = true
	}
	return n
}

// count reads an unsigned integer, and reports whether it is zero.
func (r *canonical) count(to *uint64) (zero bool) {
	*to = r.head(0)
	return *to == 0
}

// small reads an unsigned integer of a byte.
func (r *canonical) small() uint8 {
	n := r.head(0)
	if n > 255 {
		r.bad = true
	}
	return uint8(n)
}

// int reads a signed integer.
func (r *canonical) int() int64 {
	negative := len(r.b) > 0 && r.b[0]>>5 == 1
	major := byte(0)
	if negative {
		major = 1
	}
	n := r.head(major)
	if n > 1<<63-1 {
		r.bad = true
	}
	if negative {
		return ^int64(n)
	}
	return int64(n)
}

func (r *canonical) array(n uint64) {
	if r.head(4) != n {
		r.bad = true
	}
}

// list reads the head of an array whose elements have at least size bytes, and returns
// how many there are: never more than the payload can hold.
func (r *canonical) list(size int) uint64 {
	n := r.head(4)
	if r.bad || n > MaxElements || n > uint64(len(r.b)/size) {
		r.bad = true
		return 0
	}
	return n
}

func (r *canonical) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// fixed reads a byte string of the length of to, and reports whether all of it is zero.
func (r *canonical) fixed(to []byte) (zero bool) {
	if r.head(2) != uint64(len(to)) {
		r.bad = true
		return false
	}
	copy(to, r.take(uint64(len(to))))
	var any byte
	for _, x := range to {
		any |= x
	}
	return any == 0
}

// ref reads a reference, and reports whether it is zero.
func (r *canonical) ref(to *Ref) (zero bool) {
	r.array(2)
	session, turn := r.fixed(to.Session[:]), r.fixed(to.Turn[:])
	return session && turn
}

func (r *canonical) text() string {
	b := r.take(r.head(3))
	if !utf8.Valid(b) {
		r.bad = true
	}
	return string(b)
}
