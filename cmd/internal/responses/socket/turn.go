package socket

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Turn is a request of a connection, read as far as the transport must know it.
type Turn[S any] struct {
	// Body is the request as POST /v1/responses takes it: without type, and without the
	// members that belong to HTTP (stream, stream_options, background).
	Body     []byte
	Previous string // previous_response_id; "": a new chain
	Store    bool   // default true
	// WarmUp: generate is false. The client wants the request prepared and an id to
	// continue, and no model asked.
	WarmUp bool
	// Prior is what the connection remembers of the response Previous; nil: nothing.
	Prior *S
}

// Failure is a refusal, with the status that HTTP has for it.
type Failure struct {
	Status                     int
	Type, Code, Message, Param string
}

func (f *Failure) Error() string { return f.Message }

// Event is the error event of a failure.
func (f *Failure) Event() []byte {
	e := map[string]any{"type": f.Type, "code": f.Code, "message": f.Message, "param": nil}
	if f.Param != "" {
		e["param"] = f.Param
	}
	b, err := json.Marshal(map[string]any{"type": "error", "status": f.Status, "error": e}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // it is made of strings
	}
	return b
}

// Create makes the response of a turn. It sends its events in order, the terminal one
// included, and returns the response's id and what a continuation on this connection needs;
// "" if the response may not be continued.
//
// A response that failed behind its first event returns sent = true with the error: its
// events say so. Any other error is sent by the caller; a *[Failure] says which one.
type Create[S any] func(ctx context.Context, t Turn[S], send func(event []byte) error) (id string, state S, sent bool, err error)

// Limit is the failure at the end of a connection's lifetime.
var Limit = &Failure{Status: 400, Type: "invalid_request_error", Code: "websocket_connection_limit_reached",
	Message: "The connection has reached its limit of 60 minutes. Open a new WebSocket connection."}

// Large is the failure of a message that is too large.
var Large = &Failure{Status: 413, Type: "invalid_request_error", Code: "message_too_large", Message: "The message is too large. The connection ends."}

// Turns returns the handler of one connection. It remembers the latest response, in memory
// only: a response that is not stored can be continued here and nowhere else. A turn that
// fails forgets the response that it continued.
func Turns[S any](create Create[S], internal func(error) *Failure) Handler {
	var latest struct {
		id    string
		state S
	}
	return func(ctx context.Context, message []byte, send func([]byte) error) {
		t, err := read[S](message)
		if err == nil && t.Previous != "" {
			if t.Previous == latest.id {
				state := latest.state
				t.Prior = &state
			} else if !t.Store {
				err = &Failure{Status: 400, Type: "invalid_request_error", Code: "previous_response_not_found", Param: "previous_response_id",
					Message: "Previous response with id '" + clip(t.Previous) + "' not found."}
			}
		}
		var id string
		var state S
		sent := false
		if err == nil {
			id, state, sent, err = create(ctx, t, send)
		}
		if err == nil {
			latest.id, latest.state = id, state
			return
		}
		if t.Previous != "" && t.Previous == latest.id {
			var none S
			latest.id, latest.state = "", none
		}
		if sent {
			return
		}
		f := (*Failure)(nil)
		if !errors.As(err, &f) {
			f = internal(err)
		}
		_ = send(f.Event()) // a connection that is gone needs no event
	}
}

// read reads a message as far as a connection must. The error is a *[Failure].
func read[S any](message []byte) (t Turn[S], err error) {
	t.Store = true
	bad := func(code, param, text string) (Turn[S], error) {
		return t, &Failure{Status: 400, Type: "invalid_request_error", Code: code, Param: param, Message: text}
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(message, &members) != nil || members == nil {
		return bad("invalid_json", "", "The message is not a JSON object, or has a member twice.")
	}
	// First what it continues: a refusal forgets that, too.
	if v := members["previous_response_id"]; v.Kind() == '"' {
		_ = json.Unmarshal(v, &t.Previous) // it is a string
	}
	var kind string
	if json.Unmarshal(members["type"], &kind) != nil || kind != "response.create" {
		return bad("invalid_value", "type", "The message needs the type 'response.create'.")
	}
	if v, ok := members["background"]; ok && v.Kind() == 't' {
		return bad("invalid_value", "background", "background is not for WebSocket requests.")
	}
	generate := true
	for name, to := range map[string]*bool{"store": &t.Store, "generate": &generate} {
		switch v := members[name]; v.Kind() {
		case 0, 'n':
		case 't', 'f':
			*to = v.Kind() == 't'
		default:
			return bad("invalid_type", name, "The member '"+name+"' is true or false.")
		}
	}
	t.WarmUp = !generate
	for _, name := range []string{"type", "stream", "stream_options", "background", "generate"} {
		delete(members, name)
	}
	t.Body, err = json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return bad("invalid_json", "", "The message is not a JSON object.")
	}
	return t, nil
}

func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
