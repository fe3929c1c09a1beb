package strict_test

import (
	"fmt"
	"strings"
	"testing"

	"nexus/turns/render/strict"
)

const (
	geText  = `{"text":"hi"}`
	geCall  = `{"functionCall":{"name":"fs.ls","args":{}},"thoughtSignature":"c2ln"}`
	geCallB = `{"functionCall":{"name":"cat","args":{"p":1}}}`
	geRes   = `{"functionResponse":{"name":"fs.ls","response":{"output":"x"}}}`
	geResB  = `{"functionResponse":{"name":"cat","response":{}}}`
)

func gu(parts string) string { return `{"role":"user","parts":[` + parts + `]}` }
func gm(parts string) string { return `{"role":"model","parts":[` + parts + `]}` }

func geminiChecks() []check {
	hi := gu(geText)
	inline := func(mime, data string) string {
		return `{"inlineData":{"mimeType":"` + mime + `","data":"` + data + `"}}`
	}
	call := func(name, args string) string { return `{"functionCall":{"name":"` + name + `","args":` + args + `}}` }
	strictly := []strict.Option{strict.Thinking}
	return []check{
		{name: "user alone", messages: hi, system: `{"parts":[{"text":"be kind"}]}`},
		{name: "no system", messages: hi, system: `null`},
		{name: "not JSON", want: strict.Form, messages: `{`},
		{name: "unknown member", want: strict.Form, messages: `{"role":"user","content":"x"}`},
		{name: "unknown member of a part", want: strict.Form, messages: gu(`{"type":"text","text":"x"}`)},
		{name: "two kinds in a part", want: strict.Form, messages: list(hi, gm(`{"text":"x","functionCall":{"name":"ls"}}`), gu(geRes))},
		{name: "text is a number", want: strict.Form, messages: gu(`{"text":1}`)},
		{name: "thought is a word", want: strict.Form, messages: list(hi, gm(`{"text":"x","thought":"yes"}`))},
		{name: "no contents", want: strict.Size, messages: ``},
		{name: "over 20 MiB", want: strict.Size, messages: gu(`{"text":"` + strings.Repeat("x", 20<<20) + `"}`)},
		{name: "assistant", want: strict.Role, messages: list(hi, `{"role":"assistant","parts":[{"text":"x"}]}`)},
		{name: "no role", want: strict.Role, messages: `{"parts":[{"text":"x"}]}`},
		{name: "model", want: strict.First, messages: gm(geText)},
		{name: "users", want: strict.Alternation, messages: list(hi, hi)},
		{name: "models", want: strict.Alternation, messages: list(hi, gm(geText), gm(geText))},
		{name: "no parts", want: strict.Empty, messages: gu("")},
		{name: "parts missing", want: strict.Empty, messages: `{"role":"user"}`},
		{name: "a part of nothing", want: strict.Empty, messages: gu(`{}`)},
		{name: "a part of a signature", want: strict.Empty, messages: list(hi, gm(`{"thoughtSignature":"c2ln"}`))},
		{name: "empty text", want: strict.Empty, messages: gu(`{"text":""}`)},
		{name: "empty system", want: strict.Empty, messages: hi, system: `{"parts":[]}`},
		{name: "image in system", want: strict.Kind, messages: hi, system: `{"parts":[` + inline("image/png", "aGk=") + `]}`},
		{name: "call of a user", want: strict.Kind, messages: gu(geCall)},
		{name: "response of a model", want: strict.Kind, messages: list(hi, gm(geRes))},
		{name: "thought of a user", want: strict.Kind, messages: gu(`{"text":"x","thought":true}`)},
		{name: "pair", messages: list(hi, gm(geText+","+geCall), gu(geRes), gm(geText), hi)},
		{name: "pair, the user's word after it", messages: list(hi, gm(geCall), gu(geRes), hi)},
		{name: "pair, two of the user's after it", want: strict.Alternation, messages: list(hi, gm(geCall), gu(geRes), hi, hi)},
		{name: "parallel", messages: list(hi, gm(geCall+","+geCallB), gu(geRes+","+geResB))},
		{name: "with a space", want: strict.CallName, messages: list(hi, gm(call("l s", "{}")), gu(geRes))},
		{name: "digit first", want: strict.CallName, messages: list(hi, gm(call("1ls", "{}")), gu(geRes))},
		{name: "dash first", want: strict.CallName, messages: list(hi, gm(call("-ls", "{}")), gu(geRes))},
		{name: "65 characters", want: strict.CallName, messages: list(hi, gm(call(strings.Repeat("n", 65), "{}")))},
		{name: "64 characters", messages: list(hi, gm(call(strings.Repeat("n", 64), "{}"))), opts: []strict.Option{strict.OpenCalls}},
		{name: "of a response", want: strict.CallName, messages: list(hi, gm(geCall), gu(`{"functionResponse":{"name":"","response":{}}}`))},
		{name: "list", want: strict.Arguments, messages: list(hi, gm(call("ls", "[]")), gu(geRes))},
		{name: "text", want: strict.Result, messages: list(hi, gm(geCall), gu(`{"functionResponse":{"name":"fs.ls","response":"x"}}`))},
		{name: "at the end", want: strict.Unanswered, messages: list(hi, gm(geCall))},
		{name: "at the end, allowed", messages: list(hi, gm(geCall)), opts: []strict.Option{strict.OpenCalls}},
		{name: "some at the end, allowed", messages: list(hi, gm(geCall+","+geCallB), gu(geRes)), opts: []strict.Option{strict.OpenCalls}},
		{name: "the second at the end, allowed", messages: list(hi, gm(geCall+","+geCallB), gu(geResB)), opts: []strict.Option{strict.OpenCalls}},
		{name: "in two contents", want: strict.Unanswered, messages: list(hi, gm(geCall+","+geCallB), gu(geRes), gu(geResB)), opts: []strict.Option{strict.OpenCalls}},
		{name: "one of two", want: strict.Unanswered, messages: list(hi, gm(geCall+","+geCallB), gu(geRes))},
		{name: "one of two, not at the end", want: strict.Unanswered, messages: list(hi, gm(geCall+","+geCallB), gu(geRes), gm(geText)), opts: []strict.Option{strict.OpenCalls}},
		{name: "text instead", want: strict.Unanswered, messages: list(hi, gm(geCall), hi), opts: []strict.Option{strict.OpenCalls}},
		{name: "no call", want: strict.Stray, messages: gu(geRes)},
		{name: "late", want: strict.Stray, messages: list(hi, gm(geCall), gu(geRes), gm(geText), gu(geRes))},
		{name: "in another order", want: strict.Stray, messages: list(hi, gm(geCall+","+geCallB), gu(geResB+","+geRes))},
		{name: "of another id", want: strict.Stray, messages: list(hi, gm(`{"functionCall":{"id":"1","name":"ls"}}`), gu(`{"functionResponse":{"id":"2","name":"ls","response":{}}}`))},
		{name: "twice", want: strict.Duplicate, messages: list(hi, gm(geCall), gu(geRes+","+geRes))},
		{name: "text beside", want: strict.Order, messages: list(hi, gm(geCall), gu(geRes+","+geText))},
		{name: "thought, signed text, empty signed text", messages: list(hi, gm(`{"text":"hm","thought":true},{"text":"so","thoughtSignature":"_-8"},{"text":"","thoughtSignature":"c2ln"}`))},
		{name: "signature not base64", want: strict.Reasoning, messages: list(hi, gm(`{"text":"x","thoughtSignature":"*"}`))},
		{name: "empty signature", want: strict.Reasoning, messages: list(hi, gm(`{"text":"x","thoughtSignature":""}`))},
		{name: "signature of a user", want: strict.Reasoning, messages: gu(`{"text":"x","thoughtSignature":"c2ln"}`)},
		{name: "parallel, the first signed", messages: list(hi, gm(geCall+","+geCallB), gu(geRes+","+geResB)), opts: strictly},
		{name: "first call unsigned", want: strict.Reasoning, messages: list(hi, gm(geCallB+","+geCall), gu(geResB+","+geRes)), opts: strictly},
		{name: "second step unsigned", want: strict.Reasoning, messages: list(hi, gm(geCall), gu(geRes), gm(geCallB), gu(geResB)), opts: strictly},
		{name: "unsigned in a turn before", messages: list(hi, gm(geCallB), gu(geResB), gm(geText), hi, gm(geCall), gu(geRes)), opts: strictly},
		{name: "PNG, PDF and an address", messages: gu(inline("image/png", "aGk=") + "," + inline("application/pdf", "aGk=") + `,{"fileData":{"mimeType":"image/png","fileUri":"https://x/y"}}`)},
		{name: "GIF", want: strict.Media, messages: gu(inline("image/gif", "aGk="))},
		{name: "not base64", want: strict.Media, messages: gu(inline("image/png", "a*"))},
		{name: "no bytes", want: strict.Media, messages: gu(inline("image/png", ""))},
		{name: "no type", want: strict.Form, messages: gu(`{"fileData":{"fileUri":"https://x/y"}}`)},
		{name: "local", want: strict.Media, messages: gu(`{"fileData":{"mimeType":"image/png","fileUri":"/x"}}`)},
		{name: "model at the end", messages: list(hi, gm(geText))},
		{name: "model, no prefill", want: strict.Last, messages: list(hi, gm(geText)), opts: []strict.Option{strict.NoPrefill}},
	}
}

