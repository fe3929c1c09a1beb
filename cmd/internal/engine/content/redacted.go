package content

import (
	"errors"
	"fmt"
	"sync/atomic"

	"nexus/ledger"
	"nexus/turns"
	"nexus/turns/seal"
)

// redactions is what a [Store] knows of events whose bodies are in other events.
type redactions struct {
	find func(session, event turns.ID) (*turns.Event, error)
	none atomic.Bool // the ledger has none

	stored atomic.Uint64 // counts what may have changed it
}

// FindRedacted sets what finds the newest redacted event for an event of a session's chain, nil if there is none.
func (cs *Store) FindRedacted(find func(session, event turns.ID) (*turns.Event, error)) {
	cs.redactions.find = find
}

// NoRedactions says whether the ledger has no redacted event, so that nobody needs to look for one.
func (cs *Store) NoRedactions(none bool) {
	cs.redactions.none.Store(none)
	cs.redactions.stored.Add(1)
}

// Redactions is another number after each redaction; 0: there is none.
func (cs *Store) Redactions() uint64 {
	if cs.redactions.none.Load() {
		return 0
	}
	return cs.redactions.stored.Load() + 1
}

// Redaction returns the redacted event whose body an event of a session has in the place of its own, and that body; nil, nil
// if it has its own. Errors: those of [Store.Open].
func (cs *Store) Redaction(ev *turns.Event) (*turns.Event, *turns.RedactedBody, error) {
	session, ok := ev.Chain.Session()
	if !ok || len(ev.Keys) == 0 || ev.Kind == turns.KindRedacted || cs.redactions.find == nil || cs.redactions.none.Load() {
		return nil, nil, nil
	}
	by, err := cs.redactions.find(session, ev.ID)
	if by == nil || err != nil {
		return nil, nil, err
	}
	b := new(turns.RedactedBody)
	if err := OpenBody(cs.OpeningKeyring(), by, b); err != nil {
		return nil, nil, err
	}
	if b.Kind != ev.Kind {
		return nil, nil, fmt.Errorf("%w: event %s is redacted by %s with a body of kind %s", ledger.ErrCorrupt, ev.ID, by.ID, b.Kind)
	}
	return by, b, nil
}

// Redact is the body of a redacted event that puts after, an encoded body, in the place of that of ev, which is was now; nil: its own.
// Errors: those of [seal.Redact].
func (cs *Store) Redact(ev *turns.Event, was *turns.RedactedBody, after []byte) (*turns.RedactedBody, error) {
	return seal.Redact(ev, cs.OpeningKeyring(), was, after)
}

// CheckRedacted checks the body of by, a redacted event for ev: that what stays is what ev's header commits to, that it is
// a body of ev's kind with as many calls, and that by links to its blobs. It returns that body.
// Errors: those of [CheckBody].
func CheckRedacted(by *turns.Event, b *turns.RedactedBody, ev *turns.Event) (body any, err error) {
	if err := b.Check(ev); err != nil {
		return nil, err
	}
	if body, err = NewBody(ev.Kind); err != nil {
		return nil, err
	}
	if err := decodeBody(ev, b.Body, body); err != nil {
		return nil, err
	}
	if err := turns.CheckBody(body); err != nil {
		return nil, fmt.Errorf("%w: what is in the place of the body of %s %s: %v", ledger.ErrCorrupt, ev.Kind, ev.ID, err)
	}
	if t, ok := body.(*turns.TurnBody); ok {
		halves, calls := shape(t)
		if halves != ev.Halves || calls != ev.Calls {
			return nil, fmt.Errorf("%w: what is in the place of the body of turn %s has halves %d and %d calls, its header says %d and %d", ledger.ErrCorrupt, ev.ID, halves, calls, ev.Halves, ev.Calls)
		}
	}
	links := linksOf(by)
	if set := settingsOf(body); set != nil {
		err = checkPreambleBlob(links, set)
	}
	return body, errors.Join(err, checkRefs(links, body))
}

// RedactedContent returns what stands in the place of the body of the event that b redacts.
func RedactedContent(b *turns.RedactedBody) (any, error) {
	body, err := NewBody(b.Kind)
	if err == nil {
		err = turns.DecodeBody(b.Body, body)
	}
	return body, err
}

// shape is what the header of a turn says of its body.
func shape(b *turns.TurnBody) (halves turns.Halves, calls uint64) {
	if len(b.Messages) > 0 {
		halves |= turns.Halves(turns.MessagesHalf)
	}
	if b.Response != nil {
		halves |= turns.Halves(turns.ResponseHalf)
		calls = uint64(len(b.Response.Calls(nil)))
	}
	return halves, calls
}
