package audit

import (
	"context"
	"fmt"
	"slices"

	"nexus/ledger"
	"nexus/turns"
)

// Channel implements [ledger.History].
func (v *verifier) Channel(tenant, id string) (ledger.Channel, error) {
	return v.channels[tenant+"/"+id], nil
}

// HasReceived implements [ledger.History]. It asks the projections' index of ids, which
// was compared with each event; see [verifier.HasEvent].
func (v *verifier) HasReceived(tenant, channel string, event turns.ID) (bool, error) {
	index, ok, err := v.audit.reader.Projections.ReceivedIndex(tenant, channel, event)
	return ok && index < v.channels[tenant+"/"+channel].Count, err
}

// checkReceived checks an event of a channel's chain, opens its body, and reads its blob.
func (v *verifier) checkReceived(ctx context.Context, tenant string, r ledger.Record, ev *turns.Event) error {
	next, err := ledger.Admit(v, r.Subject, r.Seq, r.Hash, ev)
	if err != nil {
		v.broken[r.Subject] = true
		return err
	}
	id := ev.Chain.ID
	v.channels[tenant+"/"+id] = next.Channel
	if v.out.External++; ev.Index == 0 {
		v.out.Channels++
	}
	var differs error
	if index, ok, err := v.audit.reader.Projections.ReceivedIndex(tenant, id, ev.ID); err != nil || !ok || index != ev.Index {
		differs = fmt.Errorf("%w: the projections' index of ids has it at %d (%v)", ledger.ErrCorrupt, index, err)
	}
	if row, err := v.audit.reader.Projections.Channel(tenant, id); err != nil || row.Count <= ev.Index {
		differs = fmt.Errorf("%w: the projections lack it (%v)", ledger.ErrCorrupt, err)
	}
	for at, err := range v.audit.reader.Projections.ReceivedFrom(tenant, id, ev.Index, true) {
		if err != nil || at.Seq != r.Seq {
			differs = fmt.Errorf("%w: the projections' list of channel %s has it at %d (%v)", ledger.ErrCorrupt, id, at.Seq, err)
		}
		break
	}
	body := new(turns.ReceivedBody)
	if err := v.content.Open(ev, body); err != nil {
		return err
	}
	ch, err := v.audit.reader.ChannelOf(tenant, ev.Agent, body.Channel)
	if err != nil {
		return err
	}
	if ch.Chain != ev.Chain || len(ev.Keys) > 0 && !slices.Equal(ev.Keys, []turns.ID{ch.Key}) {
		return fmt.Errorf("%w: its body names another channel than the one that it is on", ledger.ErrCorrupt)
	}
	v.out.Blobs += uint64(len(ev.Blobs))
	if (body.Blob != nil) != (len(ev.Blobs) == 1) || body.Blob != nil && (ev.Blobs[0] != turns.BlobLink{Digest: body.Blob.Digest, Size: body.Blob.Size} || body.Body != nil) {
		return fmt.Errorf("%w: its body and its header name different blobs", ledger.ErrCorrupt)
	}
	if _, err := v.audit.reader.ReceivedContent(ctx, tenant, ch.Key, body); err != nil {
		return err
	}
	return differs
}
