package projections

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"nexus/ledger"
	"nexus/turns"
)

// family is the rows whose keys begin with one prefix. Every prefix of keys.go has its
// family here: a comparison of the rows with the log says by it which row differs.
type family struct {
	prefix string // a letter, of memories two

	// parts are the parts of a key behind its prefix, a letter each: n a number, t a time, e the end of an id,
	// i an id, r a turn's session and id, h a digest, s a text. I and R are those of the session
	// whose event the row follows from, T is the tenant, C the subject of the chain.
	parts string
	of    string // what a row is of, a verb for each part in their order

	// once: a later event never writes the row again, nor removes it. There are as many of
	// these rows as events. The others are fewer, and a [shadow] holds them in memory.
	once bool

	// read: once, and the applier reads the row. A [shadow] takes it from the rows that it
	// compares.
	read bool
}

var families = []family{
	{prefix: "c", of: "the checkpoint"},
	{prefix: "s", parts: "I", of: "session %v"},
	{prefix: "e", parts: "In", of: "session %v at event %v", once: true},
	{prefix: "t", parts: "Iin", of: "the bytes of a turn of session %v, segment %v, depth %v", once: true},
	{prefix: "n", parts: "R", of: "turn %v", once: true, read: true},
	{prefix: "i", parts: "Ii", of: "session %v by the id of event %v", once: true, read: true},
	{prefix: "g", parts: "In", of: "the settings of session %v at event %v", once: true},
	{prefix: "m", parts: "Irn", of: "a move of the head of session %v to %v at event %v", once: true},
	{prefix: "k", parts: "rR", of: "a child of turn %v, turn %v", once: true},
	{prefix: "f", parts: "rI", of: "a fork of turn %v, session %v", once: true},
	{prefix: "o", parts: "In", of: "the compaction of session %v at event %v", once: true},
	{prefix: "v", parts: "rR", of: "what covers turn %v, compaction %v", once: true},
	{prefix: "a", parts: "TsI", of: "the list of sessions of tenant %v, agent %v, session %v", once: true},
	{prefix: "I", parts: "TiI", of: "the ids of tenant %v, %v of session %v", once: true},
	{prefix: "E", parts: "TeiI", of: "the ends of ids of tenant %v, %v, %v of session %v", once: true},
	{prefix: "U", parts: "TsnI", of: "the order of changes of tenant %v, agent %q, second %v, session %v"},
	{prefix: "l", parts: "Ts", of: "a label of tenant %v, label %v"},
	{prefix: "p", parts: "T", of: "the policies of tenant %v"},
	{prefix: "d", parts: "Th", of: "the content of a policy of tenant %v, digest %v"},
	{prefix: "b", parts: "Th", of: "the name of a policy of tenant %v, name %v"},
	{prefix: "u", parts: "Thn", of: "a policy of tenant %v, name %v, version %v"},
	{prefix: "r", parts: "Ts", of: "the number of policies of tenant %v that %v stored"},
	{prefix: "w", parts: "Ti", of: "the policies of tenant %v by the id of event %v"},
	{prefix: "T", parts: "I", of: "the list of sessions that are reset by time, session %v"},
	{prefix: "H", parts: "Ts", of: "a channel of tenant %v, channel %v"},
	{prefix: "G", parts: "Tss", of: "the list of channels of tenant %v, agent %v, channel %v"},
	{prefix: "Y", parts: "Tsn", of: "the list of events of tenant %v, channel %v, event %v", once: true},
	{prefix: "Z", parts: "Tsi", of: "the events of tenant %v, channel %v, by the id of event %v", once: true, read: true},
	{prefix: "N", parts: "TsiR", of: "what names an event of tenant %v, channel %v, event %v, turn %v", once: true},
	{prefix: "q", parts: "n", of: "the copy of record %v", once: true},
	{prefix: "x", parts: "C", of: "the chain %v, which is set aside"},
	{prefix: "L", parts: "C", of: "what the chain %v has lost"},
	{prefix: "z", parts: "Ci", of: "a turn of chain %v behind a loss, turn %v"},
	{prefix: "j", parts: "Ci", of: "a turn of chain %v that is continued behind a loss, turn %v"},
	{prefix: "yf", parts: "Ts", of: "the memories of tenant %v, agent %v"},
	{prefix: "ym", parts: "Tsi", of: "a memory of tenant %v, agent %v, memory %v"},
	{prefix: "yt", parts: "Tsh", of: "the memories of tenant %v, agent %v, by the digest %v of a text"},
	{prefix: "yl", parts: "Tsnn", of: "the list of memories of tenant %v, agent %v, record %v, item %v"},
	{prefix: "ye", parts: "Tsi", of: "the memories of tenant %v, agent %v, by the id of event %v"},
	{prefix: "yv", parts: "Tsinn", of: "the evidence of tenant %v, agent %v, memory %v, record %v, item %v"},
	{prefix: "yd", parts: "Tsii", of: "what derives from a memory of tenant %v, agent %v, memory %v, which is memory %v"},
	{prefix: "yy", parts: "Tstnn", of: "the daily memories of tenant %v, agent %v, time %v, record %v, item %v"},
	{prefix: "yo", parts: "Tsn", of: "the documents of tenant %v, agent %v, record %v"},
	{prefix: "yc", parts: "Ts", of: "the newest compaction that the agent learned from, of tenant %v, agent %v"},
}

