package chat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

func TestOTLP(t *testing.T) {
	system := transcripttest.OtlpText("gen_ai.system_instructions", `[{"type":"text","content":"be kind"}]`)
	usage := `{"key":"gen_ai.usage.input_tokens","value":{"intValue":"9007199254740991"}},{"key":"gen_ai.usage.output_tokens","value":{"intValue":5}},{"key":"gen_ai.response.model","value":{"stringValue":"m-1"}},{"key":"x.long","value":{"intValue":"9223372036854775807"}}`
	line := func(as, id, trace string, texts ...string) string {
		return transcripttest.OtlpLine(id, trace, append(transcripttest.OtlpCall(as, texts...), system, usage)...)
	}
	tool := transcripttest.OtlpLine("t1", "T", transcripttest.OtlpText("gen_ai.operation.name", "execute_tool"))
	for name, c := range map[string]struct {
		text         string
		want, losses []string
	}{
		"a trace, string and structured": {
			text:   line("string", "1", "T", "a", "1") + tool + line("structured", "2", "T", "a", "1", "b", "2") + line("string", "3", "T", "a", "1", "b", "2", "c", "3"),
			want:   []string{"open S1", "S1 T1 after - user(a) => assistant(1)", "S1 T2 after T1 user(b) => assistant(2)", "S1 T3 after T2 user(c) => assistant(3)"},
			losses: []string{"skipped 1 spans of operation execute_tool, which are no call of a model"},
		},
		"two traces": {
			text: line("string", "1", "T", "a", "1") + line("string", "2", "U", "a", "1"),
			want: []string{"open S1", "S1 T1 after - user(a) => assistant(1)", "open S2", "S2 T2 after - user(a) => assistant(1)"},
		},
		"twice, another answer, another history": {
			text: line("string", "1", "T", "a", "1") + line("string", "2", "T", "a", "1") + line("string", "3", "T", "a", "1", "b", "2") + line("string", "4", "T", "a", "1", "c", "3") + line("string", "5", "T", "z", "9"),
			want: []string{"open S1", "S1 T1 after - user(a) => assistant(1)", "S1 T2 after T1 user(b) => assistant(2)", "fork S2 at T1 of S1", "S2 T3 after T1 user(c) => assistant(3)",
				"open S3", "S3 T4 after - user(z) => assistant(9)"},
			losses: []string{"skipped 1 calls that are in the file before"},
		},
		"begins in the middle": {
			text: line("string", "2", "T", "a", "1", "b", "2"),
			want: []string{"open S1", "S1 T1 after - user(a) => assistant(1)", "S1 T2 after T1 user(b) => assistant(2)"},
		},
		"events with a message each": {
			text: `{"traceId":"T","spanId":"1","name":"chat","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}],"events":[` +
				`{"name":"gen_ai.system.message","attributes":[` + transcripttest.OtlpText("content", "be kind") + `]},{"name":"gen_ai.user.message","attributes":[` + transcripttest.OtlpText("content", "a") + `]},` +
				`{"name":"gen_ai.assistant.message","attributes":[` + transcripttest.OtlpText("tool_calls", `[{"id":"c","type":"function","function":{"name":"ls","arguments":"{\"n\":1}"}}]`) + `]},` +
				`{"name":"gen_ai.tool.message","attributes":[` + transcripttest.OtlpText("content", "x") + `,` + transcripttest.OtlpText("id", "c") + `]},{"name":"exception","attributes":[]},` +
				`{"name":"gen_ai.choice","attributes":[{"key":"index","value":{"intValue":"0"}},` + transcripttest.OtlpText("message", `{"content":"1"}`) + `]}]}`,
			want:   []string{"open S1", `S1 T1 after - user(a) => assistant(call c ls{"n":1})`, `S1 T2 after T1 tool(result c "x") => assistant(1)`},
			losses: []string{"skipped 1 events of spans: exception"},
		},
		"an event with all messages, in a log": {
			text: `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1775919188500000000","eventName":"gen_ai.client.inference.operation.details","traceId":"T","spanId":"1","attributes":[` + strings.Join(transcripttest.OtlpCall("structured", "a", "1"), ",") + `]}]}]}]}`,
			want: []string{"open S1", "S1 T1 after - user(a) => assistant(1)"},
		},
		"as an SDK prints it": {
			text: `{"name":"chat","context":{"trace_id":"0xT","span_id":"0x1"},"start_time":"2026-04-11T14:53:07Z","end_time":"2026-04-11T14:53:08.500Z","attributes":{"gen_ai.input.messages":"[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"a\"}]}]","gen_ai.output.messages":"[{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"content\":\"1\"}]},{\"role\":\"assistant\",\"parts\":[]}]"},"events":[]}`,
			want: []string{"open S1", "S1 T1 after - user(a) => assistant(1)"}, losses: []string{"skipped 1 further choices of a response"},
		},
		"what others leave out": {
			text: `{"gen_ai.conversation.id":"c","gen_ai.input.messages":[{"role":"developer","parts":[{"type":"text","content":"s"}]},{"role":"user","parts":[{"type":"uri","modality":"image","uri":"https://x/y"}]},` +
				`{"role":"assistant","parts":[{"type":"tool_call","name":"ls"}]},{"role":"tool","parts":[{"type":"tool_call_response","result":"x"}]}]}`,
			want: []string{"open S1", `S1 T1 after - user(https://x/y) => assistant(call call-2-0 ls{})`, `S1 T2 after T1 tool(result call-2-0 "x") => pending`},
		},
		"not messages": {
			text:   transcripttest.OtlpLine("1", "T", transcripttest.OtlpText("gen_ai.input.messages", "[{}]")) + transcripttest.OtlpLine("2", "T") + `{"resourceSpans":[]}`,
			losses: []string{`skipped 0 a span that can't be read: malformed: /0/role: "" is not one of system, user, assistant, tool`, "skipped 1 spans without messages"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, form := range []Form{"", OTel} {
				steps, losses := readChat(t, c.text, transcript.Options{Final: true}, form)
				if d := cmp.Diff(c.want, transcripttest.OutlineSteps(steps)); d != "" {
					t.Errorf("steps (-want +got):\n%s", d)
				}
				var got []string
				for _, l := range losses {
					got = append(got, fmt.Sprint(l.Kind, " ", l.Count, " ", l.Reason))
				}
				if d := cmp.Diff(c.losses, got); d != "" {
					t.Errorf("losses (-want +got):\n%s", d)
				}
			}
			if !Sniff([]byte(c.text), OTel) {
				t.Error("not recognized by its beginning")
			}
		})
	}

	steps, _ := readChat(t, line("string", "1", "T", "a", "1"), transcript.Options{})
	o, a := steps[0].Open, steps[1].Append
	if len(o.System) != 1 || o.System[0].Content != "be kind" || o.Model != "m-1" || string(o.Meta) != `{"conversation":"T","resource":{"service.name":"shop"},"source":"otel"}` {
		t.Errorf("session %+v, meta %s", o, o.Meta)
	}
	if *a.Usage != (turns.Usage{InputTokens: 1<<53 - 1, OutputTokens: 5}) || !a.Time.Equal(time.Unix(1775919188, 5e8)) || a.Response.FinishReason != "stop" {
		t.Errorf("turn %+v, usage %+v", a, a.Usage)
	}
	if m := string(a.Meta); m != `{"attributes":{"x.long":9223372036854775807},"span":"chat m","span_id":"1","trace_id":"T"}` {
		t.Errorf("meta %s", m)
	}
}

