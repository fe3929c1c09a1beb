package turns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestEachChangedByteIsRefusedOrAnotherEvent: each change of one byte of a golden payload is refused, or is
// another event: with another hash, and encoding to the changed bytes.
func TestEachChangedByteIsRefusedOrAnotherEvent(t *testing.T) {
	refused, other := 0, 0
	for _, path := range goldenFiles(t) {
		payload, _, _ := goldenPayload(t, path)
		hash := HashEvent(payload)
		for i := range payload {
			for x := 1; x < 256; x++ {
				if x&(x-1) != 0 && (i+x)%16 != 0 { // every bit, and a sixteenth of the rest
					continue
				}
				b := bytes.Clone(payload)
				b[i] ^= byte(x)
				if HashEvent(b) == hash {
					t.Fatalf("%s: byte %d changed, the hash not", path, i)
				}
				sameAsLibrary(t, b)
				e, err := Decode(b)
				if err != nil {
					if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrTooLarge) {
						t.Fatalf("%s: byte %d: untyped error %v", path, i, err)
					}
					refused++
					continue
				}
				other++
				if again, err := e.Encode(); err != nil || !bytes.Equal(again, b) {
					t.Fatalf("%s: byte %d ^ %#x decodes to an event that encodes otherwise: %v", path, i, x, err)
				}
			}
		}
		for i := range payload { // and no prefix is an event
			if _, err := Decode(payload[:i]); err == nil {
				t.Fatalf("%s: its first %d bytes decode", path, i)
			}
		}
		if _, err := Decode(append(bytes.Clone(payload), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: with a byte more: %v", path, err)
		}
	}
	t.Logf("%d changes refused, %d are other events", refused, other)
}

// item is a CBOR item taken apart by the test's own reader, so that it can be
// written again in ways that the codec never would.
type item struct {
	major byte
	arg   uint64
	bytes []byte
	kids  []item // of an array; of a map key, value, key, …
}

func parse(b []byte) (it item, rest []byte) {
	it.major, it.arg = b[0]>>5, uint64(b[0]&31)
	b = b[1:]
	if it.arg >= 24 {
		n := 1 << (it.arg - 24)
		it.arg = 0
		for _, c := range b[:n] {
			it.arg = it.arg<<8 | uint64(c)
		}
		b = b[n:]
	}
	kids := it.arg
	switch it.major {
	case 2, 3:
		it.bytes, b = b[:it.arg], b[it.arg:]
		return it, b
	case 4:
	case 5:
		kids *= 2
	default:
		return it, b
	}
	for range kids {
		var k item
		k, b = parse(b)
		it.kids = append(it.kids, k)
	}
	return it, b
}

// oddWriter writes items; at the target-th chance to deviate, it does.
type oddWriter struct {
	how    string
	target int
	chance int
	key    uint64
}

func (w *oddWriter) deviate() bool { w.chance++; return w.chance-1 == w.target }

func shortest(major byte, arg uint64) []byte {
	m := major << 5
	switch {
	case arg < 24:
		return []byte{m | byte(arg)}
	case arg < 1<<8:
		return []byte{m | 24, byte(arg)}
	case arg < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{m | 25}, uint16(arg))
	case arg < 1<<32:
		return binary.BigEndian.AppendUint32([]byte{m | 26}, uint32(arg))
	}
	return binary.BigEndian.AppendUint64([]byte{m | 27}, arg)
}

