package render

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/internal/plain"
)

// Builders of the values that the tables of the four formats are made of.

func msg(role turns.Role, parts ...turns.Part) turns.Message {
	return turns.Message{Role: role, Parts: parts}
}

func call(id, args string) turns.Part {
	return turns.Part{Type: turns.ToolCall, ID: id, Name: "ls", Arguments: turns.Raw(args)}
}

func result(id, response string) turns.Part {
	return turns.Part{Type: turns.ToolCallResponse, ID: id, Response: turns.Raw(response)}
}

func failedResult(id, response string) turns.Part {
	p := result(id, response)
	p.IsError = true
	return p
}

func signed(text, ext string) turns.Part {
	return turns.Part{Type: turns.Reasoning, Content: text, Ext: turns.Raw(ext)}
}

func pngPart() turns.Part {
	return turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte("png")}
}

const pngList = `[{"type":"text","content":"see"},{"type":"blob","content":"cG5n","modality":"image","mime_type":"image/png"}]`

type renderer func([]turns.Section, []turns.Raw, []turns.Message) (Rendered, error)

type renderCase struct {
	name   string
	in     []turns.Message
	system string   // wanted
	want   []string // messages wanted, in order
}

// runRenders renders each case under the section "be kind" and a blank one.
func runRenders(t *testing.T, render renderer, sections []turns.Section, cases []renderCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := turns.ValidateMessages("", c.in); err != nil {
				t.Fatalf("the case is no valid context: %v", err)
			}
			r, err := render(sections, nil, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.system, string(r.System)); diff != "" {
				t.Errorf("system (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, lines(r)); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func lines(r Rendered) []string {
	var out []string
	for _, m := range r.Messages {
		out = append(out, string(m))
	}
	return out
}

func TestOTel(t *testing.T) {
	ms := []turns.Message{
		turns.TextMessage(turns.User, ""),
		msg(turns.Assistant, signed("hm", `{"anthropic": {"signature":"s"}}`), call("a", `{"n":12345678901234567890}`)),
	}
	r, err := OTel([]turns.Section{{Name: "rules", Content: "be kind"}}, []turns.Raw{turns.Raw(`{"name":"ls"}`)}, ms)
	if err != nil {
		t.Fatal(err)
	}
	got, err := turns.EncodeJSON(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"system":[{"name":"rules","content":"be kind"}],"tools":[{"name":"ls"}],"messages":[` +
		`{"role":"user","parts":[{"type":"text","content":""}]},` +
		`{"role":"assistant","parts":[{"type":"reasoning","content":"hm","ext":{"anthropic":{"signature":"s"}}},` +
		`{"type":"tool_call","id":"a","name":"ls","arguments":{"n":12345678901234567890}}]}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnpaired(t *testing.T) {
	hi := turns.TextMessage(turns.User, "hi")
	for _, c := range []struct {
		name string
		in   []turns.Message
		ok   bool
	}{
		{"open at the end", []turns.Message{hi, msg(turns.Assistant, call("a", "{}"))}, true},
		{"partly open at the end", []turns.Message{hi, msg(turns.Assistant, call("a", "{}"), call("b", "{}")), msg(turns.Tool, result("b", `""`))}, true},
		{"one message a call", []turns.Message{hi, msg(turns.Assistant, call("a", "{}")), msg(turns.Assistant, call("b", "{}")), msg(turns.Tool, result("b", `""`), result("a", `""`)), hi}, true},
		{"note between call and result", []turns.Message{hi, msg(turns.Assistant, call("a", "{}")), turns.TextMessage(turns.System, "note"), msg(turns.User, result("a", `""`))}, true},
		{"the same id in a later run", []turns.Message{msg(turns.Assistant, call("a", "{}")), msg(turns.Tool, result("a", `""`)), msg(turns.Assistant, call("a", "{}")), msg(turns.Tool, result("a", `""`))}, true},
		{"user moves on", []turns.Message{hi, msg(turns.Assistant, call("a", "{}")), hi}, false},
		{"assistant moves on", []turns.Message{hi, msg(turns.Assistant, call("a", "{}"), call("b", "{}")), msg(turns.Tool, result("a", `""`)), turns.TextMessage(turns.Assistant, "so")}, false},
		{"result without a call", []turns.Message{hi, msg(turns.Tool, result("a", `""`))}, false},
		{"late result", []turns.Message{msg(turns.Assistant, call("a", "{}")), msg(turns.Tool, result("a", `""`)), msg(turns.Tool, result("a", `""`))}, false},
		{"one open id twice", []turns.Message{msg(turns.Assistant, call("a", "{}")), msg(turns.Assistant, call("a", "{}")), msg(turns.Tool, result("a", `""`))}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, render := range map[string]renderer{"openai": OpenAI, "anthropic": Anthropic, "gemini": Gemini} {
				_, err := render(nil, nil, c.in)
				if c.ok && err != nil || !c.ok && !errors.Is(err, ErrUnpaired) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := OTel(nil, nil, c.in); err != nil {
				t.Errorf("otel checks no pairs: %v", err)
			}
		})
	}
	if _, err := OpenAI(nil, nil, []turns.Message{{Role: "function"}}); !errors.Is(err, turns.ErrMalformed) {
		t.Errorf("unknown role: %v", err)
	}
	if _, err := Anthropic(nil, nil, []turns.Message{turns.TextMessage(turns.User, "\xff")}); err == nil {
		t.Error("invalid UTF-8 was rendered")
	}
}

// A tool definition is the agent's own, in the form of its provider.
func TestToolsPassThrough(t *testing.T) {
	tool := turns.Raw(`{"type":"function", "function":{"name":"ls","parameters":{"b":1,"a":2}}}`)
	for name, render := range map[string]renderer{"openai": OpenAI, "anthropic": Anthropic, "gemini": Gemini, "otel": OTel} {
		r, err := render(nil, []turns.Raw{tool}, nil)
		if err != nil || len(r.Tools) != 1 || string(r.Tools[0]) != string(tool) {
			t.Errorf("%s: tools %s, %v", name, r.Tools, err)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	digest := turns.Hash{1}
	for _, c := range []struct {
		want string
		p    turns.Part
	}{
		{"[image/tiff of 3 bytes, not shown]", turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/tiff", Data: []byte("abc")}},
		{"[video at gs://b/v]", turns.Part{Type: turns.URI, Modality: "video", Content: "gs://b/v"}},
		{"[audio, not shown]", turns.Part{Type: turns.URI, Modality: "audio", Content: "data:audio/wav;base64,aGk="}},
		{"[file in file f-1]", turns.Part{Type: turns.File, Content: "f-1"}},
		{"[text of 9 bytes, stored as " + (&turns.BlobRef{Digest: digest}).Address().String() + "]", turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Digest: digest, Size: 9}}},
		{"[text of 9 bytes, stored as " + (&turns.BlobRef{Digest: digest}).Address().String() + ", beginning with]\nabc", turns.Part{Type: turns.Text, Ref: &turns.BlobRef{Digest: digest, Size: 9, Preview: "abc"}}},
	} {
		if got := plain.Text(&c.p); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestWireIDs(t *testing.T) {
	w := wireIDs{fits: func(id string) bool { return len(id) <= 8 || strings.HasPrefix(id, "call_") }}
	first := w.assign([]*turns.Part{{ID: "a"}, {ID: "too long for it"}})
	again := w.assign([]*turns.Part{{ID: "a"}, {ID: "too long for it"}, {ID: "b"}})
	if first[0] != "a" || again[2] != "b" {
		t.Errorf("an id that fits is changed: %q, %q", first, again)
	}
	seen := make(map[string]bool)
	for _, id := range append(first, again...) {
		if seen[id] || !w.fits(id) {
			t.Errorf("id %q is used twice or does not fit", id)
		}
		seen[id] = true
	}
}
