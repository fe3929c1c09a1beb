package transcripts

import (
	"context"

	"nexus/cmd/internal/transcripts/alike"
	"nexus/ledger/api"
	"nexus/turns"
	"nexus/turns/transcript"
)

// A source whose turns have the same ids in all files says a turn more than once: as the
// call that made it, and in the history of later calls, where it has no usage and no time.
// What such a copy is silent about contradicts nothing.

// copyOf returns the turn id of a session if it says the same as a, but for what one of them
// does not state.
func (im *Importer) copyOf(ctx context.Context, session, id turns.ID, a *transcript.Append) (t *api.Turn, ok bool) {
	t, err := im.Client.Turn(ctx, session, id)
	if err != nil || im.fetchContent(ctx, session, t) != nil {
		return nil, false
	}
	return t, alike.IsCopy(t, a)
}

// fetchContent puts the content of a turn's large parts in its place.
func (im *Importer) fetchContent(ctx context.Context, session turns.ID, t *api.Turn) error {
	messages := t.Messages
	if t.Response != nil {
		messages = append(messages[:len(messages):len(messages)], *t.Response)
	}
	for _, m := range messages {
		for i := range m.Parts {
			p := &m.Parts[i]
			if p.Ref == nil {
				continue
			}
			b, err := im.Client.Content(ctx, session, p.Ref)
			if err != nil {
				return err
			}
			p.SetContent(b)
		}
	}
	return nil
}

// noteLateUsage puts the usage of a call whose turn was stored without it, from a history,
// into the session's meta, where cost finds it.
func (im *Importer) noteLateUsage(ctx context.Context, t *api.Turn, a *transcript.Append, rep *Report) error {
	if t.Usage != nil || a.Usage == nil {
		return nil
	}
	s, err := im.Client.Session(ctx, t.Session)
	if err != nil {
		return err
	}
	late := turns.LateUsages(s.Meta)
	if _, had := late[t.ID]; had {
		return nil
	}
	if len(late) >= maxLateUsages || s.State != "open" {
		rep.AddUncounted(a.ID, *a.Usage)
		return nil
	}
	if late == nil {
		late = make(map[turns.ID]turns.LateUsage)
	}
	u := turns.LateUsage{Model: a.Model, Usage: *a.Usage}
	if at := alike.StoredTime(a.Time); !at.IsZero() && turns.TimeBoundOf(a.Meta) == "" {
		u.Time = at
	}
	late[t.ID] = u
	b, err := turns.EncodeJSON(late)
	if err != nil {
		return err
	}
	if err := im.setMeta(ctx, s, "late usage", map[string]turns.Raw{"late_usage": b}); err != nil {
		return err
	}
	rep.Stored++
	return nil
}

// maxLateUsages bounds the usages in the meta of one session, which has a greatest size.
const maxLateUsages = 200
