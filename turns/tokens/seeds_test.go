package tokens

import (
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"nexus/turns"
)

func TestTextCountsOfEachCounter(t *testing.T) {
	for _, test := range []struct {
		text                           string
		approx, gsv, spec008, wolffish uint64
	}{
		{"", 0, 0, 0, 0},
		{"a", 1, 1, 1, 1},
		{"four", 2, 2, 1, 3},
		{"0123456789", 3, 3, 3, 7},
		{strings.Repeat("x", 1000), 271, 300, 250, 667},
		{"漢字漢字漢", 5, 2, 2, 4}, // five code points, five units
		{"😀😀😀😀", 4, 3, 1, 6},  // four code points, eight units
		{"Zoë", 2, 1, 1, 2},
		{"\xff\xfe", 2, 2, 1, 3}, // not UTF-8: some count
	} {
		got := [4]uint64{Approx{}.Text(test.text), GSV{}.Text(test.text), Spec008{}.Text(test.text), Wolffish{}.Text(test.text)}
		if want := [4]uint64{test.approx, test.gsv, test.spec008, test.wolffish}; got != want {
			t.Errorf("%.20q: %v, want %v", test.text, got, want)
		}
	}
}

// Row GSV-1: len(JSON)/4 × 1.2 a message.
func TestGSV1(t *testing.T) {
	for _, test := range []struct {
		message       turns.Message
		json          string
		tokens, parts uint64
	}{
		{
			turns.Message{Role: turns.User},
			`{"role":"user","parts":[]}`, 8, 0, // 26 units: 7.8
		}, {
			turns.TextMessage(turns.User, "hello"),
			`{"role":"user","parts":[{"type":"text","content":"hello"}]}`, 18, 9, // 59: 17.7; the part 33: 9.9
		}, {
			turns.TextMessage(turns.User, "a\n😀"),
			`{"role":"user","parts":[{"type":"text","content":"a\n😀"}]}`, 18, 9, // the same: the escape is two units, and so is the character
		}, {
			turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: "c1", Response: turns.Raw(`{ "ok": true }`)}}},
			`{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":{"ok":true}}]}`, 27, 18, // 88: 26.4; the part 62: 18.6
		}, {
			turns.Message{Role: turns.Assistant, Parts: []turns.Part{turns.TextPart("a"), turns.TextPart("b")}},
			`{"role":"assistant","parts":[{"type":"text","content":"a"},{"type":"text","content":"b"}]}`, 27, 16, // 90: 27; each part 29: 8.7
		},
	} {
		b, err := turns.EncodeJSON(&test.message)
		if err != nil || string(b) != test.json {
			t.Errorf("%s, %v, want %s", b, err, test.json)
		}
		if n, parts := (GSV{}).Message(&test.message), partsOf(GSV{}, &test.message); n != test.tokens || parts != test.parts {
			t.Errorf("%s: %d tokens, %d in parts, want %d and %d", b, n, parts, test.tokens, test.parts)
		}
	}
}

// Against the formula as it is written, with another measure of the length.
func TestGSVAgreesWithItsFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t, false)
		b, err := turns.EncodeJSON(m)
		if err != nil {
			t.Skip(err)
		}
		units := uint64(len(utf16.Encode([]rune(string(b)))))
		if got, want := (GSV{}).Message(m), (units*12+39)/40; got != want {
			t.Errorf("%s: %d, want %d", b, got, want)
		}
	})
}

// Row S8-27: everything is counted, not contents alone.
func TestS827WholePayload(t *testing.T) {
	ten := strings.Repeat("x", 10)
	for _, test := range []struct {
		name              string
		part              turns.Part
		spec008, wolffish uint64 // of the part
	}{
		{"text", turns.TextPart(ten), 2, 6},
		{"reasoning", turns.Part{Type: turns.Reasoning, Content: ten, Ext: turns.Raw(`{"a":"sig"}`)}, 5, 14},
		{"call", turns.Part{Type: turns.ToolCall, ID: "c1", Name: "ls", Arguments: turns.Raw(`{"path":"."}`)}, 4, 10},
		{"result", turns.Part{Type: turns.ToolCallResponse, ID: "c1", Response: turns.Raw(`"` + ten + `"`)}, 3, 9},
		{"moved text", turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Size: 10}}, 2, 6},
		{"moved result", turns.Part{Type: turns.ToolCallResponse, ID: "c1", Ref: &turns.BlobRef{Size: 12}}, 3, 9},
		{"image", turns.Part{Type: turns.Blob, Modality: "image", Data: make([]byte, 1<<20)}, 1500, 1500},
		{"moved image", turns.Part{Type: turns.Blob, Modality: "image", Ref: &turns.BlobRef{Size: 1 << 30}}, 1500, 1500},
		{"link", turns.Part{Type: turns.URI, Modality: "image", Content: "https://example.com/i.png"}, 1500, 1500},
		{"file", turns.Part{Type: turns.File, Content: "file-1"}, 1500, 1500},
	} {
		if a, b := (Spec008{}).Part(&test.part), (Wolffish{}).Part(&test.part); a != test.spec008 || b != test.wolffish {
			t.Errorf("%s: %d and %d, want %d and %d", test.name, a, b, test.spec008, test.wolffish)
		}
	}
}

