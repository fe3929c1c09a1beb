package otlp

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// Span is a span or a log record: its attributes by name, as plain JSON.
type Span struct {
	Name       string
	Trace      string
	ID         string
	Parent     string    // id of the span that it is a part of
	Time       time.Time // its end, else its beginning; zero: not known
	Start      time.Time // its beginning, else time
	Attributes map[string]turns.Raw
	events     []Event
	Resource   map[string]turns.Raw
}

type Event struct {
	name  string
	attrs map[string]turns.Raw
}

// otlpSpan is a span in OTLP's JSON, or as an SDK prints it.
type otlpSpan struct {
	Name     string      `json:"name"`
	Trace    string      `json:"traceId"`
	ID       string      `json:"spanId"`
	Parent   string      `json:"parentSpanId"`
	ParentID turns.Raw   `json:"parent_id"` // as an SDK prints it; may be null
	Start    turns.Raw   `json:"startTimeUnixNano"`
	End      turns.Raw   `json:"endTimeUnixNano"`
	Attrs    turns.Raw   `json:"attributes"`
	Events   []otlpEvent `json:"events"`
	Observed turns.Raw   `json:"timeUnixNano"` // of a log record
	Event    string      `json:"eventName"`    // of a log record

	Context struct {
		Trace string `json:"trace_id"`
		ID    string `json:"span_id"`
	} `json:"context"`
	Began turns.Raw `json:"start_time"`
	Ended turns.Raw `json:"end_time"`
}

type otlpEvent struct {
	Name  string    `json:"name"`
	Attrs turns.Raw `json:"attributes"`
}

type otlpResource struct {
	Resource struct {
		Attrs turns.Raw `json:"attributes"`
	} `json:"resource"`
	ScopeSpans []struct {
		Spans []otlpSpan `json:"spans"`
	} `json:"scopeSpans"`
	ScopeLogs []struct {
		Records []otlpSpan `json:"logRecords"`
	} `json:"scopeLogs"`
}

// Spans returns the spans of a value: an export request of OTLP (spans or logs), one
// span, or the attributes of one. ok is false for another value.
func Spans(raw turns.Raw) (out []Span, ok bool, err error) {
	if raw.Kind() != '{' {
		return nil, false, nil
	}
	var members map[string]turns.Raw
	if err := turns.DecodeJSON(raw, &members); err != nil {
		return nil, false, err
	}
	switch {
	case members["resourceSpans"] != nil || members["resourceLogs"] != nil:
		var export struct {
			Spans []otlpResource `json:"resourceSpans"`
			Logs  []otlpResource `json:"resourceLogs"`
		}
		if err := values.Decode(raw, &export); err != nil {
			return nil, true, err
		}
		for _, r := range slices.Concat(export.Spans, export.Logs) {
			resource := otelAttributes(r.Resource.Attrs)
			for _, s := range r.ScopeSpans {
				for i := range s.Spans {
					out = append(out, s.Spans[i].span(resource))
				}
			}
			for _, s := range r.ScopeLogs {
				for i := range s.Records {
					out = append(out, s.Records[i].span(resource))
				}
			}
		}
		return out, true, nil
	case members["attributes"] != nil && members["messages"] == nil:
		var s otlpSpan
		if err := values.Decode(raw, &s); err != nil {
			return nil, true, err
		}
		return []Span{s.span(nil)}, true, nil
	case members["gen_ai.input.messages"] != nil || members["gen_ai.output.messages"] != nil:
		s := Span{Attributes: members}
		for _, name := range []string{"timestamp", "time", "created", "created_at"} {
			if v := members[name]; v != nil && s.Time.IsZero() {
				s.Time = values.ParseTime(v)
				delete(members, name)
			}
		}
		s.Start = s.Time
		return []Span{s}, true, nil
	}
	return nil, false, nil
}

