package audit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

func agentSubject(tenant, agent string) string {
	return ledger.Subject(tenant, agent, turns.Chain{Entity: turns.AgentEntity, ID: agent})
}

// Memories implements [ledger.History].
func (v *verifier) Memories(tenant, agent string) (ledger.Memories, error) {
	return v.agents[agentSubject(tenant, agent)], nil
}

// Memory implements [ledger.History].
func (v *verifier) Memory(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	m, ok := v.memoriesOf(agentSubject(tenant, agent)).find(id)
	if !ok {
		return m, fmt.Errorf("%w: memory %s", ledger.ErrNotFound, id)
	}
	return m, nil
}

// memoriesOf returns the memories of an agent, by the subject of its chain.
func (v *verifier) memoriesOf(subject string) *agentMemories {
	if v.memories[subject] == nil {
		v.memories[subject] = newAgentMemories()
	}
	return v.memories[subject]
}

// HasMemoryEvent implements [ledger.History]. It asks the projections' index of ids,
// which was compared with each event.
func (v *verifier) HasMemoryEvent(tenant, agent string, event turns.ID) (bool, error) {
	seq, ok, err := v.audit.reader.Projections.MemoryEvent(tenant, agent, event)
	return ok && seq <= v.agents[agentSubject(tenant, agent)].Tail.Seq, err
}

// checkMemory checks an event of an agent's chain, and opens its body.
func (v *verifier) checkMemory(tenant string, r ledger.Record, ev *turns.Event) error {
	next, err := ledger.Admit(v, r.Subject, r.Seq, r.Hash, ev)
	if err != nil {
		v.broken[r.Subject] = true
		return err
	}
	agent := ev.Chain.ID
	v.agents[r.Subject] = next.Memories
	differs := v.memoriesOf(r.Subject).apply(ev, r.Seq, next.Changed, v)
	if seq, ok, err := v.audit.reader.Projections.MemoryEvent(tenant, agent, ev.ID); err != nil || !ok || seq != r.Seq {
		differs = errors.Join(differs, fmt.Errorf("%w: the projections' index of an agent's events has it at %d (%v)", ledger.ErrCorrupt, seq, err))
	}
	return errors.Join(differs, v.checkMemoryBody(tenant, agent, ev))
}

// checkMemoryBody opens the body of an event of an agent's chain, and compares it with
// the header.
func (v *verifier) checkMemoryBody(tenant, agent string, ev *turns.Event) error {
	var body any = new(turns.MemoryChangedBody)
	switch ev.Kind {
	case turns.KindMemory:
		body = new(turns.MemoryBody)
	case turns.KindDocument:
		body = new(turns.DocumentBody)
	}
	if err := v.content.Open(ev, body); err != nil {
		return err
	}
	k, err := v.content.AgentKey(tenant, agent)
	if err != nil {
		return err
	}
	var got, want turns.Hash
	switch b := body.(type) {
	case *turns.MemoryBody:
		m := ev.Memory
		want, got = m.Text, seal.MemoryText(k, m.Kind, m.Private, m.Branch.Session, b.Text)
	case *turns.DocumentBody:
		want, got = ev.Document.Text, seal.DocumentText(k, b.Text)
	}
	if got != want {
		return fmt.Errorf("%w: its text has the digest %v, its header says %v", ledger.ErrCorrupt, got, want)
	}
	return nil
}

// learn takes the memories of a compaction.
func (v *verifier) learn(s *ledger.Session, ev *turns.Event, seq uint64) (err error) {
	for _, m := range ledger.LearnedMemories(s, ev, seq) {
		_, aerr := v.memoriesOf(agentSubject(s.Tenant, s.Agent)).add(m, false, v)
		err = errors.Join(err, aerr)
	}
	return err
}

// checkMemories compares the projections' row of each memory with what the log says of it.
// Of named sessions alone, whose agents' other memories were not read, it compares whether
// the row is there.
func (v *verifier) checkMemories() {
	for _, subject := range slices.Sorted(maps.Keys(v.memories)) {
		own := v.memories[subject]
		tenant, chain, err := ledger.ParseSubject(subject)
		if err != nil || v.broken[subject] {
			continue
		}
		ids := slices.SortedFunc(maps.Keys(own.rows), func(a, b turns.ID) int {
			return cmp.Or(cmp.Compare(own.rows[a].Seq, own.rows[b].Seq), a.Compare(b))
		})
		for _, id := range ids {
			m := own.rows[id]
			row, err := v.audit.reader.Projections.MemoryRow(tenant, chain.ID, id)
			switch {
			case err != nil:
				err = fmt.Errorf("%w: the projections lack memory %s (%v)", ledger.ErrCorrupt, id, err)
			case v.chains == nil && !agreesUpTo(v.out.Last, *m, row.Memory):
				err = fmt.Errorf("%w: the projections' row of memory %s differs from the log", ledger.ErrCorrupt, id)
			default:
				continue
			}
			v.problem(tenant, api.Problem{Code: api.Corrupt, Seq: m.Seq, Event: id, Message: err.Error()})
		}
	}
}
