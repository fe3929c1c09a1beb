package render

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
)

func TestOpenAIRender(t *testing.T) {
	user, sys := `{"role":"user","content":"hi"}`, `{"role":"system","content":"be kind"}`
	hi := turns.TextMessage(turns.User, "hi")
	oaCall := func(id, args string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"ls","arguments":` + args + `}}`
	}
	runRenders(t, OpenAI, []turns.Section{{Content: "be kind"}, {Content: ""}}, []renderCase{
		{name: "nothing", want: []string{sys}},
		{name: "system stays where it stands", in: []turns.Message{turns.TextMessage(turns.System, "summary"), hi, turns.TextMessage(turns.System, "note")},
			want: []string{sys, `{"role":"system","content":"summary"}`, user, `{"role":"system","content":"note"}`}},
		{name: "consecutive messages stay apart; empty ones go", in: []turns.Message{hi, hi, turns.TextMessage(turns.User, ""), msg(turns.Assistant), msg(turns.User, turns.TextPart("a"), turns.TextPart(" "))},
			want: []string{sys, user, user, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":" "}]}`}},
		{name: "name", in: []turns.Message{{Role: turns.User, Name: "ann", Parts: hi.Parts}, {Role: turns.User, Name: "ann b", Parts: hi.Parts}},
			want: []string{sys, `{"role":"user","name":"ann","content":"hi"}`, user}},
		{name: "parallel calls, results out of order with a note between",
			in: []turns.Message{msg(turns.Assistant, turns.TextPart("ok"), call("a", `{"p": "\u00e9"}`), call("b", `[1]`)),
				msg(turns.Tool, result("b", `{"n": 1}`)), turns.TextMessage(turns.System, "note"), msg(turns.User, turns.TextPart("hi"), failedResult("a", `"bad"`))},
			want: []string{sys, `{"role":"assistant","content":"ok","tool_calls":[` + oaCall("a", `"{\"p\": \"\\u00e9\"}"`) + `,` + oaCall("b", `"[1]"`) + `]}`,
				`{"role":"tool","tool_call_id":"a","content":"bad"}`, `{"role":"tool","tool_call_id":"b","content":"{\"n\": 1}"}`,
				`{"role":"system","content":"note"}`, user}},
		{name: "calls alone", in: []turns.Message{msg(turns.Assistant, turns.TextPart(""), call("a", `{}`)), msg(turns.Tool, result("a", `""`))},
			want: []string{sys, `{"role":"assistant","content":null,"tool_calls":[` + oaCall("a", `"{}"`) + `]}`, `{"role":"tool","tool_call_id":"a","content":""}`}},
		{name: "reasoning goes", in: []turns.Message{msg(turns.Assistant, signed("hm", `{"anthropic":{"signature":"s"}}`), turns.TextPart("so")), msg(turns.Assistant, signed("hm", `{}`))},
			want: []string{sys, `{"role":"assistant","content":"so"}`}},
		{name: "images", in: []turns.Message{msg(turns.User, pngPart(), turns.Part{Type: turns.URI, Modality: "image", Content: "https://x/y"}), msg(turns.Assistant, pngPart())},
			want: []string{sys, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}},{"type":"image_url","image_url":{"url":"https://x/y"}}]}`,
				`{"role":"assistant","content":"[image/png of 3 bytes, not shown]"}`}},
		{name: "images of results follow the run", in: []turns.Message{msg(turns.Assistant, call("a", `{}`), call("b", `{}`)), msg(turns.Tool, result("a", pngList), result("b", `"x"`)), hi},
			want: []string{sys, `{"role":"assistant","content":null,"tool_calls":[` + oaCall("a", `"{}"`) + `,` + oaCall("b", `"{}"`) + `]}`,
				`{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"see"},{"type":"text","text":"[image, shown after the tool results]"}]}`,
				`{"role":"tool","tool_call_id":"b","content":"x"}`,
				`{"role":"user","content":[{"type":"text","text":"[image from the result of a]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]}`, user}},
	})
}

func TestFromOpenAI(t *testing.T) {
	in := `[{"role":"developer","content":"d"},
	 {"role":"user","name":"ann","content":[{"type":"text","text":"see","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}},{"type":"image_url","image_url":{"url":"https://x/y"}}]},
	 {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{\"n\": 12345678901234567890}"}},{"id":"b","type":"function","function":{"name":"ls","arguments":"{\"cut"}},{"id":"c","type":"function","function":{"name":"ls","arguments":""}}]},
	 {"role":"tool","tool_call_id":"a","name":"ls","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},
	 {"role":"tool","tool_call_id":"b","content":[]},
	 {"role":"tool","tool_call_id":"c","content":"[1]"},
	 {"role":"assistant","content":"so","refusal":null,"annotations":[]}]`
	got, err := FromOpenAI([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	x := result("a", `[{"type":"text","content":"x"},{"type":"text","content":"y"}]`)
	x.Name = "ls"
	ann := msg(turns.User, turns.TextPart("see"), pngPart(), turns.Part{Type: turns.URI, Modality: "image", Content: "https://x/y"})
	ann.Name = "ann"
	want := []turns.Message{
		turns.TextMessage(turns.System, "d"), ann,
		msg(turns.Assistant, signed("hm", ""), call("a", `{"n": 12345678901234567890}`), call("b", `"{\"cut"`), call("c", `{}`)),
		msg(turns.Tool, x), msg(turns.Tool, result("b", `""`)), msg(turns.Tool, result("c", `"[1]"`)),
		turns.TextMessage(turns.Assistant, "so"),
	}
	want[2].Parts[0].Ext = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFromOpenAIErrors(t *testing.T) {
	for in, want := range map[string]error{
		`{}`:                         turns.ErrMalformed,
		`[`:                          turns.ErrMalformed,
		`[{"role":"user"}] []`:       turns.ErrMalformed,
		`[{"role":"a","role":"b"}]`:  turns.ErrMalformed,
		`[{"role":1}]`:               turns.ErrMalformed,
		`[{"role":"tool"}]`:          turns.ErrMalformed,
		`[{"role":"function"}]`:      turns.ErrUnsupported,
		"[{\"content\":\"\xff\"}]":   turns.ErrMalformed,
		strings.Repeat("[", 100_000): turns.ErrTooLarge,
		`[{"role":"user","content":[{"type":"input_audio"}]}]`:        turns.ErrUnsupported,
		`[{"role":"assistant","tool_calls":[{"id":"a"}]}]`:            turns.ErrMalformed,
		`[{"role":"assistant","tool_calls":[{"type":"custom"}]}]`:     turns.ErrUnsupported,
		`[{"role":"user","content":"x","name":"` + longName() + `"}]`: turns.ErrTooLarge,
	} {
		if _, err := FromOpenAI([]byte(in)); !errors.Is(err, want) {
			t.Errorf("%.60s: %v, want %v", in, err, want)
		}
	}
}

func longName() string { return strings.Repeat("n", turns.MaxName+1) }
