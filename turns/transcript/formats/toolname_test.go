package formats

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/render"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// A tool whose name the ledger can't hold keeps its calls: call and result are a pair in
// each format.
func TestCallOfANameThatTheLedgerRefusesKeepsItsResult(t *testing.T) {
	for format, lines := range map[string]string{
		"claude-code": `{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s1","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hi"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s1","timestamp":"2026-01-02T03:04:06Z","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"NAME","input":{"x":1}}]}}
{"type":"user","uuid":"u2","parentUuid":"a1","sessionId":"s1","timestamp":"2026-01-02T03:04:07Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}}
{"type":"assistant","uuid":"a2","parentUuid":"u2","sessionId":"s1","timestamp":"2026-01-02T03:04:08Z","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"done"}]}}`,
		"codex": `{"timestamp":"2026-04-29T23:50:54Z","type":"session_meta","payload":{"id":"019ddba6-d9ca-71d2-89c3-5dd074c317b3","timestamp":"2026-04-29T23:50:54Z"}}
{"timestamp":"2026-04-29T23:50:54Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}
{"timestamp":"2026-04-29T23:50:54Z","type":"response_item","payload":{"type":"function_call","name":"NAME","arguments":"{}","call_id":"c1"}}
{"timestamp":"2026-04-29T23:50:54Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"ok"}}
{"timestamp":"2026-04-29T23:50:54Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}`,
		"pi": `{"type":"session","version":3,"id":"p1","timestamp":"2026-01-02T03:04:05Z","cwd":"/"}
{"type":"message","id":"1","parentId":null,"timestamp":"2026-01-02T03:04:06Z","message":{"role":"user","content":"hi"}}
{"type":"message","id":"2","parentId":"1","timestamp":"2026-01-02T03:04:06Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"NAME","arguments":{}}]}}
{"type":"message","id":"3","parentId":"2","timestamp":"2026-01-02T03:04:06Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"NAME","content":[{"type":"text","text":"ok"}]}}
{"type":"message","id":"4","parentId":"3","timestamp":"2026-01-02T03:04:06Z","message":{"role":"assistant","content":[{"type":"text","text":"done"}]}}`,
		"gemini-cli": `{"sessionId":"g1","projectHash":"p","startTime":"2026-01-02T03:04:05Z","messages":[{"id":"1","timestamp":"2026-01-02T03:04:05Z","type":"user","content":"hi"},{"id":"2","timestamp":"2026-01-02T03:04:05Z","type":"gemini","content":"","toolCalls":[{"id":"c1","name":"NAME","args":{},"result":[{"functionResponse":{"id":"c1","name":"NAME","response":{"output":"ok"}}}],"status":"success"}]},{"id":"3","timestamp":"2026-01-02T03:04:05Z","type":"gemini","content":"done"}]}`,
	} {
		for what, name := range map[string]string{"a control character": `a\u0001b\u007f`, "too long": strings.Repeat("é", turns.MaxName)} {
			t.Run(format+", "+what, func(t *testing.T) {
				steps, losses := transcripttest.ReadAll(t, formatOf(t, format).Open(strings.NewReader(strings.ReplaceAll(lines, "NAME", name)+"\n"), transcript.Options{Final: true}))
				if !slices.ContainsFunc(losses, func(l transcript.Loss) bool {
					return l.Kind == "repaired" && strings.Contains(l.Reason, "a tool's name")
				}) {
					t.Errorf("it is not reported: %v", losses)
				}
				hasPair := func(where string, path []transcript.WrittenTurn) (ms []turns.Message) {
					t.Helper()
					var calls, results []string
					for _, x := range path {
						for _, m := range append(x.Messages, *x.Response) {
							if err := m.Validate(""); err != nil {
								t.Errorf("%s: the ledger refuses it: %v", where, err)
							}
							ms = append(ms, m)
							for _, p := range m.Parts {
								switch p.Type {
								case turns.ToolCall:
									calls = append(calls, p.ID)
								case turns.ToolCallResponse:
									results = append(results, p.ID)
								}
							}
						}
					}
					if want := []string{"c1"}; !slices.Equal(calls, want) || !slices.Equal(results, want) {
						t.Errorf("%s: calls %q, results %q", where, calls, results)
					}
					return ms
				}
				path := pathOf(steps, steps[0].Open.ID)
				ms := hasPair("as read", path)
				if r, err := render.Anthropic(nil, nil, ms); err != nil || !strings.Contains(string(values.Encoded(r.Messages)), `"tool_result"`) {
					t.Errorf("as a context: %v, %s", err, values.Encoded(r.Messages))
				}
				for _, to := range Written() {
					back, _ := transcripttest.ReadAll(t, formatOf(t, to).Open(bytes.NewReader(write(t, to, transcript.WrittenSession{ID: turns.ID{15: 9}, Time: time.UnixMilli(1)}, path)), transcript.Options{Final: true}))
					hasPair("as "+to+" and back", pathOf(back, back[0].Open.ID))
				}
			})
		}
	}
}
