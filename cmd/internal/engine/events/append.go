package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"nexus/cmd/internal/engine/content"
	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// AppendEvent serves event.append: it stores an external event as the next one of a
// channel of the caller's. The first event makes the channel.
//
// A body that is larger than an event holds goes to a blob of the channel. One that a reply
// could not show is [ledger.ErrTooLarge].
//
// Crash states: after the key is made, a key that seals nothing. After the blob, a blob
// that no event names. After the append, the event; a retry with the same id finds it, on
// any daemon and at any time.
func (es *Events) AppendEvent(ctx context.Context, c reader.Caller, req api.AppendEvent, canonical []byte) (*api.AppendedEvent, error) {
	if c.Operator() {
		return nil, &api.Error{Code: api.Denied, Message: "the operator reads all agents and changes nothing; name an agent"}
	}
	if err := es.check(&req); err != nil {
		return nil, err
	}
	claimed, err := writer.ClaimedTime(req.Time)
	if err != nil {
		return nil, err
	}
	ch, err := es.reader.ChannelOf(c.Tenant, c.Agent, req.Channel)
	if err != nil {
		return nil, err
	}
	id, err := es.writer.NewID(req.ID)
	if err != nil {
		return nil, err
	}
	if es.content.Keys != nil {
		if err := es.content.EnsureKey(ch.Key); err != nil {
			return nil, fmt.Errorf("make the key of channel %s: %w", ch.Chain.ID, err)
		}
	}
	digest := writer.Request{Verb: "event.append", Canonical: canonical}.Digest()
	known, release, err := es.writer.Hold(ctx, ch.Subject)
	if err != nil {
		return nil, err
	}
	defer release()
	draft := turns.Event{
		Version: turns.Version, Kind: turns.KindReceived, ID: id, Chain: ch.Chain, Claimed: claimed, Actor: c.Actor(), Sender: c.Key, Digest: digest, Agent: c.Agent,
	}
	body := &turns.ReceivedBody{Channel: req.Channel, Kind: req.Kind, Body: req.Body, Meta: req.Meta}
	for fresh := known.Seq == 0; ; fresh = true {
		row, err := es.fold(ctx, c, ch, known, fresh)
		if err != nil {
			return nil, err
		}
		if !req.ID.IsZero() {
			if done, err := es.stored(c, ch, id, digest); done != nil || err != nil {
				return done, err
			}
		}
		if err := es.offload(ctx, c, ch, body); err != nil {
			return nil, err
		}
		ev := draft
		ev.Index, ev.Prev, ev.Recorded = row.Count, row.Tail.Hash, es.reader.Now().UnixNano()
		if b := body.Blob; b != nil {
			ev.Blobs = []turns.BlobLink{content.Blob{Digest: b.Digest, Size: b.Size}.Link()}
		}
		payload, err := es.content.Seal(ctx, c.Tenant, ch.Key, &ev, body, []turns.ID{ch.Key})
		if err != nil {
			return nil, err
		}
		next, err := es.writer.Admit(ctx, es.reader.Projections.History(), ch.Subject, row.Tail.Seq, &ev, payload)
		var seq uint64
		if err == nil {
			seq, err = es.writer.AppendAdmitted(ctx, next)
		}
		switch {
		case err == nil:
			known.Seq = seq
			out := appended(ch, &ev, turns.HashEvent(payload), seq)
			es.announce(c, out)
			return out, nil
		case !errors.Is(err, ledger.ErrConflict):
			return nil, es.writer.InternalError(&ev, err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: the channel kept growing: %w", ledger.ErrUnavailable, ctx.Err())
		}
		es.writer.Metrics.Conflict()
	}
}

// check checks a request on its own.
func (es *Events) check(req *api.AppendEvent) error {
	if err := checkChannel(req.Channel); err != nil {
		return err
	}
	if req.Kind == "" {
		return api.FieldErrorf("/kind", "empty")
	}
	if err := turns.ValidateWord("/kind", req.Kind); err != nil {
		return err
	}
	if len(req.Body) == 0 {
		return api.FieldErrorf("/body", "missing: it takes any JSON value, null too")
	}
	if req.Meta != nil && req.Meta.Kind() != '{' {
		return api.FieldErrorf("/meta", "not a JSON object")
	}
	if err := page.CheckFit(es.page.TextBytes(), 0, page.FieldSize{Field: "/meta", Bytes: len(req.Meta)}); err != nil {
		return err
	}
	return page.CheckFit(es.page.BodyBytes(nil), 0, page.FieldSize{Field: "/body", Bytes: len(req.Body)})
}

// checkChannel checks the name of a channel.
func checkChannel(name string) error { return turns.ValidateLabel("/channel", name) }

// fold returns the channel at the last position that this daemon knows. If fresh is set, it
// first waits for the current end of the chain.
func (es *Events) fold(ctx context.Context, c reader.Caller, ch reader.Channel, known *writer.Chain, fresh bool) (ledger.Channel, error) {
	if fresh {
		row, err := es.reader.CatchUpChannel(ctx, c.Tenant, ch)
		if err == nil {
			known.Seq = row.Tail.Seq
		}
		return row, err
	}
	if err := es.reader.Projections.WaitFor(ctx, known.Seq); err != nil {
		return ledger.Channel{}, err
	}
	row, err := es.reader.Projections.Channel(c.Tenant, ch.Chain.ID)
	if err == nil && row.Tail.Seq < known.Seq { // set aside
		return es.reader.CatchUpChannel(ctx, c.Tenant, ch)
	}
	return row, err
}

// stored returns the answer to a request that is stored, nil if its id is new.
func (es *Events) stored(c reader.Caller, ch reader.Channel, id turns.ID, digest turns.Hash) (*api.AppendedEvent, error) {
	index, ok, err := es.reader.Projections.ReceivedIndex(c.Tenant, ch.Chain.ID, id)
	if err != nil || !ok {
		return nil, err
	}
	for at, err := range es.reader.Projections.ReceivedFrom(c.Tenant, ch.Chain.ID, index, false) {
		if err != nil {
			return nil, err
		}
		r, err := es.reader.Projections.Record(at.Seq)
		if err != nil {
			return nil, err
		}
		ev, err := turns.Decode(r.Payload)
		if err != nil {
			return nil, err
		}
		same, err := es.content.SameRequest(ev, digest)
		if err != nil {
			return nil, err
		}
		if !same {
			break
		}
		out := appended(ch, ev, r.Hash, r.Seq)
		out.Duplicate = true
		return out, nil
	}
	return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is stored with another request", id)}
}

// offload moves the content of a large body to a blob of the channel, durable on return.
func (es *Events) offload(ctx context.Context, c reader.Caller, ch reader.Channel, b *turns.ReceivedBody) error {
	if len(b.Body) <= es.page.InlineBytes() || b.Blob != nil {
		return nil
	}
	k, err := es.content.Tree(ch.Key)
	if err != nil {
		return err
	}
	raw := bytes.Clone(b.Body)
	digest, err := es.content.StoreBlob(ctx, c.Tenant, k, raw)
	if err != nil {
		return err
	}
	b.Body, b.Blob = nil, &turns.BlobRef{Digest: digest, Size: uint64(len(raw))}
	return nil
}

// appended returns the reply for a stored event.
func appended(ch reader.Channel, ev *turns.Event, hash turns.Hash, seq uint64) *api.AppendedEvent {
	return &api.AppendedEvent{ID: ev.ID, Channel: ch.Name, ChannelID: ch.Chain.ID, Index: ev.Index, Hash: hash, Position: page.FormatPosition(seq)}
}

// announce notifies the agent's subscribers of an event.
func (es *Events) announce(c reader.Caller, a *api.AppendedEvent) {
	if es.writer.Notify != nil {
		es.writer.Notify(c.Tenant, c.Agent, api.Notification{Kind: "event.appended", Channel: a.Channel, ChannelID: a.ChannelID, Event: a.ID, Position: a.Position})
	}
}
