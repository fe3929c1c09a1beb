package mark

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"nexus/turns"
)

// A text is found as it is, and as JSON, a JSON text in JSON, and an address escape it.
func TestATextIsFoundInItsForms(t *testing.T) {
	text := "pä ss\"w\\1"
	once := string(turns.RawText(text))
	for name, in := range map[string]string{
		"plain":         "x " + text + " y",
		"in JSON":       "x " + once + " y",
		"twice in JSON": "x " + string(turns.RawText(once)) + " y",
		"Go's JSON":     "x p\\u00E4 ss\\u0022w\\\\1 y",
		"PHP in JSON":   `x p\\u00e4 ss\\\"w\\\\1 y`,
		"HTML":          "x pä ss&quot;w\\1 y",
		"small digits":  "x p%c3%a4%20ss%22w%5c1 y",
		"a query":       "https://x/?a=p%C3%A4+ss%22w%5C1&b",
		"a path":        "https://x/p%C3%A4%20ss%22w%5C1/b",
	} {
		m := NewText(text)
		if got := m.String(in); m.Count != 1 || !strings.Contains(got, Marker) || m.In([]byte(got)) || !strings.HasPrefix(got, in[:1]) {
			t.Errorf("%s: %q, %d", name, got, m.Count)
		}
	}
}

// Of a text that overlaps itself nothing is left.
func TestOverlapsLeaveNoRest(t *testing.T) {
	for in, want := range map[string]string{"12341234123": "[redacted]123", "x1234123412341234y": "x[redacted]y", "123412341234 12341234": "[redacted] [redacted]", "1234": "1234", "12341234": "[redacted]"} {
		m := NewText("12341234")
		if got := m.String(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	m := NewText("aaaa")
	if got := m.String(strings.Repeat("a", 1001)); got != Marker || m.Count != 1 {
		t.Errorf("%d, %s", m.Count, got)
	}
}

// JSON stays JSON, and keeps the bytes of what has no marker; a text is found however it is escaped, in names and in numbers.
func TestJSONIsMarked(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"x s\u0065cret y","b":1.50}`: `{"a":"x [redacted] y","b":1.50}`,
		`{"secret":"\/",  "b":"\/"}`:       `{"[redacted]":"\/",  "b":"\/"}`,
		`"\"secret\""`:                     `"\"[redacted]\""`,
		`[true,"{\"pw\":\"secret\"}"]`:     `[true,"{\"pw\":\"[redacted]\"}"]`,
	} {
		m := NewText("secret")
		if got := m.JSON(turns.Raw(in)); string(got) != want || m.Count != 1 {
			t.Errorf("%s: %s, %d", in, got, m.Count)
		}
	}
	m := NewText("5551234")
	if got := m.JSON(turns.Raw(`{"phone":15551234,"n":[-3,5e9]}`)); string(got) != `{"phone":"[redacted]","n":[-3,5e9]}` || m.Count != 1 {
		t.Errorf("a number: %s", got)
	}
}

// Of any body the marked one is a body, has the text nowhere but in ids and names, and has as many parts; marked again it is the same.
func TestAnyBodyIsMarked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-zé"\\ ]{4,9}`).Draw(t, "secret")
		if strings.Contains(Marker, secret) {
			return
		}
		around := func(name string) string {
			return rapid.SampledFrom([]string{"", "x", "\"", "\\", "[redacted]"}).Draw(t, name) + rapid.SampledFrom([]string{secret, "", secret + secret, string(turns.RawText(secret))}).Draw(t, name) + "é"
		}
		body := &turns.TurnBody{Messages: []turns.Message{{Role: turns.User, Name: around("name"), Parts: []turns.Part{turns.TextPart(around("text")), {Type: turns.Reasoning, Content: around("thought"), Ext: turns.Raw(`{"a":{"s":1}}`)}}}},
			Response: &turns.Message{Role: turns.Assistant, Parts: []turns.Part{{Type: turns.ToolCall, ID: "c", Name: "run", Arguments: turns.RawText(around("arguments"))}, {Type: turns.Blob, MimeType: "image/png", Data: []byte(around("data"))}}},
			Meta:     turns.Raw(`{"k":` + string(turns.RawText(around("meta"))) + `}`)}
		m := NewText(secret)
		m.Body(body)
		b, err := turns.EncodeBody(body)
		if err != nil {
			t.Fatal(err)
		}
		if spans, err := turns.PartSpans(turns.KindTurn, b); err != nil || len(spans) != 4 {
			t.Fatalf("%d parts, %v", len(spans), err)
		}
		again := NewText(secret)
		again.Body(body)
		if again.Count != 0 || !utf8.Valid(body.Meta) {
			t.Fatalf("marked twice: %d, %+v", again.Count, body)
		}
	})
}

