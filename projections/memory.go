package projections

import (
	"bytes"
	"errors"
	"fmt"
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

func (v view) Memories(tenant, agent string) (m ledger.Memories, err error) {
	b, ok, err := db.Get(v.side, rows.MemoryFolds.Key(tenant, agent))
	if err != nil || !ok {
		return m, err
	}
	if err := rows.Decode(b, &m); err != nil {
		return m, badRow("projection row of the chain of agent %s: %v", agent, err)
	}
	return m, nil
}

// Memory returns a memory of an agent, by its id or by that of evidence of it.
// Errors: [ledger.ErrNotFound].
func (s *Store) Memory(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	return s.view().Memory(tenant, agent, id)
}

// MemoryRow returns the row of an id, which may be evidence of another memory.
// Errors: [ledger.ErrNotFound].
func (s *Store) MemoryRow(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	return s.view().memoryRow(tenant, agent, id)
}

func (v view) Memory(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	m, err := v.memoryRow(tenant, agent, id)
	if err == nil && !m.Same.IsZero() {
		return v.memoryRow(tenant, agent, m.Same)
	}
	return m, err
}

// memoryRow returns the row of an id, which may be evidence of another memory.
func (v view) memoryRow(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	m := ledger.NamedMemory{ID: id}
	b, ok, err := db.Get(v.side, rows.MemoryIDs.Key(tenant, agent, id))
	switch {
	case err != nil:
		return m, err
	case !ok:
		return m, fmt.Errorf("%w: memory %s", ledger.ErrNotFound, id)
	}
	if err := rows.Decode(b, &m.Memory); err != nil || len(m.Statuses) == 0 {
		return m, badRow("projection row of memory %s: %v", id, err)
	}
	return m, nil
}

// MemoryOfText returns the memory with a keyed digest. ok is false if the agent has none.
func (s *Store) MemoryOfText(tenant, agent string, text turns.Hash) (ledger.NamedMemory, bool, error) {
	return s.view().memoryOfText(tenant, agent, text)
}

func (v view) memoryOfText(tenant, agent string, text turns.Hash) (m ledger.NamedMemory, ok bool, err error) {
	b, ok, err := db.Get(v.side, append(rows.MemoryTexts.Key(tenant, agent), text[:]...))
	if err != nil || !ok {
		return m, false, err
	}
	m, err = v.memoryRow(tenant, agent, turns.ID(b))
	return m, err == nil, err
}

// HasMemoryEvent reports whether an agent's chain has an event of this id.
func (v view) HasMemoryEvent(tenant, agent string, event turns.ID) (bool, error) {
	_, ok, err := db.Get(v.side, rows.MemoryEvents.Key(tenant, agent, event))
	return ok, err
}

// MemoryEvent returns the position of an event of an agent's chain, by its id. ok is
// false if there is none.
func (s *Store) MemoryEvent(tenant, agent string, event turns.ID) (seq uint64, ok bool, err error) {
	return s.view().number(rows.MemoryEvents.Key(tenant, agent, event))
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
				m, err = s.view().memoryRow(tenant, agent, turns.ID(k.Value))
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
				m, err = s.view().memoryRow(tenant, agent, turns.ID(e.Value))
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
				m, err = s.view().memoryRow(tenant, agent, turns.ID(e.Value))
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
	at, _, err := s.view().number(rows.MemoryLearned.Key(tenant, agent))
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

// memories folds in an event of an agent's chain.
func (a *applier) memories(tenant string, r ledger.Record, e *turns.Event, next *ledger.Admitted) error {
	agent := e.Chain.ID
	err := errors.Join(a.putFold(tenant, agent, next.Memories), a.keep(r),
		a.side.Set(rows.MemoryEvents.Key(tenant, agent, e.ID), rows.Number(nil, r.Seq)))
	if e.Document != nil {
		return errors.Join(err, a.side.Set(rows.Number(rows.MemoryDocuments.Key(tenant, agent), r.Seq), nil))
	}
	changed := next.Changed
	if e.Kind == turns.KindMemory {
		target, aerr := a.addMemory(tenant, agent, changed[0], true)
		if aerr != nil {
			return aerr
		}
		changed = changed[1:]
		for i := range changed {
			old := &changed[i]
			old.Statuses[len(old.Statuses)-1].SupersededBy = target
		}
	}
	for i := range changed {
		m := &changed[i]
		err = errors.Join(err, a.putMemory(tenant, agent, m))
		switch now := m.Now(); {
		case now.State == turns.Withdrawn:
			err = errors.Join(err, a.withdrawDependents(tenant, agent, m.ID, r.Seq))
		case e.Kind == turns.KindMemoryChanged:
			text := append(rows.MemoryTexts.Key(tenant, agent), m.Text[:]...)
			by, taken, terr := a.memoryOfText(tenant, agent, m.Text)
			if terr != nil {
				return terr
			}
			if now := by.Statuses; !taken || by.Text != m.Text || !now[len(now)-1].InForce() {
				err = errors.Join(err, a.side.Set(text, m.ID[:]))
			}
		}
	}
	return err
}

// learned folds in the memories of a compaction of a session.
func (a *applier) learned(s *ledger.Session, e *turns.Event, seq uint64) error {
	learned := ledger.LearnedMemories(s, e, seq)
	for _, m := range learned {
		if _, err := a.addMemory(s.Tenant, s.Agent, m, false); err != nil {
			return err
		}
	}
	if len(learned) == 0 {
		return nil
	}
	if err := a.side.Set(rows.MemoryLearned.Key(s.Tenant, s.Agent), rows.Number(nil, seq)); err != nil {
		return err
	}
	fold, err := a.Memories(s.Tenant, s.Agent)
	if err != nil || fold.Stored > 0 {
		return err
	}
	return a.putFold(s.Tenant, s.Agent, fold) // so that the agent is listed
}

func (a *applier) putFold(tenant, agent string, m ledger.Memories) error {
	row, err := rows.Encode(m)
	if err != nil {
		return err
	}
	return a.side.Set(rows.MemoryFolds.Key(tenant, agent), row)
}

func (a *applier) putMemory(tenant, agent string, m *ledger.NamedMemory) error {
	row, err := rows.Encode(m.Memory)
	if err != nil {
		return err
	}
	return a.side.Set(rows.MemoryIDs.Key(tenant, agent, m.ID), row)
}

// addMemory adds a new memory, and returns its id. If a memory of the agent says the
// same (see [ledger.NamedMemory.SaysFor]), the new one is evidence of it, and addMemory returns the id of that memory.
func (a *applier) addMemory(tenant, agent string, m ledger.NamedMemory, saved bool) (turns.ID, error) {
	if _, err := a.memoryRow(tenant, agent, m.ID); err == nil {
		return m.ID, nil // an id that a client made; it has the memory that was first
	} else if !errors.Is(err, ledger.ErrNotFound) {
		return m.ID, err
	}
	place := func(k []byte) []byte { return rows.Number(rows.Number(k, m.Seq), m.Item) }
	old, same, err := a.memoryOfText(tenant, agent, m.Text)
	if err != nil {
		return m.ID, err
	}
	if same {
		if same, err = old.SaysFor(&m, saved, a.view); err != nil {
			return m.ID, err
		}
	}
	if same {
		old.Evidence++
		if old.Now().State == turns.Proposed && m.Now().State == turns.Accepted {
			old.Set(m.Seq, func(s *ledger.MemoryStatus) { s.State = turns.Accepted })
		}
		m.Same = old.ID
		return old.ID, errors.Join(a.putMemory(tenant, agent, &old), a.putMemory(tenant, agent, &m),
			a.side.Set(place(rows.MemoryEvidence.Key(tenant, agent, old.ID)), nil))
	}
	err = errors.Join(a.putMemory(tenant, agent, &m),
		a.side.Set(append(rows.MemoryTexts.Key(tenant, agent), m.Text[:]...), m.ID[:]),
		a.side.Set(place(rows.MemoryList.Key(tenant, agent)), m.ID[:]))
	if m.Kind == turns.Daily {
		err = errors.Join(err, a.side.Set(place(rows.Number(rows.MemoryDays.Key(tenant, agent), rows.Instant(rows.MemoryTime(&m.Memory)))), m.ID[:]))
	}
	for _, id := range m.From {
		from, ferr := a.Memory(tenant, agent, id)
		if ferr != nil {
			return m.ID, ferr
		}
		err = errors.Join(err, a.side.Set(append(rows.MemoryDependents.Key(tenant, agent, from.ID), m.ID[:]...), nil))
	}
	return m.ID, err
}

// withdrawDependents withdraws what derives from a memory that was withdrawn at seq, and
// what derives from that.
func (a *applier) withdrawDependents(tenant, agent string, root turns.ID, seq uint64) error {
	for open := []turns.ID{root}; len(open) > 0; {
		k := rows.MemoryDependents.Key(tenant, agent, open[len(open)-1])
		open = open[:len(open)-1]
		for e, err := range db.Scan(a.side, k, rows.End(k)) {
			if err != nil {
				return err
			}
			m, err := a.memoryRow(tenant, agent, rows.IDAt(e.Key, len(k)))
			if err != nil {
				return err
			}
			if m.Now().State == turns.Withdrawn {
				continue
			}
			m.Set(seq, func(s *ledger.MemoryStatus) { s.State, s.With = turns.Withdrawn, root })
			if err := a.putMemory(tenant, agent, &m); err != nil {
				return err
			}
			open = append(open, m.ID)
		}
	}
	return nil
}
