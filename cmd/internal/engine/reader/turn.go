package reader

import (
	"context"
	"fmt"
	"slices"

	"nexus/cmd/internal/engine/page"
	"nexus/ledger/api"
	"nexus/projections/rows"
	"nexus/turns"
)

// GetTurn is turn.get. It finds own turns on any branch, and inherited turns.
func (rd *Reader) GetTurn(ctx context.Context, c Caller, session turns.ID, req api.GetTurn) (*api.Turn, error) {
	if err := rd.WaitPosition(ctx, req.Read); err != nil {
		return nil, err
	}
	if req.ID.IsZero() {
		return nil, api.FieldErrorf("/id", "missing: name a turn")
	}
	n, err := rd.LocateTurn(ctx, c, session, req.ID, req.Read)
	if err != nil {
		out, ok, lerr := rd.turnAfterLoss(err, req.ID)
		if ok || lerr != nil {
			return out, lerr
		}
		return nil, err
	}
	t, ev, err := rd.TurnEvent(n.Ref)
	if err != nil {
		return nil, err
	}
	out, err := rd.describeTurn(t, ev, true)
	if err != nil {
		return out, err
	}
	rd.addPreamble(ctx, t, out)
	s, err := rd.Projections.Session(session)
	if err != nil {
		return nil, err
	}
	return out, rd.AddNote(&s, out)
}

// addPreamble fills in the digests of the system part and the tools in force at a turn. A turn whose settings can't be read, since
// their key is gone, has none.
func (rd *Reader) addPreamble(ctx context.Context, t rows.Turn, out *api.Turn) {
	s, err := rd.Projections.Session(t.Ref.Session)
	if err != nil || t.Index == 0 {
		return
	}
	_, set, err := rd.SettingsAt(ctx, &s, t.Index-1)
	if err != nil {
		return
	}
	out.System, out.Tools, _ = rd.content.PreambleDigests(set.Preamble)
}

// TurnEvent returns the row and the event of a turn.
func (rd *Reader) TurnEvent(ref turns.Ref) (rows.Turn, *turns.Event, error) {
	t, err := rd.Projections.Turn(ref)
	if err != nil {
		return t, nil, err
	}
	payload, err := rd.Projections.Payload(t)
	if err != nil {
		return t, nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return t, nil, fmt.Errorf("turn %s: %w", ref, err)
	}
	return t, ev, nil
}

// describeTurn returns a turn as the contract shows it. If the body can't be read,
// it returns the description that follows from the header, with the error.
func (rd *Reader) describeTurn(t rows.Turn, ev *turns.Event, full bool) (*api.Turn, error) {
	has, err := rd.Projections.HasChildren(t.Ref)
	if err != nil {
		return nil, err
	}
	out := &api.Turn{
		ID: ev.ID, Session: t.Ref.Session, Type: "normal", Depth: ev.Depth, Recorded: api.UnixTime(ev.Recorded),
		Usage: ev.Usage, TokenCount: ev.Tokens.Messages + ev.Tokens.Response, ToolCalls: ev.Calls, OpenCalls: ev.Open,
		HasChildren: has, Hash: t.Hash, PrevHash: ev.Prev, Position: page.FormatPosition(t.Seq),
	}
	if !ev.Parent.IsZero() {
		out.Parent = &ev.Parent.Turn
		if ev.Parent.Session != t.Ref.Session {
			out.ParentSession = ev.Parent.Session
		}
	}
	if ev.Claimed != 0 {
		at := api.UnixTime(ev.Claimed)
		out.Time = &at
	}
	_, redaction, err := rd.content.Redaction(ev)
	if err == nil && redaction != nil {
		out.Redacted = redaction.Taken()
	}
	if ev.Kind == turns.KindCompaction {
		out.Type, out.TokenCount = "compaction", ev.Tokens.Messages // Tokens.Response is what its elisions save
		var k *turns.CompactionBody
		if full || err != nil || redaction != nil {
			k = new(turns.CompactionBody)
			err = rd.content.Open(ev, k)
		} else {
			k, err = rd.compactionOutline(t.Hash, ev)
		}
		if err != nil {
			return out, err
		}
		rd.fillCompaction(out, ev, k, full)
		return out, nil
	}
	out.Pending = !ev.Halves.Has(turns.ResponseHalf)
	var b turns.TurnBody
	if err := rd.content.Open(ev, &b); err != nil {
		return out, err
	}
	out.Model, out.Meta = b.Model, b.Meta
	if b.Context != nil {
		out.Context = &api.ContextUsed{Recipe: b.Context.Recipe, Fingerprint: b.Context.Fingerprint}
	}
	if full {
		addContentTypes(b.Messages)
		if b.Response != nil {
			addContentTypes([]turns.Message{*b.Response})
		}
		out.Messages, out.Response = b.Messages, b.Response
		if out.Messages == nil {
			out.Messages = []turns.Message{}
		}
	}
	return out, nil
}

// addContentTypes says of content that is in a blob what it is, where its ref does not. The type of a part tells.
func addContentTypes(ms []turns.Message) {
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			if p.Ref == nil || p.Ref.MimeType != "" {
				continue
			}
			switch p.Type {
			case turns.Text, turns.Reasoning:
				p.Ref.MimeType = "text/plain"
			case turns.ToolCall, turns.ToolCallResponse:
				p.Ref.MimeType = "application/json"
			}
		}
	}
}

