package summary

import (
	"strings"
	"testing"
	"time"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Base64 counts from 256 characters on, in a member that holds bytes, of a text
// that speaks of an image.
func TestImagesInTheJSONOfTools(t *testing.T) {
	data := func(n int) string { return strings.Repeat("A", n) }
	for _, c := range []struct {
		text, want string
		n          int
	}{
		{`image {"data":"` + data(256) + `"}`, `image {"data":"[256 bytes of base64]"}`, 1},
		{`image {"data":"` + data(255) + `"}`, `image {"data":"` + data(255) + `"}`, 0},
		{`video {"data":"` + data(256) + `"}`, `video {"data":"[256 bytes of base64]"}`, 0},
		{`image {"data" : "` + data(300) + `","bytes":"` + data(256) + `"}`, `image {"data" : "[300 bytes of base64]","bytes":"[256 bytes of base64]"}`, 2},
		{`image {"other":"` + data(300) + `"}`, `image {"other":"` + data(300) + `"}`, 0},
		{`image {"data":"` + data(300), `image {"data":"` + data(300), 0},
		{`image "` + data(300) + `"`, `image "` + data(300) + `"`, 0},
		{"data:image/png;base64,AAAA end", "[image image/png] end", 1},
		{"data:image/png;base64,AAAA data:image/gif;x=1;base64,BB==", "[image image/png] [image image/gif]", 2},
		{"data:image/png,AAAA", "data:image/png,AAAA", 0},
		{"data:image/;base64,", "[image image/]", 1},
		{"data:image/", "data:image/", 0},
	} {
		if got, n := cutImages(c.text); got != c.want || n != c.n {
			t.Errorf("%.50q…: %.80q with %d images, want %.80q with %d", c.text, got, n, c.want, c.n)
		}
	}
	uri := turns.TextPart("data:image/png;base64,AA")
	blob := turns.Part{Type: turns.Blob, MimeType: "image/png"}
	sound := turns.Part{Type: turns.Blob, MimeType: "audio/wav"}
	named := turns.Part{Type: turns.URI, Modality: "image"}
	call := turns.Part{Type: turns.ToolCall, Arguments: turns.Raw(`{"x":"data:image/png;base64,AA"}`)}
	list := turns.Part{Type: turns.ToolCallResponse, Response: turns.Raw(`[{"type":"text","content":"a"},{"type":"blob","mime_type":"image/png","content":"AA=="}]`)}
	text := turns.Part{Type: turns.ToolCallResponse, Response: turns.RawText("data:image/png;base64,AA data:image/png;base64,AA")}
	for i, c := range []struct {
		parts []turns.Part
		n     int
	}{{[]turns.Part{uri}, 1}, {[]turns.Part{blob}, 1}, {[]turns.Part{sound}, 0}, {[]turns.Part{named}, 1}, {[]turns.Part{call}, 1}, {[]turns.Part{list}, 1},
		{[]turns.Part{text}, 2}, {[]turns.Part{uri, blob, sound, named, call, list, text}, 7}} {
		if n := Images([]HalfTurn{{Messages: []turns.Message{{Role: turns.User, Parts: c.parts}}}}); n != c.n {
			t.Errorf("row %d: %d images, want %d", i, n, c.n)
		}
	}
}

// A bound in a model's own tokens: the same for ASCII, fewer where its vocabulary
// counts less than approx-1.
func TestBoundInTheModelsTokens(t *testing.T) {
	for _, text := range []string{"", "plain English words of a session", "Привет, это русский текст о парсере и тестах.", "这是关于解析器的中文文本。", "a б"} {
		in := Input{Halves: []HalfTurn{{Messages: []turns.Message{turns.TextMessage(turns.User, text)}}}}
		ours, chars := (tokens.Approx{}).Text(text), uint64(len([]rune(text)))
		wantModel, wantChars := uint64(1000), uint64(3700)
		if ours > 0 && ours*3 > chars {
			wantModel, wantChars = 1000*min(ours, ModelTokens(text))/ours, 1000*chars/ours
		}
		if model, chars := modelBound(in, 1000); model != wantModel || chars != wantChars {
			t.Errorf("%q: %d tokens and %d characters, want %d and %d", text, model, chars, wantModel, wantChars)
		}
		if model, chars := modelBound(in, 1); model < 1 || chars < 1 {
			t.Errorf("%q: a bound of %d tokens and %d characters", text, model, chars)
		}
	}
	russian := Input{Previous: strings.Repeat("Привет, это русский текст. ", 9)}
	if model, _ := modelBound(russian, 1000); model >= 1000 || model < 300 {
		t.Errorf("a Russian summary has %d of 1000 tokens", model)
	}
}

// The language is read from the newest texts, a kilobyte of each and sixteen in
// all; without one, from the earlier summary.
func TestSampleIsTheNewestTexts(t *testing.T) {
	half := func(text string) HalfTurn {
		return HalfTurn{Messages: []turns.Message{turns.TextMessage(turns.User, text)}}
	}
	if got := sample(Input{Previous: "before", Halves: []HalfTurn{half("old"), half("new")}}); got != "newold" {
		t.Errorf("%q", got)
	}
	if got := sample(Input{Previous: strings.Repeat("p", sampledAll+1)}); len(got) != sampledAll {
		t.Errorf("%d bytes of an earlier summary", len(got))
	}
	if got := sample(Input{Halves: []HalfTurn{half(strings.Repeat("p", sampledPart+1))}}); len(got) != sampledPart {
		t.Errorf("%d bytes of one part", len(got))
	}
	var many []HalfTurn
	for range 2 * sampledAll / sampledPart {
		many = append(many, half(strings.Repeat("p", sampledPart)))
	}
	if got := sample(Input{Halves: many}); len(got) != sampledAll {
		t.Errorf("%d bytes of many parts", len(got))
	}
}

func TestStyleIsZeroOnlyIfNothingIsSet(t *testing.T) {
	for i, s := range []Style{{}, {ChunkRatio: 1}, {SkipRatio: 1}, {Whole: true}, {Merge: true}, {Retries: []time.Duration{}}} {
		if got := s.IsZero(); got != (i == 0) {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

func TestStyleIsValidAtItsBounds(t *testing.T) {
	for _, s := range []Style{{}, {ChunkRatio: 1, SkipRatio: 1}, {Retries: make([]time.Duration, 20)}, {Retries: []time.Duration{0, time.Hour}}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, s := range []Style{{ChunkRatio: 1.001}, {SkipRatio: 1.001}, {ChunkRatio: -.001}, {SkipRatio: -.001}, {Retries: make([]time.Duration, 21)},
		{Retries: []time.Duration{time.Hour + 1}}, {Retries: []time.Duration{-1}}} {
		if s.Validate() == nil {
			t.Errorf("%+v is valid", s)
		}
	}
}

func TestAnswerHoldsMoreThanTheSummaryWhereItIsAsked(t *testing.T) {
	for shape, want := range map[Shape]uint64{Plain: 1000, Sections: 1000, Blocks: 1628, Facts: 1628} {
		if got := (Template{Shape: shape}).AnswerTokens(1000); got != want {
			t.Errorf("%s: %d, want %d", shape, got, want)
		}
	}
}

func TestKindsOfMemories(t *testing.T) {
	for kind, want := range map[string]bool{"": false, "a": true, "z": true, "a_b": true, "a0": true, "a9": true, "_a": false, "0a": false, "A": false, "a-b": false, "a:": false, "a/": false,
		"{": false, "`": false, strings.Repeat("a", 32): true, strings.Repeat("a", 33): false} {
		if got := isKind(kind); got != want {
			t.Errorf("%q: %v, want %v", kind, got, want)
		}
	}
}

// Text that a call, a result or a moved part has, and that reasoning has not.
func TestTextOfParts(t *testing.T) {
	moved := &turns.BlobRef{Preview: "begin", Size: 99}
	for _, c := range []struct {
		part turns.Part
		text string
		ok   bool
	}{
		{turns.TextPart("hi"), "hi", true},
		{turns.Part{Type: turns.Text, Ref: moved}, "begin [99 bytes are stored apart]", true},
		{turns.Part{Type: turns.Text, Ref: moved, Content: "whole"}, "whole", true},
		{turns.Part{Type: turns.ToolCall, Name: "run", Arguments: turns.Raw(`{"a":1}`)}, `[call run {"a":1}]`, true},
		{turns.Part{Type: turns.ToolCall, Name: "run", Ref: moved}, "[call run begin [99 bytes are stored apart]]", true},
		{turns.Part{Type: turns.ToolCall, Name: "run", Ref: moved, Arguments: turns.Raw(`{}`)}, "[call run {}]", true},
		{turns.Part{Type: turns.ToolCallResponse, Response: turns.RawText("ok")}, "[result] ok", true},
		{turns.Part{Type: turns.ToolCallResponse, IsError: true, Response: turns.Raw(`{"a":1}`)}, `[error] [result] {"a":1}`, true},
		{turns.Part{Type: turns.ToolCallResponse, Response: turns.Raw(`[{"type":"text","content":"a"},{"type":"uri","mime_type":"image/png"}]`)}, "[result] a\n[uri image/png]", true},
		{turns.Part{Type: turns.Reasoning, Content: "think"}, "", false},
		{turns.Part{Type: turns.Blob, MimeType: "image/png"}, "[blob image/png]", true},
	} {
		if text, ok := plainText(&c.part); text != c.text || ok != c.ok {
			t.Errorf("%+v: %q, %v; want %q", c.part, text, ok, c.text)
		}
	}
	m := turns.Message{Role: turns.User, Parts: []turns.Part{{Type: turns.Text, Ref: moved}, {Type: turns.Text, Ref: &turns.BlobRef{}, Content: "x"}, {Type: turns.Text}, turns.TextPart("y"), {Type: turns.Reasoning, Content: "z"}}}
	if got := TextOf(&m); got != "begin\nx\ny" {
		t.Errorf("text of a message: %q", got)
	}
}
