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
func (b *beginning) target(ctx context.Context) error {
	r := b.request
	switch {
	case r.PreviousResponseID != nil && r.after.IsZero():
		v, err := b.door.load(ctx, b.client, *r.PreviousResponseID, loadWhole)
		if err != nil {
			if e := asError(err); e.Status >= http.StatusInternalServerError {
				return err
			}
			return errPrevious(*r.PreviousResponseID)
		}
		if v.answer == nil {
			if v.status() == inProgress || v.status() == queued {
				return withCode("previous_response_in_progress", invalid("previous_response_id", "The response '%s' is still in progress.", clip(*r.PreviousResponseID)))
			}
			return errPrevious(*r.PreviousResponseID)
		}
		b.session, b.parent = v.ref.Session, v.answer.ID
	case !r.session.IsZero():
		b.session = r.session
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
		b.session, r.session = id, id
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

const conversationPrefix = "conv_"

var errNoConversation = &Error{Status: http.StatusNotFound, Type: notFoundType, Code: "conversation_not_found", Message: "The conversation was not found.", Param: "conversation"}

func conversationFault(err error) error {
	if ofCode(err, api.NotFound) {
		return errNoConversation
	}
	return err
}

// readHeader reads what the header says of the session.
func (r *CreateRequest) readHeader(h http.Header) error {
	r.Session, r.InputMode = h.Get("X-Nexus-Session"), h.Get("X-Nexus-Input")
	if r.InputMode != "" && r.InputMode != inputWhole && r.InputMode != inputNew {
		return invalid("x-nexus-input", "The header x-nexus-input is %s or %s.", inputWhole, inputNew)
	}
	return nil
}

// named finds the session of the header x-nexus-session. One that no session has is the
// label of a new one.
func (b *beginning) named(ctx context.Context) error {
	name := b.request.Session
	if id, err := turns.ParseID(name); err == nil {
		s, err := b.client.Session(ctx, id)
		if ofCode(err, api.NotFound) {
			return &Error{Status: http.StatusNotFound, Type: notFoundType, Code: "session_not_found", Message: "The session of x-nexus-session was not found.", Param: "x-nexus-session"}
		}
		if err != nil {
			return err
		}
		b.session = s.ID
		return nil
	}
	if !utf8.ValidString(name) {
		return invalid("x-nexus-session", "The header x-nexus-session is not UTF-8.")
	}
	s, err := b.client.Resolve(ctx, name)
	if ofCode(err, api.NotFound) {
		b.label = name
		return nil
	}
	if err != nil {
		return err
	}
	b.session = s.ID
	return nil
}