// DescribeListedTurn returns a turn as a list shows it, and its bytes of JSON. A
// turn that can't be read, or that no reply could hold, comes as its header with an
// error code, so that it does not stop the list.
func (rd *Reader) DescribeListedTurn(t rows.Turn, ev *turns.Event, full bool) (*api.Turn, int, error) {
	v, err := rd.describeTurn(t, ev, full)
	if v == nil {
		return nil, 0, err
	}
	if err != nil {
		v.Error, v.MissingKey = WhyUnreadable(err)
	}
	n, err := page.EncodedSize(v)
	if err != nil {
		return nil, 0, err
	}
	if n > rd.page.ItemBytes() {
		v.Messages, v.Response, v.Meta, v.Context, v.Compaction = nil, nil, nil, nil, nil
		v.Error, n = api.TooLarge, page.OutlineBytes
	}
	return v, n, nil
}

// DescribeWhole returns a turn as the contract shows it, whatever its size. A turn
// that can't be read comes as its header with an error code.
func (rd *Reader) DescribeWhole(t rows.Turn, ev *turns.Event) (*api.Turn, error) {
	v, err := rd.describeTurn(t, ev, true)
	if v == nil {
		return nil, err
	}
	if err != nil {
		v.Error, v.MissingKey = WhyUnreadable(err)
	}
	return v, nil
}

// compactionOutline returns the body of a compaction that nothing was taken out of, without its texts: the summary is
// most of it, and a page of a session lists twenty. hash is that of the event. Callers share what is returned.
func (rd *Reader) compactionOutline(hash turns.Hash, ev *turns.Event) (*turns.CompactionBody, error) {
	epoch := rd.outlines.Epoch() // before a key is read
	isGone := func(id turns.ID) bool { _, err := rd.content.Key(id); return err != nil }
	if b, ok := rd.outlines.Get(hash); ok && !slices.ContainsFunc(ev.Keys, isGone) {
		return b, nil
	}
	b := new(turns.CompactionBody)
	if err := rd.content.Open(ev, b); err != nil {
		return nil, err
	}
	b.Replacement, b.Nudge, b.Summary, b.Memories = nil, nil, "", nil
	b.Policy.Set, b.Survival, b.Meta, b.Trigger.Detail = slices.Clone(b.Policy.Set), slices.Clone(b.Survival), slices.Clone(b.Meta), slices.Clone(b.Trigger.Detail) // they may be slices of the body
	const frame, part = 1 << 10, 64
	size := frame + len(b.Policy.Set) + len(b.Survival) + len(b.Meta) + len(b.Trigger.Detail) + len(b.Focus) + part*len(b.Elided)
	for i := range b.Elided {
		b.Elided[i].Show = ""
		size += len(b.Elided[i].Tool)
	}
	rd.outlines.PutIn(epoch, hash, b, size)
	return b, nil
}

// fillCompaction fills in the description of a compaction whose body is b.
func (rd *Reader) fillCompaction(out *api.Turn, ev *turns.Event, b *turns.CompactionBody, full bool) {
	s := ev.Span
	opt := func(r turns.Ref) *turns.ID {
		if r.IsZero() {
			return nil
		}
		return &r.Turn
	}
	out.Meta = b.Meta
	scope := "lineage"
	if s.Call {
		scope = "call"
	}
	k := &api.Compaction{
		Policy: b.Policy.Name, PolicyDigest: b.Policy.Digest, Trigger: b.Trigger, Mode: b.Mode, Tier: b.Tier, Model: b.Model,
		Provenance: s.Provenance.String(), Scope: scope, Through: opt(s.Through), FirstKept: opt(s.FirstKept), Split: s.Split,
		SawThrough: opt(s.SawThrough), Dropped: s.Dropped, Covered: s.Covered, TokensBefore: b.TokensBefore,
		TokensAfter: b.TokensAfter, Survival: b.Survival, Usage: ev.Usage, CostMicros: b.CostMicros, Cost: float64(b.CostMicros) / 1e6, Focus: b.Focus,
		FromOriginals: b.FromOriginals, Flush: b.Flush, DurationMS: b.DurationMS,
	}
	k.Elided = uint64(len(s.Elisions))
	const elisionBytes = 192 // bound on the JSON of one elision
	for i, el := range s.Elisions[:min(len(s.Elisions), rd.page.TextBytes()/elisionBytes)] {
		x := api.Elision{Turn: el.Turn.Turn, Half: el.Half.String(), Message: el.Message, Part: el.Part}
		if i < len(b.Elided) {
			x.Method, x.Before, x.After, x.Tool = b.Elided[i].Method, b.Elided[i].Before, b.Elided[i].After, b.Elided[i].Tool
			if x.Before > x.After {
				x.Reduction = float64(x.Before-x.After) / float64(x.Before)
			}
		}
		k.Elisions = append(k.Elisions, x)
	}
	if full {
		if k.Memories = b.Memories; k.Memories == nil {
			k.Memories = turns.Raw("[]")
		}
		addContentTypes(b.Replacement)
		addContentTypes(b.Nudge)
		k.Replacement, k.Nudge = b.Replacement, b.Nudge
		if b.Summary != "" {
			summary := page.ClipJSON(b.Summary, rd.page.SummaryBytes())
			k.Summary = &summary
		}
	}
	out.Compaction = k
}