func (s *otlpSpan) span(resource map[string]turns.Raw) Span {
	out := Span{Name: s.Name, Trace: s.Trace + s.Context.Trace, ID: s.ID + s.Context.ID, Parent: s.Parent, Attributes: otelAttributes(s.Attrs), Resource: resource}
	for _, t := range []turns.Raw{s.End, s.Observed, s.Start} {
		if n, err := strconv.ParseInt(values.Text(t), 10, 64); err == nil && n > 0 && out.Time.IsZero() {
			out.Time = time.Unix(0, n).UTC()
		}
	}
	for _, t := range []turns.Raw{s.Ended, s.Began} {
		if out.Time.IsZero() {
			out.Time = values.ParseTime(t)
		}
	}
	if p, ok := s.ParentID.Text(); ok && out.Parent == "" {
		out.Parent = p
	}
	if n, err := strconv.ParseInt(values.Text(s.Start), 10, 64); err == nil && n > 0 {
		out.Start = time.Unix(0, n).UTC()
	} else if out.Start = values.ParseTime(s.Began); out.Start.IsZero() {
		out.Start = out.Time
	}
	if s.Event != "" { // a log record is an event of its own
		out.Name = s.Event
		out.events = append(out.events, Event{s.Event, out.Attributes})
	}
	for _, e := range s.Events {
		out.events = append(out.events, Event{e.Name, otelAttributes(e.Attrs)})
	}
	return out
}

// otelAttributes is attributes by name: a list of keys and values, each in an
// object that names its type, or an object of plain values.
func otelAttributes(raw turns.Raw) map[string]turns.Raw {
	out := make(map[string]turns.Raw)
	var list []otlpKeyValue
	if raw.Kind() == '[' && values.Decode(raw, &list) == nil {
		for _, a := range list {
			out[a.Key] = otelValue(a.Value)
		}
	} else if raw.Kind() == '{' {
		_ = values.Decode(raw, &out) // what it can't be is empty
	}
	return out
}

type otlpKeyValue struct {
	Key   string    `json:"key"`
	Value turns.Raw `json:"value"`
}

// otelValue returns a value of OTLP (AnyValue) as plain JSON.
func otelValue(raw turns.Raw) turns.Raw {
	var v struct {
		Text  turns.Raw `json:"stringValue"`
		Bool  turns.Raw `json:"boolValue"`
		Int   turns.Raw `json:"intValue"` // 64 bits: a string
		Float turns.Raw `json:"doubleValue"`
		Bytes turns.Raw `json:"bytesValue"`
		Array *struct {
			Values []turns.Raw `json:"values"`
		} `json:"arrayValue"`
		Map *struct {
			Values []otlpKeyValue `json:"values"`
		} `json:"kvlistValue"`
	}
	if raw.Kind() != '{' || values.Decode(raw, &v) != nil {
		return raw
	}
	for _, x := range []turns.Raw{v.Text, v.Bool, v.Float, v.Bytes} {
		if x != nil {
			return x
		}
	}
	var out any
	switch {
	case v.Int != nil:
		if _, err := strconv.ParseInt(values.Text(v.Int), 10, 64); err != nil {
			return v.Int
		}
		return turns.Raw(values.Text(v.Int))
	case v.Array != nil:
		list := make([]turns.Raw, len(v.Array.Values))
		for i, x := range v.Array.Values {
			list[i] = otelValue(x)
		}
		out = list
	case v.Map != nil:
		m := make(map[string]turns.Raw, len(v.Map.Values))
		for _, x := range v.Map.Values {
			m[x.Key] = otelValue(x.Value)
		}
		out = m
	default:
		return turns.Raw("null")
	}
	b, err := turns.EncodeJSON(out)
	if err != nil { // its values came from JSON that was checked
		return turns.Raw("null")
	}
	return b
}

// Remove returns the attribute of the first of these names that exists, and removes it
// from s.
func (s *Span) Remove(names ...string) (out turns.Raw) {
	for _, n := range names {
		if v := s.Attributes[n]; v != nil && out == nil && v.Kind() != 'n' {
			out = v
			delete(s.Attributes, n)
		}
	}
	return out
}

