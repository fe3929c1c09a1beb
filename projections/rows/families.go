package rows

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

	// parts are the parts of a key behind its prefix, a letter each: n a number, l one of a byte, t a time, e the end of an id,
	// i an id, r a turn's session and id, h a digest, s a text. I and R are those of the session
	// whose event the row follows from, E is the id of that event, T the tenant, C the subject of
	// the chain. Of other entities the last s is the id of the chain.
	parts string
	of    string // what a row is of, a verb for each part in their order

	entity turns.Entity // of the chain that the row follows from, if that is no session's
}

var families = []family{
	{prefix: "c", of: "the checkpoint"},
	{prefix: "s", parts: "I", of: "session %v"},
	{prefix: "e", parts: "In", of: "session %v at event %v"},
	{prefix: "t", parts: "Iin", of: "the bytes of a turn of session %v, segment %v, depth %v"},
	{prefix: "n", parts: "R", of: "turn %v"},
	{prefix: "i", parts: "IE", of: "session %v by the id of event %v"},
	{prefix: "g", parts: "In", of: "the settings of session %v at event %v"},
	{prefix: "m", parts: "Irn", of: "a move of the head of session %v to %v at event %v"},
	{prefix: "R", parts: "Irn", of: "a note of session %v on turn %v at event %v"},
	{prefix: "X", parts: "Iin", of: "what session %v has in the place of event %v, event %v"},
	{prefix: "k", parts: "rR", of: "a child of turn %v, turn %v"},
	{prefix: "f", parts: "rI", of: "a fork of turn %v, session %v"},
	{prefix: "o", parts: "In", of: "the compaction of session %v at event %v"},
	{prefix: "v", parts: "rR", of: "what covers turn %v, compaction %v"},
	{prefix: "a", parts: "TsI", of: "the list of sessions of tenant %v, agent %v, session %v"},
	{prefix: "P", parts: "TsiI", of: "the list of sub-agents of tenant %v, agent %v, by the session %v that started them, session %v"},
	{prefix: "I", parts: "TsEI", of: "the ids of tenant %v, agent %v, %v of session %v"},
	{prefix: "E", parts: "TseEI", of: "the ends of ids of tenant %v, agent %v, %v, %v of session %v"},
	{prefix: "U", parts: "TsnI", of: "the order of changes of tenant %v, agent %q, second %v, session %v"},
	{prefix: "l", parts: "Ts", of: "a label of tenant %v, label %v", entity: turns.LabelEntity},
	{prefix: "p", parts: "T", of: "the policies of tenant %v", entity: turns.TenantEntity},
	{prefix: "d", parts: "Th", of: "the content of a policy of tenant %v, digest %v", entity: turns.TenantEntity},
	{prefix: "b", parts: "Th", of: "the name of a policy of tenant %v, name %v", entity: turns.TenantEntity},
	{prefix: "u", parts: "Thn", of: "a policy of tenant %v, name %v, version %v", entity: turns.TenantEntity},
	{prefix: "r", parts: "Ts", of: "the number of policies of tenant %v that %v stored", entity: turns.TenantEntity},
	{prefix: "w", parts: "TE", of: "the policies of tenant %v by the id of event %v", entity: turns.TenantEntity},
	{prefix: "T", parts: "I", of: "the list of sessions that are reset by time, session %v"},
	{prefix: "K", parts: "I", of: "the list of sessions that were erased, session %v"},
	{prefix: "H", parts: "Ts", of: "a channel of tenant %v, channel %v", entity: turns.ChannelEntity},
	{prefix: "G", parts: "Tss", of: "the list of channels of tenant %v, agent %v, channel %v", entity: turns.ChannelEntity},
	{prefix: "Y", parts: "Tsn", of: "the list of events of tenant %v, channel %v, event %v", entity: turns.ChannelEntity},
	{prefix: "Z", parts: "TsE", of: "the events of tenant %v, channel %v, by the id of event %v", entity: turns.ChannelEntity},
	{prefix: "N", parts: "TsiR", of: "what names an event of tenant %v, channel %v, event %v, turn %v"},
	{prefix: "q", parts: "n", of: "the copy of record %v"},
	{prefix: "h", parts: "ln", of: "the tree of hashes, level %v, hash %v"},
	{prefix: "x", parts: "C", of: "the chain %v, which is set aside"},
	{prefix: "L", parts: "C", of: "what the chain %v has lost"},
	{prefix: "z", parts: "CE", of: "a turn of chain %v behind a loss, turn %v"},
	{prefix: "j", parts: "Ci", of: "a turn of chain %v that is continued behind a loss, turn %v"},
	{prefix: "yf", parts: "Ts", of: "the memories of tenant %v, agent %v", entity: turns.AgentEntity},
	{prefix: "ym", parts: "Tsi", of: "a memory of tenant %v, agent %v, memory %v", entity: turns.AgentEntity},
	{prefix: "yt", parts: "Tsh", of: "the memories of tenant %v, agent %v, by the digest %v of a text", entity: turns.AgentEntity},
	{prefix: "yl", parts: "Tsnn", of: "the list of memories of tenant %v, agent %v, record %v, item %v", entity: turns.AgentEntity},
	{prefix: "ye", parts: "TsE", of: "the memories of tenant %v, agent %v, by the id of event %v", entity: turns.AgentEntity},
	{prefix: "yv", parts: "Tsinn", of: "the evidence of tenant %v, agent %v, memory %v, record %v, item %v", entity: turns.AgentEntity},
	{prefix: "yd", parts: "Tsii", of: "what derives from a memory of tenant %v, agent %v, memory %v, which is memory %v", entity: turns.AgentEntity},
	{prefix: "yy", parts: "Tstnn", of: "the daily memories of tenant %v, agent %v, time %v, record %v, item %v", entity: turns.AgentEntity},
	{prefix: "yo", parts: "Tsn", of: "the documents of tenant %v, agent %v, record %v", entity: turns.AgentEntity},
	{prefix: "yc", parts: "Ts", of: "the newest compaction that the agent learned from, of tenant %v, agent %v", entity: turns.AgentEntity},
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
	case len(k) > 1 && Memories.Begins(k):
		return byMemory[k[1]]
	case len(k) > 0:
		return byPrefix[k[0]]
	}
	return nil
}

