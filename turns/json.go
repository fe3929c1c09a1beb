package turns

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// DecodeJSON reads one JSON value from data into v, strictly: duplicate and
// unknown members, members in another case, invalid UTF-8, lone surrogates,
// nesting over [MaxNesting] and anything after the value are refused with a
// [FieldError], never repaired. encoding/json does repair them in silence, and
// so is never used on ledger content.
func DecodeJSON(data []byte, v any) error {
	if mayNestTooDeep(data) {
		if err := checkJSON(data); err != nil {
			return err
		}
	}
	return fieldError(data, unmarshal(data, v))
}

// DecodeRequest is [DecodeJSON] for a request of the service. An unsigned number may stand there as a string too, since a
// reply has one above 2^53 as a string. v points to a zero value.
func DecodeRequest(data []byte, v any) error {
	if mayNestTooDeep(data) {
		if err := checkJSON(data); err != nil {
			return err
		}
	}
	err := unmarshal(data, v)
	if isQuotedNumber(err) { // apart, so that other requests do not pay for it
		reflect.ValueOf(v).Elem().SetZero()
		err = unmarshal(data, v, quotedNumbers)
	}
	return fieldError(data, err)
}

// unmarshal reads one JSON value strictly, but for its depth.
func unmarshal(data []byte, v any, options ...json.Options) error {
	return json.Unmarshal(data, v, append(options, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(false))...)
}

// isQuotedNumber reports whether err is of a string where an unsigned number was to stand.
func isQuotedNumber(err error) bool {
	for se := (*json.SemanticError)(nil); errors.As(err, &se); err = se.Err {
		if se.JSONKind == '"' && se.GoType == reflect.TypeFor[uint64]() {
			return true
		}
	}
	return false
}

// quotedNumbers reads an unsigned number from a string.
var quotedNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, n *uint64) error {
	if d.PeekKind() != '"' {
		return errors.ErrUnsupported // read as ever
	}
	text, err := d.ReadToken()
	if err != nil {
		return err
	}
	v, err := strconv.ParseUint(text.String(), 10, 64)
	if err != nil {
		return &FieldError{Reason: "a whole number from 0 can stand here, or a string that holds one", Kind: ErrMalformed}
	}
	*n = v
	return nil
}))

// fieldError returns the [FieldError] of an error of data's reading.
func fieldError(data []byte, err error) error {
	if err == nil {
		return nil
	}
	if err := checkJSON(data); err != nil { // what is no JSON is so whatever the type
		return err
	}
	if fe := (*FieldError)(nil); errors.As(err, &fe) {
		if fe.Field == "" {
			if se := (*json.SemanticError)(nil); errors.As(err, &se) {
				return &FieldError{Field: string(se.JSONPointer), Reason: fe.Reason, Kind: fe.Kind}
			}
		}
		return fe
	}
	if se := (*json.SemanticError)(nil); errors.As(err, &se) {
		reason := "wrong type"
		switch {
		case errors.Is(err, json.ErrUnknownName):
			reason = "unknown field" + partsOf(string(se.JSONPointer))
		case se.JSONKind != 0 && se.Err == nil:
			reason = fmt.Sprintf("a JSON %s can't stand here%s", nameOf(se.JSONKind), wanted(se.GoType))
		case errors.Is(se.Err, strconv.ErrSyntax) || errors.Is(se.Err, strconv.ErrRange):
			reason = "this number can't stand here" + wanted(se.GoType)
		case se.Err != nil:
			reason = strings.TrimPrefix(se.Err.Error(), "malformed: ")
		}
		return &FieldError{Field: string(se.JSONPointer), Reason: reason, Kind: ErrMalformed}
	}
	return &FieldError{Reason: err.Error(), Kind: ErrMalformed}
}

// partsOf says what a message has in place of a member that other forms of messages have; "" of any other.
func partsOf(pointer string) string {
	segments := strings.Split(pointer, "/")
	if n := len(segments); n > 2 && segments[n-3] == "messages" || n > 1 && segments[n-2] == "response" {
		if last := segments[n-1]; last == "content" || last == "text" || last == "tool_calls" {
			return `; a message has parts, as in {"role":"user","parts":[{"type":"text","content":"hello"}]}`
		}
	}
	return ""
}

// nameOf is the name of a kind of JSON value.
func nameOf(k jsontext.Kind) string {
	switch k {
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return k.String()
}

// wanted says what can stand where a value of a type is read; "" where that is not said.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.UnmarshalerFrom]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return ""
	}
	switch t.Kind() {
	case reflect.String:
		return ", a string can"
	case reflect.Bool:
		return ", true or false can"
	case reflect.Slice, reflect.Array:
		return ", an array can"
	case reflect.Map, reflect.Struct:
		return ", an object can"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return ", a whole number from 0 can"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return ", a whole number can"
	}
	return ""
}

