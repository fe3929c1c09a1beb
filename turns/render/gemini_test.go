package render

import (
	"strings"
	"testing"

	"nexus/turns"
)

func TestGeminiRender(t *testing.T) {
	const sys, user = `{"parts":[{"text":"be kind"}]}`, `{"role":"user","parts":[{"text":"hi"}]}`
	hi := turns.TextMessage(turns.User, "hi")
	fc := func(args string) string { return `{"functionCall":{"name":"ls","args":` + args + `}}` }
	const made = `,"thoughtSignature":"skip_thought_signature_validator"`
	first := func(args string) string { return strings.TrimSuffix(fc(args), "}") + made + "}" }
	fr := func(v string) string { return `{"functionResponse":{"name":"ls","response":` + v + `}}` }
	withExt := func(p turns.Part, ext string) turns.Part { p.Ext = turns.Raw(ext); return p }
	runRenders(t, Gemini, []turns.Section{{Content: "be kind"}, {}}, []renderCase{
		{name: "nothing", system: sys},
		{name: "system", in: []turns.Message{turns.TextMessage(turns.System, "summary"), hi, turns.TextMessage(turns.System, "note")},
			system: `{"parts":[{"text":"be kind"},{"text":"summary"}]}`, want: []string{`{"role":"user","parts":[{"text":"hi"},{"text":"[System message]\nnote"}]}`}},
		{name: "model first", in: []turns.Message{turns.TextMessage(turns.Assistant, "so"), turns.TextMessage(turns.Assistant, "on")},
			system: sys, want: []string{`{"role":"user","parts":[{"text":"[The conversation continues; what came before is not shown.]"}]}`, `{"role":"model","parts":[{"text":"so"},{"text":"on"}]}`}},
		{name: "responses alone, in the order of the calls, images after",
			in: []turns.Message{hi, msg(turns.Assistant, call("a", `{"p":1}`), call("b", `[1]`), call("c", `{}`), call("d", `{}`)),
				msg(turns.Tool, result("d", pngList), result("b", `[1]`)), msg(turns.User, failedResult("a", `{"code":1}`), turns.TextPart("hi"), result("c", `{"n":1}`))},
			system: sys, want: []string{user, `{"role":"model","parts":[` + first(`{"p":1}`) + `,` + fc(`{"value":[1]}`) + `,` + fc(`{}`) + `,` + fc(`{}`) + `]}`,
				`{"role":"user","parts":[` + fr(`{"error":{"code":1}}`) + `,` + fr(`{"output":[1]}`) + `,` + fr(`{"n":1}`) + `,` + fr(`{"output":"see\n[image, shown after the tool results]"}`) + `]}`,
				`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"cG5n"}},{"text":"hi"}]}`}},
		{name: "thought signatures", in: []turns.Message{hi, msg(turns.Assistant, signed("hm", `{"gemini":{"thoughtSignature":"czE="}}`), signed("x", `{"anthropic":{"signature":"s"}}`),
			withExt(call("a", `{}`), `{"gemini":{"thoughtSignature":"c_I"}}`)), msg(turns.Tool, result("a", `"x"`))},
			system: sys, want: []string{user, `{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"czE="},{"functionCall":{"name":"ls","args":{}},"thoughtSignature":"c_I"}]}`,
				`{"role":"user","parts":[` + fr(`{"output":"x"}`) + `]}`}},
		{name: "a signature that is none, a name that begins with a digit", in: []turns.Message{hi, msg(turns.Assistant, withExt(turns.TextPart("so"), `{"gemini":{"thoughtSignature":"*"}}`),
			turns.Part{Type: turns.ToolCall, ID: "a", Name: "1.ls", Arguments: turns.Raw("{}")}), msg(turns.Tool, result("a", `"x"`))},
			system: sys, want: []string{user, `{"role":"model","parts":[{"text":"so"},{"functionCall":{"name":"_1.ls","args":{}}` + made + `}]}`,
				`{"role":"user","parts":[{"functionResponse":{"name":"_1.ls","response":{"output":"x"}}}]}`}},
		{name: "images that Gemini takes, and others", in: []turns.Message{msg(turns.User, turns.Part{Type: turns.URI, Modality: "image", Content: "https://x/y.png"},
			turns.Part{Type: turns.URI, Modality: "image", Content: "https://x/y"}, turns.Part{Type: turns.Blob, MimeType: "image/gif", Data: []byte("gif")})},
			system: sys, want: []string{`{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://x/y.png"}},{"text":"[image at https://x/y]"},{"text":"[image/gif of 3 bytes, not shown]"}]}`}},
	})
}