// Rounding happens once: a hundred parts of one character are 25 tokens and 67.
func TestFractionsAddUp(t *testing.T) {
	m := turns.Message{Role: turns.User}
	for range 100 {
		m.Parts = append(m.Parts, turns.TextPart("x"))
	}
	if n := (Spec008{}).Message(&m); n != 25 {
		t.Errorf("Spec008 %d, want 25", n)
	}
	if n := (Wolffish{}).Message(&m); n != 67 {
		t.Errorf("Wolffish %d, want 67", n)
	}
}

// The parts of a message never count more than it, and what they leave is its
// framing: that of the empty message, and less than a token for each part's
// fraction and comma.
func TestMessageIsFramingAndParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t, true)
		for _, c := range counters() {
			empty := turns.Message{Role: m.Role, Name: m.Name, FinishReason: m.FinishReason}
			n, parts, framing := c.Message(m), partsOf(c, m), c.Message(&empty)
			if n < parts || n-parts > framing+2*uint64(len(m.Parts)) {
				t.Errorf("%s: the message %d, its parts %d, its framing %d", c.Name(), n, parts, framing)
			}
		}
	})
}

// A message counts the same in any order of its parts.
func TestMessageCountsTheSameInAnyOrderOfParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t, true)
		other := *m
		other.Parts = rapid.Permutation(m.Parts).Draw(t, "order")
		for _, c := range counters() {
			if a, b := c.Message(m), c.Message(&other); a != b {
				t.Errorf("%s: %d, in another order %d", c.Name(), a, b)
			}
		}
	})
}

// Content counts about the same in place and moved to a blob, where it is
// ASCII; the JSON of a moved argument lacks the member's name.
func TestPartMovedToABlobCountsAboutTheSame(t *testing.T) {
	text := strings.Repeat("abc 12, ", 500)
	raw := turns.RawText(text)
	for _, test := range []struct {
		part turns.Part
		size int
	}{
		{turns.TextPart(text), len(text)},
		{turns.Part{Type: turns.Reasoning, Content: text, Ext: turns.Raw(`{"a":"sig"}`)}, len(text)},
		{turns.Part{Type: turns.ToolCall, ID: "c1", Name: "ls", Arguments: raw}, len(raw)},
		{turns.Part{Type: turns.ToolCallResponse, ID: "c1", Response: raw}, len(raw)},
	} {
		moved := test.part
		moved.Content, moved.Arguments, moved.Response, moved.Ref = "", nil, nil, &turns.BlobRef{Size: uint64(test.size)}
		for _, c := range []Counter{Approx{}, GSV{}, Spec008{}, Wolffish{}} {
			if a, b := c.Part(&test.part), c.Part(&moved); a > b+5 || b > a+5 {
				t.Errorf("%s, %s: %d in place, %d moved", c.Name(), test.part.Type, a, b)
			}
		}
	}
}

// What can't be: no counter panics or runs over.
func TestNoCounterPanicsOnAnInvalidMessage(t *testing.T) {
	m := turns.Message{Role: "\xff", Parts: []turns.Part{
		{Type: "?", Content: "\xff", Arguments: turns.Raw("{"), Response: turns.Raw("\x00")},
		{Type: turns.Text, Content: "\xed\xa0\x80"},
		{Type: turns.Text, Ref: &turns.BlobRef{Size: 1 << 60}},
	}}
	for _, c := range counters() {
		if n := c.Message(&m); n < 1<<58/2 || n > 1<<60 {
			t.Errorf("%s: %d", c.Name(), n)
		}
	}
}

func TestNamedFindsEachCounter(t *testing.T) {
	for _, c := range counters() {
		if got, ok := Named(c.Name()); !ok || got != c {
			t.Errorf("Named(%q) = %v, %v", c.Name(), got, ok)
		}
	}
	if c, ok := Named(""); !ok || c != (Approx{}) {
		t.Errorf("the default is %v, %v", c, ok)
	}
	if c, ok := Named("approx-2"); ok || c != nil {
		t.Errorf("approx-2 is %v, %v", c, ok)
	}
}

// Scale is what the counters themselves give for a long ASCII text.
func TestScaleIsTheRatioForASCII(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	one := float64(Approx{}.Text(long))
	for _, c := range []Counter{Approx{}, GSV{}, Spec008{}, Wolffish{}} {
		got, want := Scale(c.Name()), float64(c.Text(long))/one
		if got < want*0.9999 || got > want*1.0001 {
			t.Errorf("%s: %v, want %v", c.Name(), got, want)
		}
	}
	if Scale("") != 1 || Scale("o200k-1") != 1 || Scale("other") != 1 {
		t.Error("a name without a scale has one")
	}
}

func partsOf(c Counter, m *turns.Message) (n uint64) {
	for i := range m.Parts {
		n += c.Part(&m.Parts[i])
	}
	return n
}

func BenchmarkMessage(b *testing.B) {
	m := turns.TextMessage(turns.User, strings.Repeat("The tests of package turns pass; see café.go:12, line 40.\n", 1800))
	for _, c := range counters() {
		b.Run(c.Name(), func(b *testing.B) {
			b.SetBytes(int64(len(m.Parts[0].Content)))
			b.ReportAllocs()
			for b.Loop() {
				c.Message(&m)
			}
		})
	}
}
