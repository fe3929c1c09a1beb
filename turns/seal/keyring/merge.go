package keyring

import (
	"bytes"
	"errors"
	"fmt"

	"nexus/turns"
	"nexus/turns/seal"
)

// copies are the bytes of the two copies of a log, a first; nil: the file is not there.
type copies [2][]byte

// merged is what two copies of a log say together.
type merged struct {
	keys    keys
	next    uint64     // the number of the next record
	end     int        // where it begins
	mend    [2][]patch // what the copies lack or have wrong, ascending
	last    [2]int     // where the last write begins that the copy has bytes of
	damaged [2]bool    // the copy lacks or has wrong what no crash leaves so
}

// patch is what a copy should have at an offset.
type patch struct {
	at    int
	bytes []byte
}

// unit is a stretch of a log: a record, or bytes in which no record is found.
type unit struct {
	head
	first      uint64 // the number of its first record; number is that of its last
	start, end int
	found      bool   // head is known
	good       bool   // body is known
	body       []byte // of a good one
	different  []head // the copies hold records of these heads, sound and different
}

// merger reads two copies of a log. It is pure: the caller does what merged says.
type merger struct {
	*epoch
	logs  copies
	names [2]string
	out   merged
}

// merge reads two copies of a log. Where one copy of a record is sound, that is the record.
// Where none is, its key is broken, and the bytes stay. What a torn write left at the end is
// cut; store.go says how it differs from damage. Errors: [turns.ErrUnsupported] for a kind
// of record that this build does not know; [turns.ErrCorrupt] if nothing is sound.
func (e *epoch) merge(logs copies, names [2]string) (merged, error) {
	m := &merger{epoch: e, logs: logs, names: names}
	m.out = merged{keys: newKeys(), next: 1, end: headerSize, last: [2]int{headerSize, headerSize}}
	headers, records := 0, 0
	for i, log := range logs {
		ok, err := m.checkHeader(log)
		if err != nil {
			return merged{}, fmt.Errorf("%s: %w", names[i], err)
		}
		if ok {
			headers++
		} else {
			m.patch(i, 0, e.header)
			m.out.damaged[i] = true
		}
	}
	var tail []unit // from the first one on that b has nothing of and a has not whole
	for at, n := headerSize, uint64(1); at < m.longest(); {
		u := m.unit(at, n)
		if u.good {
			records++
		}
		if tail == nil && !u.good && logs[1] != nil && len(logs[1]) >= headerSize && u.start >= len(logs[1]) {
			tail = []unit{} // not nil
		}
		if cut := u.end > m.longest() || !u.found && u.end == m.longest() && u.end-u.start < recordExtra; cut && tail == nil {
			break
		}
		if tail != nil {
			tail = append(tail, u)
		} else if err := m.take(u); err != nil {
			return merged{}, err
		}
		at, n = u.end, u.number+1
	}
	if !oneWrite(tail) {
		for _, u := range tail {
			if u.end > m.longest() {
				break
			}
			if err := m.take(u); err != nil {
				return merged{}, err
			}
		}
	}
	if headers == 0 && records == 0 && m.longest() != headerSize { // a log gets its name with its header in it
		return merged{}, fmt.Errorf("%w: %s and %s: neither the header nor a record of either is sound under the key of epoch %d",
			turns.ErrCorrupt, names[0], names[1], e.number)
	}
	return m.out, nil
}

// oneWrite reports whether units are what is left of one write: no record among them begins
// another one.
func oneWrite(tail []unit) bool {
	for _, u := range tail {
		if u.found && u.number-uint64(u.place) > tail[0].first {
			return false
		}
	}
	return true
}

func (m *merger) longest() int { return max(len(m.logs[0]), len(m.logs[1])) }

// checkHeader reports whether a log has the header of its epoch. All of it follows from the
// epoch, so a damaged one is made again.
func (m *merger) checkHeader(log []byte) (bool, error) {
	if len(log) < headerSize {
		return false, nil
	}
	v := log[len(logMagic)]
	if v != logVersion && bytes.Equal(log[:headerSize], logHeader(v, m.number, m.store, m.key)) {
		return false, fmt.Errorf("%w: version %d of a key log, this build knows %d", turns.ErrUnsupported, v, logVersion)
	}
	return bytes.Equal(log[:headerSize], m.header), nil
}

