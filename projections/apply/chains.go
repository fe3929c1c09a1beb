package apply

import (
	"fmt"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Label returns the row of a label's chain, the zero Label if it was never claimed.
func (v View) Label(tenant, digest string) (l ledger.Label, err error) {
	b, ok, err := v.row(rows.Labels.TextKey(tenant, digest))
	if err != nil || !ok {
		return l, err
	}
	if err := rows.Decode(b, &l); err != nil {
		return l, badRow("projection row of a label: %v", err)
	}
	return l, nil
}

// Policies returns the fold of a tenant's chain, zero if the chain is empty.
func (v View) Policies(tenant string) (p ledger.Policies, err error) {
	b, ok, err := v.row(rows.Policies.TextKey(tenant))
	if err != nil || !ok {
		return p, err
	}
	if err := rows.Decode(b, &p); err != nil {
		return p, badRow("projection row of the chain of tenant %s: %v", tenant, err)
	}
	return p, nil
}

// PolicyName returns the state of a policy's name, by its digest; zero if no agent put a
// policy under it.
func (v View) PolicyName(tenant string, name turns.Hash) (n ledger.PolicyName, err error) {
	b, ok, err := v.row(rows.PolicyNames.NameKey(tenant, name))
	if err != nil || !ok {
		return n, err
	}
	return DecodePolicyName(b)
}

// DecodePolicyName reads the row of a policy's name.
func DecodePolicyName(b []byte) (n ledger.PolicyName, err error) {
	if err := rows.Decode(b, &n); err != nil {
		return n, badRow("projection row of a policy's name: %v", err)
	}
	return n, nil
}

// Channel implements [ledger.History].
func (v View) Channel(tenant, id string) (c ledger.Channel, err error) {
	b, ok, err := db.Get(v.side, rows.Channels.TextKey(tenant, id))
	if err != nil || !ok {
		return c, err
	}
	if err := rows.Decode(b, &c); err != nil {
		return c, badRow("projection row of channel %s: %v", id, err)
	}
	return c, nil
}

// HasReceived implements [ledger.History].
func (v View) HasReceived(tenant, channel string, event turns.ID) (bool, error) {
	_, ok, err := db.Get(v.side, append(rows.ReceivedIDs.TextKey(tenant, channel), event[:]...))
	return ok, err
}

// Memories returns the fold of an agent's chain, zero if the chain is empty.
func (v View) Memories(tenant, agent string) (m ledger.Memories, err error) {
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
func (v View) Memory(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
	m, err := v.MemoryRow(tenant, agent, id)
	if err == nil && !m.Same.IsZero() {
		return v.MemoryRow(tenant, agent, m.Same)
	}
	return m, err
}

// MemoryRow returns the row of an id, which may be evidence of another memory.
func (v View) MemoryRow(tenant, agent string, id turns.ID) (ledger.NamedMemory, error) {
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
func (v View) MemoryOfText(tenant, agent string, text turns.Hash) (m ledger.NamedMemory, ok bool, err error) {
	b, ok, err := db.Get(v.side, append(rows.MemoryTexts.Key(tenant, agent), text[:]...))
	if err != nil || !ok {
		return m, false, err
	}
	m, err = v.MemoryRow(tenant, agent, turns.ID(b))
	return m, err == nil, err
}

// HasMemoryEvent reports whether an agent's chain has an event of this id.
func (v View) HasMemoryEvent(tenant, agent string, event turns.ID) (bool, error) {
	_, ok, err := db.Get(v.side, rows.MemoryEvents.Key(tenant, agent, event))
	return ok, err
}
