package rows

import (
	"encoding/binary"

	"nexus/ledger"
	"nexus/turns"
)

// Prefix is the first letter of a key, which says of what kind its row is.
type Prefix byte

// The key space. Every key starts with one letter; IDs are their 16 bytes,
// numbers 8 bytes big-endian, so that keys sort by (segment, position).
//
//	c                                         checkpoint
//	s session                                 session row: the fold
//	e session index                           event at an ordinal of a session's chain: payload, or
//	                                          a pointer into t for a turn
//	t session segment depth                   turn's payload; a path is range scans over these
//	n session turn                            turn row: lineage node, seq, hash
//	i session event                           ordinal of an event that is no turn, by its id
//	g session index                           event that holds settings
//	m session toSession toTurn index          move of a session's head to a turn
//	R session toSession toTurn index          note on a turn, by a person
//	X session event index                     redacted event for an event of a session's chain
//	k parentSession parent session turn       child of a turn
//	f session turn child                      session forked at a turn
//	o session index                           compaction on a session's chain
//	v throughSession through session turn     compaction, by the last turn it covers
//	a tenant 0 agent 0 session                session of an agent
//	P tenant 0 agent 0 spawner session        session of an agent, by the session that it was opened to serve; under the
//	                                          zero id one that was opened without, and whose settings changed since
//	I tenant 0 agent 0 id session             turn of a session of an agent, or session, by the beginning of its id
//	E tenant 0 agent 0 end id session         the same by the end of its id: the last characters, the last one first
//	U tenant 0 agent 0 second session         session of an agent, by when it changed last
//	U tenant 0 0 second session               the same of all agents
//	l tenant 0 label-digest                   label row
//	p tenant 0                                fold of the tenant's chain
//	d tenant 0 digest                         position of the first event that holds a policy's content
//	b tenant 0 name-digest                    state of the name of a policy of an agent
//	u tenant 0 name-digest version            position of the event that holds a version
//	r tenant 0 actor 0                        number of events of the tenant's chain, by who stored them
//	w tenant 0 event                          position of an event of the tenant's chain, by its id
//	T session                                 open session that is reset by time
//	K session                                 session that was erased
//	H tenant 0 channel-id 0                   fold of a channel's chain
//	G tenant 0 agent 0 channel-id 0           channel of an agent
//	Y tenant 0 channel-id 0 index             position of an event of a channel's chain
//	Z tenant 0 channel-id 0 event             ordinal of an event of a channel's chain, by its id
//	N tenant 0 channel-id 0 event session turn  turn that names an external event
//	q seq                                     where the record at seq is
//	h level n                                 hash of the tree over the records; level in one byte
//	x subject 0                               chain set aside: at which seq, and why
//	L subject 0                               what it has lost
//	z subject 0 turn                          position of a turn of it that follows a loss
//	j subject 0 turn                          turn of it that one after a loss continues
//
// The rows of an agent's memories begin with y and a second letter:
//
//	y f tenant 0 agent 0                      fold of the agent's chain
//	y m tenant 0 agent 0 memory               memory, or which one it is evidence of
//	y t tenant 0 agent 0 text-digest          memory that says it
//	y l tenant 0 agent 0 seq item             memory, in the order of the log
//	y e tenant 0 agent 0 event                position of an event of the agent's chain, by its id
//	y v tenant 0 agent 0 memory seq item      evidence of a memory: where it is
//	y d tenant 0 agent 0 memory dependent     memory that derives from another
//	y y tenant 0 agent 0 time seq item        memory of kind daily, by its time
//	y o tenant 0 agent 0 seq                  version of the agent's document
//	y c tenant 0 agent 0                      position of the newest compaction that the agent learned from
const (
	Checkpoints        Prefix = 'c'
	Sessions           Prefix = 's'
	Events             Prefix = 'e'
	Payloads           Prefix = 't'
	Turns              Prefix = 'n'
	EventIDs           Prefix = 'i'
	Settings           Prefix = 'g'
	Moves              Prefix = 'm'
	Notes              Prefix = 'R'
	Redacted           Prefix = 'X'
	Children           Prefix = 'k'
	Forks              Prefix = 'f'
	Compactions        Prefix = 'o'
	Coverings          Prefix = 'v'
	AgentSessions      Prefix = 'a'
	SubAgents          Prefix = 'P'
	ByID               Prefix = 'I'
	ByEnd              Prefix = 'E'
	ByTime             Prefix = 'U'
	Labels             Prefix = 'l'
	Policies           Prefix = 'p'
	PolicyContents     Prefix = 'd'
	PolicyNames        Prefix = 'b'
	PolicyVersions     Prefix = 'u'
	PoliciesBy         Prefix = 'r'
	PolicyEvents       Prefix = 'w'
	TimedSessions      Prefix = 'T'
	ErasedSessions     Prefix = 'K'
	Channels           Prefix = 'H'
	AgentChannels      Prefix = 'G'
	Received           Prefix = 'Y'
	ReceivedIDs        Prefix = 'Z'
	ExternalTurns      Prefix = 'N'
	Records            Prefix = 'q'
	TreeHashes         Prefix = 'h'
	AsideChains        Prefix = 'x'
	Memories           Prefix = 'y'
	Losses             Prefix = 'L'
	AfterLoss          Prefix = 'z'
	ContinuedAfterLoss Prefix = 'j'
)