// unit reads what begins at an offset, where record n should.
func (m *merger) unit(at int, n uint64) unit {
	var heads [2]head
	var found [2]bool
	for i, log := range m.logs {
		h, ok := headAt(log, at)
		heads[i], found[i] = h, ok && !h.last && h.number == n
	}
	switch {
	case found[0] && found[1] && heads[0] == heads[1]:
		return m.record(at, heads[0], heads[0])
	case found[0] && found[1]:
		return m.record(at, heads[0], heads[1])
	case found[0]:
		return m.record(at, heads[0], heads[0])
	case found[1]:
		return m.record(at, heads[1], heads[1])
	}
	return m.search(at, n)
}

// search looks for the head behind record n, which begins at an offset and whose first head
// is damaged in both copies, or else for the next record of which a head is sound.
func (m *merger) search(at int, n uint64) unit {
	for p := at + 1; p+headSize <= m.longest(); p++ {
		for _, log := range m.logs {
			h, ok := headAt(log, p)
			if !ok {
				continue
			}
			start := p
			if h.last {
				start = p + headSize - h.size()
				h.last = false
			}
			switch {
			case start == at && h.number == n:
				return m.record(at, h, h)
			case start > at && h.number > n:
				return unit{head: head{number: h.number - 1}, start: at, end: start}.from(n)
			}
		}
	}
	end := m.longest()
	return unit{head: head{number: n + uint64(end-at)/recordExtra}, start: at, end: end}.from(n)
}

// from notes the number of the first record that a stretch without records takes.
func (u unit) from(n uint64) unit {
	u.first = n
	return u
}

// record reads the record at an offset, whose head is ha in copy a and hb in copy b.
func (m *merger) record(at int, ha, hb head) unit {
	u := unit{head: ha, first: ha.number, start: at, end: at + ha.size(), found: true}
	a, aok := m.open(m.logs[0], at, ha)
	if aok && ha == hb && u.end <= len(m.logs[1]) && bytes.Equal(m.logs[0][at:u.end], m.logs[1][at:u.end]) {
		u.body, u.good = a, true
		return u
	}
	b, bok := m.open(m.logs[1], at, hb)
	switch {
	case aok && bok && (ha != hb || !bytes.Equal(a, b)):
		u.different = []head{ha, hb}
	case aok:
		u.body, u.good = a, true
	case bok:
		u.head, u.end, u.body, u.good = hb, at+hb.size(), b, true
	}
	return u
}

