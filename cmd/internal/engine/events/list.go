package events

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// maxTurns bounds the turns that event.get names.
const maxTurns = 100

// maxNamed bounds the events of a channel in which its name is looked for: all but the newest
// one matter only where events were erased.
const maxNamed = 100

// maxScanned bounds the events that a page of event.list looks at.
const maxScanned = 1000

// find returns the channel that a read names, and its fold. Only after the projections have
// applied the end of the channel is a negative answer true, or one about its end.
func (es *Events) find(ctx context.Context, c reader.Caller, name string, r api.Read) (ch reader.Channel, row ledger.Channel, err error) {
	if err := checkChannel(name); err != nil {
		return ch, row, err
	}
	if c.Operator() {
		return ch, row, &api.Error{Code: api.Unprocessable, Message: "a channel belongs to an agent; name the agent"}
	}
	if err := es.reader.WaitPosition(ctx, r); err != nil {
		return ch, row, err
	}
	if ch, err = es.reader.ChannelOf(c.Tenant, c.Agent, name); err != nil {
		return ch, row, err
	}
	if r.StaleOK {
		row, err = es.reader.Projections.Channel(c.Tenant, ch.Chain.ID)
	} else {
		row, err = es.reader.CatchUpChannel(ctx, c.Tenant, ch)
	}
	if err == nil && row.Count == 0 {
		err = &api.Error{Code: api.NotFound, Message: fmt.Sprintf("agent %s has no channel %q", c.Agent, name)}
	}
	return ch, row, err
}

// GetEvent serves event.get.
func (es *Events) GetEvent(ctx context.Context, c reader.Caller, req api.GetEvent) (*api.Event, error) {
	if req.ID.IsZero() {
		return nil, api.FieldErrorf("/id", "missing: name an event")
	}
	ch, _, err := es.find(ctx, c, req.Channel, req.Read)
	if err != nil {
		return nil, err
	}
	index, ok, err := es.reader.Projections.ReceivedIndex(c.Tenant, ch.Chain.ID, req.ID)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &api.Error{Code: api.NotFound, Message: fmt.Sprintf("no event %s on channel %q", req.ID, req.Channel)}
	}
	for at, err := range es.reader.Projections.ReceivedFrom(c.Tenant, ch.Chain.ID, index, false) {
		if err != nil {
			return nil, err
		}
		out, _, err := es.describe(at.Seq, req.Raw)
		if err != nil {
			return nil, err
		}
		if out.Ref != nil {
			body := &turns.ReceivedBody{Blob: out.Ref}
			if out.Body, err = es.reader.ReceivedContent(ctx, c.Tenant, ch.Key, body, false); err != nil {
				return nil, err
			}
		}
		refs, err := es.reader.Projections.TurnsOf(c.Tenant, ch.Chain.ID, req.ID, maxTurns)
		for _, r := range refs {
			out.Turns = append(out.Turns, api.EventTurn{Session: r.Session, Turn: r.Turn})
		}
		return out, err
	}
	return nil, fmt.Errorf("%w: the projections lack event %s of channel %s", ledger.ErrCorrupt, req.ID, ch.Chain.ID)
}

// describe returns the event at a position as the contract shows it. If the body can't be
// read, what the header says comes with the error.
func (es *Events) describe(seq uint64, raw bool) (out *api.Event, at int64, err error) {
	r, ev, body, err := es.reader.ReceivedAt(seq)
	if ev == nil {
		return nil, 0, err
	}
	out = &api.Event{ID: ev.ID, Index: ev.Index, Recorded: api.UnixTime(ev.Recorded), Hash: r.Hash, PrevHash: ev.Prev, Position: page.FormatPosition(seq)}
	at = ev.Recorded
	if ev.Claimed != 0 {
		t := api.UnixTime(ev.Claimed)
		out.Time, at = &t, ev.Claimed
	}
	if raw {
		out.Payload = r.Payload
	}
	if err == nil {
		out.Channel, out.Kind, out.Body, out.Ref, out.Meta = body.Channel, body.Kind, body.Body, body.Blob, body.Meta
	}
	return out, at, err
}

// ListEvents serves event.list. A page holds about [page.Limits.PageBytes], and looks at
// maxScanned events at most.
func (es *Events) ListEvents(ctx context.Context, c reader.Caller, req api.ListEvents) (*api.EventList, error) {
	limit, err := req.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	span, err := spanOf(req)
	if err != nil {
		return nil, err
	}
	desc := req.Order == "desc"
	if !desc && req.Order != "" && req.Order != "asc" {
		return nil, api.FieldErrorf("/order", "%.40q is not one of asc, desc", req.Order)
	}
	if req.Kind != "" {
		if err := turns.ValidateWord("/kind", req.Kind); err != nil {
			return nil, err
		}
	}
	ch, row, err := es.find(ctx, c, req.Channel, req.Read)
	if err != nil {
		return nil, err
	}
	out := &api.EventList{Channel: req.Channel, ChannelID: ch.Chain.ID, Events: []api.Event{}}
	from, ok, err := es.start(c, ch, row, req.After, desc)
	if err != nil || !ok {
		return out, err
	}
	size, scanned, last := 0, 0, uint64(0)
	for at, err := range es.reader.Projections.ReceivedFrom(c.Tenant, ch.Chain.ID, from, desc) {
		if err != nil {
			return nil, err
		}
		if !desc && at.Index >= row.Count {
			break // appended since; the next page or a later call lists it
		}
		if len(out.Events) >= limit || scanned >= maxScanned {
			out.Next = strconv.FormatUint(last, 10)
			break
		}
		v, when, err := es.describe(at.Seq, req.Raw)
		if v == nil {
			return nil, err
		}
		matches := span.has(when) && (req.Kind == "" || v.Kind == req.Kind)
		if err != nil { // its kind is sealed, too
			v.Channel = req.Channel
			v.Error, v.MissingKey = reader.WhyUnreadable(err)
			matches = span.has(when) && req.Kind == ""
		}
		if matches {
			n, err := page.EncodedSize(v)
			if err != nil {
				return nil, err
			}
			if n > es.page.ItemBytes() {
				v.Body, v.Meta, v.Payload, v.Error, n = nil, nil, nil, api.TooLarge, page.OutlineBytes
			}
			if len(out.Events) > 0 && size+n > es.page.PageBytes() {
				out.Next = strconv.FormatUint(last, 10)
				break
			}
			out.Events, size = append(out.Events, *v), size+n
		}
		last = at.Index
		scanned++
	}
	return out, nil
}

