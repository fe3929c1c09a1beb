package turns

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type request struct {
	ID       string    `json:"id"`
	Depth    uint64    `json:"depth,omitzero"`
	Messages []Message `json:"messages,omitzero"`
	Response *Message  `json:"response,omitzero"`
	Usage    *Usage    `json:"usage,omitzero"`
	Meta     Raw       `json:"meta,omitzero"`
}

// TestHostileJSONIsRefused: what other readers repair in silence is refused, and the
// error names the field.
func TestHostileJSONIsRefused(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	msg := func(part string) string { return `{"messages":[{"role":"user","parts":[` + part + `]}]}` }
	for _, tt := range []struct {
		name, in, field string
		want            error
	}{
		{"nothing", ``, "", ErrMalformed},
		{"space", " \n", "", ErrMalformed},
		{"duplicate key", `{"id":"a","id":"b"}`, "/id", ErrMalformed},
		{"duplicate key, escaped", `{"id":"a","\u0069d":"b"}`, "/id", ErrMalformed},
		{"duplicate key in raw JSON", `{"meta":{"a":{"b":1,"b":2}}}`, "/meta/a/b", ErrMalformed},
		{"key in another case", `{"ID":"a"}`, "/ID", ErrMalformed},
		{"key folded by Unicode", `{"meſſages":[]}`, "/meſſages", ErrMalformed},
		{"unknown key", `{"idx":1}`, "/idx", ErrMalformed},
		{"unknown key to be escaped", `{"a/b~c":1}`, "/a~1b~0c", ErrMalformed},
		{"unknown key in a part", msg(`{"type":"text","content":"x","text":"y"}`), "/messages/0/parts/0/text", ErrMalformed},
		{"unknown key in a message", `{"response":{"role":"assistant","parts":[],"x":1}}`, "/response/x", ErrMalformed},
		{"lone high surrogate", `{"id":"\ud800"}`, "/id", ErrMalformed},
		{"lone low surrogate", `{"id":"\udc00x"}`, "/id", ErrMalformed},
		{"surrogates the wrong way round", `{"id":"\udc00\ud800"}`, "/id", ErrMalformed},
		{"lone surrogate in raw JSON", `{"meta":["\ud83d"]}`, "/meta/0", ErrMalformed},
		{"invalid UTF-8", "{\"id\":\"a\xff\"}", "/id", ErrMalformed},
		{"invalid UTF-8 in a key", "{\"a\xff\":1}", "", ErrMalformed},
		{"overlong UTF-8", "{\"id\":\"\xc0\xaf\"}", "/id", ErrMalformed},
		{"NUL byte in a string", "{\"id\":\"a\x00\"}", "/id", ErrMalformed},
		{"NUL byte after", "{}\x00", "", ErrMalformed},
		{"byte order mark", "\xef\xbb\xbf{}", "", ErrMalformed},
		{"depth of a million", deep(1_000_000), "", ErrTooLarge},
		{"depth in raw JSON", `{"meta":` + deep(100) + `}`, "/meta", ErrTooLarge},
		{"objects a million deep", strings.Repeat(`{"a":`, 1_000_000), "", ErrTooLarge},
		{"1e308 as a count", `{"depth":1e308}`, "/depth", ErrMalformed},
		{"a fraction as a count", `{"depth":1.5}`, "/depth", ErrMalformed},
		{"a negative count", `{"depth":-1}`, "/depth", ErrMalformed},
		{"2^64", `{"depth":18446744073709551616}`, "/depth", ErrMalformed},
		{"a count as text", `{"depth":"1"}`, "/depth", ErrMalformed},
		{"2^64 tokens", `{"usage":{"input_tokens":18446744073709551616,"output_tokens":1}}`, "/usage/input_tokens", ErrMalformed},
		{"NaN", `{"meta":NaN}`, "/meta", ErrMalformed},
		{"leading zero", `{"depth":01}`, "", ErrMalformed},
		{"trailing comma", `{"id":"a",}`, "", ErrMalformed},
		{"a comment", `{"id":"a"}//x`, "", ErrMalformed},
		{"two values", `{} {}`, "", ErrMalformed},
		{"trailing text", `{"id":"a"}x`, "", ErrMalformed},
		{"cut off", `{"id":"a"`, "", ErrMalformed},
		{"an array", `[]`, "", ErrMalformed},
		{"text", `"x"`, "", ErrMalformed},
		{"a number for an object", `{"messages":[1]}`, "/messages/0", ErrMalformed},
		{"a number for text", msg(`{"type":"text","content":1}`), "/messages/0/parts/0/content", ErrMalformed},
		{"blob that is not base64", msg(`{"type":"blob","content":"%%"}`), "/messages/0/parts/0/content", ErrMalformed},
		{"blob with loose base64", msg(`{"type":"blob","content":"AB=="}`), "/messages/0/parts/0/content", ErrMalformed},
		{"blob of base64 with a line end", msg(`{"type":"blob","content":"AA\n=="}`), "/messages/0/parts/0/content", ErrMalformed},
		{"bad hash", msg(`{"type":"text","ref":{"digest":"sha256:00","size":1}}`), "/messages/0/parts/0/ref/digest", ErrMalformed},
		{"size as a string", msg(`{"type":"text","ref":{"digest":"sha256:` + strings.Repeat("0", 64) + `","size":"1"}}`), "/messages/0/parts/0/ref/size", ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r request
			err := DecodeJSON([]byte(tt.in), &r)
			var fe *FieldError
			if !errors.As(err, &fe) || !errors.Is(err, tt.want) {
				t.Fatalf("%v, want a FieldError of %v", err, tt.want)
			}
			if !strings.HasPrefix(fe.Field, tt.field) || tt.want == ErrMalformed && fe.Field != tt.field {
				t.Errorf("field %q, want %q (%v)", fe.Field, tt.field, err)
			}
		})
	}
}

