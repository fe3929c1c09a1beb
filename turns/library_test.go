package turns

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"
)

// The library reads and writes the format by the tags of the types, and so is a second
// opinion on fields.go, which has the members of each type in a method.

// encMode is RFC 8949 section 4.2.1: shortest forms, sorted keys, no indefinite lengths.
var encMode = func() cbor.EncMode {
	o := cbor.CoreDetEncOptions()
	o.Time = cbor.TimeUnix
	o.TagsMd = cbor.TagsForbidden
	o.NilContainers = cbor.NilContainerAsEmpty
	m, err := o.EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

var decMode = func() cbor.DecMode {
	m, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8RejectInvalid,
		MaxNestedLevels:   16,
		MaxArrayElements:  MaxElements,
		MaxMapPairs:       1 << 10,
		IntDec:            cbor.IntDecConvertNone,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// libraryPayload is the payload of e by the library.
func libraryPayload(e *Event) ([]byte, error) {
	header, err := encMode.Marshal(e)
	if err != nil {
		return nil, err
	}
	body, err := encMode.Marshal(e.Body)
	return append(append([]byte{0x82}, header...), body...), err
}

// libraryDecode is [Decode] by the library: it reads, and encodes again to compare.
func libraryDecode(payload []byte) (*Event, error) {
	var p struct {
		_      struct{} `cbor:",toarray"`
		Header Event
		Body   []byte
	}
	if err := decMode.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	e := &p.Header
	if len(p.Body) > 0 {
		e.Body = p.Body
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	again, err := libraryPayload(e)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, payload) {
		return nil, fmt.Errorf("%w: not canonical", ErrMalformed)
	}
	return e, nil
}

// sameAsLibrary checks that the library and Decode take the same payloads as the same events.
func sameAsLibrary(t testing.TB, payload []byte) {
	t.Helper()
	want, werr := libraryDecode(payload)
	got, gerr := Decode(payload)
	if (werr == nil) != (gerr == nil) || gerr == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%x\nreads as %+v, %v\nby the library %+v, %v", payload, got, gerr, want, werr)
	}
}

// TestDecodeAgreesWithTheLibrary: on random events and on changes of their bytes.
func TestDecodeAgreesWithTheLibrary(t *testing.T) {
	for kind, name := range kindNames {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { decodesAsTheLibrary(t, rt, kind) }) })
	}
}

func decodesAsTheLibrary(t *testing.T, rt *rapid.T, kind Kind) {
	e, _ := drawEventOf(rt, kind)
	b, err := e.Encode()
	if err != nil {
		rt.Fatal(err)
	}
	sameAsLibrary(t, b)
	for range rapid.IntRange(1, 3).Draw(rt, "changes") {
		i := rapid.IntRange(0, len(b)-1).Draw(rt, "at")
		switch rapid.IntRange(0, 2).Draw(rt, "change") {
		case 0:
			b[i] ^= rapid.Byte().Draw(rt, "byte")
		case 1:
			b = append(b[:i], b[i+1:]...)
		default:
			b = append(b[:i], append([]byte{rapid.Byte().Draw(rt, "more")}, b[i:]...)...)
		}
		if len(b) == 0 {
			return
		}
	}
	sameAsLibrary(t, b)
}

