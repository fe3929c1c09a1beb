package render

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
)

func TestAnthropicRender(t *testing.T) {
	const sys, user = `[{"type":"text","text":"be kind"}]`, `{"role":"user","content":"hi"}`
	hi := turns.TextMessage(turns.User, "hi")
	use := func(id, input string) string {
		return `{"type":"tool_use","id":"` + id + `","name":"ls","input":` + input + `}`
	}
	start := `{"role":"user","content":"[The conversation continues; what came before is not shown.]"}`
	runRenders(t, Anthropic, []turns.Section{{Content: "be kind"}, {Content: " \n"}}, []renderCase{
		{name: "nothing", system: sys},
		{name: "summary alone", in: []turns.Message{turns.TextMessage(turns.System, "summary")}, system: `[{"type":"text","text":"be kind"},{"type":"text","text":"summary"}]`},
		{name: "leading system moves, a later one is marked", in: []turns.Message{turns.TextMessage(turns.System, "summary"), hi, turns.TextMessage(turns.System, "note")},
			system: `[{"type":"text","text":"be kind"},{"type":"text","text":"summary"}]`,
			want:   []string{`{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"[System message]\nnote"}]}`}},
		{name: "one role, one message; blank texts go", in: []turns.Message{hi, turns.TextMessage(turns.Assistant, "a"), turns.TextMessage(turns.User, "\t\u001f"), turns.TextMessage(turns.Assistant, "b"), hi},
			system: sys, want: []string{user, `{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, user}},
		{name: "assistant first, trailing space", in: []turns.Message{turns.TextMessage(turns.Assistant, "so \n")},
			system: sys, want: []string{start, `{"role":"assistant","content":"so"}`}},
		{name: "trailing space before the end", in: []turns.Message{hi, turns.TextMessage(turns.Assistant, "so \n"), hi},
			system: sys, want: []string{user, `{"role":"assistant","content":"so \n"}`, user}},
		{name: "results first, in the order of the calls",
			in: []turns.Message{hi, msg(turns.Assistant, call("a", `{"p": 1}`), call("b", `"x"`), call("c", `null`), call("d", `{}`)),
				msg(turns.User, turns.TextPart("hi"), result("b", `{"n": 1}`)), msg(turns.Tool, failedResult("a", `" "`), failedResult("c", `"bad"`), result("d", `" "`))},
			system: sys, want: []string{user,
				`{"role":"assistant","content":[` + use("a", `{"p":1}`) + `,` + use("b", `{"value":"x"}`) + `,` + use("c", `{"value":null}`) + `,` + use("d", `{}`) + `]}`,
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"[The tool failed and returned nothing.]","is_error":true},` +
					`{"type":"tool_result","tool_use_id":"b","content":"{\"n\": 1}"},{"type":"tool_result","tool_use_id":"c","content":"bad","is_error":true},` +
					`{"type":"tool_result","tool_use_id":"d"},{"type":"text","text":"hi"}]}`}},
		{name: "thinking: signed, redacted, of others, unsigned, last",
			in: []turns.Message{hi, msg(turns.Assistant, signed("h\u00e9", `{"anthropic":{"signature":"sig=="}}`), signed("", `{"anthropic":{"data":"blob"}}`),
				signed("z", `{"openai":{"signature":"s"}}`), signed("z", `{"anthropic":{"signature":""}}`), turns.TextPart("so"), signed("z", `{"anthropic":{"signature":"s"}}`)), hi},
			system: sys, want: []string{user, `{"role":"assistant","content":[{"type":"thinking","thinking":"hé","signature":"sig=="},{"type":"redacted_thinking","data":"blob"},{"type":"text","text":"so"}]}`, user}},
		{name: "thinking alone", in: []turns.Message{hi, msg(turns.Assistant, signed("z", `{"anthropic":{"signature":"s"}}`)), hi},
			system: sys, want: []string{`{"role":"user","content":[{"type":"text","text":"hi"},{"type":"text","text":"hi"}]}`}},
		{name: "images and documents", in: []turns.Message{msg(turns.User, pngPart(), turns.Part{Type: turns.URI, Modality: "image", Content: "https://x/y"}, turns.Part{Type: turns.Blob, MimeType: "application/pdf", Data: []byte("pdf")}),
			msg(turns.Assistant, pngPart())},
			system: sys, want: []string{`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}},{"type":"image","source":{"type":"url","url":"https://x/y"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"cGRm"}}]}`,
				`{"role":"assistant","content":"[image/png of 3 bytes, not shown]"}`}},
		{name: "images of results, not of failed ones", in: []turns.Message{hi, msg(turns.Assistant, call("a", `{}`), call("b", `{}`)), msg(turns.Tool, result("a", pngList), failedResult("b", pngList))},
			system: sys, want: []string{user, `{"role":"assistant","content":[` + use("a", `{}`) + `,` + use("b", `{}`) + `]}`,
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]},` +
					`{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"see"},{"type":"text","text":"[image/png of 3 bytes, not shown]"}],"is_error":true}]}`}},
		{name: "over 5 MiB", in: []turns.Message{msg(turns.User, turns.Part{Type: turns.Blob, MimeType: "image/png", Data: make([]byte, 4<<20)})},
			system: sys, want: []string{`{"role":"user","content":"[image/png of 4194304 bytes, not shown]"}`}},
		{name: "a name and an id that the API refuses", in: []turns.Message{hi, msg(turns.Assistant, turns.Part{Type: turns.ToolCall, ID: "f.a:1", Name: "fs.ls", Arguments: turns.Raw("{}")}), msg(turns.Tool, result("f.a:1", `"x"`))},
			system: sys, want: []string{user, `{"role":"assistant","content":[{"type":"tool_use","id":"call_1c96626b15c49eb2854d7cd0","name":"fs_ls","input":{}}]}`,
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1c96626b15c49eb2854d7cd0","content":"x"}]}`}},
	})
}

