package wire

import (
	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// RequestMeta is what the turn of a request says of its response, beside its messages.
type RequestMeta struct {
	Version int       `json:"v"`
	Digest  string    `json:"digest"`
	Echo    *Response `json:"echo"`
	Items   []Mark    `json:"items,omitzero"`
	Forked  *Place    `json:"forked_from,omitzero"`
	Encrypt bool      `json:"encrypted,omitzero"`
	// Left was the head before, where the request follows another turn. Tips are ends of other
	// paths of the session, that one too, the newest first. See place.
	Left     turns.ID   `json:"left,omitzero"`
	Tips     []turns.ID `json:"tips,omitzero"`
	CutTools bool       `json:"cut_tools,omitzero"` // they are too large for here: the session's settings have them
	CutText  bool       `json:"cut_instructions,omitzero"`
	Server   turns.ID   `json:"door,omitzero"`    // which began it: see ReadServerID
	Before   int        `json:"before,omitzero"`  // how many turns before it hold the beginning of its input
	PartOf   turns.ID   `json:"part_of,omitzero"` // of such a turn, which is no response: that of the request
}

// AnswerMeta is what the turn of an answer says of its response, beside its message.
type AnswerMeta struct {
	Version    int        `json:"v"`
	ID         string     `json:"id,omitzero"` // of the response, as its clients know it
	Status     string     `json:"status"`
	Reason     string     `json:"reason,omitzero"` // of an incomplete one
	At         int64      `json:"at"`
	Items      []Mark     `json:"items,omitzero"`
	Ops        string     `json:"ops,omitzero"`
	Lost       int        `json:"lost,omitzero"`
	Compaction turns.ID   `json:"compaction,omitzero"`
	Tips       []turns.ID `json:"tips,omitzero"`   // those of the request
	Sealed     string     `json:"sealed,omitzero"` // the encrypted_content of its compaction item; "": it has none
}

// MetaOf is the meta of a turn: ours, and what others read of it.
type MetaOf[T any] struct {
	Responses *T                  `json:"responses"`
	Usage     *turns.UsageDetails `json:"usage,omitzero"`
	Message   string              `json:"message_id,omitzero"`      // the provider's id of the answer
	Requested string              `json:"requested_model,omitzero"` // by the client, where another one answered
}

func ReadMeta[T any](raw turns.Raw) *T {
	var m MetaOf[T]
	if raw.Kind() != '{' || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m.Responses
}

// Bounds of what a turn's meta has.
const (
	MaxEchoTools = 64 << 10
	MaxEchoText  = 64 << 10
	MaxMeta      = 512 << 10
	MaxKeptSaid  = 32 << 10
)

const MetaVersion = 1
