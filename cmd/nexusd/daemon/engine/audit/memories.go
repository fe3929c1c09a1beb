package audit

import (
	"slices"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// agentMemories is the memories of one agent, as they follow from the log: the slow twin
// of the projections' rows.
type agentMemories struct {
	rows       map[turns.ID]*ledger.Memory
	byText     map[turns.Hash]turns.ID
	dependents map[turns.ID][]turns.ID
}

func newAgentMemories() *agentMemories {
	return &agentMemories{rows: make(map[turns.ID]*ledger.Memory), byText: make(map[turns.Hash]turns.ID), dependents: make(map[turns.ID][]turns.ID)}
}

// find returns a memory by its id or by that of evidence of it.
func (a *agentMemories) find(id turns.ID) (m ledger.NamedMemory, ok bool) {
	row := a.rows[id]
	if row != nil && !row.Same.IsZero() {
		id = row.Same
		row = a.rows[id]
	}
	if row == nil {
		return m, false
	}
	return ledger.NamedMemory{ID: id, Memory: *row}, true
}

// add adds a new memory and returns the id of what says it from now on: the memory that
// said the same before, if it still counts.
func (a *agentMemories) add(m ledger.NamedMemory, saved bool, forest lineage.Reader) (turns.ID, error) {
	if a.rows[m.ID] != nil {
		return m.ID, nil
	}
	if id, said := a.byText[m.Text]; said {
		old := a.rows[id]
		says, err := (&ledger.NamedMemory{ID: id, Memory: *old}).SaysFor(&m, saved, forest)
		if err != nil {
			return m.ID, err
		}
		if says {
			old.Evidence++
			if old.Now().State == turns.Proposed && m.Now().State == turns.Accepted {
				old.Set(m.Seq, func(s *ledger.MemoryStatus) { s.State = turns.Accepted })
			}
			m.Same = id
			a.rows[m.ID] = &m.Memory
			return id, nil
		}
	}
	a.rows[m.ID], a.byText[m.Text] = &m.Memory, m.ID
	for _, id := range m.From {
		if from, ok := a.find(id); ok {
			a.dependents[from.ID] = append(a.dependents[from.ID], m.ID)
		}
	}
	return m.ID, nil
}

// apply takes what an event of the agent's chain changed.
func (a *agentMemories) apply(ev *turns.Event, seq uint64, changed []ledger.NamedMemory, forest lineage.Reader) error {
	changed = slices.Clone(changed)
	if ev.Kind == turns.KindMemory && len(changed) > 0 {
		target, err := a.add(changed[0], true, forest)
		if err != nil {
			return err
		}
		changed = changed[1:]
		for i := range changed {
			s := slices.Clone(changed[i].Statuses)
			s[len(s)-1].SupersededBy = target
			changed[i].Statuses = s
		}
	}
	for _, m := range changed {
		a.rows[m.ID] = &m.Memory
		if m.Now().State == turns.Withdrawn {
			a.withdrawDependents(m.ID, seq)
		} else if ev.Kind == turns.KindMemoryChanged {
			by := a.rows[a.byText[m.Text]]
			if by == nil || by.Text != m.Text || !by.Statuses[len(by.Statuses)-1].InForce() {
				a.byText[m.Text] = m.ID
			}
		}
	}
	return nil
}

// withdrawDependents withdraws what derives from a memory, and what derives from that.
func (a *agentMemories) withdrawDependents(root turns.ID, seq uint64) {
	for open := []turns.ID{root}; len(open) > 0; {
		ids := a.dependents[open[len(open)-1]]
		open = open[:len(open)-1]
		for _, id := range ids {
			if m := a.rows[id]; m.Now().State != turns.Withdrawn {
				m.Set(seq, func(s *ledger.MemoryStatus) { s.State, s.With = turns.Withdrawn, root })
				open = append(open, id)
			}
		}
	}
}

// agreesUpTo reports whether a row of the projections is m, as far as positions up to last
// say. Later events may have changed the row: they add statuses and evidence, and a
// promotion changes the digest.
func agreesUpTo(last uint64, m, row ledger.Memory) bool {
	known := slices.IndexFunc(row.Statuses, func(s ledger.MemoryStatus) bool { return s.Seq > last })
	if known < 0 {
		known = len(row.Statuses)
	}
	later := known < len(row.Statuses)
	return row.Kind == m.Kind && row.Trust == m.Trust && row.Seq == m.Seq && row.Item == m.Item && row.Recorded == m.Recorded &&
		row.ValidFrom == m.ValidFrom && row.Supersedes == m.Supersedes && slices.Equal(row.From, m.From) && row.Same == m.Same &&
		row.Evidence >= m.Evidence && (later || row.Text == m.Text) && slices.Equal(row.Statuses[:known], m.Statuses)
}
