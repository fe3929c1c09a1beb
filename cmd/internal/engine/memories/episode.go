package memories

import (
	"context"
	"errors"
	"slices"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/seal"
)

// Episode is what became of a session, up to a turn.
type Episode struct {
	// Turn is the compaction whose summary it is or, where the session has ended, the last
	// turn. The id of the memory follows from it.
	Turn    turns.Ref
	Text    string
	Sources []api.TurnName // other turns that it comes from
	Keys    []turns.ID     // the sessions that the text comes from
}

// StoreEpisode stores an episode of a session as a memory of its agent, which supersedes the
// session's episode before it.
//
// It stores nothing where the session has a later episode, or one that says the same, or where
// the newest was withdrawn: then the agent wants none. It supersedes only what exactly those saw
// who see the new one: what was promoted, or replaced by the agent, stays as it is.
//
// Crash states: those of [Memories.Save].
func (ms *Memories) StoreEpisode(ctx context.Context, c reader.Caller, e Episode) error {
	req := api.SaveMemory{Kind: turns.Episodic.String(), Text: e.Text, Session: e.Turn.Session,
		Sources: append([]api.TurnName{{Session: e.Turn.Session, Turn: e.Turn.Turn}}, e.Sources...)}
	header, digest, err := ms.prepare(c, "memory.episode", &req)
	if err != nil {
		return err
	}
	req.ID = turns.EpisodeID(e.Turn)
	_, err = ms.append(ctx, c, func(ledger.Memories) (*draft, error) {
		was, _, err := ms.stored(c, req.ID, digest)
		if was != nil || err != nil {
			return nil, err
		}
		before, later, err := ms.episodesOf(c, e.Turn)
		if err != nil || later || before != nil && before.Now().State == turns.Withdrawn {
			return nil, err
		}
		d, err := ms.draftMemory(ctx, c, &req, *header)
		if err != nil {
			return nil, err
		}
		m := d.event.Memory
		d.keys = append(d.keys, e.Keys...)
		if err := ms.restrict(c, m, &e, d.keys); err != nil {
			return nil, err
		}
		if before != nil {
			if before.Text == m.Text {
				return nil, nil
			}
			if now := before.Now(); now.InForce() && now.Private == m.Private && now.Branch.Session == m.Branch.Session {
				m.Supersedes = before.ID
			}
		}
		d.event.ID, d.event.Digest = req.ID, digest
		return d, nil
	})
	if reused := new(api.Error); errors.As(err, &reused) && reused.Code == api.IDReused {
		return nil // another daemon stored it in other words, or the agent has another event of that id
	}
	return err
}

// episodesOf returns the newest episode of a session, nil if it has none, and whether it is
// later than that of a turn. It reads the ledger as it is now: while a text was made, another
// daemon may have stored the episode of a later compaction.
func (ms *Memories) episodesOf(c reader.Caller, at turns.Ref) (newest *ledger.NamedMemory, later bool, err error) {
	s, err := ms.reader.Projections.Session(at.Session)
	if err != nil {
		return nil, false, err
	}
	var all []turns.Ref // the turns of which it may have one, in their order
	for ref, err := range ms.reader.Projections.CompactionsOf(s.ID) {
		if err != nil {
			return nil, false, err
		}
		all = append(all, ref)
	}
	if s.State == turns.Reset || s.State == turns.Closed {
		all = append(all, s.Head)
	}
	reached := false
	for _, ref := range slices.Backward(all) {
		reached = reached || ref == at
		m, err := ms.reader.Projections.MemoryRow(c.Tenant, c.Agent, turns.EpisodeID(ref))
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		return &m, !reached, nil
	}
	return nil, false, nil
}

// restrict sets who sees an episode: main sessions alone if any session that it comes from is
// one, and of a fork only what comes from the episode's turn.
func (ms *Memories) restrict(c reader.Caller, m *turns.Memory, e *Episode, keys []turns.ID) error {
	for _, id := range keys {
		s, err := ms.reader.Projections.Session(id)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		m.Private = m.Private || s.Kind == turns.Main
	}
	if !m.Branch.IsZero() {
		m.Branch = e.Turn
	}
	key, err := ms.content.AgentKey(c.Tenant, c.Agent)
	if err == nil {
		m.Text = seal.MemoryText(key, m.Kind, m.Private, m.Branch.Session, e.Text)
	}
	return err
}

// episodeTurn returns the turn of an event that is an episode, zero of any other event.
func episodeTurn(ev *turns.Event) turns.Ref {
	if ev != nil && ev.Memory != nil && ev.Memory.Kind == turns.Episodic {
		for _, s := range ev.Memory.Sources {
			if turns.EpisodeID(s.Turn) == ev.ID {
				return s.Turn
			}
		}
	}
	return turns.Ref{}
}
