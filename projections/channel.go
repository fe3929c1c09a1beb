package projections

import (
	"fmt"
	"iter"
	"slices"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// Channel returns the fold of a channel's chain, by the chain's id; zero if the chain
// is empty.
func (s *Store) Channel(tenant, id string) (ledger.Channel, error) {
	return s.view().Channel(tenant, id)
}

// ReceivedIndex returns the ordinal of an event on a channel's chain, by its id. ok is
// false if there is none.
func (s *Store) ReceivedIndex(tenant, channel string, event turns.ID) (index uint64, ok bool, err error) {
	return s.view().Number(append(rows.ReceivedIDs.TextKey(tenant, channel), event[:]...))
}

// Received is where an event of a channel is.
type Received struct {
	Index, Seq uint64
}

// ReceivedFrom yields the events of a channel from the ordinal from on, or down to the
// first if desc is set.
func (s *Store) ReceivedFrom(tenant, channel string, from uint64, desc bool) iter.Seq2[Received, error] {
	k := rows.Received.TextKey(tenant, channel)
	if !desc {
		return func(yield func(Received, error) bool) {
			for e, err := range db.Scan(s.db(), rows.Number(slices.Clone(k), from), rows.End(k)) {
				var r Received
				if err == nil {
					r = Received{rows.NumberAt(e.Key, len(k)), rows.NumberAt(e.Value, 0)}
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
	return func(yield func(Received, error) bool) { // ordinals have no gap
		for i := from; ; i-- {
			seq, ok, err := s.view().Number(rows.Number(slices.Clone(k), i))
			if err == nil && !ok {
				err = fmt.Errorf("%w: the projections lack event %d of channel %s", ledger.ErrCorrupt, i, channel)
			}
			if !yield(Received{i, seq}, err) || err != nil || i == 0 {
				return
			}
		}
	}
}

// NamedChannel is a channel with the id of its chain.
type NamedChannel struct {
	ID string
	ledger.Channel
}

// Channels yields the channels of an agent after the channel after, in the order of
// their ids. Agent "" means every agent of the tenant, one after the other.
func (s *Store) Channels(tenant, agent, after string) iter.Seq2[NamedChannel, error] {
	prefix := rows.AgentChannels.TextKey(tenant)
	if agent != "" {
		prefix = rows.AgentChannels.TextKey(tenant, agent)
	}
	return func(yield func(NamedChannel, error) bool) {
		lo := prefix
		if after != "" {
			c, err := s.Channel(tenant, after)
			if err != nil {
				yield(NamedChannel{}, err)
				return
			}
			lo = append(rows.AgentChannels.TextKey(tenant, c.Agent, after), 0)
		}
		for e, err := range db.Scan(s.db(), lo, rows.End(prefix)) {
			var c NamedChannel
			if err == nil {
				key := e.Key[:len(e.Key)-1] // without the zero at its end
				for i := len(key) - 1; key[i] != 0; i-- {
					c.ID = string(key[i:])
				}
				c.Channel, err = s.Channel(tenant, c.ID)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// TurnsOf returns at most limit turns that name an external event, by session and id.
func (s *Store) TurnsOf(tenant, channel string, event turns.ID, limit int) (refs []turns.Ref, err error) {
	k := append(rows.ExternalTurns.TextKey(tenant, channel), event[:]...)
	for e, err := range db.Scan(s.db(), k, rows.End(k)) {
		if err != nil {
			return nil, err
		}
		if len(refs) >= limit {
			break
		}
		refs = append(refs, turns.Ref{Session: rows.IDAt(e.Key, len(k)), Turn: rows.IDAt(e.Key, len(k)+16)})
	}
	return refs, nil
}
