package rows

import (
	"strings"

	"nexus/turns"
)

// People name a session or a turn by the beginning of its id, or by the end of it, which
// tables show. Two rows of each find it.

const (
	endChars = 8 // of an id, that its row by the end has
	endBytes = 5 // they take
	idChars  = 26
	charBits = 5
)

// digits are those of an id.
const digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// AppendByID appends the key by which an id of a session, that of a turn or its own, is found by
// its beginning.
func AppendByID(k []byte, tenant, agent string, id, session turns.ID) []byte {
	return append(append(appendAgent(k, ByID, tenant, agent), id[:]...), session[:]...)
}

// AppendByEnd appends the key by which an id of a session is found by its end.
func AppendByEnd(k []byte, tenant, agent string, id, session turns.ID) []byte {
	last := endOf(id)
	return append(append(append(appendAgent(k, ByEnd, tenant, agent), last[:]...), id[:]...), session[:]...)
}

// appendAgent appends to k what keys of an agent's ids begin with.
func appendAgent(k []byte, p Prefix, tenant, agent string) []byte {
	k = append(append(append(k, byte(p)), tenant...), 0)
	return append(append(k, agent...), 0)
}

// FoundBy returns the id of a key that [AppendByID] or [AppendByEnd] made, with its session.
func FoundBy(k []byte) turns.Ref {
	return turns.Ref{Turn: IDAt(k, len(k)-32), Session: IDAt(k, len(k)-16)}
}

// IsPiece reports whether a text can be the beginning or the end of an id.
func IsPiece(text string) bool {
	return text != "" && len(text) <= idChars && strings.Trim(text, digits) == ""
}

// Beginning returns the range [lo, hi) of the keys of an agent's ids that begin with a piece; ok is
// false if none does.
func Beginning(tenant, agent, piece string) (lo, hi []byte, ok bool) {
	first, err := turns.ParseID(piece + strings.Repeat("0", idChars-len(piece)))
	if err != nil {
		return nil, nil, false
	}
	last, err := turns.ParseID(piece + strings.Repeat("Z", idChars-len(piece)))
	if err != nil {
		return nil, nil, false
	}
	return append(appendAgent(nil, ByID, tenant, agent), first[:]...), End(append(appendAgent(nil, ByID, tenant, agent), last[:]...)), true
}

// Ending returns the range [lo, hi) of the keys of an agent's ids that end with a piece. Where
// the piece is longer than the row has characters of the end, others are in it too.
func Ending(tenant, agent, piece string) (lo, hi []byte) {
	var from, to uint64
	for i := range endChars {
		first, last := uint64(0), uint64(1<<charBits-1)
		if i < len(piece) {
			first = uint64(strings.IndexByte(digits, piece[len(piece)-1-i]))
			last = first
		}
		from, to = from<<charBits|first, to<<charBits|last
	}
	first, last := endKey(from), endKey(to)
	return append(appendAgent(nil, ByEnd, tenant, agent), first[:]...), End(append(appendAgent(nil, ByEnd, tenant, agent), last[:]...))
}

// endOf returns the last characters of an id, the last one first, so that ids with one end
// sort side by side, however long it is.
func endOf(id turns.ID) [endBytes]byte {
	var last, reversed uint64
	for _, b := range id[len(id)-endBytes:] {
		last = last<<8 | uint64(b)
	}
	for range endChars {
		reversed, last = reversed<<charBits|last&(1<<charBits-1), last>>charBits
	}
	return endKey(reversed)
}

// endKey returns the bytes of the last characters of an id, which are those of a number.
func endKey(n uint64) (k [endBytes]byte) {
	for i := range k {
		k[i] = byte(n >> (8 * (endBytes - 1 - i)))
	}
	return k
}
