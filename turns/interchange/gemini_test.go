package interchange

import (
	"testing"

	"nexus/turns"
)

func TestGeminiRender(t *testing.T) {
	const sys, user = `{"parts":[{"text":"be kind"}]}`, `{"role":"user","parts":[{"text":"hi"}]}`
	hi := turns.TextMessage(turns.User, "hi")
	fc := func(args string) string { return `{"functionCall":{"name":"ls","args":` + args + `}}` }
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
				msg(turns.Tool, result("d", pngList), result("b", `[1]`)), msg(turns.User, failed("a", `{"code":1}`), turns.TextPart("hi"), result("c", `{"n":1}`))},
			system: sys, want: []string{user, `{"role":"model","parts":[` + fc(`{"p":1}`) + `,` + fc(`{"value":[1]}`) + `,` + fc(`{}`) + `,` + fc(`{}`) + `]}`,
				`{"role":"user","parts":[` + fr(`{"error":{"code":1}}`) + `,` + fr(`{"output":[1]}`) + `,` + fr(`{"n":1}`) + `,` + fr(`{"output":"see\n[image, shown after the tool results]"}`) + `]}`,
				`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"cG5n"}},{"text":"hi"}]}`}},
		{name: "thought signatures", in: []turns.Message{hi, msg(turns.Assistant, signed("hm", `{"gemini":{"thoughtSignature":"s1"}}`), signed("x", `{"anthropic":{"signature":"s"}}`),
			withExt(call("a", `{}`), `{"gemini":{"thoughtSignature":"s2"}}`)), msg(turns.Tool, result("a", `"x"`))},
			system: sys, want: []string{user, `{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"s1"},{"functionCall":{"name":"ls","args":{}},"thoughtSignature":"s2"}]}`,
				`{"role":"user","parts":[` + fr(`{"output":"x"}`) + `]}`}},
	})
}
