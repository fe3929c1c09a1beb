package memories

import (
	"errors"

	"nexus/ledger"
	"nexus/lineage"
	"nexus/turns"
)

// Texts returns the texts of the memories that an event holds: one, or those of a
// compaction, in their order. An event of another kind has none.
func (ms *Memories) Texts(ev *turns.Event) (out []string, err error) {
	switch {
	case ev.Kind == turns.KindMemory:
		var body turns.MemoryBody
		err = ms.content.Open(ev, &body)
		return []string{body.Text}, err
	case ev.Kind == turns.KindCompaction && len(ev.Learned) > 0:
		var body turns.CompactionBody
		if err = ms.content.Open(ev, &body); err != nil {
			return nil, err
		}
		all, err := learnedOf(&body)
		for _, l := range all[:min(len(all), len(ev.Learned))] {
			out = append(out, l.Text)
		}
		return out, err
	}
	return nil, nil
}

// IsEvidence reports whether an id is that of evidence of another memory: a list and a search
// show that one.
func (ms *Memories) IsEvidence(tenant, agent string, id turns.ID) (bool, error) {
	m, err := ms.reader.Projections.Memory(tenant, agent, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	return err == nil && m.ID != id, err
}

// View is what a session sees of its agent's memories at a turn, or what the agent itself
// sees. It is for one request.
type View struct {
	ms *Memories
	v  *viewer
	op *opener
}

// View returns the view of a session at a turn; of the agent itself if s is nil.
func (ms *Memories) View(s *ledger.Session, at lineage.Node) *View {
	return &View{ms: ms, v: newViewer(s, at), op: ms.opener()}
}

// Get returns a memory that is seen, and its text. ok is false for one that is not seen,
// that only repeats another, or that can't be read; without hidden also for one of hidden sessions
// alone.
func (w *View) Get(tenant, agent string, id turns.ID, hidden bool) (m ledger.NamedMemory, text string, ok bool, err error) {
	m, err = w.ms.reader.Projections.Memory(tenant, agent, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return m, "", false, nil
	}
	if err != nil || m.ID != id {
		return m, "", false, err
	}
	if ok, err = w.v.sees(w.ms.reader.Projections, m.Now()); err != nil || !ok {
		return m, "", false, err
	}
	o, ev, err := w.op.textOf(m)
	if err != nil {
		return m, "", false, nil
	}
	if !hidden {
		if gone, err := w.ms.ofHidden(w.v, tenant, agent, m, sessionsOf(ev, o.sources)); err != nil || gone {
			return m, "", false, err
		}
	}
	return m, o.Text, true, nil
}
