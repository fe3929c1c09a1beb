package sdktest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/go-json-experiment/json"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	openairesponses "github.com/openai/openai-go/v3/responses"

	"nexus/cmd/internal/provider/providertest"
)

// read is what a provider's own client makes of an answer.
type read struct {
	Text, Refusal string
	Calls         []providertest.ToolCall
	Finish        string
	Out           int64
}

// asked sends a prompt by the provider's own client.
func asked(t *testing.T, s *providertest.Server, kind, prompt string, stream, tools bool) (read, error) {
	t.Helper()
	schema := map[string]any{"type": "object", "properties": map[string]any{"place": map[string]any{"type": "string"}}, "required": []string{"place"}}
	switch kind {
	case providertest.Chat:
		c := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("k"), option.WithMaxRetries(0))
		p := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage(prompt)}}
		if tools {
			p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "get_weather", Parameters: schema})}
		}
		answer := new(openai.ChatCompletion)
		var err error
		if stream {
			p.StreamOptions.IncludeUsage = openai.Bool(true)
			var all openai.ChatCompletionAccumulator
			st := c.Chat.Completions.NewStreaming(t.Context(), p)
			for st.Next() {
				all.AddChunk(st.Current())
			}
			answer, err = &all.ChatCompletion, st.Err()
		} else {
			answer, err = c.Chat.Completions.New(t.Context(), p)
		}
		if err != nil {
			return read{}, err
		}
		m := answer.Choices[0]
		r := read{Text: m.Message.Content, Refusal: m.Message.Refusal, Finish: m.FinishReason, Out: answer.Usage.CompletionTokens}
		for _, call := range m.Message.ToolCalls {
			r.Calls = append(r.Calls, providertest.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
		}
		return r, nil
	case providertest.Responses:
		c := openai.NewClient(option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("k"), option.WithMaxRetries(0))
		p := openairesponses.ResponseNewParams{Model: "m", Instructions: openai.String("Be brief."), Input: openairesponses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)}}
		if tools {
			p.Tools = []openairesponses.ToolUnionParam{openairesponses.ToolParamOfFunction("get_weather", schema, false)}
		}
		answer := new(openairesponses.Response)
		var err error
		if stream {
			st := c.Responses.NewStreaming(t.Context(), p)
			var text strings.Builder
			for sequence := int64(0); st.Next(); sequence++ {
				e := st.Current()
				if e.SequenceNumber != sequence {
					t.Errorf("event %s has sequence number %d, want %d", e.Type, e.SequenceNumber, sequence)
				}
				if e.Type == "response.output_text.delta" {
					text.WriteString(e.Delta)
				}
				if e.Response.Status == "completed" || e.Response.Status == "incomplete" {
					*answer = e.Response
				}
			}
			if err = st.Err(); err == nil && answer.ID == "" {
				err = errors.New("the response failed")
			}
			if err == nil && text.String() != answer.OutputText() {
				t.Errorf("deltas %q, response %q", &text, answer.OutputText())
			}
		} else {
			answer, err = c.Responses.New(t.Context(), p)
		}
		if err != nil {
			return read{}, err
		}
		r := read{Text: answer.OutputText(), Finish: string(answer.Status), Out: answer.Usage.OutputTokens}
		for _, it := range answer.Output {
			for _, part := range it.Content {
				r.Refusal += part.Refusal
			}
			if it.Type == "function_call" {
				r.Calls = append(r.Calls, providertest.ToolCall{ID: it.CallID, Name: it.Name, Arguments: it.Arguments.OfString})
			}
		}
		return r, nil
	}
	c := anthropic.NewClient(anthropicoption.WithBaseURL(s.URL), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0))
	p := anthropic.MessageNewParams{Model: "m", MaxTokens: 100, System: []anthropic.TextBlockParam{{Text: "Be brief."}}, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))}}
	if tools {
		p.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"place"}}, "get_weather")}
	}
	answer := new(anthropic.Message)
	var err error
	if stream {
		st := c.Messages.NewStreaming(t.Context(), p)
		for st.Next() {
			if err := answer.Accumulate(st.Current()); err != nil {
				t.Fatal(err)
			}
		}
		err = st.Err()
	} else {
		answer, err = c.Messages.New(t.Context(), p)
	}
	if err != nil {
		return read{}, err
	}
	r := read{Finish: string(answer.StopReason), Out: answer.Usage.OutputTokens}
	for _, b := range answer.Content {
		switch b.Type {
		case "text":
			r.Text += b.Text
		case "tool_use":
			r.Calls = append(r.Calls, providertest.ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		case "thinking":
			if b.Signature != providertest.Signature(b.Thinking) {
				t.Errorf("thinking %q has signature %q", b.Thinking, b.Signature)
			}
		}
	}
	if answer.StopReason == "refusal" {
		r.Text, r.Refusal = "", r.Text
	}
	return r, nil
}