// Description is what a key says of its row.
type Description struct {
	Of     string
	Tenant string      // "" if the key does not say it
	Chain  turns.Chain // that the row follows from; zero if the key does not say it
	Event  turns.ID    // that the row follows from; zero if the key does not say it
}

// Describe reads a key.
func Describe(k []byte) Description {
	f := familyOf(k)
	if f == nil {
		return Description{Of: fmt.Sprintf("nothing known, with the key %x", k)}
	}
	r, args, rest, ok := Description{}, []any(nil), k[len(f.prefix):], true
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
	r.Chain.Entity = f.entity
	for _, part := range f.parts {
		var arg any
		switch part {
		case 'n':
			arg = binary.BigEndian.Uint64(take(8))
		case 'l':
			arg = take(1)[0]
		case 't':
			arg = time.Unix(0, int64(binary.BigEndian.Uint64(take(8))^1<<63)).UTC().Format(time.RFC3339Nano)
		case 'e':
			arg = fmt.Sprintf("%x", take(endBytes))
		case 'i':
			arg = turns.ID(take(16))
		case 'E':
			r.Event = turns.ID(take(16))
			arg = r.Event
		case 'I':
			id := turns.ID(take(16))
			r.Chain, arg = turns.SessionChain(id), id
		case 'r':
			arg = turns.Ref{Session: turns.ID(take(16)), Turn: turns.ID(take(16))}
		case 'R':
			ref := turns.Ref{Session: turns.ID(take(16)), Turn: turns.ID(take(16))}
			r.Chain, r.Event, arg = turns.SessionChain(ref.Session), ref.Turn, ref
		case 'h':
			arg = turns.Hash(take(32))
		case 's':
			s := text()
			if arg = s; f.entity != turns.TenantEntity && f.entity != "" {
				r.Chain.ID = s
			}
		case 'T':
			r.Tenant = text()
			if arg = r.Tenant; f.entity == turns.TenantEntity {
				r.Chain.ID = r.Tenant
			}
		case 'C':
			subject := text()
			arg = subject
			r.Tenant, r.Chain, _ = ledger.ParseSubject(subject)
		}
		args = append(args, arg)
	}
	if !ok || len(rest) > 0 {
		return Description{Of: fmt.Sprintf("nothing known, with the key %x", k)}
	}
	r.Of = fmt.Sprintf(f.of, args...)
	return r
}

// Derived returns what of a row's value follows from the log. The text that says why a
// chain was set aside may be another version's.
func Derived(k, v []byte) []byte {
	if AsideChains.Begins(k) && len(v) > 8 {
		return slices.Clip(v[:8])
	}
	return v
}
