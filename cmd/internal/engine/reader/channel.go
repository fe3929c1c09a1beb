package reader

import (
	"context"
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal"
)

// Channel names a channel of external events.
type Channel struct {
	Name    string
	Chain   turns.Chain
	Subject string
	Key     turns.ID // of its content key
}

// CodeChannel is the name of the channel that has the files that the turns of a session left: those that
// ledgerctl watch --code records. An erasure takes them along.
func CodeChannel(session turns.ID) string { return "code." + session.String() }

// ChannelOf returns the channel of an agent that has a name, whether it has events or not.
// Both ids are keyed digests: the name stays sealed, and another agent's channel has other
// ids.
func (rd *Reader) ChannelOf(tenant, agent, name string) (Channel, error) {
	k, err := rd.content.LedgerKey()
	if err != nil {
		return Channel{}, err
	}
	id, key := seal.ChannelDigest(k, tenant, agent, name)
	chain := turns.Chain{Entity: turns.ChannelEntity, ID: id}
	return Channel{name, chain, ledger.Subject(tenant, id, chain), key}, nil
}

// CatchUpChain waits until the projections have applied what the log has of a chain, and returns
// the position of its tail; 0: the chain is empty. had says that the projections had some of
// it before this call; what names the chain in an error. Errors: [ledger.ErrUnavailable].
func (rd *Reader) CatchUpChain(ctx context.Context, subject, what string, had bool) (tail uint64, err error) {
	last, err := rd.Log.Last(ctx, subject)
	switch {
	case errors.Is(err, ledger.ErrNotFound) && had: // a server whose disk fails says so, too
		return 0, fmt.Errorf("%w: the log gives no record of %s, which it had", ledger.ErrUnavailable, what)
	case errors.Is(err, ledger.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return last.Seq, rd.Projections.WaitFor(ctx, last.Seq)
}

// CatchUpChannel waits until the projections have applied the channel's chain, and returns
// its fold; zero if the chain is empty. A chain that is set aside is [ledger.ErrCorrupt].
func (rd *Reader) CatchUpChannel(ctx context.Context, tenant string, ch Channel) (ledger.Channel, error) {
	had, err := rd.Projections.Channel(tenant, ch.Chain.ID) // before the log is asked: what is stored after that is no loss
	if err != nil {
		return had, err
	}
	last, err := rd.CatchUpChain(ctx, ch.Subject, "channel "+ch.Chain.ID, had.Count > 0)
	if err != nil || last == 0 {
		return ledger.Channel{}, err
	}
	c, err := rd.Projections.Channel(tenant, ch.Chain.ID)
	switch {
	case err != nil:
		return c, err
	case c.Tail.Seq < last:
		why, _ := rd.Projections.WhyAside(ch.Subject)
		return c, fmt.Errorf("%w: channel %s is read-only here: %s", ledger.ErrCorrupt, ch.Chain.ID, why)
	}
	return c, nil
}

// ReceivedAt returns the event of a channel at a position of the log: its record, its
// header, and its body. If only the body can't be read, the header comes with the error.
func (rd *Reader) ReceivedAt(seq uint64) (r ledger.Record, ev *turns.Event, body *turns.ReceivedBody, err error) {
	if r, err = rd.Projections.Record(seq); err != nil {
		return r, nil, nil, err
	}
	if ev, err = turns.Decode(r.Payload); err != nil {
		return r, nil, nil, err
	}
	body = new(turns.ReceivedBody)
	return r, ev, body, rd.content.Open(ev, body)
}

// ReceivedContent returns the body of an external event, from its blob if it is there. key
// is that of the channel. once: what it reads of the blob is not kept.
func (rd *Reader) ReceivedContent(ctx context.Context, tenant string, key turns.ID, b *turns.ReceivedBody, once bool) (turns.Raw, error) {
	if b.Blob == nil {
		return b.Body, nil
	}
	k, err := rd.content.Tree(key)
	if err != nil {
		return nil, err
	}
	read := rd.content.ReadBlob
	if once {
		read = rd.content.ReadBlobOnce
	}
	raw, err := read(ctx, tenant, k, b.Blob.Digest)
	if err != nil {
		return nil, err
	}
	var v turns.Raw
	if uint64(len(raw)) != b.Blob.Size || turns.DecodeJSON(raw, &v) != nil {
		return nil, fmt.Errorf("%w: blob %s is not the body of an external event of %d bytes", ledger.ErrCorrupt, seal.BlobAddress(b.Blob.Digest), b.Blob.Size)
	}
	return raw, nil
}

// ExternalLink returns the link to the external event that the meta of a turn of the
// caller names, nil if it names none. The event need not be stored.
func (rd *Reader) ExternalLink(c Caller, meta turns.Raw) (*turns.ExternalLink, error) {
	name, id, ok := turns.ExternalEvent(meta)
	if !ok {
		return nil, nil
	}
	ch, err := rd.ChannelOf(c.Tenant, c.Agent, name)
	return &turns.ExternalLink{Channel: ch.Chain.ID, ID: id}, err
}
