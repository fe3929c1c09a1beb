package strict_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/turns/render/strict"
)

// check is one request: want is the rule that it breaks, "" for none.
type check struct {
	name     string
	want     strict.Rule
	messages string
	system   string
	opts     []strict.Option
}

func run(t *testing.T, checks []check, validate func(c check) error) {
	t.Helper()
	good, bad := 0, make(map[strict.Rule]bool)
	for _, c := range checks {
		t.Run(strings.TrimSpace(string(c.want)+" "+c.name), func(t *testing.T) {
			err := validate(c)
			var got strict.Rule
			if v := (*strict.Violation)(nil); errors.As(err, &v) {
				got = v.Rule
			}
			if got != c.want || (err == nil) != (c.want == "") {
				t.Errorf("breaks rule %q (%v), want %q\n%.300s", got, err, c.want, c.messages)
			}
		})
		if c.want == "" {
			good++
		}
		bad[c.want] = true
	}
	if good == 0 || len(bad) < 10 {
		t.Errorf("the table has %d good requests and covers %d rules", good, len(bad))
	}
}

const (
	oaCall = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]}`
	oaPair = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"ls","arguments":"{}"}}]}`
	oaA    = `{"role":"tool","tool_call_id":"a","content":"x"}`
	oaB    = `{"role":"tool","tool_call_id":"b","content":""}`
	oaUser = `{"role":"user","content":"go"}`
)

func oaCalls(call string) string {
	return oaUser + `,{"role":"assistant","content":null,"tool_calls":[` + call + `]},{"role":"tool","tool_call_id":"a","content":"x"}`
}