func (w *oddWriter) write(it item) []byte {
	h := shortest(it.major, it.arg)
	if w.how == "longer head" && it.major < 7 && len(h) < 9 && w.deviate() {
		h = binary.BigEndian.AppendUint64([]byte{it.major<<5 | 27}, it.arg)
	}
	kids := it.kids
	switch it.major {
	case 2, 3:
		if w.how == "indefinite length" && w.deviate() {
			return slices.Concat([]byte{it.major<<5 | 31}, shortest(it.major, it.arg), it.bytes, []byte{0xff})
		}
		return append(h, it.bytes...)
	case 5:
		if w.how == "unsorted keys" && len(kids) >= 4 && w.deviate() {
			kids = slices.Concat(kids[2:4], kids[:2], kids[4:])
		}
		if w.how == "duplicate key" && len(kids) >= 2 && w.deviate() {
			kids = slices.Concat(kids[:2], kids)
			h = shortest(5, it.arg+1)
		}
		if w.how == "unknown key" && w.deviate() {
			kids = slices.Concat(kids, []item{{major: 0, arg: 9999}, {major: 0}})
			h = shortest(5, it.arg+1)
		}
		if w.how == "later key" && w.deviate() {
			at := 0 // keys stay sorted
			for at < len(kids) && kids[at].arg < w.key {
				at += 2
			}
			kids = slices.Concat(kids[:at], []item{{major: 0, arg: w.key}, {major: 0, arg: 7}}, kids[at:])
			h = shortest(5, it.arg+1)
		}
		if w.how == "text key" && w.deviate() {
			kids = slices.Concat(kids, []item{{major: 3, arg: 1, bytes: []byte("1")}, {major: 0}})
			h = shortest(5, it.arg+1)
		}
	case 4:
		if w.how == "longer array" && w.deviate() {
			kids = append(slices.Clone(kids), item{major: 0})
			h = shortest(4, it.arg+1)
		}
	}
	if w.how == "null" && w.deviate() {
		return []byte{0xf6}
	}
	if w.how == "tag" && w.deviate() {
		h = append([]byte{0xc1}, h...)
	}
	end := []byte(nil)
	if (it.major == 4 || it.major == 5) && w.how == "indefinite length" && w.deviate() {
		h, end = []byte{it.major<<5 | 31}, []byte{0xff}
	}
	for _, k := range kids {
		h = append(h, w.write(k)...)
	}
	return append(h, end...)
}

// TestBytesThatAreNotCanonicalAreRefused writes each golden payload, and each body, again in every
// other way that CBOR allows, one deviation at a time. None decodes.
func TestBytesThatAreNotCanonicalAreRefused(t *testing.T) {
	ways := []string{"longer head", "indefinite length", "unsorted keys", "duplicate key", "unknown key", "text key", "longer array", "null", "tag"}
	for _, s := range samples() {
		e, err := s.made()
		if err != nil {
			t.Fatal(err)
		}
		payload, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		tries := map[string]func([]byte) error{"event": func(b []byte) error { _, err := Decode(b); return err }}
		data := map[string][]byte{"event": payload}
		if s.body != nil {
			data["body"] = e.Body
			tries["body"] = func(b []byte) error { return DecodeBody(b, reflect.New(reflect.TypeOf(s.body).Elem()).Interface()) }
		}
		for what, b := range data {
			tree, rest := parse(b)
			if len(rest) != 0 || !bytes.Equal((&oddWriter{}).write(tree), b) {
				t.Fatalf("%s %s: the test's own codec is wrong", s.name, what)
			}
			for _, how := range ways {
				for target := 0; ; target++ {
					w := &oddWriter{how: how, target: target}
					odd := w.write(tree)
					if w.chance <= target {
						break
					}
					if bytes.Equal(odd, b) {
						t.Fatalf("%s %s: %s %d deviates not", s.name, what, how, target)
					}
					if how == "longer array" && tries[what](odd) == nil {
						// A longer list of elements is another value; it must still be its own encoding.
						continue
					}
					err := tries[what](odd)
					if err == nil {
						t.Errorf("%s %s decodes with %s (%d): %x", s.name, what, how, target, odd)
					} else if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) {
						t.Errorf("%s %s with %s (%d): %v", s.name, what, how, target, err)
					}
				}
			}
		}
	}
}

