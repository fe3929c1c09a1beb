package responses

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"nexus/ledger/api"
	"nexus/turns"
)

// target finds out where the request goes.
func (b *placing) target(ctx context.Context) error {
	r := b.request
	switch {
	case r.PreviousResponseID != nil && r.after.IsZero():
		v, err := b.svc.Find(ctx, b.client, *r.PreviousResponseID, false)
		if err != nil {
			if e := asError(err); e.Status >= http.StatusInternalServerError {
				return err
			}
			return errPrevious(*r.PreviousResponseID)
		}
		if v.Answer.IsZero() {
			if v.Open {
				return withCode("previous_response_in_progress", invalid("previous_response_id", "The response '%s' is still in progress.", clip(*r.PreviousResponseID)))
			}
			return errPrevious(*r.PreviousResponseID)
		}
		b.Session, b.Parent = v.Session, v.Answer
	case !r.session.IsZero():
		b.Session = r.session
	case r.Session != "":
		return b.named(ctx)
	case !isNull(r.Conversation):
		id, err := conversationID(r.Conversation)
		if err != nil {
			return err
		}
		if _, err := b.client.Session(ctx, id); err != nil {
			return conversationFault(err)
		}
		b.Session, r.session = id, id
	}
	return nil
}

// conversationID is the session of a conversation: its id, alone or in an object.
func conversationID(raw turns.Raw) (id turns.ID, err error) {
	text, ok := raw.Text()
	if !ok {
		var o conversationRef
		if raw.Kind() == '{' && json.Unmarshal(raw, &o) == nil {
			text = o.ID
		}
	}
	return parseConversationID(text)
}

// parseConversationID is the session of a conversation's id.
func parseConversationID(text string) (id turns.ID, err error) {
	rest, ok := strings.CutPrefix(text, conversationPrefix)
	if ok {
		id, err = turns.ParseID(rest)
	}
	if !ok || err != nil || id.IsZero() {
		return id, errNoConversation
	}
	return id, nil
}

var errNoConversation = &Error{Status: http.StatusNotFound, Type: notFoundType, Code: "conversation_not_found", Message: "The conversation was not found.", Param: "conversation"}

func conversationFault(err error) error {
	if ofCode(err, api.NotFound) {
		return errNoConversation
	}
	return err
}

// named finds the session of the header x-nexus-session. One that no session has is the
// label of a new one.
func (b *placing) named(ctx context.Context) error {
	name := b.request.Session
	if id, err := turns.ParseID(name); err == nil {
		s, err := b.client.Session(ctx, id)
		if ofCode(err, api.NotFound) {
			return &Error{Status: http.StatusNotFound, Type: notFoundType, Code: "session_not_found", Message: "The session of x-nexus-session was not found.", Param: "x-nexus-session"}
		}
		if err != nil {
			return err
		}
		b.Session = s.ID
		return nil
	}
	if !utf8.ValidString(name) {
		return invalid("x-nexus-session", "The header x-nexus-session is not UTF-8.")
	}
	s, err := b.client.Resolve(ctx, name)
	if ofCode(err, api.NotFound) {
		b.Label = name
		return nil
	}
	if err != nil {
		return err
	}
	b.Session = s.ID
	return nil
}
