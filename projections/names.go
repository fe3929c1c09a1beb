package projections

import (
	"iter"
	"strings"

	"nexus/ledger"
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

// name writes the rows by which an id of a session is found: that of a turn, or its own.
func (a *applier) name(s *ledger.Session, id turns.ID) error {
	a.keys = append(append(idsKey(a.keys[:0], pByID, s.Tenant, s.Agent), id[:]...), s.ID[:]...)
	if err := a.batch.Set(a.keys, nil, nil); err != nil {
		return err
	}
	last := endOf(id)
	a.keys = append(append(append(idsKey(a.keys[:0], pByEnd, s.Tenant, s.Agent), last[:]...), id[:]...), s.ID[:]...)
	return a.batch.Set(a.keys, nil, nil)
}

// idsKey appends to k what keys of an agent's ids begin with.
func idsKey(k []byte, p byte, tenant, agent string) []byte {
	k = append(append(append(k, p), tenant...), 0)
	return append(append(k, agent...), 0)
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

// Named yields the sessions of an agent, and their turns, whose id begins or ends with a text,
// in capitals: a turn with its session, a session as a turn of its own id. One with both comes
// twice. It reads no other ids but those of the agent that have the last characters, or the
// first ones, of the text. A text that is no piece of an id is that of none.
func (s *Store) Named(tenant, agent, text string) iter.Seq2[turns.Ref, error] {
	return func(yield func(turns.Ref, error) bool) {
		if text == "" || len(text) > idChars || strings.Trim(text, digits) != "" {
			return
		}
		keyOf := func(p byte, id []byte) []byte { return append(idsKey(nil, p, tenant, agent), id...) }
		if lo, hi, ok := begins(text); ok {
			if !s.named(keyOf(pByID, lo[:]), end(keyOf(pByID, hi[:])), yield) {
				return
			}
		}
		var lo, hi uint64
		for i := range endChars {
			first, last := uint64(0), uint64(1<<charBits-1)
			if i < len(text) {
				first = uint64(strings.IndexByte(digits, text[len(text)-1-i]))
				last = first
			}
			lo, hi = lo<<charBits|first, hi<<charBits|last
		}
		from, to := endKey(lo), endKey(hi)
		s.named(keyOf(pByEnd, from[:]), end(keyOf(pByEnd, to[:])), func(ref turns.Ref, err error) bool {
			if err == nil && !strings.HasSuffix(ref.Turn.String(), text) {
				return true
			}
			return yield(ref, err)
		})
	}
}

// named yields the ids and sessions of rows, and reports whether it went through them.
func (s *Store) named(lo, hi []byte, yield func(turns.Ref, error) bool) bool {
	for k, err := range scan(s.db(), lo, hi) {
		var ref turns.Ref
		if n := len(k.key); err == nil {
			ref = turns.Ref{Turn: idAt(k.key, n-32), Session: idAt(k.key, n-16)}
		}
		if !yield(ref, err) || err != nil {
			return false
		}
	}
	return true
}

// begins returns the first and the last id that begin with a text; ok is false if none does.
func begins(text string) (lo, hi turns.ID, ok bool) {
	lo, err := turns.ParseID(text + strings.Repeat("0", idChars-len(text)))
	if err != nil {
		return lo, hi, false
	}
	hi, err = turns.ParseID(text + strings.Repeat("Z", idChars-len(text)))
	return lo, hi, err == nil
}

// Agents yields the agents of a tenant that have a session, by name. It reads a row of each.
func (s *Store) Agents(tenant string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		all := textKey(pAgent, tenant)
		for lo := all; ; {
			agent := ""
			for k, err := range scan(s.db(), lo, end(all)) {
				if err != nil {
					yield("", err)
					return
				}
				agent = string(k.key[len(all) : len(k.key)-17])
				break
			}
			if agent == "" || !yield(agent, nil) {
				return
			}
			lo = end(textKey(pAgent, tenant, agent))
		}
	}
}