// mayNestTooDeep reports whether data has enough brackets to nest deeper than
// [MaxNesting]. Everything else that checkJSON refuses, Unmarshal refuses, too.
func mayNestTooDeep(data []byte) bool {
	return bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) > MaxNesting
}

// ValidJSON reports whether data is one JSON value as [Raw] has it.
func ValidJSON(data []byte) bool { return checkJSON(data) == nil }

// checkJSON walks data once, token by token. It checks what does not depend on the
// type: syntax, UTF-8, duplicates, depth.
func checkJSON(data []byte) error {
	if IsSoundJSON(data) {
		return nil
	}
	return libraryCheck(data)
}

// libraryCheck is checkJSON by the library alone.
func libraryCheck(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	for {
		_, err := d.ReadToken()
		if err == io.EOF {
			break
		}
		if err != nil {
			if se := (*jsontext.SyntacticError)(nil); errors.As(err, &se) {
				reason := "invalid JSON"
				if se.Err != nil {
					reason = se.Err.Error()
				}
				return &FieldError{Field: string(se.JSONPointer), Reason: fmt.Sprintf("%s at byte %d", reason, se.ByteOffset), Kind: ErrMalformed}
			}
			return malformed("", "%v", err)
		}
		if d.StackDepth() > MaxNesting {
			return tooLarge(string(d.StackPointer()), "nested deeper than %d", MaxNesting)
		}
		if d.StackDepth() == 0 {
			rest := data[d.InputOffset():]
			if len(bytes.TrimLeft(rest, " \t\r\n")) > 0 {
				return malformed("", "something follows the JSON value at byte %d", d.InputOffset())
			}
			return nil
		}
	}
	return malformed("", "no JSON value")
}

// EncodeJSON is the JSON of v in one line. Raw values keep their numbers and
// their members' order.
func EncodeJSON(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.EscapeForHTML(false))
}

// CanonicalJSON returns data with sorted members, no white space, and strings in
// their shortest form. Numbers keep their digits (RFC 8785 would round those over
// 2^53). Request digests are computed of it. Data must be valid.
func CanonicalJSON(data []byte) ([]byte, error) {
	if b := canonicalForm(data); b != nil {
		return b, nil
	}
	return libraryCanonical(data)
}

// libraryCanonical is CanonicalJSON by the library alone.
func libraryCanonical(data []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(data))
	if err := v.Format(jsontext.ReorderRawObjects(true), jsontext.Multiline(false),
		jsontext.SpaceAfterColon(false), jsontext.SpaceAfterComma(false),
		jsontext.PreserveRawStrings(false), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, malformed("", "%v", err)
	}
	return v, nil
}

// MarshalJSONTo writes the value as it is.
func (r Raw) MarshalJSONTo(e *jsontext.Encoder) error {
	if r == nil {
		return e.WriteToken(jsontext.Null)
	}
	return e.WriteValue(jsontext.Value(r))
}

// UnmarshalJSONFrom keeps the exact bytes of the next value.
func (r *Raw) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	*r = Raw(bytes.Clone(v))
	return nil
}

// Kind is the first byte of the value: one of n f t " 0 { [, or 0 for none.
func (r Raw) Kind() byte {
	if len(r) == 0 {
		return 0
	}
	return byte(jsontext.Value(r).Kind())
}

// Text is the string that r holds; ok is false for another kind of value.
func (r Raw) Text() (s string, ok bool) {
	if r.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, r)
	return string(b), err == nil
}

// RawText is s as a JSON value. S must be valid UTF-8.
func RawText(s string) Raw {
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		panic(fmt.Sprintf("turns: RawText of invalid UTF-8: %v", err))
	}
	return b
}

// messageJSON and partJSON are the shapes of protocol JSON: pointers tell
// absent from empty.
type messageJSON struct {
	Role         Role       `json:"role"`
	Parts        []partJSON `json:"parts"`
	Name         string     `json:"name,omitzero"`
	FinishReason string     `json:"finish_reason,omitzero"`
}

type partJSON struct {
	Type      PartType `json:"type"`
	Content   *string  `json:"content,omitzero"`
	ID        *string  `json:"id,omitzero"`
	Name      *string  `json:"name,omitzero"`
	Arguments Raw      `json:"arguments,omitzero"`
	Response  Raw      `json:"response,omitzero"`
	IsError   bool     `json:"is_error,omitzero"`
	Modality  *string  `json:"modality,omitzero"`
	MimeType  *string  `json:"mime_type,omitzero"`
	Ref       *BlobRef `json:"ref,omitzero"`
	Ext       Raw      `json:"ext,omitzero"`
}

