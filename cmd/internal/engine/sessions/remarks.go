package sessions

import (
	"context"
	"slices"
	"strings"

	"nexus/cmd/internal/engine/page"
	"nexus/cmd/internal/engine/reader"
	"nexus/cmd/internal/engine/request"
	"nexus/cmd/internal/engine/writer"
	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/turns"
)

// Remarks are what a person says of a session: that lists leave it out, what it is called, a
// note on a turn. No context shows them, and a session that was closed or reset takes them too.

// beginRemark returns a new event for a session that is not erased. See [writer.Writer.BeginEvent].
func (ss *Sessions) beginRemark(s *ledger.Session, r writer.Request, k turns.Kind) (*turns.Event, bool, error) {
	if s.State == turns.Erased {
		return nil, false, writer.CheckOpen(s)
	}
	open := *s
	open.State = turns.Open
	return ss.writer.BeginEvent(&open, r, k)
}

// Hide is session.hide and, with hidden false, session.unhide.
func (ss *Sessions) Hide(ctx context.Context, c reader.Caller, id turns.ID, hidden bool, req api.HideSession, canonical []byte) (*api.Session, error) {
	if err := page.CheckText("/cause", req.Cause, ss.page.TextBytes()); err != nil {
		return nil, err
	}
	r := writer.Request{ID: req.ID, Verb: "session.hide", Canonical: canonical}
	if !hidden {
		r.Verb = "session.unhide"
	}
	err := ss.writer.Mutate(request.Ending(ctx), c, id, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.beginRemark(s, r, turns.KindHidden)
		if done || err != nil {
			return nil, err
		}
		if s.Hidden == hidden && req.ID.IsZero() {
			return nil, writer.ErrUnchanged
		}
		ev.Hidden = hidden
		return &writer.Draft{Event: ev, Body: &turns.HiddenBody{Cause: req.Cause}}, nil
	})
	return ss.sessionAfter(ctx, c, id, err)
}

// Describe is session.describe. It changes what req names.
func (ss *Sessions) Describe(ctx context.Context, c reader.Caller, id turns.ID, req api.DescribeSession, canonical []byte) (*api.Session, error) {
	r := writer.Request{ID: req.ID, Verb: "session.describe", Canonical: canonical}
	err := ss.writer.Mutate(request.Ending(ctx), c, id, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.beginRemark(s, r, turns.KindDescribed)
		if done || err != nil {
			return nil, err
		}
		was, err := ss.reader.Description(s)
		if err != nil {
			return nil, err
		}
		d := was
		if req.Title != nil {
			d.Title = strings.Join(strings.Fields(*req.Title), " ")
		}
		if req.Project != nil {
			d.Project = *req.Project
		}
		if req.Tags != nil {
			d.Tags = slices.Clone(*req.Tags)
		}
		d.Tags = slices.DeleteFunc(append(slices.Clone(d.Tags), req.Tag...), func(tag string) bool { return slices.Contains(req.Untag, tag) })
		slices.Sort(d.Tags)
		if d.Tags = slices.Compact(d.Tags); len(d.Tags) == 0 {
			d.Tags = nil
		}
		if err := turns.ValidateDescription(&d); err != nil {
			return nil, err
		}
		if d.Title == was.Title && d.Project == was.Project && slices.Equal(d.Tags, was.Tags) && req.ID.IsZero() {
			return nil, writer.ErrUnchanged
		}
		return &writer.Draft{Event: ev, Body: &d}, nil
	})
	return ss.sessionAfter(ctx, c, id, err)
}

// Note is turn.note. It puts a note in place of the one that the session has on a turn; an empty
// text takes it back.
func (ss *Sessions) Note(ctx context.Context, c reader.Caller, id turns.ID, req api.NoteTurn, canonical []byte) (*api.Turn, error) {
	if err := page.CheckText("/text", req.Text, ss.page.TextBytes()); err != nil {
		return nil, err
	}
	if req.Turn.IsZero() {
		return nil, api.FieldErrorf("/turn", "missing: name a turn")
	}
	r, stored := writer.Request{ID: req.ID, Verb: "turn.note", Canonical: canonical}, api.Read{}
	err := ss.writer.Mutate(request.Ending(ctx), c, id, func(_ *writer.Chain, s *ledger.Session) (*writer.Draft, error) {
		ev, done, err := ss.beginRemark(s, r, turns.KindNoted)
		if done || err != nil {
			return nil, err
		}
		t, err := ss.reader.FindTurn(s, req.Turn)
		if err != nil {
			return nil, err
		}
		ev.To = t.Ref
		return &writer.Draft{Event: ev, Body: &turns.NotedBody{Text: req.Text}, After: func(seq uint64, _ turns.Hash) { stored.MinPosition = api.Position(page.FormatPosition(seq)) }}, nil
	})
	if err != nil {
		return nil, err
	}
	out, err := ss.reader.GetTurn(ctx, c, id, api.GetTurn{ID: req.Turn, Read: stored}) // a turn never changes, so its reading waits for nothing else
	return out, writer.AfterCommit(err)
}