// Reads back what it wrote, and what others write in other words.
func TestFromAnthropic(t *testing.T) {
	system := `[{"type":"text","text":"be kind","cache_control":{"type":"ephemeral"}}]`
	in := `[{"role":"user","content":"hi"},
	 {"role":"assistant","content":[{"type":"thinking","thinking":"h\u00e9","signature":"sig=="},{"type":"redacted_thinking","data":"blob"},{"type":"thinking","thinking":"x","signature":""},{"type":"tool_use","id":"a","name":"ls","input":{"n": 1}}]},
	 {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]},{"type":"text","text":"and"},{"type":"document","source":{"type":"url","url":"https://x/y"}}]}]`
	sections, got, err := FromAnthropic([]byte(system), []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	bare := turns.Part{Type: turns.Reasoning, Content: "x"}
	want := []turns.Message{
		turns.TextMessage(turns.User, "hi"),
		msg(turns.Assistant, signed("hé", `{"anthropic":{"signature":"sig=="}}`), signed("", `{"anthropic":{"data":"blob"}}`), bare, call("a", `{"n": 1}`)),
		msg(turns.Tool, failedResult("a", pngList)),
		msg(turns.User, turns.TextPart("and"), turns.Part{Type: turns.URI, Modality: "document", Content: "https://x/y"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]turns.Section{{Content: "be kind"}}, sections); diff != "" {
		t.Errorf("system (-want +got):\n%s", diff)
	}
}

func TestFromAnthropicErrors(t *testing.T) {
	for in, want := range map[string]error{
		`{}`:                            turns.ErrMalformed,
		`[{"role":"user"}] []`:          turns.ErrMalformed,
		`[{"role":"a","role":"b"}]`:     turns.ErrMalformed,
		`[{"role":"system"}]`:           turns.ErrUnsupported,
		"[{\"content\":\"\xff\"}]":      turns.ErrMalformed,
		strings.Repeat("[", 100_000):    turns.ErrTooLarge,
		`[{"role":"user","content":1}]`: turns.ErrMalformed,
		`[{"role":"user","content":[{"type":"server_tool_use"}]}]`:                                                        turns.ErrUnsupported,
		`[{"role":"user","content":[{"type":"image","source":{"type":"file"}}]}]`:                                         turns.ErrUnsupported,
		`[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"*"}}]}]`:                            turns.ErrMalformed,
		`[{"role":"user","content":[{"type":"tool_use","id":"a","name":"ls","input":{}}]}]`:                               turns.ErrMalformed,
		`[{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"a"}]}]`:                                     turns.ErrMalformed,
		`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"thinking"}]}]}]`:          turns.ErrUnsupported,
		`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]}]`: turns.ErrMalformed,
	} {
		if _, _, err := FromAnthropic(nil, []byte(in)); !errors.Is(err, want) {
			t.Errorf("%.60s: %v, want %v", in, err, want)
		}
	}
	if _, _, err := FromAnthropic([]byte(`[{"type":"image"}]`), []byte(`[]`)); !errors.Is(err, turns.ErrUnsupported) {
		t.Errorf("image in system: %v", err)
	}
}
