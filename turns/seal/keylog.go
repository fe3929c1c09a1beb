package seal

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"nexus/turns"
)

// The bytes of the key log and of the epoch key. docs/FORMAT.md has them as a table.
//
// A log is slots of 128 bytes, so that none lies across two sectors: a power cut leaves a
// slot written or not. The first is the header, each other one a record.
const (
	slotSize   = 128
	logMagic   = "NEXUSKEY"
	epochMagic = "NEXUSEPO"
	logVersion = 1

	slotAAD = "nexus.keys.v1\x00"

	plainSize = slotSize - len(turns.ID{}) - nonceSize - tagSize
	epochSize = 8 + 1 + 8 + 32 + 32
)

// What a record says of its id.
type recordKind byte

const (
	recordKey       recordKind = 1 // its content key
	recordDestroyed recordKind = 2 // there is none any more, nor will there be
	recordLost      recordKind = 3 // there was a record that no copy holds whole
)

// entry is what the store knows of an id.
type entry struct {
	kind recordKind
	key  Key
}

// epoch is a log: its number, and the key that its records are sealed under.
type epoch struct {
	number uint64
	aead   cipher.AEAD
}

// encodeEpoch is the file of an epoch key: magic, version, number, key, SHA-256 of all before.
func encodeEpoch(number uint64, k Key) []byte {
	b := append([]byte(epochMagic), logVersion)
	b = append(binary.BigEndian.AppendUint64(b, number), k[:]...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func decodeEpoch(b []byte, number uint64) (k Key, err error) {
	sum := sha256.Sum256(b[:max(0, len(b)-sha256.Size)])
	switch {
	case len(b) < 9+sha256.Size || !bytes.HasSuffix(b, sum[:]) || string(b[:8]) != epochMagic:
		return k, fmt.Errorf("%w: no epoch key (%d bytes)", turns.ErrCorrupt, len(b))
	case b[8] != logVersion:
		return k, fmt.Errorf("%w: epoch key of version %d, this build knows %d", turns.ErrUnsupported, b[8], logVersion)
	case len(b) != epochSize || binary.BigEndian.Uint64(b[9:]) != number:
		return k, fmt.Errorf("%w: the epoch key of another log", turns.ErrCorrupt)
	}
	return Key(b[17:49]), nil
}

// header is the first slot: magic, version, number of the epoch, zeros, SHA-256 of all before.
func (e *epoch) header() []byte {
	b := make([]byte, slotSize-sha256.Size, slotSize)
	copy(b, logMagic)
	b[8] = logVersion
	binary.BigEndian.PutUint64(b[9:], e.number)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func (e *epoch) checkHeader(b []byte) error {
	want := e.header()
	if len(b) < slotSize || !bytes.Equal(b[:slotSize], want) {
		if len(b) > 8 && string(b[:8]) == logMagic && b[8] != logVersion {
			return fmt.Errorf("%w: key log of version %d, this build knows %d", turns.ErrUnsupported, b[8], logVersion)
		}
		return fmt.Errorf("%w: not the head of key log %d", turns.ErrCorrupt, e.number)
	}
	return nil
}

// aad binds a record to its log, its place and its id.
func (e *epoch) aad(slot int, id turns.ID) []byte {
	b := append(make([]byte, 0, len(slotAAD)+16+len(id)), slotAAD...)
	b = binary.BigEndian.AppendUint64(b, e.number)
	b = binary.BigEndian.AppendUint64(b, uint64(slot))
	return append(b, id[:]...)
}

// appendRecord appends the slot-th slot to b. The nonce is random: a place is written
// again where a write failed.
func (e *epoch) appendRecord(b []byte, slot int, id turns.ID, x entry) []byte {
	var nonce [nonceSize]byte
	rand.Read(nonce[:]) // never fails
	var plain [plainSize]byte
	plain[0] = byte(x.kind)
	copy(plain[9:], x.key[:]) // after a number, which is 0 in the records of this build
	b = append(append(b, id[:]...), nonce[:]...)
	return e.aead.Seal(b, nonce[:], plain[:], e.aad(slot, id))
}

// record reads a slot. ok is false for one that is cut, altered, or of another place.
func (e *epoch) record(b []byte, slot int) (id turns.ID, x entry, ok bool, err error) {
	if len(b) != slotSize {
		return id, x, false, nil
	}
	id = turns.ID(b[:len(id)])
	nonce := b[len(id) : len(id)+nonceSize]
	plain, failed := e.aead.Open(nil, nonce, b[len(id)+nonceSize:], e.aad(slot, id))
	if failed != nil {
		return id, x, false, nil
	}
	x.kind = recordKind(plain[0])
	copy(x.key[:], plain[9:])
	if x.kind < recordKey || x.kind > recordLost || !zeros(plain[1:9]) || !zeros(plain[9+len(x.key):]) {
		return id, x, false, fmt.Errorf("%w: a record of kind %d in the key log: a later build wrote it", turns.ErrUnsupported, plain[0])
	}
	return id, x, true, nil
}

func zeros(b []byte) bool { return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) }

// image is what a log says, by both of its copies.
type image struct {
	entries    map[turns.ID]entry
	slots      int       // with the header; what is behind them was never acknowledged
	want       [2][]byte // what each copy should be
	unfinished bool      // a key and the record that it is destroyed
}

// merge reads the two copies of a log. A slot that one copy holds whole is good. Errors:
// [turns.ErrCorrupt] if no copy has the head; [turns.ErrUnsupported].
func (e *epoch) merge(copies [2][]byte) (*image, error) {
	out := &image{entries: make(map[turns.ID]entry, max(len(copies[0]), len(copies[1]))/slotSize)}
	h0, h1 := e.checkHeader(copies[0]), e.checkHeader(copies[1])
	if h0 != nil && h1 != nil {
		return nil, errors.Join(h0, h1)
	}
	last := 0 // the last slot that is good, or was
	var good [][]byte
	good = append(good, e.header())
	for slot := 1; slot*slotSize < max(len(copies[0]), len(copies[1])); slot++ {
		var ids [2]turns.ID
		var found [2]entry
		var ok [2]bool
		var raw [2][]byte
		for i, c := range copies {
			raw[i] = c[min(len(c), slot*slotSize):min(len(c), (slot+1)*slotSize)]
			if i == 1 && bytes.Equal(raw[0], raw[1]) {
				ids[1], found[1], ok[1] = ids[0], found[0], ok[0]
				break
			}
			var err error
			if ids[i], found[i], ok[i], err = e.record(raw[i], slot); err != nil {
				return nil, err
			}
		}
		switch {
		case ok[0] && ok[1] && (ids[0] != ids[1] || found[0] != found[1]):
			for _, id := range ids { // no write leaves that
				out.lose(id)
			}
			good, last = append(good, nil), slot
		case ok[0] || ok[1]:
			i := 0
			if !ok[0] {
				i = 1
			}
			out.add(ids[i], found[i])
			good, last = append(good, raw[i]), slot
		default:
			good = append(good, nil)
			for i, b := range raw {
				if len(b) == slotSize && !zeros(b[slotSize-tagSize:]) { // written whole, once
					out.lose(ids[i])
					last = slot
				}
			}
		}
	}
	out.slots = last + 1
	for i, c := range copies {
		want := make([]byte, 0, out.slots*slotSize)
		for slot := range out.slots {
			switch {
			case good[slot] != nil:
				want = append(want, good[slot]...)
			case len(c) >= (slot+1)*slotSize:
				want = append(want, c[slot*slotSize:(slot+1)*slotSize]...) // nothing is written over it
			default:
				want = append(want, make([]byte, slotSize)...)
			}
		}
		out.want[i] = want
	}
	return out, nil
}

// add takes a record that is whole. Of two different keys of an id none is right.
func (m *image) add(id turns.ID, x entry) {
	old, ok := m.entries[id]
	switch {
	case ok && old.kind == recordKey && x.kind == recordKey && old.key != x.key:
		m.lose(id)
	case ok && old.kind == recordDestroyed || ok && x.kind == recordDestroyed && old.kind == recordKey:
		m.unfinished = m.unfinished || x.kind == recordKey || old.kind == recordKey
		m.entries[id] = entry{kind: recordDestroyed}
	default: // a key after one that was lost puts it back
		m.entries[id] = x
	}
}

func (m *image) lose(id turns.ID) {
	if m.entries[id].kind != recordDestroyed && id != (turns.ID{}) {
		m.entries[id] = entry{kind: recordLost}
	}
}

// encode is a whole log.
func (e *epoch) encode(entries map[turns.ID]entry) []byte {
	b := append(make([]byte, 0, (len(entries)+1)*slotSize), e.header()...)
	slot := 1
	for id, x := range entries {
		b = e.appendRecord(b, slot, id, x)
		slot++
	}
	return b
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