// MarshalJSONTo writes the protocol's form.
func (m Message) MarshalJSONTo(e *jsontext.Encoder) error {
	j := messageJSON{Role: m.Role, Parts: make([]partJSON, len(m.Parts)), Name: m.Name, FinishReason: m.FinishReason}
	for i := range m.Parts {
		j.Parts[i] = m.Parts[i].toJSON()
	}
	return json.MarshalEncode(e, j)
}

// UnmarshalJSONFrom reads the protocol's form. It checks shapes only; see
// [Message.Validate].
func (m *Message) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var j messageJSON
	if err := json.UnmarshalDecode(d, &j); err != nil {
		return err
	}
	if j.Parts == nil { // else a misspelt member would leave a message that says nothing
		return &FieldError{Field: string(d.StackPointer()) + "/parts", Reason: "missing", Kind: ErrMalformed}
	}
	*m = Message{Role: j.Role, Name: j.Name, FinishReason: j.FinishReason}
	if len(j.Parts) > 0 {
		m.Parts = make([]Part, len(j.Parts))
	}
	for i := range j.Parts {
		p, err := j.Parts[i].part()
		if err != nil {
			fe := err.(*FieldError)
			return &FieldError{Field: fmt.Sprintf("%s/parts/%d%s", d.StackPointer(), i, fe.Field), Reason: fe.Reason, Kind: fe.Kind}
		}
		m.Parts[i] = p
	}
	return nil
}

// MarshalJSONTo writes the protocol's form, of a part that stands alone: in a
// list that is a tool's result.
func (p Part) MarshalJSONTo(e *jsontext.Encoder) error { return json.MarshalEncode(e, p.toJSON()) }

// UnmarshalJSONFrom reads the protocol's form. It checks shapes only.
func (p *Part) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var j partJSON
	if err := json.UnmarshalDecode(d, &j); err != nil {
		return err
	}
	q, err := j.part()
	if err != nil {
		fe := err.(*FieldError)
		return &FieldError{Field: string(d.StackPointer()) + fe.Field, Reason: fe.Reason, Kind: fe.Kind}
	}
	*p = q
	return nil
}

func (p *Part) toJSON() partJSON {
	j := partJSON{Type: p.Type, IsError: p.IsError, Ref: p.Ref, Ext: p.Ext, Arguments: p.Arguments, Response: p.Response}
	opt := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	j.ID, j.Name, j.Modality, j.MimeType, j.Content = opt(p.ID), opt(p.Name), opt(p.Modality), opt(p.MimeType), opt(p.Content)
	switch p.Type {
	case Text, Reasoning:
		if p.Ref == nil {
			j.Content = &p.Content
		}
	case Blob:
		if p.Ref == nil {
			s := base64.StdEncoding.EncodeToString(p.Data)
			j.Content = &s
		}
	}
	return j
}

func (j *partJSON) part() (Part, error) {
	p := Part{Type: j.Type, IsError: j.IsError, Ref: j.Ref, Ext: j.Ext, Arguments: j.Arguments, Response: j.Response}
	str := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	p.ID, p.Name, p.Modality, p.MimeType = str(j.ID), str(j.Name), str(j.Modality), str(j.MimeType)
	if j.Type == Blob && j.Content != nil {
		if strings.ContainsAny(*j.Content, "\r\n") { // which the decoder skips, strict or not
			return p, malformed("/content", "not base64: a line end")
		}
		b, err := base64.StdEncoding.Strict().DecodeString(*j.Content)
		if err != nil {
			return p, malformed("/content", "not base64: %v", err)
		}
		p.Data = b
	} else {
		p.Content = str(j.Content)
	}
	return p, nil
}

// ValueEnd returns the index after the JSON value that begins at b[i]. There is no white
// space outside of strings. It looks at quotes and brackets only.
func ValueEnd(b []byte, i int) (end int, ok bool) {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = stringEnd(b, i); i < 0 {
				return 0, false
			}
			if depth == 0 {
				return i, true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1, depth == 0
			}
		case ',', ':':
			if depth == 0 {
				return 0, false
			}
		case ' ', '\t', '\r', '\n':
			return 0, false
		default:
			if depth == 0 { // a number or a word
				for end = i; end < len(b) && bytes.IndexByte([]byte(`,:]}" `), b[end]) < 0; {
					end++
				}
				return end, true
			}
		}
		i++
	}
	return 0, false
}

// stringEnd returns the index after the string that begins at b[i], −1 if it has no end.
func stringEnd(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		slashes := 0
		for k := i + n - 1; k >= i && b[k] == '\\'; k-- {
			slashes++
		}
		if i += n + 1; slashes%2 == 0 {
			return i
		}
	}
}