// TestEventsAreEncodedAsTheLibraryDoes: whatever the fields hold and whether they are
// valid together.
func TestEventsAreEncodedAsTheLibraryDoes(t *testing.T) {
	same := func(t *rapid.T, e *Event) {
		want, werr := encMode.Marshal(e)
		got, err := e.HeaderBytes()
		if err != nil || werr != nil || !bytes.Equal(got, want) {
			t.Fatalf("%+v:\n%x, %v; want\n%x, %v", e, got, err, want, werr)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		e, _ := drawEvent(t)
		same(t, e)
		all := *e // with members that no kind has together, and numbers of every length
		number := func() uint64 { return rapid.Uint64().Draw(t, "number") >> rapid.IntRange(0, 63).Draw(t, "shift") }
		for _, n := range []*uint64{&all.Version, &all.Index, &all.Depth, &all.Calls, &all.Open, &all.Late, &all.Abandoned, &all.UserTexts, &all.Tokens.Messages, &all.Tokens.Response} {
			*n = number()
		}
		all.Kind, all.Halves, all.State, all.Encoding = Kind(number()), Halves(number()), State(number()), Encoding(number())
		all.Claimed, all.Recorded = rapid.Int64().Draw(t, "claimed"), rapid.Int64().Draw(t, "recorded")
		all.Actor, all.Agent, all.Role, all.Sender, all.Tokens.Counter = drawText(t), drawText(t), SessionKind(drawText(t)), drawText(t), drawText(t)
		all.Chain = Chain{Entity: Entity(drawText(t)), ID: drawText(t)}
		all.Prev, all.Digest, all.Commitment, all.Parent, all.SpawnedBy, all.To = drawHash(t), drawHash(t), drawHash(t), drawRef(t), drawRef(t), drawRef(t)
		all.Segment, all.Root, all.Successor = drawID(t), drawID(t), drawID(t)
		all.Keys = []ID{drawID(t), drawID(t)}
		all.Blobs = []BlobLink{{Address: drawHash(t), Size: number()}}
		all.Span = &Span{Through: drawRef(t), FirstKept: drawRef(t), Split: true, SawThrough: drawRef(t), Previous: drawRef(t), Provenance: Provenance(number()), Dropped: true,
			Elisions: []Elision{{Turn: drawRef(t), Half: Half(number()), Message: number(), Part: number()}}, Covered: number(), Call: true}
		all.Usage = &Usage{InputTokens: number(), OutputTokens: number(), CacheRead: number(), CacheCreation: number()}
		all.Flush = &Flush{State: FlushState(number()), Cycle: number(), After: drawRef(t), Try: number(), Lease: rapid.Int64().Draw(t, "lease")}
		all.Policy = &StoredPolicy{Digest: drawHash(t), Name: drawHash(t), Version: number()}
		all.Origin, all.ForkOf = &Origin{Tenant: drawText(t), Session: drawID(t)}, &ForkOf{At: drawRef(t), Hash: drawHash(t), Mode: ForkMode(number())}
		all.Timed = rapid.Bool().Draw(t, "timed")
		all.Memory = &Memory{State: MemoryState(number()), Kind: MemoryKind(number()), Trust: Trust(number()), Text: drawHash(t), Private: true, Branch: drawRef(t),
			Sources: drawSources(t), From: []ID{drawID(t)}, Supersedes: drawID(t), Of: drawID(t), ValidFrom: rapid.Int64().Draw(t, "valid")}
		all.Document = &StoredDocument{Version: number(), Text: drawHash(t), Sources: drawSources(t)}
		all.Learned, all.External = []Learned{{Kind: MemoryKind(number()), Text: drawHash(t)}}, &ExternalLink{Channel: drawText(t), ID: drawID(t)}
		for i, v := 0, reflect.ValueOf(all); i < v.NumField(); i++ {
			if f := v.Type().Field(i); v.Field(i).Kind() == reflect.Pointer && v.Field(i).IsNil() {
				t.Fatalf("field %s is not drawn: add it here and to fields", f.Name)
			}
		}
		same(t, &all)
		same(t, &Event{})
	})
}

// TestBodiesAreEncodedAsTheLibraryDoes: on random bodies of every kind, and on changes of
// their bytes, of which only the library's own encoding is read.
func TestBodiesAreEncodedAsTheLibraryDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		_, v := drawEvent(rt)
		if v == nil {
			return
		}
		want, err := encMode.Marshal(v)
		if err != nil {
			rt.Fatal(err)
		}
		b, err := EncodeBody(v)
		if err != nil || !bytes.Equal(b, want) {
			rt.Fatalf("%+v:\n%x, %v; want\n%x", v, b, err, want)
		}
		i := rapid.IntRange(0, len(b)-1).Draw(rt, "at")
		b[i] ^= rapid.Byte().Draw(rt, "byte")
		sameBodyAsLibrary(rt, b, reflect.TypeOf(v).Elem())
	})
}

// sameBodyAsLibrary checks that the library and DecodeBody agree on b, and reports whether they take it.
func sameBodyAsLibrary(t interface{ Fatalf(string, ...any) }, b []byte, typ reflect.Type) bool {
	want := reflect.New(typ).Interface()
	err := decMode.Unmarshal(b, want)
	var again []byte
	if err == nil {
		again, err = encMode.Marshal(want)
	}
	takes := err == nil && bytes.Equal(again, b)
	got := reflect.New(typ).Interface()
	err = DecodeBody(b, got)
	if takes && errors.Is(err, ErrUnsupported) && hasUnknownPart(reflect.ValueOf(want)) {
		return false
	}
	if (err == nil) != takes {
		t.Fatalf("%x: %v; the library would read it: %v", b, err, takes)
	}
	if takes && !reflect.DeepEqual(got, want) {
		t.Fatalf("%x reads as %+v, by the library %+v", b, got, want)
	}
	return takes
}

// hasUnknownPart reports whether a part in v has a type that the library takes and this build does not know.
func hasUnknownPart(v reflect.Value) bool {
	switch {
	case v.Type() == reflect.TypeFor[PartType]():
		return !PartType(v.String()).known()
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return hasUnknownPart(v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			if hasUnknownPart(v.Index(i)) {
				return true
			}
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if hasUnknownPart(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// checkRaw reports the first Raw in v that is not one JSON value: that is checked where it is written only.
func checkRaw(v reflect.Value) error {
	switch {
	case v.Type() == reflect.TypeFor[Raw]():
		if v.Len() > 0 {
			return checkJSON(v.Bytes())
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return checkRaw(v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			if err := checkRaw(v.Index(i)); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if err := checkRaw(v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}
