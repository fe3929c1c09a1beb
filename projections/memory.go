package projections

import (
	"bytes"
	"iter"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Memories returns the fold of an agent's chain, zero if the chain is empty.
func (s *Store) Memories(tenant, agent string) (ledger.Memories, error) {
	return s.view().Memories(tenant, agent)
}

// Memory returns a memory of an agent, by its id or by that of evidence of it.
// Errors: [ledger.ErrNotFound].
func (s *Store) Memory(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	return s.view().Memory(tenant, agent, id)
}

// MemoryRow returns the row of an id, which may be evidence of another memory.
// Errors: [ledger.ErrNotFound].
func (s *Store) MemoryRow(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	return s.view().MemoryRow(tenant, agent, id)
}

// MemoryOfText returns the memory with a keyed digest. ok is false if the agent has none.
func (s *Store) MemoryOfText(tenant, agent string, text turns.Hash) (ledger.NamedMemory, bool, error) {
	return s.view().MemoryOfText(tenant, agent, text)
}

// MemoryEvent returns the position of an event of an agent's chain, by its id. ok is
// false if there is none.
func (s *Store) MemoryEvent(tenant, agent string, event turns.ID) (seq uint64, ok bool, err error) {
	return s.view().Number(rows.MemoryEvents.Key(tenant, agent, event))
}

// MemoryPlace is where a memory is in the list of its agent: the position of its event,
// and its item there. The zero place is before the first.
type MemoryPlace struct{ Seq, Item uint64 }

// ListMemories yields the memories of an agent, newest first, from before a place; the
// zero place: from the newest.
func (s *Store) ListMemories(tenant, agent string, before MemoryPlace) iter.Seq2[ledger.NamedMemory, error] {
	lo := rows.MemoryList.Key(tenant, agent)
	hi := rows.End(lo)
	if before != (MemoryPlace{}) {
		hi = rows.Number(rows.Number(bytes.Clone(lo), before.Seq), before.Item)
	}
	return func(yield func(ledger.NamedMemory, error) bool) {
		for k, err := range db.ScanBack(s.db(), lo, hi) {
			var m ledger.NamedMemory
			if err == nil {
				m, err = s.view().MemoryRow(tenant, agent, turns.ID(k.Value))
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// DailyMemories yields the memories of kind daily of an agent whose time is in
// [from, to), in Unix ns, oldest first.
func (s *Store) DailyMemories(tenant, agent string, from, to int64) iter.Seq2[ledger.NamedMemory, error] {
	k := rows.MemoryDays.Key(tenant, agent)
	return func(yield func(ledger.NamedMemory, error) bool) {
		for e, err := range db.Scan(s.db(), rows.Number(bytes.Clone(k), rows.Instant(from)), rows.Number(bytes.Clone(k), rows.Instant(to))) {
			var m ledger.NamedMemory
			if err == nil {
				m, err = s.view().MemoryRow(tenant, agent, turns.ID(e.Value))
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// NewestDaily yields the memories of kind daily of an agent, the newest by their time first.
func (s *Store) NewestDaily(tenant, agent string) iter.Seq2[ledger.NamedMemory, error] {
	k := rows.MemoryDays.Key(tenant, agent)
	return func(yield func(ledger.NamedMemory, error) bool) {
		for e, err := range db.ScanBack(s.db(), k, rows.End(k)) {
			var m ledger.NamedMemory
			if err == nil {
				m, err = s.view().MemoryRow(tenant, agent, turns.ID(e.Value))
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// LearnedAt returns the position of the newest compaction that an agent learned from, 0 if
// there is none. It may have made a memory, or accepted one that was proposed.
func (s *Store) LearnedAt(tenant, agent string) (uint64, error) {
	at, _, err := s.view().Number(rows.MemoryLearned.Key(tenant, agent))
	return at, err
}

// MemoryEvidence returns where up to limit events are that said the same as a memory
// after it, oldest first.
func (s *Store) MemoryEvidence(tenant, agent string, id turns.ID, limit int) (at []MemoryPlace, err error) {
	k := rows.MemoryEvidence.Key(tenant, agent, id)
	for e, err := range db.Scan(s.db(), k, rows.End(k)) {
		if err != nil {
			return nil, err
		}
		if len(at) == limit {
			break
		}
		at = append(at, MemoryPlace{rows.NumberAt(e.Key, len(k)), rows.NumberAt(e.Key, len(k)+8)})
	}
	return at, nil
}

// MemoryDependents returns up to limit of the memories that derive from a memory.
func (s *Store) MemoryDependents(tenant, agent string, id turns.ID, limit int) (ids []turns.ID, err error) {
	k := rows.MemoryDependents.Key(tenant, agent, id)
	for e, err := range db.Scan(s.db(), k, rows.End(k)) {
		if err != nil {
			return nil, err
		}
		if len(ids) == limit {
			break
		}
		ids = append(ids, rows.IDAt(e.Key, len(k)))
	}
	return ids, nil
}

// DocumentAt returns the position of the newest version of an agent's document at a
// position of the log. ok is false if there was none.
func (s *Store) DocumentAt(tenant, agent string, seq uint64) (at uint64, ok bool, err error) {
	k := rows.MemoryDocuments.Key(tenant, agent)
	for e, err := range db.ScanBack(s.db(), k, rows.Number(bytes.Clone(k), seq+1)) {
		if err != nil {
			return 0, false, err
		}
		return rows.NumberAt(e.Key, len(k)), true, nil
	}
	return 0, false, nil
}

// RememberingAgents yields the agents of a tenant, after an agent, that have memories or
// a document, by name.
func (s *Store) RememberingAgents(tenant, after string) iter.Seq2[string, error] {
	prefix := rows.MemoryFolds.TenantKey(tenant)
	lo := prefix
	if after != "" {
		lo = append(rows.MemoryFolds.Key(tenant, after), 0)
	}
	return func(yield func(string, error) bool) {
		for k, err := range db.Scan(s.db(), lo, rows.End(prefix)) {
			if err != nil {
				yield("", err)
				return
			}
			if !yield(string(k.Key[len(prefix):len(k.Key)-1]), nil) {
				return
			}
		}
	}
}
