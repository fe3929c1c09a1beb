package reader

import (
	"nexus/cmd/internal/engine/content"
	"nexus/turns"
)

// redacted returns the newest redacted event for an event of a session, nil if there is none.
func (rd *Reader) redacted(session, event turns.ID) (*turns.Event, error) {
	index, ok, err := rd.Projections.RedactedBy(session, event)
	if err != nil || !ok {
		return nil, err
	}
	payload, err := rd.Projections.EventAt(session, index)
	if err != nil {
		return nil, err
	}
	return turns.Decode(payload)
}

// CheckRedacted checks the body of a redacted event against the header of the event that it is for, which its session has, and returns
// what stands in the place of that one's body. Errors: those of [content.CheckRedacted].
func (rd *Reader) CheckRedacted(ev *turns.Event, b *turns.RedactedBody) (any, error) {
	index, err := rd.Projections.Index(ev.To.Session, ev.To.Turn)
	if err != nil {
		return nil, err
	}
	payload, err := rd.Projections.EventAt(ev.To.Session, index)
	if err != nil {
		return nil, err
	}
	of, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	return content.CheckRedacted(ev, b, of)
}
