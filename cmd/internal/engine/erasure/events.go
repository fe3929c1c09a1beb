package erasure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/turns"
)

// answered is the external events of a channel that turns of a session answered.
type answered struct {
	channel reader.Channel
	events  []uint64 // on the chain of the channel
}

// ownEvents reads the headers of a session's chain: it returns the external events that turns answered and that are stored, and
// counts the blobs.
func (er *Erasure) ownEvents(ctx context.Context, s *ledger.Session) (out []answered, blobs uint64, err error) {
	at := make(map[string]int)
	for payload, err := range er.reader.Projections.Events(s.ID, 0) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, 0, err
		}
		ev, err := turns.Decode(payload)
		if err != nil {
			return nil, 0, err
		}
		blobs += uint64(len(ev.Blobs))
		if ev.External == nil {
			continue
		}
		id := ev.External.Channel
		index, stored, err := er.reader.Projections.ReceivedIndex(s.Tenant, id, ev.External.ID)
		if err != nil {
			return nil, 0, err
		}
		if !stored {
			continue
		}
		i, known := at[id]
		if !known {
			chain := turns.Chain{Entity: turns.ChannelEntity, ID: id}
			a := answered{channel: reader.Channel{Chain: chain, Subject: ledger.Subject(s.Tenant, id, chain)}}
			if a.channel.Key, err = er.channelKey(s.Tenant, id, index); err != nil {
				return nil, 0, err
			}
			i, at[id] = len(out), len(out)
			out = append(out, a)
		}
		if !slices.Contains(out[i].events, index) {
			out[i].events = append(out[i].events, index)
		}
	}
	return out, blobs, nil
}

// channelKey is the id of the key that an event of a channel is sealed under: its name is sealed.
func (er *Erasure) channelKey(tenant, channel string, index uint64) (turns.ID, error) {
	for at, err := range er.reader.Projections.ReceivedFrom(tenant, channel, index, false) {
		if err != nil {
			return turns.ID{}, err
		}
		r, err := er.reader.Projections.Record(at.Seq)
		if err != nil {
			return turns.ID{}, err
		}
		ev, err := turns.Decode(r.Payload)
		if err != nil || len(ev.Keys) == 0 {
			return turns.ID{}, err // it was not sealed
		}
		return ev.Keys[0], nil
	}
	return turns.ID{}, fmt.Errorf("%w: the projections lack event %d of channel %s", ledger.ErrCorrupt, index, channel)
}

// eraseAnswered takes the keys of the external events that turns of a session answered: one event's of a channel, and
// no other's. It is done whole or in part, and can be done again.
func (er *Erasure) eraseAnswered(ctx context.Context, s *ledger.Session) error {
	list, _, err := er.ownEvents(ctx, s)
	if err != nil {
		return err
	}
	for _, a := range list {
		if a.channel.Key.IsZero() {
			continue
		}
		if err := er.eraseEvents(ctx, s.Tenant, a); err != nil {
			return err
		}
	}
	return nil
}

// eraseEvents holds the channel, so that nobody seals an event under a key that goes meanwhile.
func (er *Erasure) eraseEvents(ctx context.Context, tenant string, a answered) error {
	_, release, err := er.writer.Hold(ctx, a.channel.Subject)
	if err != nil {
		return err
	}
	defer release()
	row, err := er.reader.CatchUpChannel(ctx, tenant, a.channel)
	if err != nil {
		return err
	}
	if err := er.content.Keys.Puncture(a.channel.Key, row.Count, a.events...); err != nil && !errors.Is(err, turns.ErrErased) {
		return fmt.Errorf("%w: the keys of events of channel %s are not destroyed yet: %w", ledger.ErrUnavailable, a.channel.Chain.ID, err)
	}
	return nil
}

// countLeft returns how many external events there are, and how many of them can still be opened.
func (er *Erasure) countLeft(list []answered) (all, left uint64, err error) {
	for _, a := range list {
		all += uint64(len(a.events))
		if a.channel.Key.IsZero() { // they were not sealed
			left += uint64(len(a.events))
			continue
		}
		k, err := er.content.Key(a.channel.Key)
		switch {
		case errors.Is(err, turns.ErrErased):
			continue
		case err != nil:
			return 0, 0, err
		}
		for _, index := range a.events {
			if k.Has(index) {
				left++
			}
		}
	}
	return all, left, nil
}
