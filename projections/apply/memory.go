package apply

import (
	"errors"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// memories folds in an event of an agent's chain.
func (a *Batch) memories(tenant string, r ledger.Record, e *turns.Event, next *ledger.Admitted) error {
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
			by, taken, terr := a.MemoryOfText(tenant, agent, m.Text)
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
func (a *Batch) learned(s *ledger.Session, e *turns.Event, seq uint64) error {
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

func (a *Batch) putFold(tenant, agent string, m ledger.Memories) error {
	row, err := rows.Encode(m)
	if err != nil {
		return err
	}
	return a.side.Set(rows.MemoryFolds.Key(tenant, agent), row)
}

func (a *Batch) putMemory(tenant, agent string, m *ledger.NamedMemory) error {
	row, err := rows.Encode(m.Memory)
	if err != nil {
		return err
	}
	return a.side.Set(rows.MemoryIDs.Key(tenant, agent, m.ID), row)
}

// addMemory adds a new memory, and returns its id. If a memory of the agent says the
// same (see [ledger.NamedMemory.SaysFor]), the new one is evidence of it, and addMemory returns the id of that memory.
func (a *Batch) addMemory(tenant, agent string, m ledger.NamedMemory, saved bool) (turns.ID, error) {
	if _, err := a.MemoryRow(tenant, agent, m.ID); err == nil {
		return m.ID, nil // an id that a client made; it has the memory that was first
	} else if !errors.Is(err, ledger.ErrNotFound) {
		return m.ID, err
	}
	place := func(k []byte) []byte { return rows.Number(rows.Number(k, m.Seq), m.Item) }
	old, same, err := a.MemoryOfText(tenant, agent, m.Text)
	if err != nil {
		return m.ID, err
	}
	if same {
		if same, err = old.SaysFor(&m, saved, a.View); err != nil {
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
func (a *Batch) withdrawDependents(tenant, agent string, root turns.ID, seq uint64) error {
	for open := []turns.ID{root}; len(open) > 0; {
		k := rows.MemoryDependents.Key(tenant, agent, open[len(open)-1])
		open = open[:len(open)-1]
		for e, err := range db.Scan(a.side, k, rows.End(k)) {
			if err != nil {
				return err
			}
			m, err := a.MemoryRow(tenant, agent, rows.IDAt(e.Key, len(k)))
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