func checkGemini(c check) error {
	var system []byte
	if c.system != "" {
		system = []byte(c.system)
	}
	return strict.Gemini(system, []byte("["+c.messages+"]"), c.opts...)
}

func TestGemini(t *testing.T) { run(t, geminiChecks(), checkGemini) }

// A request that breaks several rules breaks the same one each time.
func TestFirstFault(t *testing.T) {
	many := `"a":1,"b":1,"c":1,"d":1,"e":1,"f":1`
	for name, f := range map[string]func() error{
		"openai": func() error {
			return strict.OpenAI([]byte(`[{"role":"user","content":"x","tool_calls":[],"tool_call_id":"a"}]`))
		},
		"anthropic": func() error { return strict.Anthropic(nil, []byte(`[{"role":"user","content":"x",`+many+`}]`)) },
		"gemini":    func() error { return strict.Gemini(nil, []byte(`[{"role":"user","parts":[{"text":"x"}],`+many+`}]`)) },
		"a part":    func() error { return strict.Gemini(nil, []byte(`[{"role":"user","parts":[{`+many+`}]}]`)) },
	} {
		want := fmt.Sprint(f())
		for range 100 {
			if got := fmt.Sprint(f()); got != want {
				t.Fatalf("%s: %s, before %s", name, got, want)
			}
		}
	}
}
