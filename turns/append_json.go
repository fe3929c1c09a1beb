package turns

import (
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends what [EncodeJSON] returns for m to out. An import and an agent write more of it than of anything else,
// and the library looks at each value of it twice.
// Errors: those of EncodeJSON.
func (m *Message) AppendJSON(out []byte) (_ []byte, err error) {
	if out, err = jsontext.AppendQuote(append(out, `{"role":`...), m.Role); err != nil {
		return out, err
	}
	out = append(out, `,"parts":[`...)
	for i := range m.Parts {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = m.Parts[i].appendJSON(out); err != nil {
			return out, err
		}
	}
	out = append(out, ']')
	if out, err = appendText(out, `,"name":`, m.Name); err != nil {
		return out, err
	}
	if out, err = appendText(out, `,"finish_reason":`, m.FinishReason); err != nil {
		return out, err
	}
	return append(out, '}'), nil
}

// appendJSON is that of [Message.AppendJSON].
func (p *Part) appendJSON(out []byte) (_ []byte, err error) {
	if out, err = jsontext.AppendQuote(append(out, `{"type":`...), p.Type); err != nil {
		return out, err
	}
	switch {
	case p.Type == Blob && p.Ref == nil:
		out = append(base64.StdEncoding.AppendEncode(append(out, `,"content":"`...), p.Data), '"')
	case p.Content != "", p.Ref == nil && (p.Type == Text || p.Type == Reasoning):
		if out, err = jsontext.AppendQuote(append(out, `,"content":`...), p.Content); err != nil {
			return out, err
		}
	}
	for _, x := range [...]struct{ member, text string }{{`,"id":`, p.ID}, {`,"name":`, p.Name}} {
		if out, err = appendText(out, x.member, x.text); err != nil {
			return out, err
		}
	}
	for _, x := range [...]struct {
		member string
		value  Raw
	}{{`,"arguments":`, p.Arguments}, {`,"response":`, p.Response}} {
		if x.value == nil {
			continue
		}
		if out, err = AppendRaw(append(out, x.member...), x.value); err != nil {
			return out, err
		}
	}
	if p.IsError {
		out = append(out, `,"is_error":true`...)
	}
	for _, x := range [...]struct{ member, text string }{{`,"modality":`, p.Modality}, {`,"mime_type":`, p.MimeType}} {
		if out, err = appendText(out, x.member, x.text); err != nil {
			return out, err
		}
	}
	if p.Ref != nil {
		b, err := EncodeJSON(p.Ref)
		if err != nil {
			return out, err
		}
		out = append(append(out, `,"ref":`...), b...)
	}
	if p.Ext != nil {
		if out, err = AppendRaw(append(out, `,"ext":`...), p.Ext); err != nil {
			return out, err
		}
	}
	return append(out, '}'), nil
}

// appendText appends a member, unless its text is empty.
func appendText(out []byte, member, text string) ([]byte, error) {
	if text == "" {
		return out, nil
	}
	return jsontext.AppendQuote(append(out, member...), text)
}
