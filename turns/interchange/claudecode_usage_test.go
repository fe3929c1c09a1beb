package interchange

import (
	"strings"
	"testing"

	"nexus/turns"
)

// What Claude Code counts beyond input, output and cache is in the meta of the turn. Its
// versions without a stop reason repeat the output that was counted when the stream began.
func TestClaudeCodeUsageDetails(t *testing.T) {
	long := strings.Repeat("word ", 100)
	for _, tc := range []struct {
		name, message, line string
		want                turns.UsageDetails
		cost                float64
	}{
		{"no more than the usage", `"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1,"service_tier":"standard","cache_creation":{"ephemeral_5m_input_tokens":4}}`, ``, turns.UsageDetails{}, 0},
		{"all of it", `"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":120,"cache_creation_input_tokens":9,"service_tier":"batch","cache_creation":{"ephemeral_1h_input_tokens":7},"output_tokens_details":{"thinking_tokens":5},"server_tool_use":{"web_search_requests":2}}`, ``,
			turns.UsageDetails{CacheHour: 7, Reasoning: 5, WebSearches: 2, Tier: "batch"}, 0},
		{"the ordinary speed", `"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1,"service_tier":"standard","speed":"standard"}`, ``, turns.UsageDetails{}, 0},
		{"another speed", `"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1,"service_tier":"standard","speed":"fast"}`, ``, turns.UsageDetails{Tier: "fast"}, 0},
		{"members of other types", `"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1,"service_tier":7,"speed":{},"cache_creation":[1],"server_tool_use":{"web_search_requests":-1}}`, ``, turns.UsageDetails{}, 0},
		{"the start of the stream", `"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}`, ``, turns.UsageDetails{OutputAtStart: true}, 0},
		{"a count that can be true", `"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":110}`, ``, turns.UsageDetails{}, 0},
		{"a cost", `"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":110}`, `"costUSD":0.125,`, turns.UsageDetails{}, 0.125},
		{"a cost of another type", `"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":110}`, `"costUSD":"much",`, turns.UsageDetails{}, 0},
	} {
		steps, _ := readClaude(t, []byte(`{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"S","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"go"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"S","timestamp":"2026-01-01T00:00:01Z",`+tc.line+`"message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"`+long+`"}],`+tc.message+`}}
`), true)
		if len(steps) != 2 || steps[1].Append == nil {
			t.Fatalf("%s: %d steps", tc.name, len(steps))
		}
		meta := steps[1].Append.Meta
		if got := turns.UsageDetailsOf(meta); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if got, _ := turns.CostOf(meta); got != tc.cost {
			t.Errorf("%s: a cost of %v, want %v", tc.name, got, tc.cost)
		}
	}
}