// All that a part says goes; its type, and what pairs it, stay; and it is valid.
func TestAPartIsMarkedWhole(t *testing.T) {
	for _, p := range []turns.Part{
		turns.TextPart("secret"), {Type: turns.Reasoning, Content: "secret", Ext: turns.Raw(`{"a":"secret"}`)},
		{Type: turns.ToolCall, ID: "c", Name: "run", Arguments: turns.Raw(`"secret"`)}, {Type: turns.ToolCallResponse, ID: "c", Response: turns.Raw(`"secret"`), IsError: true},
		{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte("secret")}, {Type: turns.URI, Modality: "image", Content: "https://secret"}, {Type: turns.File, Content: "secret"},
	} {
		x := p
		Part(&x)
		b, err := turns.EncodeBody(&turns.TurnBody{Messages: []turns.Message{{Role: turns.User, Parts: []turns.Part{x}}}})
		if err != nil || strings.Contains(string(b), "secret") || x.Type != p.Type || x.ID != p.ID || x.Name != p.Name {
			t.Errorf("%s: %+v, %v", p.Type, x, err)
		}
		role := turns.User
		if p.Type == turns.ToolCall {
			role = turns.Assistant
		}
		m := turns.Message{Role: role, Parts: []turns.Part{x}}
		if err := m.Validate("/messages/0"); err != nil {
			t.Errorf("%s: %v", p.Type, err)
		}
	}
}

// Every text of a body is either what was said, and gets markers, or one of kept. A field that
// is new is in neither list: whoever adds it decides.
func TestEveryTextOfABodyIsDecided(t *testing.T) {
	marked := strings.Fields(`
		BlobRef.Preview ClaimedBody.Label CompactionBody.Focus CompactionBody.Memories CompactionBody.Meta CompactionBody.Summary CompactionBody.Survival
		DescribedBody.Project DescribedBody.Tags DescribedBody.Title DocumentBody.Text ElidedPart.Show FlushBody.Error FlushBody.Response HiddenBody.Cause
		MemoryBody.Text MemoryBody.User MemoryBody.Zone MemoryChangedBody.Reason MovedBody.Note NotedBody.Text Part.Arguments Part.Content Part.Ext
		Part.Response ReceivedBody.Body ReceivedBody.Channel ReceivedBody.Kind ReceivedBody.Meta Section.Content Section.Name Settings.Meta Settings.User
		StateBody.Cause Trigger.Detail TurnBody.Meta`)
	found := make(map[string]bool)
	var walk func(reflect.Type)
	walk = func(x reflect.Type) {
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(x.Elem())
		case reflect.Struct:
			for f := range x.Fields() {
				name := x.Name() + "." + f.Name
				if found[name] {
					continue
				}
				if k := f.Type; k.Kind() == reflect.String || k == reflect.TypeFor[turns.Raw]() || k.Kind() == reflect.Slice && k.Elem().Kind() == reflect.String {
					found[name] = true
					continue
				}
				walk(f.Type)
			}
		}
	}
	for _, body := range []any{turns.OpenedBody{}, turns.ChangedBody{}, turns.TurnBody{}, turns.CompactionBody{}, turns.MovedBody{}, turns.StateBody{}, turns.HiddenBody{},
		turns.DescribedBody{}, turns.NotedBody{}, turns.FlushBody{}, turns.ReceivedBody{}, turns.ClaimedBody{}, turns.MemoryBody{}, turns.MemoryChangedBody{}, turns.DocumentBody{}, turns.Preamble{}} {
		walk(reflect.TypeOf(body))
	}
	for name := range kept {
		if !found[name] {
			t.Errorf("%s is kept, and is no text of a body", name)
		}
		delete(found, name)
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, marked) {
		t.Errorf("what gets markers is\n%s", strings.Join(got, " "))
	}
}

// A span of JSON ends between characters, also where one is an escape: what is left of it would be another one.
func TestASpanEndsBetweenCharacters(t *testing.T) {
	const text = `{"p\u00e9":"é\n\ud83d\ude00"}` // the letters are at 3 to 9, 12 to 14, 14 to 16, 16 to 28
	for from := range len(text) {
		for to := from + 1; to <= len(text); to++ {
			p := turns.Part{Type: turns.ToolCall, Arguments: turns.Raw(text)}
			ends := []int{2, 3, 9, 12, 14, 16, 28}
			isKey, isValue := from >= 2 && to <= 9, from >= 12 && to <= 28
			between := slices.Contains(ends, from) && slices.Contains(ends, to)
			if ok := Span(&p, from, to); ok && (isKey || isValue) && !between || !ok && (isKey || isValue) && between {
				t.Errorf("%d to %d: %v, %s", from, to, ok, p.Arguments)
			}
		}
	}
}