// TestUnknownVersionsAndKindsAreUnsupported: what a later build may write is unsupported, never
// malformed and never skipped.
func TestUnknownVersionsAndKindsAreUnsupported(t *testing.T) {
	for _, tt := range []struct {
		name string
		v    any
		want error
	}{
		{"a later version", []any{map[int]any{1: 2, 2: 2}}, ErrUnsupported},
		{"a later version of other fields", []any{map[int]any{1: 2, 2: 2, 3: 1.5, 4: map[string]any{"x": cbor.Tag{Number: 1, Content: 0}}, 99: nil}, 1, 2, 3}, ErrUnsupported},
		{"a later version without a kind", []any{map[int]any{1: 3}, []byte{}}, ErrUnsupported},
		{"the last version", []any{map[int]any{1: uint64(1<<64 - 1)}, []byte{}}, ErrUnsupported},
		{"an unknown kind", []any{map[int]any{1: 1, 2: 12}, []byte{}}, ErrUnsupported},
		{"a kind that is 2 in its low byte", []any{map[int]any{1: 1, 2: 258}, []byte{}}, ErrUnsupported},
		{"no kind", []any{map[int]any{1: 1}, []byte{}}, ErrMalformed},
		{"version 0", []any{map[int]any{1: 0, 2: 2}, []byte{}}, ErrMalformed},
		{"no version", []any{map[int]any{2: 2}, []byte{}}, ErrMalformed},
		{"a version as text", []any{map[int]any{1: "1", 2: 2}, []byte{}}, ErrMalformed},
		{"a negative version", []any{map[int]any{1: -1, 2: 2}, []byte{}}, ErrMalformed},
		{"a float as version", []any{map[int]any{1: 1.5, 2: 2}, []byte{}}, ErrMalformed},
		{"not an array", map[int]any{1: 2, 2: 2}, ErrMalformed},
		{"not a map", []int{1, 2}, ErrMalformed},
		{"nothing but version and kind", []any{map[int]any{1: 1, 2: 2}, []byte{}}, ErrMalformed},
	} {
		b, err := anyMode.Marshal(tt.v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if _, err := Decode(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := Decode(make([]byte, MaxPayload+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too much: %v", err)
	}
}

// TestAFieldOfALaterBuildIsUnsupported: an older reader on newer events. A field with a
// number over all that a map has is what a later build adds; one between them is malformed. The hash needs neither.
func TestAFieldOfALaterBuildIsUnsupported(t *testing.T) {
	for _, s := range samples() {
		e, err := s.made()
		if err != nil {
			t.Fatal(err)
		}
		payload, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		check := func(where string, b []byte, decode func([]byte) error) {
			tree, _ := parse(b)
			maps := 0
			var count func(it *item)
			count = func(it *item) {
				if it.major == 5 {
					maps++
				}
				for i := range it.kids {
					count(&it.kids[i])
				}
			}
			count(&tree)
			for _, key := range []struct {
				n    uint64
				want error
			}{{200, ErrUnsupported}, {29, nil}} {
				for target := range maps {
					w := &oddWriter{how: "later key", target: target, key: key.n}
					err := decode(w.write(tree))
					if err == nil || key.want != nil && !errors.Is(err, key.want) || !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrMalformed) {
						t.Errorf("%s %s: map %d with a member %d: %v", s.name, where, target, key.n, err)
					}
				}
			}
		}
		check("event", payload, func(b []byte) error {
			header, body, ok := headerAndBody(b)
			if !ok || len(header)+len(body) < len(payload)-10 {
				t.Errorf("%s: what a later build wrote has no hash", s.name)
			}
			_, err := Decode(b)
			return err
		})
		if s.body != nil {
			check("body", e.Body, func(b []byte) error { return DecodeBody(b, reflect.New(reflect.TypeOf(s.body).Elem()).Interface()) })
		}
	}
}

// anyMode writes what a later version may hold, too.
var anyMode = func() cbor.EncMode {
	m, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// TestBodyThatCouldNotBeReadDoesNotEncode: what could be written but not read back.
func TestBodyThatCouldNotBeReadDoesNotEncode(t *testing.T) {
	for name, tt := range map[string]struct {
		body any
		want error
	}{
		"no body":              {nil, ErrMalformed},
		"a nil body":           {(*TurnBody)(nil), ErrMalformed},
		"model not UTF-8":      {&TurnBody{Model: "\xff"}, ErrMalformed},
		"half a rune":          {&CompactionBody{Summary: "a\xe2\x82"}, ErrMalformed},
		"a surrogate":          {&MovedBody{Note: "\xed\xa0\x80"}, ErrMalformed},
		"meta not JSON":        {&TurnBody{Meta: Raw("{")}, ErrMalformed},
		"two values":           {&TurnBody{Meta: Raw("1 2")}, ErrMalformed},
		"duplicate members":    {&TurnBody{Meta: Raw(`{"a":1,"a":2}`)}, ErrMalformed},
		"arguments not JSON":   {&TurnBody{Response: &Message{Parts: []Part{{Arguments: Raw("x")}}}}, ErrMalformed},
		"tool not JSON":        {&OpenedBody{Settings: Settings{Preamble: Preamble{Tools: []Raw{Raw("nul")}}}}, ErrMalformed},
		"JSON too deep":        {&TurnBody{Meta: Raw(strings.Repeat("[", 101) + strings.Repeat("]", 101))}, ErrTooLarge},
		"too many parts":       {&TurnBody{Messages: []Message{{Parts: make([]Part, MaxElements)}}}, ErrTooLarge},
		"too long":             {&MovedBody{Note: strings.Repeat("x", MaxBody)}, ErrTooLarge},
		"too many parts, deep": {&TurnBody{Messages: slices.Repeat([]Message{{Parts: make([]Part, 4096)}}, 65)}, ErrTooLarge},
	} {
		if _, err := EncodeBody(tt.body); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if _, err := EncodeBody(&TurnBody{Meta: Raw(`{"x":"\u0000"}`), Model: "a\x00b"}); err != nil {
		t.Errorf("NUL in text: %v", err)
	}
}

// TestEmptyIsAbsent: nil and empty lists and bytes have one encoding.
func TestEmptyIsAbsent(t *testing.T) {
	full := TurnBody{Messages: []Message{}, Meta: Raw{}, Response: &Message{Role: Assistant, Parts: []Part{{Type: Blob, Data: []byte{}}}}}
	bare := TurnBody{Response: &Message{Role: Assistant, Parts: []Part{{Type: Blob}}}}
	a, err := EncodeBody(&full)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := EncodeBody(&bare); err != nil || !bytes.Equal(a, b) {
		t.Errorf("%x and %x, %v", a, b, err)
	}
	e := samples()[2].event
	e.Blobs, e.Keys, e.Body = []BlobLink{}, []ID{}, []byte{}
	got, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if tree, _ := parse(got); len(tree.kids) != 2 || len(tree.kids[0].kids) != 2*10 {
		t.Errorf("the minimal turn has %d header keys, want 10", len(tree.kids[0].kids)/2)
	}
}

// TestDecodeAllocatesOnlyWhatIsThere: what a few bytes announce is not allocated.
func TestDecodeAllocatesOnlyWhatIsThere(t *testing.T) {
	deep := bytes.Repeat([]byte{0x81}, 1<<20)
	huge := []byte{0xa1, 0x01, 0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	text := []byte{0xa1, 0x01, 0x7b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	// 64 messages of 2^18-1 empty parts each: 16 MiB that would take 4 GiB.
	many := []byte{0xa1, 0x01, 0x98, 64}
	for range 64 {
		many = append(many, 0xa1, 0x02, 0x9a, 0, 3, 0xff, 0xff)
		many = append(many, bytes.Repeat([]byte{0xa0}, 1<<18-1)...)
	}
	for name, b := range map[string][]byte{"deep": deep, "huge": huge, "text": text, "many": many} {
		r := testing.Benchmark(func(b1 *testing.B) {
			b1.ReportAllocs()
			for range b1.N {
				if err := DecodeBody(b, new(TurnBody)); err == nil {
					b1.Error("decodes")
				}
				if len(b) < MaxPayload {
					if _, err := Decode(b); err == nil {
						b1.Error("decodes as an event")
					}
				}
				if b1.N > 1 {
					break
				}
			}
		})
		if got := r.MemBytes; got > 64<<20 {
			t.Errorf("%s: %d bytes allocated", name, got)
		}
	}
}

// TestDecodeOfEncodeIsTheSameEvent: random events and bodies of every kind.
func TestDecodeOfEncodeIsTheSameEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, body := drawEvent(t)
		if body != nil {
			b, err := EncodeBody(body)
			if err != nil {
				t.Fatal(err)
			}
			e.Body = b
			if e.Commitment, err = Commit(e.Kind, b, NoSalts); err != nil {
				t.Fatal(err)
			}
			again := reflect.New(reflect.TypeOf(body).Elem()).Interface()
			if err := DecodeBody(b, again); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(body, again); d != "" {
				t.Fatalf("body (-encoded +decoded):\n%s", d)
			}
		}
		p, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(p)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, got); d != "" {
			t.Fatalf("event (-encoded +decoded):\n%s", d)
		}
		h, err := e.HeaderBytes()
		if err != nil || !bytes.HasPrefix(p[1:], h) {
			t.Fatalf("header %x of %x: %v", h, p, err)
		}
		if header, body, ok := headerAndBody(p); !ok || !bytes.Equal(header, h) || !bytes.Equal(body, e.Body) {
			t.Fatalf("%x falls into %x and %x", p, header, body)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, path := range goldenFiles(f) {
		payload, _, _ := goldenPayload(f, path)
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sameAsLibrary(t, b)
		e, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("untyped error: %v", err)
			}
			return
		}
		again, err := e.Encode()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("decodes, but encodes to %x: %v", again, err)
		}
		for _, how := range []string{"longer head", "indefinite length", "unsorted keys", "duplicate key"} {
			w := &oddWriter{how: how, target: len(b) % 7}
			tree, _ := parse(b)
			if odd := w.write(tree); w.chance > w.target && !bytes.Equal(odd, b) {
				if _, err := Decode(odd); err == nil {
					t.Fatalf("decodes with %s: %x", how, odd)
				}
			}
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	for _, s := range samples() {
		if s.body != nil {
			b, err := EncodeBody(s.body)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, body := range []any{new(TurnBody), new(CompactionBody), new(OpenedBody), new(MemoryBody), new(DocumentBody)} {
			err := DecodeBody(b, body)
			if err != nil {
				if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrUnsupported) {
					t.Fatalf("untyped error: %v", err)
				}
				continue
			}
			again, err := encMode.Marshal(body)
			if err != nil || !bytes.Equal(again, b) {
				t.Fatalf("decodes, but encodes to %x: %v", again, err)
			}
			if got, err := EncodeBody(body); (err == nil && !bytes.Equal(got, b)) || (err != nil && checkRaw(reflect.ValueOf(body)) == nil && !strings.Contains(err.Error(), "does not begin with")) {
				t.Fatalf("decodes, but encodes to %x: %v", got, err)
			}
		}
	})
}

// TestElementsOfABodyAreCounted: all its lists together.
func TestElementsOfABodyAreCounted(t *testing.T) {
	for _, tt := range []struct {
		messages, parts int
		want            error
	}{{63, 4096, nil}, {64, 4095, nil}, {64, 4096, ErrTooLarge}, {65, 4096, ErrTooLarge}} {
		b, err := encMode.Marshal(&TurnBody{Messages: slices.Repeat([]Message{{Parts: slices.Repeat([]Part{{Type: Text}}, tt.parts)}}, tt.messages)})
		if err != nil {
			t.Fatal(err)
		}
		if err := DecodeBody(b, new(TurnBody)); !errors.Is(err, tt.want) {
			t.Errorf("%d messages of %d parts: %v, want %v", tt.messages, tt.parts, err, tt.want)
		}
	}
}

func benchTurn(b *testing.B) (*Event, *TurnBody) {
	e := samples()[3].event
	body := &TurnBody{Messages: []Message{TextMessage(User, strings.Repeat("Some words of a user. ", 46))}, Model: "large-1",
		Response: &Message{Role: Assistant, Parts: []Part{TextPart(strings.Repeat("And an answer to them. ", 40)),
			{Type: ToolCall, ID: "call-1", Name: "ls", Arguments: Raw(`{"path":"/tmp"}`)}}}}
	enc, err := EncodeBody(body)
	if err != nil {
		b.Fatal(err)
	}
	e.Body = enc
	if e.Commitment, err = Commit(e.Kind, enc, NoSalts); err != nil {
		b.Fatal(err)
	}
	return &e, body
}

func BenchmarkEncode(b *testing.B) {
	e, body := benchTurn(b)
	for _, bb := range []struct {
		name string
		f    func() ([]byte, error)
	}{{"event", e.Encode}, {"header", e.HeaderBytes}, {"body", func() ([]byte, error) { return EncodeBody(body) }}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bb.f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	e, _ := benchTurn(b)
	p, err := e.Encode()
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		f    func() error
	}{{"event", func() error { _, err := Decode(p); return err }}, {"body", func() error { return DecodeBody(e.Body, new(TurnBody)) }}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				if err := bb.f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestABodyWithUnsoundJSONIsRefused: the format keeps JSON as it came, so what a program of others wrote can hold
// anything. Who reads it from a ledger trusts it; who takes it in does not.
func TestABodyWithUnsoundJSONIsRefused(t *testing.T) {
	with := map[string]func(r Raw) any{
		"meta of settings": func(r Raw) any { return &OpenedBody{Settings: Settings{Meta: r}} },
		"reset":            func(r Raw) any { return &ChangedBody{Settings: Settings{Reset: r}} },
		"overrides":        func(r Raw) any { return &OpenedBody{Settings: Settings{Policy: PolicyRef{Set: r}}} },
		"a tool":           func(r Raw) any { return &Preamble{Tools: []Raw{r}} },
		"meta of a turn":   func(r Raw) any { return &TurnBody{Meta: r} },
		"ext": func(r Raw) any {
			return &TurnBody{Messages: []Message{{Role: User, Parts: []Part{{Type: Text, Ext: r}}}}}
		},
		"meta of a compaction": func(r Raw) any { return &CompactionBody{Meta: r} },
		"survival":             func(r Raw) any { return &CompactionBody{Survival: r} },
		"meta of an event":     func(r Raw) any { return &ReceivedBody{Meta: r} },
		"a recipe":             func(r Raw) any { return &TurnBody{Context: &ContextRef{Recipe: r}} },
		"detail":               func(r Raw) any { return &CompactionBody{Trigger: Trigger{Detail: r}} },
		"memories":             func(r Raw) any { return &CompactionBody{Memories: r} },
		"a body of an event":   func(r Raw) any { return &ReceivedBody{Body: r} },
	}
	objects := []string{"meta of settings", "reset", "overrides", "a tool", "meta of a turn", "ext", "survival", "meta of an event"}
	for name, body := range with {
		unsound := []string{"NaN", "{} {}", `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "{"}
		if slices.Contains(objects, name) {
			unsound = append(unsound, "[]", "1")
		}
		if name == "memories" {
			unsound = append(unsound, "{}")
		}
		for _, r := range unsound {
			b, err := encMode.Marshal(body(Raw(r)))
			if err != nil {
				t.Fatal(err)
			}
			read := reflect.New(reflect.TypeOf(body(nil)).Elem()).Interface()
			if err := DecodeBody(b, read); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := CheckBody(read); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %.40q: %v", name, r, err)
			}
		}
	}
}

// TestPartsAreCountedBeforeTheyAreHashed: a few bytes of zstd can announce millions of parts.
func TestPartsAreCountedBeforeTheyAreHashed(t *testing.T) {
	parts := slices.Concat([]byte{0xa1, 0x01, 0x81, 0xa1, 0x02, 0x9a, 0, 4, 0, 0}, make([]byte, MaxElements))
	if _, err := PartSpans(KindTurn, parts); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := (&Disclosed{Leaf: 1, Count: 1<<62 + 1}).Check(Hash{}); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}
