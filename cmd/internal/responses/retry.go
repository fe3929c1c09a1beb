package responses

import (
	"context"
	"net/http"

	"nexus/ledger/api"
	"nexus/turns"
)

// keysChannel holds what the keys of an agent stand for.
const keysChannel = "responses.keys"

type keyClaim struct {
	Digest string `json:"digest"`
}

// claimed says in the ledger what the key stands for, and returns the response that it has
// already, if any.
func (b *beginning) claimed(ctx context.Context) (*flight, error) {
	text := b.request.digest + "\x00" + b.request.Session
	if b.request.InputMode != "" {
		text += "\x00" + b.request.InputMode
	}
	digest := hashOf([]byte(text))
	b.request.digest = digest
	a, err := b.client.AppendEvent(ctx, api.AppendEvent{ID: b.ids.claim, Channel: keysChannel, Kind: "responses.key", Body: encode(keyClaim{digest})})
	if ofCode(err, api.IDReused) {
		return nil, &Error{Status: http.StatusBadRequest, Type: invalidRequest, Code: codeKeyReused, Param: "Idempotency-Key", Final: true,
			Message: "Another request was sent with this Idempotency-Key."}
	}
	if err != nil || !a.Duplicate {
		return nil, err
	}
	candidates := []turns.ID{b.ids.session, b.ids.fork}
	if b.request.PreviousResponseID != nil {
		// The turn may be stored, and the response before it deleted since: only a request
		// that is not stored yet needs that one.
		if ref, ok := parseResponseID(*b.request.PreviousResponseID); ok {
			candidates[0] = ref.Session
		}
	} else if err := b.target(ctx); err != nil {
		return nil, err
	} else if !b.session.IsZero() {
		candidates[0] = b.session
	}
	for _, s := range candidates {
		t, err := b.client.Turn(ctx, s, b.ids.turn)
		if ofCode(err, api.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return b.retry(ctx, t)
	}
	return nil, nil
}

// retry returns the response of a request that is stored already: the one under way, the
// stored answer, or a new answer where the first was lost.
func (b *beginning) retry(ctx context.Context, t *api.Turn) (*flight, error) {
	ref := turns.Ref{Session: t.Session, Turn: t.ID}
	id := responseID(ref)
	if f := b.door.flight(id); f != nil {
		f.join()
		return f, nil
	}
	v, err := b.door.load(ctx, b.client, id, loadAny)
	if err != nil {
		return nil, err
	}
	if v.answer != nil || v.status() == cancelled {
		return b.door.finished(ownerOf(b.caller), v)
	}
	// The answer was lost, or the model's provider failed: it is asked again. No other request
	// of the session takes the turn for one without an answer meanwhile.
	if b.unlock, err = b.door.lock(ctx, t.Session); err != nil {
		b.unlock = func() {}
		return nil, err
	}
	if err := b.returnTo(ctx, t); err != nil {
		return nil, err
	}
	release, err := b.door.admit(b.caller)
	if err != nil {
		return nil, err
	}
	return b.request.launched(release, func() (*flight, error) {
		return b.prepare(ctx, t.ID, t.Session, t.Depth, v.meta, v.lost())
	})
}

// returnTo makes the turn of a request the head of its session again, or the compaction that
// was made for it.
func (b *beginning) returnTo(ctx context.Context, t *api.Turn) error {
	s, err := b.client.Session(ctx, t.Session)
	if err != nil {
		return err
	}
	if s.Head != nil {
		if under, err := normalAt(ctx, b.client, t.Session, *s.Head); err != nil || under != nil && under.ID == t.ID {
			return err
		}
	}
	if to := before(t); s.Head == nil && to == nil || s.Head != nil && to != nil && *s.Head == *to {
		m := api.MoveSession{To: &t.ID, Note: "asked again"}
		made, err := b.compactionOf(ctx, turns.Ref{Session: t.Session, Turn: t.ID})
		if err != nil {
			return err
		}
		if made != nil {
			m.To = &made.ID
		}
		if s.Head != nil {
			m.IfHead = *s.Head
		}
		_, err = b.client.Move(ctx, t.Session, m)
		return err
	}
	return &Error{Status: http.StatusConflict, Type: invalidRequest, Code: "conflict", Final: true,
		Message: "The answer was lost, and the session went on without it. Send the request without this Idempotency-Key."}
}