// The providers' own clients read what the script says, from a stream and whole.
func TestOwnClientsReadWhatTheScriptSays(t *testing.T) {
	finish := map[string]map[string]string{
		providertest.Chat:      {"stop": "stop", "length": "length", "tool": "tool_calls", "refusal": "stop"},
		providertest.Responses: {"stop": "completed", "length": "incomplete", "tool": "completed", "refusal": "completed"},
		providertest.Messages:  {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use", "refusal": "refusal"},
	}
	for _, tc := range []struct {
		prompt, finish string
		tools          bool
		want           read
	}{
		{"Reply with exactly: two words", "stop", false, read{Text: "two words", Out: 2}},
		{"#reason and reply with exactly: so", "stop", false, read{Text: "so", Out: 8}},
		{"#length #words=3", "length", false, read{Text: "word word word", Out: 3}},
		{"#refuse", "refusal", false, read{Refusal: "I do not answer this.", Out: 5}},
		{"What's the weather like?", "tool", true, read{Calls: []providertest.ToolCall{{ID: "call_1_0", Name: "get_weather", Arguments: `{"place":"an example"}`}}, Out: 2}},
		{"Hello", "stop", true, read{Text: "Message 1 says: Hello", Out: 4}},
	} {
		for _, kind := range providertest.Kinds() {
			for _, stream := range []bool{false, true} {
				s := providertest.Start(t, nil)
				got, err := asked(t, s, kind, tc.prompt, stream, tc.tools)
				want := tc.want
				want.Finish = finish[kind][tc.finish]
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, stream %v, %q: %+v, %v, want %+v", kind, stream, tc.prompt, got, err, want)
				}
				c := s.Calls()[0]
				if c.Kind != kind || c.Prompt != tc.prompt || c.System != "Be brief." || c.Stream != stream || c.Key != "k" || c.Model != "m" || len(c.Tools) == 1 != tc.tools {
					t.Errorf("%s: the server read %+v", kind, c)
				}
			}
		}
	}
}

func TestFailuresReachTheClient(t *testing.T) {
	for _, kind := range providertest.Kinds() {
		s := providertest.Start(t, nil)
		for _, prompt := range []string{"#error=429", "#error-once=500 once", "#error-late=2 #words=3", "#cut=1", "#cut=2 #words=3"} {
			if got, err := asked(t, s, kind, prompt, true, false); err == nil && !(kind == providertest.Chat && strings.HasPrefix(prompt, "#cut=2")) {
				t.Errorf("%s, %s: %+v, want an error", kind, prompt, got)
			}
		}
		if got, err := asked(t, s, kind, "#error-once=500 once", true, false); err != nil || got.Text == "" {
			t.Errorf("%s: the second call: %+v, %v", kind, got, err)
		}
		if n := s.Count("#error-once"); n != 2 {
			t.Errorf("%s: %d calls are counted, want 2", kind, n)
		}
	}
}

// A gate holds a stream back, piece by piece, and a client that goes away is noticed.
func TestAGateHoldsAStream(t *testing.T) {
	for _, kind := range providertest.Kinds() {
		s := providertest.Start(t, nil)
		gate := s.Hold("slow")
		body := map[string]any{"model": "m", "stream": true, "max_tokens": 9, "messages": []any{map[string]any{"role": "user", "content": "slow, exactly: one two three"}}}
		path := map[string]string{providertest.Chat: "/v1/chat/completions", providertest.Messages: "/v1/messages", providertest.Responses: "/v1/responses"}[kind]
		if kind == providertest.Responses {
			body = map[string]any{"model": "m", "stream": true, "input": "slow, exactly: one two three"}
		}
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Anthropic-Version", "2023-06-01")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		gate.Step(2)
		var got strings.Builder
		for buffer := make([]byte, 1024); !strings.Contains(got.String(), `" two"`); {
			n, err := res.Body.Read(buffer)
			if got.Write(buffer[:n]); err != nil {
				t.Fatalf("%s: %v behind %s", kind, err, &got)
			}
		}
		if strings.Contains(got.String(), "three") {
			t.Errorf("%s: the gate let through\n%s", kind, &got)
		}
		cancel()
		if _, err := io.Copy(io.Discard, res.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", kind, err)
		}
		res.Body.Close()
		s.Wait(t, "the server sees that its client is gone", func() bool { return len(s.Gone()) == 1 })
	}
}

// What the real servers refuse is refused, and the test can ask why.
func TestWhatTheRealServersRefuseIsRefused(t *testing.T) {
	call := `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
	for _, tc := range []struct{ path, body, want string }{
		{"chat/completions", `{"model":"m","messages":[{"role":"tool","tool_call_id":"c1","content":"x"}]}`, "stray"},
		{"chat/completions", `{"messages":[]}`, "model"},
		{"chat/completions", `{"model":"m","stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`, "stream_options"},
		{"responses", `{"model":"m","input":[` + call + `]}`, "no tool output"},
		{"responses", `{"model":"m","input":[{"type":"function_call_output","call_id":"c1","output":"x"}]}`, "no tool call"},
		{"responses", `{"model":"m","input":[{"type":"reasoning","summary":[],"encrypted_content":"other"}]}`, "could not be verified"},
		{"messages", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "max_tokens"},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":"x"}]}`, "first"},
		{"messages", `{"model":"m","max_tokens":1,"messages":`, "JSON"},
	} {
		s := providertest.Start(t, nil)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/"+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Anthropic-Version", "2023-06-01")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusBadRequest || len(s.Refused()) != 1 || !strings.Contains(string(b), tc.want) {
			t.Errorf("%s %s: %s %s, want %q", tc.path, tc.body, res.Status, b, tc.want)
		}
	}
}
