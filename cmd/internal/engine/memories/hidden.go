package memories

import (
	"errors"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// A memory of hidden sessions alone is recalled by nobody who does not ask for it: hiding takes an
// import back, and what was learned from it as well. A memory without a source, or one that a
// session which is not hidden states too, stays.

// ofHidden reports whether the sessions that a memory is from, and those that said the same after
// it, are all hidden.
func (ms *Memories) ofHidden(v *viewer, tenant, agent string, m ledger.NamedMemory, from []turns.ID) (bool, error) {
	hidden, err := ms.allHidden(v, from)
	if !hidden || err != nil || m.Evidence == 0 {
		return hidden, err
	}
	places, err := ms.reader.Projections.MemoryEvidence(tenant, agent, m.ID, maxRepeats)
	for _, p := range places {
		if err != nil {
			break
		}
		var again *turns.Event
		if again, err = ms.eventAt(p.Seq); err == nil {
			hidden, err = ms.allHidden(v, sessionsOf(again, nil))
		}
		if !hidden {
			break
		}
	}
	return hidden, err
}

// allHidden reports whether sessions are all hidden; false if there are none. A session does not
// hide its own memories from itself.
func (ms *Memories) allHidden(v *viewer, sessions []turns.ID) (bool, error) {
	for _, id := range sessions {
		if v.session != nil && v.session.ID == id {
			return false, nil
		}
		s, err := ms.reader.Projections.Session(id)
		if errors.Is(err, ledger.ErrNotFound) {
			return false, nil
		}
		if err != nil || !s.Hidden {
			return false, err
		}
	}
	return len(sessions) > 0, nil
}

// sessionsOf returns the sessions of the turns that an event of a memory names, see addSources.
func sessionsOf(ev *turns.Event, named []api.TurnName) (out []turns.ID) {
	add := func(id turns.ID) {
		if len(out) == 0 || out[len(out)-1] != id {
			out = append(out, id)
		}
	}
	switch {
	case ev.Memory != nil:
		for _, s := range ev.Memory.Sources {
			add(s.Turn.Session)
		}
	case len(named) > 0:
		for _, n := range named {
			add(n.Session)
		}
	case ev.Span != nil && !ev.Span.Through.IsZero():
		add(ev.Span.Through.Session)
	}
	return out
}

// namedIn returns the sessions of a memory's sources, of those too that said the same.
func namedIn(m *api.Memory) (out []turns.ID) {
	for _, s := range m.Sources {
		out = append(out, s.Session)
	}
	return out
}