// take notes what a unit says of its key, and what the copies lack of it.
func (m *merger) take(u unit) error {
	k := m.out.keys
	m.out.end, m.out.next = u.end, u.number+1
	for i, log := range m.logs {
		if u.start < len(log) && u.place == 0 && u.found {
			m.out.last[i] = u.start
		}
	}
	both := m.names[0] + " and " + m.names[1]
	switch {
	case !u.found:
		m.out.keys.lost = fmt.Errorf("%w: %s: both are damaged from byte %d to %d, and nobody knows of which key", turns.ErrCorrupt, both, u.start, u.end)
		return nil
	case u.different != nil:
		for _, h := range u.different {
			k.broken[h.id] = fmt.Errorf("%w: the key of %s: %s hold different records at byte %d", turns.ErrCorrupt, h.id, both, u.start)
		}
		return nil
	case !u.good && u.kind == recordDestroyed: // its head says so
		k.erased[u.id] = struct{}{}
		return nil
	case !u.good && u.kind == recordLeft:
		k.broken[u.id] = fmt.Errorf("%w: what is left of the key of %s: no copy can be read: %s are damaged from byte %d to %d: %w", turns.ErrCorrupt, u.id, both, u.start, u.end, punctured(u.id))
		return nil
	case !u.good:
		k.broken[u.id] = fmt.Errorf("%w: the key of %s: no copy can be read: %s are damaged from byte %d to %d", turns.ErrCorrupt, u.id, both, u.start, u.end)
		return nil
	}
	m.compare(u)
	switch {
	case u.kind == recordKey && len(u.body) == len(seal.Key{}):
		old, ok := k.byID[u.id]
		broken := k.broken[u.id]
		if broken == nil && ok && old != seal.Key(u.body) {
			k.broken[u.id] = fmt.Errorf("%w: the key of %s: %s have two different keys", turns.ErrCorrupt, u.id, both)
		}
		if broken != nil && !errors.Is(broken, seal.ErrPunctured) { // a whole key does not undo that events were taken from it
			delete(k.broken, u.id) // it was put back
		}
		k.byID[u.id] = seal.Key(u.body)
	case u.kind == recordLeft && len(u.body) == 0:
		k.broken[u.id] = lostRemains(u.id, both)
	case u.kind == recordLeft:
		left, err := seal.DecodeRemains(u.body)
		if err != nil {
			return fmt.Errorf("%w: %s: record %d, of %s: %v", turns.ErrUnsupported, both, u.number, u.id, err)
		}
		if _, ok := k.left[u.id]; ok {
			k.broken[u.id] = fmt.Errorf("%w: what is left of the key of %s: %s have it twice: %w", turns.ErrCorrupt, u.id, both, punctured(u.id))
		}
		k.left[u.id] = left
	case u.kind == recordDestroyed && len(u.body) == 0:
		k.erased[u.id] = struct{}{}
	case u.kind == recordLost && len(u.body) == 0 && u.id == turns.ID{}:
		m.out.keys.lost = fmt.Errorf("%w: %s: a key was lost to damage of both copies, and nobody knows whose", turns.ErrCorrupt, both)
	case u.kind == recordLost && len(u.body) == 0:
		k.broken[u.id] = fmt.Errorf("%w: the key of %s was lost to damage of both copies, as %s say", turns.ErrCorrupt, u.id, both)
	default:
		return fmt.Errorf("%w: %s: record %d, of %s, has kind %d and %d bytes, which this build does not know",
			turns.ErrUnsupported, both, u.number, u.id, u.kind, len(u.body))
	}
	return nil
}

func lostRemains(id turns.ID, in string) error {
	return fmt.Errorf("%w: what was left of the key of %s was lost to damage of both copies, as %s say: %w", turns.ErrCorrupt, id, in, punctured(id))
}

// compare notes which copies have a good record otherwise than it should be.
func (m *merger) compare(u unit) {
	want := u.bytes(m.logs[0])
	if u.end <= len(m.logs[1]) && bytes.Equal(want, m.logs[1][u.start:u.end]) && m.soundHeads(want, u.head) {
		return
	}
	want = m.append(nil, u.head, u.body)
	for i, log := range m.logs {
		if got := u.bytes(log); !bytes.Equal(got, want) {
			m.patch(i, u.start, want)
			m.out.damaged[i] = m.out.damaged[i] || len(got) == len(want) || i == 0
		}
	}
}

// bytes returns what a log has of a unit.
func (u unit) bytes(log []byte) []byte {
	return log[min(u.start, len(log)):min(u.end, len(log))]
}

// soundHeads reports whether the heads of a record are both as they should be.
func (m *merger) soundHeads(record []byte, h head) bool {
	first, ok := headAt(record, 0)
	last, ok2 := headAt(record, len(record)-headSize)
	h.last = false
	if !ok || !ok2 || first != h {
		return false
	}
	h.last = true
	return last == h
}

// patch notes that a copy should have bytes at an offset. Patches that touch are one.
func (m *merger) patch(i, at int, b []byte) {
	all := m.out.mend[i]
	if n := len(all); n > 0 && all[n-1].at+len(all[n-1].bytes) == at {
		all[n-1].bytes = append(all[n-1].bytes, b...)
		return
	}
	m.out.mend[i] = append(all, patch{at, bytes.Clone(b)})
}
