package turns

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// The encoder of turns writes what the library writes, and that can be read.
func TestTurnsAreEncodedAsTheLibraryDoes(t *testing.T) {
	same := func(t *rapid.T, body *TurnBody) {
		want, err := encMode.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := EncodeBody(body)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%+v:\n%x, %v; want\n%x", body, got, err, want)
		}
		if err := DecodeBody(got, new(TurnBody)); err != nil {
			t.Fatal(err)
		}
		if m := body.Response; m != nil {
			want, err := encMode.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := EncodeBody(m); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%+v:\n%x, %v; want\n%x", m, got, err, want)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		body := &TurnBody{Messages: drawMessages(t), Model: drawText(t), Meta: drawObject(t)}
		if rapid.Bool().Draw(t, "response") {
			m := drawMessage(t)
			m.FinishReason = drawText(t)
			body.Response = &m
		}
		if rapid.Bool().Draw(t, "context") {
			body.Context = &ContextRef{Recipe: drawRaw(t), Fingerprint: drawText(t)}
		}
		if rapid.Bool().Draw(t, "preamble") {
			body.Preamble = drawHash(t)
		}
		same(t, body)

		// With every member that there is, and lists and numbers of every length of head.
		all := *body
		if all.Context == nil {
			all.Context = new(ContextRef)
		}
		n := rapid.SampledFrom([]int{1, 23, 24, 255, 256, 300}).Draw(t, "elements")
		part := Part{Type: Blob, Content: drawText(t), ID: drawText(t), Name: drawText(t), Arguments: Raw("1"), Response: Raw("2"), IsError: true,
			Modality: drawText(t), MimeType: drawText(t), Data: make([]byte, n), Ext: Raw("{}"),
			Ref: &BlobRef{Digest: drawHash(t), Size: rapid.Uint64().Draw(t, "size") >> rapid.IntRange(0, 63).Draw(t, "shift"), MimeType: drawText(t), Preview: drawText(t), Pieces: make([]Hash, n)}}
		all.Response = &Message{Role: Role(drawText(t)), Parts: make([]Part, n), Name: drawText(t), FinishReason: drawText(t)}
		for i := range all.Response.Parts {
			all.Response.Parts[i].Type = Text
		}
		all.Response.Parts[n-1] = part
		all.Messages = make([]Message, n)
		same(t, &all)
		same(t, &TurnBody{})
	})
}

// A member that is added to a turn is encoded: here it is set alone, and must change the bytes.
func TestEachMemberOfATurnIsEncoded(t *testing.T) {
	for _, zero := range []any{TurnBody{}, ContextRef{}, Message{}, Part{}, BlobRef{}} {
		typ := reflect.TypeOf(zero)
		for i := range typ.NumField() {
			v := reflect.New(typ)
			f := v.Elem().Field(i)
			switch f.Kind() {
			case reflect.String:
				f.SetString("x")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Uint64:
				f.SetUint(7)
			case reflect.Pointer:
				f.Set(reflect.New(f.Type().Elem()))
			case reflect.Array:
				f.Index(0).SetUint(7)
			case reflect.Slice:
				if f.Type().Elem().Kind() == reflect.Uint8 {
					f.SetBytes([]byte("{}"))
				} else {
					f.Set(reflect.MakeSlice(f.Type(), 1, 1))
				}
			default:
				t.Fatalf("%v.%s: a kind that this test does not know", typ, typ.Field(i).Name)
			}
			body := new(TurnBody)
			switch x := v.Interface().(type) {
			case *TurnBody:
				body = x
			case *ContextRef:
				body.Context = x
			case *Message:
				body.Response = x
			case *Part:
				body.Response = &Message{Parts: []Part{*x}}
			case *BlobRef:
				body.Response = &Message{Parts: []Part{{Ref: x}}}
			}
			want, err := encMode.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := EncodeBody(body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v.%s: %x, %v; want %x", typ, typ.Field(i).Name, got, err, want)
			}
		}
	}
}

// A text that is not UTF-8 and a value that is no JSON are refused wherever a turn has them.
func TestTurnThatCouldNotBeReadDoesNotEncode(t *testing.T) {
	bad, raw := "a\xff", Raw("{")
	part := func(p Part) *TurnBody { return &TurnBody{Messages: []Message{{Parts: []Part{p}}}} }
	for i, body := range []*TurnBody{
		{Model: bad}, {Meta: raw}, {Context: &ContextRef{Recipe: raw}}, {Context: &ContextRef{Fingerprint: bad}},
		{Response: &Message{Role: Role(bad)}}, {Response: &Message{Name: bad}}, {Response: &Message{FinishReason: bad}},
		part(Part{Type: PartType(bad)}), part(Part{Content: bad}), part(Part{ID: bad}), part(Part{Name: bad}), part(Part{Arguments: raw}),
		part(Part{Response: raw}), part(Part{Modality: bad}), part(Part{MimeType: bad}), part(Part{Ext: raw}),
		part(Part{Ref: &BlobRef{MimeType: bad}}), part(Part{Ref: &BlobRef{Preview: bad}}),
	} {
		if _, err := EncodeBody(body); !errors.Is(err, ErrMalformed) {
			t.Error(fmt.Sprint(i), err)
		}
	}
}

// Of a turn's encodings only the one that the library writes is read.
func TestOnlyTheLibrarysEncodingOfATurnIsRead(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, b []byte) bool {
		return sameBodyAsLibrary(t, b, reflect.TypeFor[TurnBody]())
	}
	for _, b := range []string{
		"\xa1\x01\x80", "\xa1\x01\xf6", "\xa1\x02\xf6", "\xa1\x03\x60", "\xa1\x05\x40", "\xa1\x06\xf6", "\xa1\x06\xa0", "\xa1\x07\x40", // present and empty
		"\xa1\x18\x03\x61x", "\xa1\x03\x78\x01x", "\xb8\x01\x03\x61x", "\xbf\x03\x61x\xff", "\xa1\x03\x7f\x61x\xff", // longer heads
		"\xa2\x05\x427b\x03\x61x", "\xa2\x03\x61x\x03\x61x", "\xa1\x04\x01", "\xa1\x03\x61\xff", "\xa1\x02\xa1\x01\x60", "\xa1\x02\xa2\x01\x61x\x02\x81\xa2\x01\x60\x07\xf4",
	} {
		check(t, []byte(b))
	}
	if !check(t, []byte("\xa1\x03\x61x")) {
		t.Error("a canonical encoding is not read")
	}
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		b, err := EncodeBody(&TurnBody{Messages: drawMessages(t), Model: drawText(t), Response: &m, Meta: drawObject(t)})
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				b[i] = rapid.Byte().Draw(t, "byte")
			case 1:
				b = append(b[:i], b[i+1:]...)
			default:
				b = append(b[:i], append([]byte{rapid.Byte().Draw(t, "more")}, b[i:]...)...)
			}
			if len(b) == 0 {
				return
			}
		}
		check(t, b)
	})
}