// A longer copy gives the steps of the shorter one and more; a file that goes
// on where another ended gives the ids of what both hold.
func TestOTLPGrows(t *testing.T) {
	var all string
	var ends []int
	texts := []string{"a"}
	for i := range 6 {
		texts = append(texts, fmt.Sprint(i))
		all += transcripttest.OtlpLine(fmt.Sprint(i), "T", transcripttest.OtlpCall("string", texts...)...)
		ends = append(ends, len(all))
		if i == 3 { // a branch
			all += transcripttest.OtlpLine("b", "T", transcripttest.OtlpCall("structured", texts[0], texts[1], "other", "x")...)
			ends = append(ends, len(all))
		}
		texts = append(texts, fmt.Sprint("more ", i))
	}
	whole, _ := readChat(t, all, transcript.Options{})
	if len(whole) != 9 {
		t.Fatalf("%v", transcripttest.OutlineSteps(whole))
	}
	for i, n := range ends {
		got, _ := readChat(t, all[:n], transcript.Options{})
		if len(got) > len(whole) || !cmp.Equal(got, whole[:len(got)]) {
			t.Fatalf("%d spans: %s", i+1, cmp.Diff(whole, got))
		}
	}
	rotated, _ := readChat(t, all[ends[3]:], transcript.Options{})
	ids := make(map[turns.ID]bool)
	for _, s := range whole {
		if s.Append != nil {
			ids[s.Append.ID] = true
		}
	}
	for _, s := range rotated {
		if s.Open != nil && s.Open.ID != whole[0].Open.ID || s.Append != nil && !ids[s.Append.ID] {
			t.Errorf("a file that begins later has a step of its own: %+v", s)
		}
	}

	// A call that failed is asked again; one that nothing follows is pending.
	failed := transcripttest.OtlpLine("1", "T", transcripttest.OtlpCall("string", "a", "")[0])
	again := failed + transcripttest.OtlpLine("2", "T", transcripttest.OtlpCall("string", "a", "1")...)
	for _, c := range []struct {
		text  string
		final bool
		want  []string
		count int
	}{
		{failed, false, nil, 1}, {failed, true, []string{"open S1", "S1 T1 after - user(a) => pending"}, 0},
		{again, true, []string{"open S1", "S1 T1 after - user(a) => assistant(1)"}, 0},
	} {
		steps, losses := readChat(t, c.text, transcript.Options{Final: c.final})
		if d := cmp.Diff(c.want, transcripttest.OutlineSteps(steps)); d != "" || len(losses) != c.count {
			t.Errorf("steps (-want +got):\n%s\nlosses %+v", d, losses)
		}
	}
}