// start returns the ordinal at which a page begins. ok is false if nothing is after it.
func (es *Events) start(c reader.Caller, ch reader.Channel, row ledger.Channel, after string, desc bool) (from uint64, ok bool, err error) {
	if after == "" {
		if desc {
			return row.Count - 1, true, nil
		}
		return 0, true, nil
	}
	index, err := strconv.ParseUint(after, 10, 64)
	known := err == nil
	if id, err := turns.ParseID(after); err == nil {
		if index, known, err = es.reader.Projections.ReceivedIndex(c.Tenant, ch.Chain.ID, id); err != nil {
			return 0, false, err
		}
	}
	switch {
	case !known || index >= row.Count:
		return 0, false, api.FieldErrorf("/after", "neither an event of the channel nor what a page gave as next")
	case desc:
		return index - 1, index > 0, nil
	}
	return index + 1, index+1 < row.Count, nil
}

// span is a stretch of time, in ns since 1970: [from, to); a zero end is open.
type span struct{ from, to int64 }

func (s span) has(ns int64) bool { return (s.from == 0 || ns >= s.from) && (s.to == 0 || ns < s.to) }

func spanOf(req api.ListEvents) (s span, err error) {
	for _, f := range []struct {
		name string
		from *api.Time
		to   *int64
	}{{"/from", req.From, &s.from}, {"/to", req.To, &s.to}} {
		if f.from == nil {
			continue
		}
		ns, ok := f.from.UnixNano()
		if !ok {
			return s, api.FieldErrorf(f.name, "before 1678, after 2261 or 1970-01-01T00:00:00Z, which no event can have")
		}
		*f.to = ns
	}
	return s, nil
}

// ListChannels serves event.channels: the channels of the agent, or of all agents for the
// operator.
func (es *Events) ListChannels(ctx context.Context, c reader.Caller, req api.ListChannels) (*api.ChannelList, error) {
	limit, err := req.LimitOf(100, 1000)
	if err != nil {
		return nil, err
	}
	if err := es.reader.WaitLog(ctx, req.Read); err != nil {
		return nil, err
	}
	agent := c.Agent
	if c.Operator() {
		agent = ""
	}
	if req.After != "" {
		if row, err := es.reader.Projections.Channel(c.Tenant, req.After); err != nil || row.Count == 0 || agent != "" && row.Agent != agent {
			return nil, api.FieldErrorf("/after", "neither the id of a channel nor what a page gave as next")
		}
	}
	out, size := &api.ChannelList{Channels: []api.Channel{}}, 0
	for ch, err := range es.reader.Projections.Channels(c.Tenant, agent, req.After) {
		if err != nil {
			return nil, err
		}
		if len(out.Channels) >= limit || size > es.page.PageBytes() {
			out.Next = out.Channels[len(out.Channels)-1].ID
			break
		}
		v := api.Channel{ID: ch.ID, Agent: ch.Agent, Count: ch.Count, Updated: api.UnixTime(ch.Updated), Hash: ch.Tail.Hash, Position: page.FormatPosition(ch.Tail.Seq)}
		if v.Channel, err = es.nameOf(c.Tenant, ch.ID, ch.Count); err != nil {
			v.Error, v.MissingKey = reader.WhyUnreadable(err)
		}
		n, err := page.EncodedSize(v)
		if err != nil {
			return nil, err
		}
		out.Channels, size = append(out.Channels, v), size+n
	}
	return out, nil
}

// nameOf returns the name of a channel, which is in the body of each of its events: by the
// newest of maxNamed that can be read. Errors: why the newest can't be read, if none can.
func (es *Events) nameOf(tenant, channel string, count uint64) (string, error) {
	var newest error
	for at, err := range es.reader.Projections.ReceivedFrom(tenant, channel, count-1, true) {
		if err != nil {
			return "", err
		}
		_, _, body, err := es.reader.ReceivedAt(at.Seq)
		if err == nil {
			return body.Channel, nil
		}
		if newest == nil {
			newest = err
		}
		if !errors.Is(err, turns.ErrErased) || count-at.Index >= maxNamed {
			break
		}
	}
	return "", newest
}
