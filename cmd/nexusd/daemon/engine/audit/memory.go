package audit

import (
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal"
)

// memoryName is a memory of an agent: the subject of the agent's chain, and the id.
type memoryName struct {
	subject string
	id      turns.ID
}

func agentSubject(tenant, agent string) string {
	return ledger.Subject(tenant, agent, turns.Chain{Entity: turns.AgentEntity, ID: agent})
}

// Memories implements [ledger.History].
func (v *verifier) Memories(tenant, agent string) (ledger.Memories, error) {
	return v.agents[agentSubject(tenant, agent)], nil
}

// Memory implements [ledger.History]. It does not know which memory another one is
// evidence of: what it admits the projections may refuse, and then their chain is
// reported as set aside.
func (v *verifier) Memory(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	m, ok := v.memories[memoryName{agentSubject(tenant, agent), id}]
	if !ok {
		return m, fmt.Errorf("%w: memory %s", ledger.ErrNotFound, id)
	}
	return m, nil
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
	for _, m := range next.Changed {
		v.memories[memoryName{r.Subject, m.ID}] = m
	}
	var differs error
	if seq, ok, err := v.audit.reader.Projections.MemoryEvent(tenant, agent, ev.ID); err != nil || !ok || seq != r.Seq {
		differs = fmt.Errorf("%w: the projections' index of an agent's events has it at %d (%v)", ledger.ErrCorrupt, seq, err)
	}
	if ev.Kind == turns.KindMemory {
		differs = errors.Join(differs, v.checkRowOfMemory(tenant, agent, ev.ID))
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
	if err := v.audit.content.Open(ev, body); err != nil {
		return err
	}
	k, err := v.audit.content.AgentKey(tenant, agent)
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

// checkLearned takes the memories of a compaction, and compares their ids with the
// projections.
func (v *verifier) checkLearned(s *ledger.Session, ev *turns.Event, seq uint64) (err error) {
	for _, m := range ledger.LearnedMemories(s, ev, seq) {
		v.memories[memoryName{agentSubject(s.Tenant, s.Agent), m.ID}] = m
		err = errors.Join(err, v.checkRowOfMemory(s.Tenant, s.Agent, m.ID))
	}
	return err
}

func (v *verifier) checkRowOfMemory(tenant, agent string, id turns.ID) error {
	if _, err := v.audit.reader.Projections.Memory(tenant, agent, id); err != nil {
		return fmt.Errorf("%w: the projections lack memory %s (%v)", ledger.ErrCorrupt, id, err)
	}
	return nil
}
