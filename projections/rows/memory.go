package rows

import (
	"nexus/ledger"
	"nexus/turns"
)

// MemoryPrefix is the second letter of a key of an agent's memories, behind [Memories].
type MemoryPrefix byte

// The rows of an agent's memories; see [Prefix].
const (
	MemoryFolds      MemoryPrefix = 'f'
	MemoryIDs        MemoryPrefix = 'm'
	MemoryTexts      MemoryPrefix = 't'
	MemoryList       MemoryPrefix = 'l'
	MemoryEvents     MemoryPrefix = 'e'
	MemoryEvidence   MemoryPrefix = 'v'
	MemoryDependents MemoryPrefix = 'd'
	MemoryDays       MemoryPrefix = 'y'
	MemoryDocuments  MemoryPrefix = 'o'
	MemoryLearned    MemoryPrefix = 'c'
)

// Key returns the key of a row of an agent, or what the keys of several begin with.
func (p MemoryPrefix) Key(tenant, agent string, ids ...turns.ID) []byte {
	k := append(p.TenantKey(tenant), agent...)
	k = append(k, 0)
	for _, id := range ids {
		k = append(k, id[:]...)
	}
	return k
}

// Begins reports whether a key is of p.
func (p MemoryPrefix) Begins(k []byte) bool {
	return Memories.Begins(k) && len(k) > 1 && k[1] == byte(p)
}

// TenantKey returns what the keys of a tenant's agents begin with.
func (p MemoryPrefix) TenantKey(tenant string) []byte {
	return append(append([]byte{byte(Memories), byte(p)}, tenant...), 0)
}

// Instant encodes a time in Unix ns such that keys sort by it.
func Instant(ns int64) uint64 { return uint64(ns) ^ 1<<63 }

// MemoryTime is the time that a memory is of: from when it is valid, else when it was
// stored, in Unix ns.
func MemoryTime(m *ledger.Memory) int64 {
	if m.ValidFrom != 0 {
		return m.ValidFrom
	}
	return m.Recorded
}
