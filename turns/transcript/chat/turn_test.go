package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/transcript"
	"nexus/turns/transcript/transcripttest"
)

// chatLines is a conversation of three questions with their answers, one message each.
func chatLines() []string {
	return []string{
		`{"role":"user","content":"q1"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"a","content":"x"}`, `{"role":"assistant","content":"ok"}`,
		`{"role":"user","content":"q2"}`, `{"role":"assistant","content":"ok"}`,
		`{"role":"user","content":"q3"}`, `{"role":"assistant","content":"a3"}`,
	}
}

func chatOf(id string, messages []string) string {
	return `{"conversation_id":"` + id + `","created_at":"2026-03-01T10:00:00Z","messages":[` + strings.Join(messages, ",") + "]}\n"
}

const chatID = "3f0e7a52-6a9d-4d0c-8a55-0c5a3f1f9b01"

// Whatever becomes of the file, a turn and its session have the same ids: messages that are
// not understood come or go, the oldest are lost, more come, conversations change places.
func TestChatIDsAreNoPositions(t *testing.T) {
	all := chatLines()
	whole, _ := readChat(t, chatOf(chatID, all), transcript.Options{})
	ids := make(map[turns.ID]bool)
	for _, s := range whole {
		ids[s.ID()] = true
	}
	if len(ids) != 5 {
		t.Fatalf("%d ids: %v", len(ids), transcripttest.OutlineSteps(whole))
	}
	check := func(what, text string, want int) {
		t.Helper()
		steps, _ := readChat(t, text, transcript.Options{})
		n := 0
		for _, s := range steps {
			if ids[s.ID()] {
				n++
			} else if s.Open == nil || strings.Contains(string(s.Open.Meta), chatID) {
				t.Errorf("%s: a step of its own: %v", what, transcripttest.OutlineSteps([]transcript.Step{s}))
			}
		}
		if n != want {
			t.Errorf("%s: %d steps of the whole, want %d", what, n, want)
		}
	}
	for i := 0; i <= len(all); i++ {
		if i == 0 || !strings.Contains(all[i-1], `"user"`) && !strings.Contains(all[i-1], `"tool"`) {
			note := slices.Insert(slices.Clone(all), i, fmt.Sprintf(`{"role":"note","content":"n%d"}`, i))
			check(fmt.Sprint("a note at ", i), chatOf(chatID, note), 5)
		}
		shorter, _ := readChat(t, chatOf(chatID, all[:max(i, 1)]), transcript.Options{})
		if err := transcripttest.NewStepIndex(whole).Contains(shorter); err != nil {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	check("without its first question", chatOf(chatID, all[4:]), 3)
	check("as rows of a log that grows", chatOf(chatID, all[:4])+chatOf(chatID, all), 3+5)
	other := chatOf("3f0e7a52-6a9d-4d0c-8a55-0c5a3f1f9b02", []string{`{"role":"user","content":"q1"}`, `{"role":"assistant","content":"z"}`})
	a, _ := readChat(t, other+chatOf(chatID, all), transcript.Options{})
	b, _ := readChat(t, chatOf(chatID, all)+other, transcript.Options{})
	if err := transcripttest.NewStepIndex(a).Contains(b); err != nil || len(a) != len(b) {
		t.Errorf("another order of conversations: %v", err)
	}
}

// Messages that name themselves give their ids to the turns.
func TestChatTurnHasTheIDOfItsMessage(t *testing.T) {
	a, _ := readChat(t, chatOf(chatID, []string{`{"role":"user","content":"q"}`, `{"id":"msg_1","role":"assistant","content":"a"}`}), transcript.Options{})
	b, _ := readChat(t, chatOf(chatID, []string{`{"role":"user","content":"q, said better"}`, `{"id":"msg_1","role":"assistant","content":"a, too"}`}), transcript.Options{})
	if a[1].Append.ID != b[1].Append.ID || !strings.Contains(string(a[1].Append.Meta), `"message_id":"msg_1"`) {
		t.Errorf("ids %s and %s, meta %s", a[1].Append.ID, b[1].Append.ID, a[1].Append.Meta)
	}
}

// Usage counts, as any provider's objects state it, and so do the times and models of messages.
func TestChatUsageOfManyDialects(t *testing.T) {
	for usage, want := range map[string]turns.Usage{
		`"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":40}}`:                      {InputTokens: 100, OutputTokens: 7, CacheRead: 40},
		`"usage":{"input_tokens":100,"output_tokens":7,"input_tokens_details":{"cached_tokens":40}}`:                            {InputTokens: 100, OutputTokens: 7, CacheRead: 40},
		`"usage":{"input_tokens":50,"output_tokens":7,"cache_read_input_tokens":40,"cache_creation_input_tokens":10}`:           {InputTokens: 100, OutputTokens: 7, CacheRead: 40, CacheCreation: 10},
		`"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_cache_hit_tokens":40,"prompt_cache_miss_tokens":60}`:        {InputTokens: 100, OutputTokens: 7, CacheRead: 40},
		`"usage_metadata":{"input_tokens":100,"output_tokens":7,"input_token_details":{"cache_read":40}}`:                       {InputTokens: 100, OutputTokens: 7, CacheRead: 40},
		`"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cachedContentTokenCount":40}`: {InputTokens: 100, OutputTokens: 7, CacheRead: 40},
		`"usage":{"prompt_tokens":100,"completion_tokens":7,"cache_read_input_tokens":40}`:                                      {InputTokens: 100, OutputTokens: 7, CacheRead: 40},
		`"usage":{"prompt_tokens":100,"completion_tokens":7,"input_tokens":100,"output_tokens":7,"cache_read_input_tokens":40}`: {InputTokens: 100, OutputTokens: 7, CacheRead: 40},
	} {
		message := `{"role":"assistant","content":"a","model":"m2","timestamp":"2026-03-01T10:05:00Z",` + usage + `}`
		steps, losses := readChat(t, chatOf(chatID, []string{`{"role":"user","content":"q"}`, message}), transcript.Options{})
		a := steps[1].Append
		if a.Usage == nil || *a.Usage != want || a.Model != "m2" || a.Time.Minute() != 5 || len(losses) != 0 || turns.TimeBoundOf(a.Meta) != "" {
			t.Errorf("%s: %+v, model %q, time %v, losses %+v", usage, a.Usage, a.Model, a.Time, losses)
		}
	}
	one := strings.Replace(chatOf(chatID, []string{`{"role":"user","content":"q"}`, `{"role":"assistant","content":"a"}`}), `"messages"`, `"usage":{"prompt_tokens":9,"completion_tokens":1},"messages"`, 1)
	if steps, _ := readChat(t, one, transcript.Options{}); steps[1].Append.Usage == nil || turns.TimeBoundOf(steps[1].Append.Meta) != turns.TimeNotBefore {
		t.Errorf("usage of the only call: %+v, meta %s", steps[1].Append.Usage, steps[1].Append.Meta)
	}
	many := strings.Replace(chatOf(chatID, chatLines()), `"messages"`, `"usage":{"prompt_tokens":9,"completion_tokens":1},"messages"`, 1)
	if _, losses := readChat(t, many, transcript.Options{}); len(losses) != 1 || losses[0].Usage == nil || losses[0].Usage.InputTokens != 9 {
		t.Errorf("usage of many calls in sum: %+v", losses)
	}
}

// Content of a type that is not known is kept as text; it does not take the conversation with
// it.
func TestChatKeepsContentOfUnknownTypes(t *testing.T) {
	for name, messages := range map[string][]string{
		"openai":    {`{"role":"user","content":[{"type":"text","text":"q"},{"type":"input_audio","input_audio":{"data":"aGk="}}]}`, `{"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"tool_calls":[{"id":"c","type":"custom","custom":{"name":"patch","input":"*** x"}}]}`},
		"anthropic": {`{"role":"user","content":[{"type":"text","text":"q"},{"type":"container_upload","file_id":"f"}]}`, `{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"tool_use","id":"c","name":"patch","input":{"input":"*** x"}}]}`},
	} {
		steps, losses := readChat(t, chatOf(chatID, messages), transcript.Options{}, Form(name))
		if len(steps) != 2 || len(losses) != 2 {
			t.Errorf("%s: %v, losses %+v", name, transcripttest.OutlineSteps(steps), losses)
			continue
		}
		if a := steps[1].Append; len(a.Messages[0].Parts) != 2 || len(a.Response.Calls(nil)) != 1 || string(a.Response.Parts[len(a.Response.Parts)-1].Arguments) != `{"input":"*** x"}` {
			t.Errorf("%s: %v", name, transcripttest.OutlineSteps(steps))
		}
	}
}

// A log of calls has the response beside the messages of the request.
func TestChatLogWithItsResponse(t *testing.T) {
	for name, response := range map[string]string{
		"openai":    `{"id":"r1","model":"m2","created":1772359500,"choices":[{"index":0,"message":{"role":"assistant","content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`,
		"anthropic": `{"id":"r1","type":"message","role":"assistant","model":"m2","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":9,"output_tokens":1}}`,
	} {
		steps, losses := readChat(t, `{"messages":[{"role":"user","content":"q"}],"response":`+response+`}`, transcript.Options{}, Form(name))
		if len(steps) != 2 || len(losses) != 0 {
			t.Errorf("%s: %v, losses %+v", name, transcripttest.OutlineSteps(steps), losses)
			continue
		}
		if a := steps[1].Append; a.Response == nil || a.Response.Parts[0].Content != "a" || a.Usage == nil || a.Usage.InputTokens != 9 || a.Model != "m2" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
