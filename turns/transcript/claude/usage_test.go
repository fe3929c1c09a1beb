package claude

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nexus/turns"
	"nexus/turns/transcript"
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

// A turn is of the time of the last thing that was said before the call: a tool that was
// interrupted yesterday does not put today's call on yesterday's bill.
func TestClaudeTurnIsOfTheTimeOfItsCall(t *testing.T) {
	text := `{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"one"},"uuid":"u1","timestamp":"2026-03-04T10:00:00.000Z"}
{"parentUuid":"u1","sessionId":"s","type":"assistant","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"tool_use","id":"c1","name":"ls","input":{}}],"stop_reason":"tool_use"},"uuid":"a1","timestamp":"2026-03-04T10:00:01.000Z"}
{"parentUuid":"a1","sessionId":"s","type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"rejected"}]},"uuid":"u2","timestamp":"2026-03-04T10:00:02.000Z"}
{"parentUuid":"u2","sessionId":"s","type":"user","message":{"role":"user","content":"two"},"uuid":"u3","timestamp":"2026-03-05T08:00:00.000Z"}
{"parentUuid":"u3","sessionId":"s","type":"assistant","message":{"id":"m2","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"},"uuid":"a2","timestamp":"2026-03-05T08:00:09.000Z"}
`
	var got []string
	for st, err := range Read(strings.NewReader(text), transcript.Options{Final: true}).Steps() {
		if err != nil {
			t.Fatal(err)
		}
		if st.Append != nil {
			got = append(got, st.Append.Time.Format(time.RFC3339), st.Append.ID.Time().UTC().Format(time.RFC3339))
		}
	}
	if want := []string{"2026-03-04T10:00:00Z", "2026-03-04T10:00:00Z", "2026-03-05T08:00:00Z", "2026-03-04T10:00:02Z"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A large result without its call is there once, as text, which a ledger can move to a blob:
// a second copy in ext would make the turn larger than a message, and end the import there.
func TestLargeResultWithoutItsCallIsThereOnce(t *testing.T) {
	for size, want := range map[int]bool{1000: true, 10 << 20: false} {
		text := `{"parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"gone","content":"` + strings.Repeat("x", size) + `"}]},"uuid":"u1","timestamp":"2026-03-04T10:00:00.000Z"}
{"parentUuid":"u1","sessionId":"s","type":"assistant","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"},"uuid":"a1","timestamp":"2026-03-04T10:00:01.000Z"}
`
		steps, _ := readClaude(t, []byte(text), true)
		for _, st := range steps {
			if st.Append == nil {
				continue
			}
			p := st.Append.Messages[0].Parts[0]
			if (len(p.Ext) > 0) != want || len(p.Content) < size {
				t.Errorf("%d bytes: ext has %d, the text %d", size, len(p.Ext), len(p.Content))
			}
		}
	}
}
