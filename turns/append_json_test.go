package turns

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// The JSON of a message has the bytes that the library gives it, whichever fields its parts have.
func TestTheJSONOfAMessageIsThatOfTheLibrary(t *testing.T) {
	if m, p := reflect.TypeFor[Message]().NumField(), reflect.TypeFor[Part]().NumField(); m != 4 || p != 12 {
		t.Errorf("a message has %d fields, a part %d; AppendJSON writes 4 and 12", m, p)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		for range rapid.IntRange(0, 3).Draw(t, "odd parts") { // of fields that no valid part has together
			p := Part{Type: rapid.SampledFrom([]PartType{Text, ToolCall, ToolCallResponse, Reasoning, Blob, URI, File, "odd\n"}).Draw(t, "type"), IsError: rapid.Bool().Draw(t, "is error")}
			for _, s := range []*string{&p.Content, &p.ID, &p.Name, &p.Modality, &p.MimeType} {
				*s = rapid.SampledFrom([]string{"", "a", "ü <&> \u2028 \x01\n\"\\", "\xff"}).Draw(t, "text")
			}
			for _, r := range []*Raw{&p.Arguments, &p.Response, &p.Ext} {
				*r = rapid.SampledFrom([]Raw{nil, Raw(`{ "b": 1, "a": ["\u0041\/", "\u001B"] }`), Raw(`"x"`), Raw(`{"a":1,"a":2}`), Raw(""), Raw(`"\ud83d\ude00"`), Raw("{")}).Draw(t, "value")
			}
			if rapid.Bool().Draw(t, "ref") {
				p.Ref = &BlobRef{Digest: drawHash(t), Size: drawCount(t), MimeType: "text/plain", Preview: "é"}
			}
			if rapid.Bool().Draw(t, "data") {
				p.Data = rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "bytes")
			}
			m.Parts = append(m.Parts, p)
		}
		want, werr := EncodeJSON(m)
		got, err := m.AppendJSON([]byte("x"))
		if (err == nil) != (werr == nil) || err == nil && !bytes.Equal(got[1:], want) {
			t.Fatalf("%s, %v\nwant %s, %v", got, err, want, werr)
		}
	})
}