func openaiChecks() []check {
	many := strings.TrimSuffix(strings.Repeat(oaUser+",", 2049), ",")
	var calls []string
	var results strings.Builder
	for i := range 129 {
		calls = append(calls, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"ls","arguments":"{}"}}`, i))
		fmt.Fprintf(&results, `,{"role":"tool","tool_call_id":"c%d","content":"x"}`, i)
	}
	return []check{
		{name: "user alone", messages: oaUser},
		{name: "system, developer, consecutive users", messages: `{"role":"system","content":"s"},{"role":"developer","content":[{"type":"text","text":"d"}]},` + oaUser + "," + oaUser},
		{name: "no list", want: strict.Form, messages: `]`},
		{name: "duplicate member", want: strict.Form, messages: `{"role":"user","role":"user","content":"x"}`},
		{name: "no content", want: strict.Form, messages: `{"role":"user"}`},
		{name: "null content", want: strict.Form, messages: `{"role":"user","content":null}`},
		{name: "no messages", want: strict.Size, messages: ``},
		{name: "2048 messages", messages: many[:2048*(len(oaUser)+1)-1]},
		{name: "2049 messages", want: strict.Size, messages: many},
		{name: "long text", want: strict.Size, messages: `{"role":"user","content":"` + strings.Repeat("x", 10<<20) + `"}`},
		{name: "name", messages: `{"role":"user","name":"ann_1","content":"x"}`},
		{name: "name with a space", want: strict.Form, messages: `{"role":"user","name":"ann b","content":"x"}`},
		{name: "function", want: strict.Role, messages: `{"role":"function","name":"f","content":"x"}`},
		{name: "calls of a user", want: strict.Role, messages: `{"role":"user","content":"x","tool_calls":[]}`},
		{name: "call id of a user", want: strict.Role, messages: `{"role":"user","content":"x","tool_call_id":"a"}`},
		{name: "empty user", want: strict.Empty, messages: `{"role":"user","content":""}`},
		{name: "empty list", want: strict.Empty, messages: `{"role":"user","content":[]}`},
		{name: "empty part", want: strict.Empty, messages: `{"role":"user","content":[{"type":"text","text":""}]}`},
		{name: "silent assistant", want: strict.Empty, messages: oaUser + `,{"role":"assistant","content":null}`},
		{name: "refusal", messages: oaUser + `,{"role":"assistant","content":null,"refusal":"no"}`},
		{name: "no calls in the list", want: strict.Empty, messages: oaUser + `,{"role":"assistant","content":"x","tool_calls":[]}`},
		{name: "image", messages: `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},{"type":"image_url","image_url":{"url":"https://x/y"}}]}`},
		{name: "image without bytes", want: strict.Media, messages: `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}]}`},
		{name: "local image", want: strict.Media, messages: `{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///x"}}]}`},
		{name: "image of an assistant", want: strict.Kind, messages: oaUser + `,{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}`},
		{name: "image in a tool message", want: strict.Kind, messages: oaUser + "," + oaCall + `,{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}`},
		{name: "custom tool", want: strict.Kind, messages: oaCalls(`{"id":"a","type":"custom","custom":{}}`)},
		{name: "pair", messages: oaUser + "," + oaCall + "," + oaA},
		{name: "parallel, answered in the other order", messages: oaUser + "," + oaPair + "," + oaB + "," + oaA + "," + oaUser},
		{name: "id used again in a later run", messages: oaUser + "," + oaCall + "," + oaA + "," + oaCall + "," + oaA},
		{name: "empty beside calls", messages: oaUser + "," + strings.Replace(oaCall, "null", `""`, 1) + "," + oaA + "," + strings.Replace(oaCall, "null", `[]`, 1) + "," + oaA},
		{name: "no id", want: strict.CallID, messages: oaCalls(`{"type":"function","function":{"name":"ls","arguments":"{}"}}`)},
		{name: "40 bytes of id", messages: strings.ReplaceAll(oaCalls(`{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}`), `"a"`, `"`+strings.Repeat("i", 40)+`"`)},
		{name: "41 bytes of id", want: strict.CallID, messages: strings.ReplaceAll(oaCalls(`{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}`), `"a"`, `"`+strings.Repeat("i", 41)+`"`)},
		{name: "twice in one message", want: strict.CallID, messages: oaUser + "," + strings.Replace(oaPair, `"b"`, `"a"`, 1) + "," + oaA},
		{name: "dotted", want: strict.CallName, messages: oaCalls(`{"id":"a","type":"function","function":{"name":"fs.ls","arguments":"{}"}}`)},
		{name: "object", want: strict.Arguments, messages: oaCalls(`{"id":"a","type":"function","function":{"name":"ls","arguments":{}}}`)},
		{name: "cut off", want: strict.Arguments, messages: oaCalls(`{"id":"a","type":"function","function":{"name":"ls","arguments":"{\"p\":"}}`)},
		{name: "128 calls", messages: oaUser + `,{"role":"assistant","tool_calls":[` + strings.Join(calls[:128], ",") + `]}` + strings.TrimSuffix(results.String(), `,{"role":"tool","tool_call_id":"c128","content":"x"}`)},
		{name: "129 calls", want: strict.Size, messages: oaUser + `,{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]}` + results.String()},
		{name: "at the end", want: strict.Unanswered, messages: oaUser + "," + oaCall},
		{name: "at the end, allowed", messages: oaUser + "," + oaCall, opts: []strict.Option{strict.OpenCalls}},
		{name: "some at the end, allowed", messages: oaUser + "," + oaPair + "," + oaA, opts: []strict.Option{strict.OpenCalls}},
		{name: "one of two", want: strict.Unanswered, messages: oaUser + "," + oaPair + "," + oaA + "," + oaUser},
		{name: "user in between", want: strict.Unanswered, messages: oaUser + "," + oaCall + "," + oaUser + "," + oaA, opts: []strict.Option{strict.OpenCalls}},
		{name: "no call", want: strict.Stray, messages: oaUser + "," + oaA},
		{name: "late", want: strict.Stray, messages: oaUser + "," + oaCall + "," + oaA + "," + oaUser + "," + oaA},
		{name: "twice", want: strict.Duplicate, messages: oaUser + "," + oaPair + "," + oaA + "," + oaA + "," + oaB},
		{name: "null result", want: strict.Form, messages: oaUser + "," + oaCall + `,{"role":"tool","tool_call_id":"a","content":null}`},
	}
}

