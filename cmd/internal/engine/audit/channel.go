package audit

import (
	"context"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/content"
	"nexus/ledger"
	"nexus/turns"
)

// checkReceived opens the body of an event of a channel's chain, and reads its blob.
func (v *verifier) checkReceived(ctx context.Context, tenant string, ev *turns.Event) error {
	if v.out.External++; ev.Index == 0 {
		v.out.Channels++
	}
	body := new(turns.ReceivedBody)
	if err := content.OpenCommitted(v.content.OpeningKeyring(), ev, body); err != nil {
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
	if (body.Blob != nil) != (len(ev.Blobs) == 1) || body.Blob != nil && (ev.Blobs[0] != content.Blob{Digest: body.Blob.Digest, Size: body.Blob.Size}.Link() || body.Body != nil) {
		return fmt.Errorf("%w: its body and its header name different blobs", ledger.ErrCorrupt)
	}
	_, err = v.audit.reader.ReceivedContent(ctx, tenant, ch.Key, body, true)
	return err
}
