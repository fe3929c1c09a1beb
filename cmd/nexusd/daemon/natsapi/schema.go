package natsapi

import (
	"encoding"
	"reflect"
	"strings"

	"nexus/turns"
)

// schemaOf is the JSON schema of a request's or reply's Go type, for the
// endpoint's metadata. It names members and types; what they mean is in docs/API.md.
func schemaOf(v any) string {
	b, err := turns.EncodeJSON(schema(reflect.TypeOf(v), 0))
	if err != nil {
		return "{}"
	}
	return string(b)
}

var textType = reflect.TypeFor[encoding.TextMarshaler]()

func schema(t reflect.Type, depth int) map[string]any {
	switch {
	case t == nil || t == reflect.TypeFor[turns.Raw]() || depth > 5:
		return map[string]any{}
	case t == reflect.TypeFor[turns.Message]():
		return map[string]any{"type": "object", "description": "message: role and parts"}
	case t.Kind() == reflect.Pointer:
		return schema(t.Elem(), depth)
	case t.Implements(textType):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": schema(t.Elem(), depth+1)}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Struct:
		props := make(map[string]any)
		members(t, depth, props)
		return map[string]any{"type": "object", "properties": props}
	case reflect.Map:
		return map[string]any{"type": "object"}
	}
	return map[string]any{"type": "integer"}
}

func members(t reflect.Type, depth int, props map[string]any) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			members(f.Type, depth, props)
		case name != "" && name != "-":
			props[name] = schema(f.Type, depth+1)
		}
	}
}
