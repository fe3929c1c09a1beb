package projections

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"nexus/ledger"
	"nexus/projections/db"
	"nexus/projections/rows"
	"nexus/turns"
)

// received writes the rows of an event of a channel's chain.
func (a *applier) received(tenant string, r ledger.Record, e *turns.Event, c *ledger.Channel) error {
	row, err := rows.Encode(c)
	if err != nil {
		return err
	}
	id := e.Chain.ID
	err = errors.Join(
		a.side.Set(rows.Channels.TextKey(tenant, id), row),
		a.side.Set(rows.Number(rows.Received.TextKey(tenant, id), e.Index), rows.Number(nil, r.Seq)),
		a.side.Set(append(rows.ReceivedIDs.TextKey(tenant, id), e.ID[:]...), rows.Number(nil, e.Index)),
		a.keep(r),
	)
	if e.Index == 0 {
		err = errors.Join(err, a.side.Set(rows.AgentChannels.TextKey(tenant, c.Agent, id), nil))
	}
	return err
}

// external writes the row of the external event that a turn names, if it names one.
func (a *applier) external(tenant string, e *turns.Event) error {
	if e.External == nil {
		return nil
	}
	ref := e.Ref()
	k := append(rows.ExternalTurns.TextKey(tenant, e.External.Channel), e.External.ID[:]...)
	return a.side.Set(append(append(k, ref.Session[:]...), ref.Turn[:]...), nil)
}

// Channel returns the fold of a channel's chain, by the chain's id; zero if the chain
// is empty.
func (s *Store) Channel(tenant, id string) (ledger.Channel, error) {
	return s.view().Channel(tenant, id)
}

// Channel implements [ledger.History].
func (v view) Channel(tenant, id string) (c ledger.Channel, err error) {
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
func (v view) HasReceived(tenant, channel string, event turns.ID) (bool, error) {
	_, ok, err := db.Get(v.side, append(rows.ReceivedIDs.TextKey(tenant, channel), event[:]...))
	return ok, err
}

// ReceivedIndex returns the ordinal of an event on a channel's chain, by its id. ok is
// false if there is none.
func (s *Store) ReceivedIndex(tenant, channel string, event turns.ID) (index uint64, ok bool, err error) {
	return s.view().number(append(rows.ReceivedIDs.TextKey(tenant, channel), event[:]...))
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
			seq, ok, err := s.view().number(rows.Number(slices.Clone(k), i))
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
