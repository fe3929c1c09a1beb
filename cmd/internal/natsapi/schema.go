package natsapi

import (
	"reflect"

	"github.com/invopop/jsonschema"

	"nexus/ledger/api"
	"nexus/turns"
)

// schemaOf returns the JSON schema of a verb's request or reply, for the endpoint's
// metadata. The daemon refuses a request with other members; a reply may have more
// in a later version.
func schemaOf(v any, request bool) (string, error) {
	w := wire{open: !request}
	s := w.reflector(false).Reflect(v)
	s.Version = "" // 2020-12, which is what a reader takes where none is named; it saves 5 kB of INFO
	define := func(name string, used bool, as *jsonschema.Schema) {
		if used && s.Definitions == nil {
			s.Definitions = jsonschema.Definitions{}
		}
		if used {
			s.Definitions[name] = as
		}
	}
	// Defined once each: INFO holds the schemas of all verbs, and is one message.
	if w.messages {
		define("message", true, w.inline(message{}))
	}
	define("id", w.ids, &jsonschema.Schema{Type: "string", Pattern: "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"})
	define("whole", w.wholes, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "integer", Minimum: "0"}, {Type: "string", Pattern: "^[0-9]+$"}}})
	define("hash", w.hashes, &jsonschema.Schema{Type: "string", Pattern: "^sha256:[0-9a-f]{64}$"})
	b, err := s.MarshalJSON()
	return string(b), err
}

// wire maps types that encode their JSON themselves.
type wire struct {
	open     bool // objects may have members that the schema does not name
	messages bool // a message was mapped
	ids      bool // an id was mapped
	hashes   bool // a hash was mapped
	wholes   bool // an unsigned number was mapped that may be a string
}

// reflector returns a reflector with the mapping of w.
func (w *wire) reflector(inline bool) *jsonschema.Reflector {
	return &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, DoNotReference: inline, AllowAdditionalProperties: w.open, Mapper: w.form}
}

// form returns the schema of a type on the wire, nil if it follows from the fields.
func (w *wire) form(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[turns.ID]():
		w.ids = true
		return &jsonschema.Schema{Ref: "#/$defs/id"}
	case reflect.TypeFor[turns.Hash]():
		w.hashes = true
		return &jsonschema.Schema{Ref: "#/$defs/hash"}
	case reflect.TypeFor[api.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case reflect.TypeFor[turns.Raw]():
		return &jsonschema.Schema{} // any JSON
	case reflect.TypeFor[uint64](), reflect.TypeFor[api.Uint](), reflect.TypeFor[api.Position]():
		if w.open && t == reflect.TypeFor[uint64]() { // of a reply: a count, below 2^53
			return nil
		}
		if t == reflect.TypeFor[api.Position]() {
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer", Minimum: "0"}}}
		}
		w.wholes = true
		return &jsonschema.Schema{Ref: "#/$defs/whole"}
	case reflect.TypeFor[turns.Message]():
		w.messages = true
		return &jsonschema.Schema{Ref: "#/$defs/message"}
	case reflect.TypeFor[api.Policy]():
		return stringOr(w.inline(policy{}))
	case reflect.TypeFor[api.System]():
		return stringOr(w.inline([]turns.Section{}))
	}
	return nil
}

// stringOr returns the schema of a string or s.
func stringOr(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, s}}
}

// inline returns the schema of v as a part of another schema.
func (w *wire) inline(v any) *jsonschema.Schema {
	s := w.reflector(true).Reflect(v)
	s.Version = ""
	return s
}

// policy is the long form of [api.Policy], which also decodes the short form.
type policy api.Policy

// These are [turns.Message] and [turns.Part] on the wire.
type (
	message struct {
		Role         turns.Role `json:"role" jsonschema:"enum=system,enum=user,enum=assistant,enum=tool"`
		Parts        []part     `json:"parts"`
		Name         string     `json:"name,omitzero"`
		FinishReason string     `json:"finish_reason,omitzero"`
	}
	part struct {
		Type      turns.PartType `json:"type" jsonschema:"enum=text,enum=tool_call,enum=tool_call_response,enum=reasoning,enum=blob,enum=uri,enum=file"`
		Content   string         `json:"content,omitzero"`
		ID        string         `json:"id,omitzero"`
		Name      string         `json:"name,omitzero"`
		Arguments turns.Raw      `json:"arguments,omitzero"`
		Response  turns.Raw      `json:"response,omitzero"`
		IsError   bool           `json:"is_error,omitzero"`
		Modality  string         `json:"modality,omitzero"`
		MimeType  string         `json:"mime_type,omitzero"`
		Ref       *turns.BlobRef `json:"ref,omitzero"`
		Ext       turns.Raw      `json:"ext,omitzero"`
	}
)
