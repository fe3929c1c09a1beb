package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"nexus/turns"
)

// members is a JSON object.
type members map[string]any

// text sets a member unless v is empty.
func (m members) text(name, v string) {
	if v != "" {
		m[name] = v
	}
}

// opt sets a member unless v is nil.
func (m members) opt(name string, v any) {
	switch v := v.(type) {
	case *bool:
		if v != nil {
			m[name] = *v
		}
	case *float64:
		if v != nil {
			m[name] = *v
		}
	}
}

func sections(texts []string) (out []turns.Section) {
	for _, t := range texts {
		out = append(out, turns.Section{Content: t})
	}
	return out
}

// schema returns v, or the schema of a function without parameters.
func schema(v turns.Raw) turns.Raw {
	if v == nil || v.Kind() != '{' {
		return turns.Raw(`{"type":"object","properties":{}}`)
	}
	return v
}

// allowedTools are the functions that the model may call. A dialect without a word for a
// subset offers no others.
func allowedTools(r *Request) (out []Tool) {
	for _, t := range r.Tools {
		if t.Raw == nil && (r.ToolChoice.Allowed == nil || slices.Contains(r.ToolChoice.Allowed, t.Name)) {
			out = append(out, t)
		}
	}
	return out
}

// encoded is v as JSON. v has nothing that can't be encoded.
func encoded(v any) turns.Raw {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		return nil
	}
	return b
}

// extOf is the ext of a part that a provider made.
func extOf(provider string, m members) turns.Raw { return encoded(members{provider: m}) }

// ofProvider reads a provider's member of a part's ext; ok: there is one.
func ofProvider(p *turns.Part, provider string, v any) (ok bool) {
	var ext map[string]turns.Raw
	return p.Ext != nil && lenient(p.Ext, &ext) == nil && ext[provider].Kind() == '{' && lenient(ext[provider], v) == nil
}

// madeBy reports whether the row made p.
func madeBy(p *turns.Part, provider, row string) bool {
	var o struct {
		From string `json:"from"`
	}
	return ofProvider(p, provider, &o) && o.From == row
}

// foreign reports whether another row made p: what is opaque there is nothing here. What
// came from a transcript names no row, and may be tried.
func foreign(p *turns.Part, provider, row string) bool {
	var o struct {
		From string `json:"from"`
	}
	return ofProvider(p, provider, &o) && o.From != "" && o.From != row
}

// withoutForeign is ms without reasoning that another row made.
func withoutForeign(ms []turns.Message, provider, row string) []turns.Message {
	return eachPart(ms, func(p *turns.Part) bool { return p.Type == turns.Reasoning && foreign(p, provider, row) }, func(turns.Part) []turns.Part { return nil })
}

// eachPart replaces the parts of ms that are found. ms stays as it is.
func eachPart(ms []turns.Message, find func(*turns.Part) bool, replace func(turns.Part) []turns.Part) []turns.Message {
	out := ms
	for i := range ms {
		if !slices.ContainsFunc(ms[i].Parts, func(p turns.Part) bool { return find(&p) }) {
			continue
		}
		if &out[0] == &ms[0] {
			out = slices.Clone(ms)
		}
		var parts []turns.Part
		for _, p := range ms[i].Parts {
			if find(&p) {
				parts = append(parts, replace(p)...)
			} else {
				parts = append(parts, p)
			}
		}
		out[i].Parts = parts
	}
	return out
}

// content is an item's content part, as a client of the responses API writes it.
type content struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	ImageURL turns.Raw `json:"image_url"`
	FileData string    `json:"file_data"`
	FileURL  string    `json:"file_url"`
	FileID   string    `json:"file_id"`
}

// plainResults is ms with results that are lists of the responses API's content as lists of
// the ledger's parts, which every other dialect can show.
func plainResults(ms []turns.Message) []turns.Message {
	return eachPart(ms, func(p *turns.Part) bool { return inputList(p) != nil }, func(p turns.Part) []turns.Part {
		var parts []turns.Part
		for _, c := range inputList(&p) {
			url, _ := c.ImageURL.Text()
			switch {
			case c.Type == "input_image" && url != "":
				parts = append(parts, turns.Part{Type: turns.URI, Modality: "image", Content: url})
			case c.FileURL != "":
				parts = append(parts, turns.Part{Type: turns.URI, Modality: "document", Content: c.FileURL})
			case c.FileData != "":
				parts = append(parts, turns.Part{Type: turns.URI, Modality: "document", Content: c.FileData})
			case c.FileID != "":
				parts = append(parts, turns.Part{Type: turns.File, Content: c.FileID})
			default:
				parts = append(parts, turns.TextPart(c.Text))
			}
		}
		p.Response = encoded(parts)
		return []turns.Part{p}
	})
}

// inputList is a result as a list of the responses API's content; nil: it is none.
func inputList(p *turns.Part) (list []content) {
	if p.Type != turns.ToolCallResponse || p.Response.Kind() != '[' || lenient(p.Response, &list) != nil {
		return nil
	}
	for _, c := range list {
		if !strings.HasPrefix(c.Type, "input_") && c.Type != "output_text" {
			return nil
		}
	}
	return list
}

// fitID is a call's id, or one derived from it where it is longer than max.
func fitID(id string, max int) string {
	if len(id) <= max {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// fitName is a function's name with _ for what OpenAI refuses.
func fitName(name string, max int) string {
	s := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return s[:min(len(s), max)]
}

// clip bounds a provider's word.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }
