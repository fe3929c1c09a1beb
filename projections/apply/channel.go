package apply

import (
	"errors"

	"nexus/ledger"
	"nexus/projections/rows"
	"nexus/turns"
)

// received writes the rows of an event of a channel's chain.
func (a *Batch) received(tenant string, r ledger.Record, e *turns.Event, c *ledger.Channel) error {
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
func (a *Batch) external(tenant string, e *turns.Event) error {
	if e.External == nil {
		return nil
	}
	ref := e.Ref()
	k := append(rows.ExternalTurns.TextKey(tenant, e.External.Channel), e.External.ID[:]...)
	return a.side.Set(append(append(k, ref.Session[:]...), ref.Turn[:]...), nil)
}