func TestOpenAI(t *testing.T) {
	run(t, openaiChecks(), func(c check) error { return strict.OpenAI([]byte("["+c.messages+"]"), c.opts...) })
}

func user(blocks string) string      { return `{"role":"user","content":[` + blocks + `]}` }
func assistant(blocks string) string { return `{"role":"assistant","content":[` + blocks + `]}` }

const (
	anText   = `{"type":"text","text":"hi"}`
	anUse    = `{"type":"tool_use","id":"a","name":"ls","input":{}}`
	anUseB   = `{"type":"tool_use","id":"b","name":"ls","input":{"p":1}}`
	anRes    = `{"type":"tool_result","tool_use_id":"a","content":"x"}`
	anResB   = `{"type":"tool_result","tool_use_id":"b","is_error":false}`
	anThink  = `{"type":"thinking","thinking":"","signature":"c2ln"}`
	anHidden = `{"type":"redacted_thinking","data":"ZGF0YQ=="}`
)

func list(ms ...string) string { return strings.Join(ms, ",") }

func anImage(mime, data string) string {
	return `{"type":"image","source":{"type":"base64","media_type":"` + mime + `","data":"` + data + `"}}`
}

func anthropicChecks() []check {
	hi := user(anText)
	result := func(members string) string { return `{"type":"tool_result","tool_use_id":"a"` + members + `}` }
	cached := `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`
	return []check{
		{name: "user alone", messages: hi},
		{name: "strings", messages: `{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}`, system: `"be kind"`},
		{name: "not JSON", want: strict.Form, messages: `{`},
		{name: "unknown member", want: strict.Form, messages: `{"role":"user","content":"x","name":"ann"}`},
		{name: "unknown member of a block", want: strict.Form, messages: user(`{"type":"text","text":"x","id":"1"}`)},
		{name: "missing member", want: strict.Form, messages: user(`{"type":"text"}`)},
		{name: "no messages", want: strict.Size, messages: ``},
		{name: "32 MiB", want: strict.Size, messages: `{"role":"user","content":"` + strings.Repeat("x", 32<<20) + `"}`},
		{name: "four cached blocks", messages: user(cached + "," + cached + "," + cached), system: "[" + cached + "]"},
		{name: "five cached blocks", want: strict.Size, messages: user(cached + "," + cached + "," + cached + "," + cached), system: "[" + cached + "]"},
		{name: "system", want: strict.Role, messages: `{"role":"system","content":"x"}`},
		{name: "tool", want: strict.Role, messages: list(hi, `{"role":"tool","content":"x"}`)},
		{name: "assistant", want: strict.First, messages: assistant(anText)},
		{name: "users", want: strict.Alternation, messages: list(hi, hi)},
		{name: "assistants", want: strict.Alternation, messages: list(hi, assistant(anText), assistant(anText))},
		{name: "no blocks", want: strict.Empty, messages: user("")},
		{name: "empty string", want: strict.Empty, messages: `{"role":"user","content":""}`},
		{name: "blank text", want: strict.Empty, messages: list(hi, assistant(`{"type":"text","text":" \n"}`), hi)},
		{name: "separator text", want: strict.Empty, messages: user(`{"type":"text","text":"\u001f"}`)},
		{name: "blank system", want: strict.Empty, messages: hi, system: `[{"type":"text","text":""}]`},
		{name: "image in system", want: strict.Kind, messages: hi, system: `[` + anImage("image/png", "aGk=") + `]`},
		{name: "tool_use of a user", want: strict.Kind, messages: user(anUse)},
		{name: "image of an assistant", want: strict.Kind, messages: list(hi, assistant(anImage("image/png", "aGk="))), opts: nil},
		{name: "result of an assistant", want: strict.Kind, messages: list(hi, assistant(anUse), user(anRes), assistant(anRes))},
		{name: "call in a result", want: strict.Kind, messages: list(hi, assistant(anUse), user(result(`,"content":[`+anUseB+`]`)))},
		{name: "pair", messages: list(hi, assistant(anText+","+anUse), user(anRes+","+anText), assistant(anText))},
		{name: "parallel, answered in the other order", messages: list(hi, assistant(anUse+","+anUseB), user(anResB+","+anRes))},
		{name: "with a dot", want: strict.CallID, messages: list(hi, assistant(`{"type":"tool_use","id":"f.a:1","name":"ls","input":{}}`), user(anRes))},
		{name: "twice in one message", want: strict.CallID, messages: list(hi, assistant(anUse+","+anUse), user(anRes))},
		{name: "twice in the request", want: strict.CallID, messages: list(hi, assistant(anUse), user(anRes), assistant(anUse), user(anRes))},
		{name: "with a space", want: strict.CallName, messages: list(hi, assistant(`{"type":"tool_use","id":"a","name":"l s","input":{}}`), user(anRes))},
		{name: "string", want: strict.Arguments, messages: list(hi, assistant(`{"type":"tool_use","id":"a","name":"ls","input":"{}"}`), user(anRes))},
		{name: "at the end", want: strict.Unanswered, messages: list(hi, assistant(anUse))},
		{name: "at the end, allowed", messages: list(hi, assistant(anUse)), opts: []strict.Option{strict.OpenCalls}},
		{name: "some at the end, allowed", messages: list(hi, assistant(anUse+","+anUseB), user(anRes)), opts: []strict.Option{strict.OpenCalls}},
		{name: "one of two", want: strict.Unanswered, messages: list(hi, assistant(anUse+","+anUseB), user(anRes))},
		{name: "one of two, not at the end", want: strict.Unanswered, messages: list(hi, assistant(anUse+","+anUseB), user(anRes), assistant(anText)), opts: []strict.Option{strict.OpenCalls}},
		{name: "text instead", want: strict.Unanswered, messages: list(hi, assistant(anUse), hi), opts: []strict.Option{strict.OpenCalls}},
		{name: "no call", want: strict.Stray, messages: user(anRes)},
		{name: "late", want: strict.Stray, messages: list(hi, assistant(anUse), user(anRes), assistant(anText), user(anRes))},
		{name: "twice", want: strict.Duplicate, messages: list(hi, assistant(anUse), user(anRes+","+anRes))},
		{name: "after text", want: strict.Order, messages: list(hi, assistant(anUse), user(anText+","+anRes))},
		{name: "error with text", messages: list(hi, assistant(anUse), user(result(`,"is_error":true,"content":"bad"`)))},
		{name: "error without text", want: strict.Result, messages: list(hi, assistant(anUse), user(result(`,"is_error":true,"content":[]`)))},
		{name: "error with an image", want: strict.Result, messages: list(hi, assistant(anUse), user(result(`,"is_error":true,"content":[`+anImage("image/png", "aGk=")+`]`)))},
		{name: "image result", messages: list(hi, assistant(anUse), user(result(`,"content":[`+anText+","+anImage("image/png", "aGk=")+`]`)))},
		{name: "is_error is a word", want: strict.Form, messages: list(hi, assistant(anUse), user(result(`,"is_error":"yes","content":"x"`)))},
		{name: "signed, redacted, interleaved", messages: list(hi, assistant(anThink+","+anHidden+","+anText+","+anThink+","+anUse), user(anRes))},
		{name: "unsigned", want: strict.Reasoning, messages: list(hi, assistant(`{"type":"thinking","thinking":"x"},`+anText))},
		{name: "empty signature", want: strict.Reasoning, messages: list(hi, assistant(`{"type":"thinking","thinking":"x","signature":""},`+anText))},
		{name: "no data", want: strict.Reasoning, messages: list(hi, assistant(`{"type":"redacted_thinking"},`+anText))},
		{name: "last", want: strict.Reasoning, messages: list(hi, assistant(anText+","+anThink), hi)},
		{name: "of a user", want: strict.Kind, messages: user(anThink + "," + anText)},
		{name: "enabled, begins the loop", messages: list(hi, assistant(anThink+","+anUse), user(anRes)), opts: []strict.Option{strict.Thinking}},
		{name: "enabled, absent from the loop", want: strict.Reasoning, messages: list(hi, assistant(anUse), user(anRes)), opts: []strict.Option{strict.Thinking}},
		{name: "enabled, absent from a closed loop", messages: list(hi, assistant(anUse), user(anRes+","+anText)), opts: []strict.Option{strict.Thinking}},
		{name: "PDF and address", messages: user(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}},{"type":"image","source":{"type":"url","url":"https://x/y"}}`)},
		{name: "TIFF", want: strict.Media, messages: user(anImage("image/tiff", "aGk="))},
		{name: "not base64", want: strict.Media, messages: user(anImage("image/png", "a*"))},
		{name: "no bytes", want: strict.Media, messages: user(anImage("image/png", ""))},
		{name: "5 MiB", messages: user(anImage("image/png", strings.Repeat("aGkh", 5<<18)))},
		{name: "over 5 MiB", want: strict.Media, messages: user(anImage("image/png", strings.Repeat("aGkh", 5<<18+1)))},
		{name: "local", want: strict.Media, messages: user(`{"type":"image","source":{"type":"url","url":"file:///x"}}`)},
		{name: "assistant", messages: list(hi, assistant(anText))},
		{name: "assistant, no prefill", want: strict.Last, messages: list(hi, assistant(anText)), opts: []strict.Option{strict.NoPrefill}},
		{name: "trailing space", want: strict.Last, messages: list(hi, assistant(`{"type":"text","text":"so \n"}`))},
		{name: "trailing space before the end", messages: list(hi, assistant(`{"type":"text","text":"so \n"}`), hi)},
	}
}

func TestAnthropic(t *testing.T) {
	run(t, anthropicChecks(), func(c check) error {
		var system []byte
		if c.system != "" {
			system = []byte(c.system)
		}
		return strict.Anthropic(system, []byte("["+c.messages+"]"), c.opts...)
	})
}

// Every rule has a request that breaks it and nothing else stands in its way.
func TestEachRuleIsBroken(t *testing.T) {
	seen := make(map[strict.Rule]bool)
	for _, c := range slices.Concat(openaiChecks(), anthropicChecks(), geminiChecks()) {
		seen[c.want] = true
	}
	for _, r := range []strict.Rule{strict.Form, strict.Size, strict.Role, strict.First, strict.Alternation, strict.Empty, strict.Kind,
		strict.CallID, strict.CallName, strict.Arguments, strict.Unanswered, strict.Stray, strict.Duplicate, strict.Order,
		strict.Result, strict.Reasoning, strict.Media, strict.Last} {
		if !seen[r] {
			t.Errorf("no request breaks %q", r)
		}
	}
}

func FuzzStrict(f *testing.F) {
	for _, c := range openaiChecks() {
		if len(c.messages) < 1000 {
			f.Add([]byte("[" + c.messages + "]"))
		}
	}
	for _, c := range slices.Concat(anthropicChecks(), geminiChecks()) {
		if len(c.messages) < 1000 {
			f.Add([]byte("[" + c.messages + "]"))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Allowing open calls allows more, never less.
		if strict.OpenAI(data) == nil && strict.OpenAI(data, strict.OpenCalls) != nil {
			t.Error("OpenCalls refuses what passes without")
		}
		if strict.Anthropic(nil, data) == nil && strict.Anthropic(data, data, strict.OpenCalls) == nil {
			t.Error("a list of messages is no system member")
		}
		if strict.Gemini(nil, data) == nil && (strict.Gemini(nil, data, strict.OpenCalls) != nil || strict.Anthropic(nil, data) == nil) {
			t.Error("OpenCalls refuses what passes without, or two formats are one")
		}
	})
}