// ReadEvents puts the attributes of an event that holds a call's messages among the
// span's, and gives the messages that came as an event each, as an OpenAI
// request has them (semantic conventions up to 1.36). Names of other events are
// given back.
func (s *Span) ReadEvents() (in, out []turns.Raw, others []string) {
	for _, e := range s.events {
		role, ours := strings.CutPrefix(e.name, "gen_ai.")
		role, message := strings.CutSuffix(role, ".message")
		switch {
		case e.attrs["gen_ai.input.messages"] != nil || e.attrs["gen_ai.output.messages"] != nil:
			for k, v := range e.attrs {
				s.Attributes[k] = v
			}
		case ours && message && slices.Contains([]string{"system", "user", "assistant", "tool"}, role):
			in = append(in, otelLegacy(e.attrs, role))
		case e.name == "gen_ai.choice":
			m := e.attrs
			var inner map[string]turns.Raw
			if values.Decode(values.Unquoted(e.attrs["message"]), &inner) == nil && inner != nil {
				m = inner
			}
			out = append(out, otelLegacy(m, "assistant"))
		default:
			others = append(others, e.name)
		}
	}
	return in, out, others
}

// otelLegacy returns the message of an event in OpenAI's form.
func otelLegacy(attrs map[string]turns.Raw, role string) turns.Raw {
	m := map[string]turns.Raw{"role": turns.RawText(role), "content": attrs["content"]}
	if m["content"] == nil {
		m["content"] = turns.Raw("null")
	}
	if v := values.Unquoted(attrs["tool_calls"]); v.Kind() == '[' {
		m["tool_calls"] = v
	}
	if id := attrs["id"]; role == "tool" && id != nil {
		m["tool_call_id"] = id
	}
	b, err := turns.EncodeJSON(m)
	if err != nil { // its values came from JSON that was checked
		return turns.Raw("null")
	}
	return b
}

// Messages reads messages in the shape of OpenTelemetry's GenAI schema. It fills in
// what some writers leave out: ids of calls, arguments.
func Messages(raw turns.Raw) ([]turns.Message, error) {
	var list []struct {
		Role   string                 `json:"role"`
		Name   string                 `json:"name"`
		Parts  []map[string]turns.Raw `json:"parts"`
		Finish string                 `json:"finish_reason"`
	}
	if err := values.Decode(raw, &list); err != nil {
		return nil, err
	}
	out := make([]turns.Message, 0, len(list))
	var unnamed []string // ids given to calls that had none
	for i, m := range list {
		if m.Role == "developer" {
			m.Role = string(turns.System)
		}
		for j, p := range m.Parts {
			switch kind := values.Text(p["type"]); kind {
			case "uri", "file":
				if v := p[map[string]string{"uri": "uri", "file": "file_id"}[kind]]; v != nil {
					p["content"] = v
				}
			case "tool_call":
				if s, _ := p["id"].Text(); s == "" {
					id := "call-" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
					p["id"], unnamed = turns.RawText(id), append(unnamed, id)
				}
				if v := p["arguments"]; v == nil || v.Kind() == 'n' {
					p["arguments"] = turns.Raw("{}")
				}
			case "tool_call_response":
				if s, _ := p["id"].Text(); s == "" && len(unnamed) > 0 {
					p["id"], unnamed = turns.RawText(unnamed[0]), unnamed[1:]
				}
				for _, name := range []string{"result", "content"} {
					if v := p[name]; v != nil && p["response"] == nil {
						p["response"] = v
						delete(p, name)
					}
				}
			}
			for _, name := range []string{"uri", "file_id"} {
				delete(p, name)
			}
		}
		b, err := turns.EncodeJSON(map[string]any{"role": m.Role, "name": m.Name, "parts": m.Parts, "finish_reason": m.Finish})
		if err != nil {
			return nil, err
		}
		var message turns.Message
		if err := values.Decode(b, &message); err != nil {
			return nil, err
		}
		if err := message.Validate("/" + strconv.Itoa(i)); err != nil {
			return nil, err
		}
		out = append(out, message)
	}
	return out, nil
}