// Key returns the key of a row, or what the keys of several begin with. A number may follow.
func (p Prefix) Key(ids ...turns.ID) []byte {
	return p.AppendKey(make([]byte, 0, 1+16*len(ids)+8), ids...)
}

// AppendKey appends the key of a row.
func (p Prefix) AppendKey(k []byte, ids ...turns.ID) []byte {
	k = append(k, byte(p))
	for _, id := range ids {
		k = append(k, id[:]...)
	}
	return k
}

// TextKey returns the key of a row, or what the keys of several begin with.
func (p Prefix) TextKey(parts ...string) []byte {
	k := []byte{byte(p)}
	for _, s := range parts {
		k = append(append(k, s...), 0)
	}
	return k
}

// NameKey returns the key of a row of a policy's name, by the digest of that.
func (p Prefix) NameKey(tenant string, name turns.Hash) []byte {
	return append(p.TextKey(tenant), name[:]...)
}

// TreeKey appends the key of a hash of the tree over the records.
func TreeKey(k []byte, level int, n uint64) []byte {
	return Number(append(k, byte(TreeHashes), byte(level)), n)
}

// Begins reports whether a key is of p.
func (p Prefix) Begins(k []byte) bool { return len(k) > 0 && k[0] == byte(p) }

// ByTimeKey returns the start of the keys of sessions that changed last in the second of a time
// in Unix ns, of an agent, "" of all.
func ByTimeKey(tenant, agent string, ns int64) []byte {
	return Number(ByTime.TextKey(tenant, agent), Second(ns))
}

// SubAgentKey returns the key of a session in the list of sub-agents.
func SubAgentKey(s *ledger.Session) []byte {
	return append(SubAgentsOf(s.Tenant, s.Agent, s.Spawned.Session), s.ID[:]...)
}

// SubAgentsOf returns the start of the keys of the sessions of an agent that were opened to serve
// a session; zero: of those that were opened to serve none, and whose settings changed since.
func SubAgentsOf(tenant, agent string, spawner turns.ID) []byte {
	return append(SubAgents.TextKey(tenant, agent), spawner[:]...)
}

// Second returns the second of a time in Unix ns, 0 for one before 1970.
func Second(ns int64) uint64 { return uint64(max(0, ns) / 1e9) }

// Number returns k with a number behind it.
func Number(k []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(k, n) }

// NumberAt returns the number at a place of a key or row.
func NumberAt(b []byte, at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }

// IDAt returns the id at a place of a key or row.
func IDAt(b []byte, at int) (id turns.ID) {
	copy(id[:], b[at:at+16])
	return id
}

// End returns the first key after all keys that start with k.
func End(k []byte) []byte {
	e := append([]byte(nil), k...)
	for i := len(e) - 1; i >= 0; i-- {
		if e[i]++; e[i] != 0 {
			return e[:i+1]
		}
	}
	return nil
}
