package place

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"nexus/cmd/internal/responses/wire"
	"nexus/ledger/api"
	"nexus/turns"
)

// Target finds out where the request goes.
func (b *Placing) Target(ctx context.Context) error {
	r := b.Request
	switch {
	case r.PreviousResponseID != nil && r.After.IsZero():
		v, err := b.svc.Find(ctx, b.Client, *r.PreviousResponseID, false)
		if err != nil {
			if e := wire.AsError(err); e.Status >= http.StatusInternalServerError {
				return err
			}
			return wire.ErrPrevious(*r.PreviousResponseID)
		}
		if v.Answer.IsZero() {
			if v.Open {
				return wire.WithCode("previous_response_in_progress", wire.Invalid("previous_response_id", "The response '%s' is still in progress.", wire.Clip(*r.PreviousResponseID)))
			}
			return wire.ErrPrevious(*r.PreviousResponseID)
		}
		b.Session, b.Parent = v.Session, v.Answer
	case !r.SessionID.IsZero():
		b.Session = r.SessionID
	case r.Session != "":
		return b.named(ctx)
	case !wire.IsNull(r.Conversation):
		id, err := conversationID(r.Conversation)
		if err != nil {
			return err
		}
		if _, err := b.Client.Session(ctx, id); err != nil {
			return ConversationFault(err)
		}
		b.Session, r.SessionID = id, id
	}
	return nil
}

// conversationID is the session of a conversation: its id, alone or in an object.
func conversationID(raw turns.Raw) (id turns.ID, err error) {
	text, ok := raw.Text()
	if !ok {
		var o wire.ConversationRef
		if raw.Kind() == '{' && json.Unmarshal(raw, &o) == nil {
			text = o.ID
		}
	}
	return ParseConversationID(text)
}

// ParseConversationID is the session of a conversation's id.
func ParseConversationID(text string) (id turns.ID, err error) {
	rest, ok := strings.CutPrefix(text, wire.ConversationPrefix)
	if ok {
		id, err = turns.ParseID(rest)
	}
	if !ok || err != nil || id.IsZero() {
		return id, ErrNoConversation
	}
	return id, nil
}

var ErrNoConversation = &wire.Error{Status: http.StatusNotFound, Type: wire.NotFoundType, Code: "conversation_not_found", Message: "The conversation was not found.", Param: "conversation"}

func ConversationFault(err error) error {
	if wire.OfCode(err, api.NotFound) {
		return ErrNoConversation
	}
	return err
}

// named finds the session of the header x-nexus-session. One that no session has is the
// label of a new one.
func (b *Placing) named(ctx context.Context) error {
	name := b.Request.Session
	if id, err := turns.ParseID(name); err == nil {
		s, err := b.Client.Session(ctx, id)
		if wire.OfCode(err, api.NotFound) {
			return &wire.Error{Status: http.StatusNotFound, Type: wire.NotFoundType, Code: "session_not_found", Message: "The session of x-nexus-session was not found.", Param: "x-nexus-session"}
		}
		if err != nil {
			return err
		}
		b.Session = s.ID
		return nil
	}
	if !utf8.ValidString(name) {
		return wire.Invalid("x-nexus-session", "The header x-nexus-session is not UTF-8.")
	}
	s, err := b.Client.Resolve(ctx, name)
	if wire.OfCode(err, api.NotFound) {
		b.Label = name
		return nil
	}
	if err != nil {
		return err
	}
	b.Session = s.ID
	return nil
}