func TestDecodeJSONKeepsRawValuesAsTheyAre(t *testing.T) {
	in := `{"id":"\u0000é\ud83d\ude00","messages":[{"role":"user","parts":[{"type":"blob","content":"AP8="},{"type":"tool_call","id":"1","name":"f",` +
		`"arguments":{"b":1.0, "a":123456789012345678901234567890, "e":1e999}}]}],"meta": {"z":1,"a":2} }`
	var got request
	if err := DecodeJSON([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	want := request{ID: "\x00é😀", Meta: Raw(`{"z":1,"a":2}`), Messages: []Message{{Role: User, Parts: []Part{
		{Type: Blob, Data: []byte{0, 0xff}},
		{Type: ToolCall, ID: "1", Name: "f", Arguments: Raw(`{"b":1.0, "a":123456789012345678901234567890, "e":1e999}`)}}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if err := DecodeJSON([]byte(strings.Repeat("[", 100)+strings.Repeat("]", 100)), new(Raw)); err != nil {
		t.Errorf("depth 100: %v", err)
	}
}

// A part alone, in a list that is a tool's result, has the protocol's form too.
func TestPartsAloneHaveTheFormOfTheProtocol(t *testing.T) {
	want := []Part{TextPart(""), TextPart("a"), {Type: Blob, Modality: "image", MimeType: "image/png", Data: []byte{0, 0xff}}}
	b, err := EncodeJSON(want)
	const form = `[{"type":"text","content":""},{"type":"text","content":"a"},{"type":"blob","content":"AP8=","modality":"image","mime_type":"image/png"}]`
	if err != nil || string(b) != form {
		t.Errorf("%s, %v, want %s", b, err, form)
	}
	var got []Part
	if err := DecodeJSON(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	for in, field := range map[string]string{`[{"type":"blob","content":"%"}]`: "/0/content", `[{"Type":"text"}]`: "/0/Type"} {
		var fe *FieldError
		if err := DecodeJSON([]byte(in), &got); !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v, want a FieldError at %s", in, err, field)
		}
	}
}

// TestPartRefusesWhatStandsBesideARef is about what stands beside a ref; the rest of
// Message.Validate is in the daemon's tables.
func TestPartRefusesWhatStandsBesideARef(t *testing.T) {
	ref := &BlobRef{Digest: sampleHash(1), Size: 1}
	for name, tt := range map[string]struct {
		part Part
		want error
	}{
		"ref":                   {Part{Type: Text, Ref: ref}, nil},
		"ref and content":       {Part{Type: Text, Content: "x", Ref: ref}, ErrMalformed},
		"ref and arguments":     {Part{Type: ToolCall, ID: "1", Name: "f", Arguments: Raw("{}"), Ref: ref}, ErrMalformed},
		"ref without digest":    {Part{Type: Text, Ref: &BlobRef{Size: 1}}, ErrMalformed},
		"ref to too much":       {Part{Type: Text, Ref: &BlobRef{Digest: sampleHash(1), Size: MaxBody + 1}}, ErrTooLarge},
		"pieces":                {Part{Type: Text, Ref: inPieces(MaxPiece+1, 2)}, nil},
		"the most pieces":       {Part{Type: Text, Ref: inPieces(MaxPart, MaxPart/MaxPiece)}, nil},
		"too much in pieces":    {Part{Type: Text, Ref: inPieces(MaxPart+1, MaxPart/MaxPiece+1)}, ErrTooLarge},
		"a size over all":       {Part{Type: Text, Ref: inPieces(1<<64-1, 1)}, ErrTooLarge},
		"a piece too few":       {Part{Type: Text, Ref: inPieces(MaxPiece+1, 1)}, ErrMalformed},
		"a piece too many":      {Part{Type: Text, Ref: inPieces(MaxPiece, 2)}, ErrMalformed},
		"a piece of nothing":    {Part{Type: Text, Ref: inPieces(0, 1)}, ErrMalformed},
		"piece without digest":  {Part{Type: Text, Ref: &BlobRef{Digest: sampleHash(1), Size: 1, Pieces: []Hash{{}}}}, ErrMalformed},
		"preview not UTF-8":     {Part{Type: Text, Ref: &BlobRef{Digest: sampleHash(1), Preview: "\xff"}}, ErrMalformed},
		"content not UTF-8":     {Part{Type: Text, Content: "\xff"}, ErrMalformed},
		"arguments not JSON":    {Part{Type: ToolCall, ID: "1", Name: "f", Arguments: Raw("{")}, ErrMalformed},
		"ext that is no object": {Part{Type: Text, Ext: Raw("[]")}, ErrMalformed},
		"uri with a ref":        {Part{Type: URI, Content: "u", Ref: ref}, ErrMalformed},
	} {
		m := Message{Role: Assistant, Parts: []Part{tt.part}}
		if err := m.Validate(""); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// inPieces is a ref of n pieces to size bytes.
func inPieces(size uint64, n int) *BlobRef {
	r := &BlobRef{Digest: sampleHash(1), Size: size}
	for i := range n {
		r.Pieces = append(r.Pieces, sampleHash(byte(i+2)))
	}
	return r
}

// A notice is a valid part of the same kind of place, however the preview was cut.
func TestNoticeIsAPartThatFitsInItsPlace(t *testing.T) {
	ref := inPieces(MaxPart, MaxPart/MaxPiece)
	ref.Preview = "\"cut \\u00"
	for _, p := range []Part{
		{Type: Text, Ref: ref}, {Type: Reasoning, Ref: ref, Ext: Raw(`{"anthropic":{"signature":"AAA="}}`)}, {Type: ToolCall, ID: "1", Name: "f", Ref: ref},
		{Type: Blob, MimeType: "image/png", Ref: inPieces(MaxPart, MaxPart/MaxPiece)},
	} {
		m := Message{Role: Assistant, Parts: []Part{TextPart("x"), p}}
		shown := Shown([]Message{TextMessage(User, "q"), m})
		if err := ValidateMessages("", shown); err != nil {
			t.Errorf("%s: %v", p.Type, err)
		}
		if q := shown[1].Parts[1]; q.Ref != nil || q.ID != p.ID || len(q.Content)+len(q.Arguments) > 600 || m.Parts[1].Ref == nil {
			t.Errorf("%s is shown as %+v", p.Type, q)
		}
	}
	response := Part{Type: ToolCallResponse, ID: "1", Name: "f", IsError: true, Ref: ref}
	q := response.Notice()
	want := Part{Type: ToolCallResponse, ID: "1", Name: "f", IsError: true, Response: RawText("[104857600 bytes, too many to show; turn.get names the pieces, and blob.get reads them. The beginning:]\n" + ref.Preview)}
	if d := cmp.Diff(want, q); d != "" {
		t.Errorf("the notice changed, and with it the counts of stored turns (-want +got)\n%s", d)
	}
}

func TestCanonicalJSONHasOneForm(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[ 1 , 2 ]}`:           `{"a":[1,2],"b":1}`,
		"{\"\\u0061\":\"\\u00e9\\/\"}":    `{"a":"é/"}`,
		`[9007199254740993,1.0,1e5,-0]`:   `[9007199254740993,1.0,1e5,-0]`,
		` null `:                          `null`,
		`{"a":{"d":1,"c":2},"aa":"<&>"}`:  `{"a":{"c":2,"d":1},"aa":"<&>"}`,
		`{"\ud83d\ude00":1,"\uffff":2}`:   "{\"😀\":1,\"\uffff\":2}", // by UTF-16 code units, as RFC 8785
		`{"meta":{"x":"\u0000\u001f\n"}}`: `{"meta":{"x":"\u0000\u001f\n"}}`,
	} {
		b := []byte(in)
		got, err := CanonicalJSON(b)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", in, got, err, want)
		}
		if string(b) != in {
			t.Errorf("%s was changed", in)
		}
		if again, err := CanonicalJSON(got); err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s is not stable: %s, %v", in, again, err)
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"id":"\ud83d\ude00","messages":[{"role":"user","parts":[{"type":"text","content":"x"}]}],"meta":{"a":1e400}}`,
		`{"response":{"role":"assistant","parts":[{"type":"tool_call","id":"1","name":"f","arguments":{}}]},"usage":{"input_tokens":1,"output_tokens":2}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r request
		err := DecodeJSON(b, &r)
		if err != nil {
			if fe := (*FieldError)(nil); !errors.As(err, &fe) || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("not a FieldError: %#v", err)
			}
			return
		}
		if err := checkJSON(b); err != nil { // which reads only what has enough brackets
			t.Fatalf("%s decodes: %v", b, err)
		}
		out, err := EncodeJSON(&r)
		if err != nil {
			t.Fatalf("decodes, but does not encode: %v", err)
		}
		var again request
		if err := DecodeJSON(out, &again); err != nil {
			t.Fatalf("%s does not decode: %v", out, err)
		}
		if out2, err := EncodeJSON(&again); err != nil || !bytes.Equal(out, out2) {
			t.Fatalf("%s, then %s: %v", out, out2, err)
		}
		c, err := CanonicalJSON(b)
		if err != nil {
			t.Fatal(err)
		}
		if c2, err := CanonicalJSON(c); err != nil || !bytes.Equal(c, c2) {
			t.Fatalf("canonical %s, then %s: %v", c, c2, err)
		}
		valid := ValidateMessages("/messages", r.Messages) == nil && ValidateResponse("/response", r.Response) == nil
		body := &TurnBody{Messages: r.Messages, Response: r.Response, Meta: r.Meta}
		if p, err := EncodeBody(body); err == nil {
			// A part of an unknown type is refused before it is stored; such a body is that of a later build.
			if err := DecodeBody(p, new(TurnBody)); err != nil && (valid || !errors.Is(err, ErrUnsupported)) {
				t.Fatal(err)
			}
		} else if !errors.Is(err, ErrTooLarge) {
			t.Fatalf("decodes, but can't be stored: %v", err)
		}
	})
}

// The zero id is not a way to write that there is none: a request that names it
// would be taken for one that does not.
func TestTheZeroIDIsNoID(t *testing.T) {
	var v struct {
		ID ID `json:"id,omitzero"`
	}
	err := DecodeJSON([]byte(`{"id":"00000000000000000000000000"}`), &v)
	if f := (*FieldError)(nil); !errors.As(err, &f) || f.Field != "/id" || !errors.Is(err, ErrMalformed) {
		t.Errorf("%v, want malformed at /id", err)
	}
	if err := DecodeJSON([]byte(`{}`), &v); err != nil || !v.ID.IsZero() {
		t.Errorf("left out: %v, %v", v.ID, err)
	}
}

// A refusal names the place, and what can stand there.
func TestARefusedValueSaysWhatCanStandThere(t *testing.T) {
	for text, want := range map[string]string{
		`{"n":-5}`:    "/n: this number can't stand here, a whole number from 0 can",
		`{"n":1.5}`:   "/n: this number can't stand here, a whole number from 0 can",
		`{"n":1e99}`:  "/n: this number can't stand here, a whole number from 0 can",
		`{"n":"x"}`:   "/n: a JSON string can't stand here, a whole number from 0 can",
		`{"s":5}`:     "/s: a JSON number can't stand here, a string can",
		`{"p":{}}`:    "/p: a JSON object can't stand here, a string can",
		`{"l":{}}`:    "/l: a JSON object can't stand here, an array can",
		`{"l":[1]}`:   "/l/0: a JSON number can't stand here, a string can",
		`{"b":0}`:     "/b: a JSON number can't stand here, true or false can",
		`{"m":[]}`:    "/m: a JSON array can't stand here, an object can",
		`{"other":1}`: "/other: unknown field",
		`{"messages":[{"role":"user","content":"hello"}]}`:                        "/messages/0/content: unknown field; a message has parts",
		`{"messages":[{"role":"user","parts":[{"type":"text","text":"hello"}]}]}`: "/messages/0/parts/0/text: unknown field",
	} {
		var x struct {
			N        uint64         `json:"n"`
			S        string         `json:"s"`
			P        *string        `json:"p"`
			L        []string       `json:"l"`
			B        bool           `json:"b"`
			M        map[string]int `json:"m"`
			Messages []Message      `json:"messages"`
		}
		if err := DecodeJSON([]byte(text), &x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestAMessageWithoutPartsIsRefused(t *testing.T) {
	for text, want := range map[string]string{`[{"role":"user"}]`: "/0/parts: missing", `[{"role":"user","parts":null}]`: "/0/parts: missing", `[{"role":"user","parts":[]}]`: ""} {
		var ms []Message
		err := DecodeJSON([]byte(text), &ms)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
