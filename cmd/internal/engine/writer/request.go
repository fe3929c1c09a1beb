package writer

import (
	"errors"
	"fmt"

	"nexus/ledger"
	"nexus/ledger/api"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/seal"
)

// CheckParent checks that a turn with the given parent continues the head. The
// parent may be zero, the head, or the nearest normal ancestor of the head with only
// compactions between. The last case exists because a compaction in the background
// must not make an agent's append fail.
func (wr *Writer) CheckParent(s *ledger.Session, head lineage.Node, parent turns.ID) error {
	if parent.IsZero() {
		return nil
	}
	for n := head; !n.Ref.IsZero(); {
		if n.Ref.Turn == parent {
			return nil
		}
		if n.Kind != turns.KindCompaction {
			break
		}
		var err error
		if n, err = wr.reader.Projections.Node(n.Parent); err != nil {
			return err
		}
	}
	return HeadMoved(s, "parent is "+parent.String())
}

// ClaimedTime returns the time that a request claims, in ns since 1970, 0 if none.
func ClaimedTime(t *api.Time) (int64, error) {
	if t == nil {
		return 0, nil
	}
	ns, ok := t.UnixNano()
	if !ok {
		return 0, api.FieldErrorf("/time", "before 1678, after 2261 or 1970-01-01T00:00:00Z, which can't be stored; leave out a time that is not known")
	}
	return ns, nil
}

// Request identifies a mutating call for ever: by its id, and by a digest of
// everything else.
type Request struct {
	ID        turns.ID
	Verb      string // noun.verb
	Canonical []byte // the canonical JSON of the request without its id
}

// Digest returns the digest of a request. [content.Store.Seal] stores it under the key
// of the event, and [content.Store.SameRequest] compares it.
func (r Request) Digest() turns.Hash { return seal.RequestDigest(r.Verb, r.Canonical) }

// StoredEvent looks up the id of a request on the session's chain. It returns the
// event that the same request stored, nil if the id is new, and [ledger.ErrIDReused]
// if another request stored it.
func (wr *Writer) StoredEvent(s *ledger.Session, r Request) (*turns.Event, error) {
	if r.ID.IsZero() {
		return nil, nil
	}
	index, err := wr.reader.Projections.Index(s.ID, r.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	payload, err := wr.reader.Projections.EventAt(s.ID, index)
	if err != nil {
		return nil, err
	}
	ev, err := turns.Decode(payload)
	if err != nil {
		return nil, err
	}
	same, err := wr.content.SameRequest(ev, r.Digest())
	if errors.Is(err, ledger.ErrErased) {
		if by, _, rerr := wr.content.Redaction(ev); rerr == nil && by != nil {
			err = api.Errorf(api.Erased, map[string]any{"redacted": ev.ID.String()}, "%s %s was redacted: nobody can tell any more whether it is of the same request", ev.Kind, ev.ID)
		}
	}
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, &api.Error{Code: api.IDReused, Message: fmt.Sprintf("id %s is stored with another request", r.ID)}
	}
	return ev, nil
}

// NewID returns id, or a new id if it is zero. A reserved id is malformed.
func (wr *Writer) NewID(id turns.ID) (turns.ID, error) {
	if !id.IsZero() {
		return id, wr.CheckID("/id", id)
	}
	return turns.NewID(wr.reader.Now(), wr.content.Rand)
}

// CheckID returns an error if an id that a request has in field is reserved. The
// ledger's own key is stored under the id of the ledger, an agent's under an id in a
// range of its own: whoever had a session or an event under it could get that key.
func (wr *Writer) CheckID(field string, id turns.ID) error {
	if id == turns.ID(wr.content.Ledger) || id.IsReserved() {
		return api.FieldErrorf(field, "id %s is reserved", id)
	}
	return nil
}

// BeginEvent returns a new event for a session that takes changes. If the same
// request is stored already, done is true and ev is the stored event.
func (wr *Writer) BeginEvent(s *ledger.Session, r Request, k turns.Kind) (ev *turns.Event, done bool, err error) {
	was, err := wr.StoredEvent(s, r)
	if was != nil || err != nil {
		return was, was != nil, err
	}
	if err := CheckOpen(s); err != nil {
		return nil, false, err
	}
	id, err := wr.NewID(r.ID)
	if err != nil {
		return nil, false, err
	}
	return &turns.Event{ID: id, Kind: k, Digest: r.Digest()}, false, nil
}

// CheckOpen returns an error if the session takes no more events. It names the
// successor, if there is one.
func CheckOpen(s *ledger.Session) error {
	if !s.Final() {
		return nil
	}
	if s.State == turns.Erased {
		return &api.Error{Code: api.Erased, Message: fmt.Sprintf("session %s is erased", s.ID)}
	}
	out := &api.Error{Code: api.Closed, Message: fmt.Sprintf("session %s is %s", s.ID, s.State)}
	if !s.Successor.IsZero() {
		out.Details = map[string]any{"successor": s.Successor.String()}
	}
	return out
}

// HeadMoved returns the conflict of a request that expected another head.
func HeadMoved(s *ledger.Session, why string) error {
	out := &api.Error{Code: api.Conflict, Message: fmt.Sprintf("%s: the head is %s", why, s.Head.Turn), Details: map[string]any{"head": s.Head.Turn.String()}}
	if s.Head.IsZero() {
		out.Message, out.Details = why+": the session has no turn yet", map[string]any{"head": nil}
	}
	return out
}