// Families returns the prefixes that keys of rows have.
func Families() []string {
	out := make([]string, len(families))
	for i := range families {
		out[i] = families[i].prefix
	}
	return out
}

// byPrefix has the family of each first byte, and at the second one of memories.
var byPrefix, byMemory = func() (first, memory [256]*family) {
	for i := range families {
		if f := &families[i]; len(f.prefix) == 1 {
			first[f.prefix[0]] = f
		} else {
			memory[f.prefix[1]] = f
		}
	}
	return first, memory
}()

// familyOf returns the family of a key, nil if there is none.
func familyOf(k []byte) *family {
	switch {
	case len(k) > 1 && k[0] == pMemory:
		return byMemory[k[1]]
	case len(k) > 0:
		return byPrefix[k[0]]
	}
	return nil
}

// row is what a key says of its row.
type row struct {
	of      string
	tenant  string   // "" if the key does not say it
	session turns.ID // whose event the row follows from; zero if the key does not say it
	subject string   // of the chain that the row is of; "" if the key does not say it
}

// rowAt reads a key.
func rowAt(k []byte) row {
	f := familyOf(k)
	if f == nil {
		return row{of: fmt.Sprintf("nothing known, with the key %x", k)}
	}
	r, args, rest, ok := row{}, []any(nil), k[len(f.prefix):], true
	take := func(n int) []byte {
		if len(rest) < n {
			ok = false
			return make([]byte, n)
		}
		b := rest[:n]
		rest = rest[n:]
		return b
	}
	text := func() string {
		s, after, found := strings.Cut(string(rest), "\x00")
		rest = []byte(after)
		ok = ok && found
		return s
	}
	for _, part := range f.parts {
		switch part {
		case 'n':
			args = append(args, binary.BigEndian.Uint64(take(8)))
		case 't':
			args = append(args, time.Unix(0, int64(binary.BigEndian.Uint64(take(8))^1<<63)).UTC().Format(time.RFC3339Nano))
		case 'e':
			args = append(args, fmt.Sprintf("%x", take(endBytes)))
		case 'i', 'I':
			id := turns.ID(take(16))
			if args = append(args, id); part == 'I' {
				r.session = id
			}
		case 'r', 'R':
			ref := turns.Ref{Session: turns.ID(take(16)), Turn: turns.ID(take(16))}
			if args = append(args, ref); part == 'R' {
				r.session = ref.Session
			}
		case 'h':
			args = append(args, turns.Hash(take(32)))
		case 's':
			args = append(args, text())
		case 'T':
			r.tenant = text()
			args = append(args, r.tenant)
		case 'C':
			r.subject = text()
			args = append(args, r.subject)
		}
	}
	if !ok || len(rest) > 0 {
		return row{of: fmt.Sprintf("nothing known, with the key %x", k)}
	}
	if tenant, chain, err := ledger.ParseSubject(r.subject); err == nil {
		r.tenant = tenant
		r.session, _ = chain.Session()
	}
	r.of = fmt.Sprintf(f.of, args...)
	return r
}

// following returns what of a row's value follows from the log. The text that says why a
// chain was set aside may be another version's.
func following(k, v []byte) []byte {
	if k[0] == pAside && len(v) > 8 {
		return slices.Clip(v[:8])
	}
	return v
}
