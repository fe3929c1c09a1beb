package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nexus/turns"
)

// reply is a transport that answers each request with a body.
type reply func(*http.Request) (io.Reader, error)

func (f reply) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := f(r)
	if err != nil {
		return nil, err
	}
	kind := "text/event-stream; charset=utf-8"
	if _, ok := body.(object); ok {
		kind = "application/json"
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body), Request: r}, nil
}

// object is a body that is no stream.
type object struct{ io.Reader }

func answering(t testing.TB, kind string, l Limits, f reply) Client {
	t.Helper()
	s, err := New([]Row{{Name: "row", Kind: kind, URL: "http://localhost/v1", Models: []any{"*"}}}, Options{Limits: l, Transport: f})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := s.For("m")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func streamed(t testing.TB, kind, stream string) (*Answer, error) {
	c := answering(t, kind, Limits{Event: 1 << 16, Answer: 1 << 20}, func(*http.Request) (io.Reader, error) { return strings.NewReader(stream), nil })
	return c.Generate(context.Background(), &Request{Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "x")}}, func(Event) error { return nil })
}

// answered is streamed of an answer that is one object.
func answered(t testing.TB, kind, body string) (*Answer, error) {
	c := answering(t, kind, Limits{Event: 1 << 16, Answer: 1 << 20}, func(*http.Request) (io.Reader, error) { return object{strings.NewReader(body)}, nil })
	return c.Generate(context.Background(), &Request{Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "x")}}, func(Event) error { return nil })
}

// lines makes a stream of events.
func lines(data ...string) string { return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n" }

const (
	chatEnd   = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	msgStart  = `{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":3,"cache_read_input_tokens":2,"cache_creation_input_tokens":1}}}`
	textStart = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	itemAdded = `{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`
)

func TestBrokenStreamsAreTypedErrors(t *testing.T) {
	for _, c := range []struct{ name, kind, stream, code string }{
		{"nothing", "openai-chat", "", "lost"},
		{"no end", "openai-chat", lines(`{"choices":[{"delta":{"content":"a"}}]}`), "lost"},
		{"half an event", "openai-chat", lines(chatEnd)[:20], "lost"},
		{"no JSON", "openai-chat", lines(`{"choices":`), "invalid_answer"},
		{"another type", "openai-chat", lines(`{"choices":"x"}`), "invalid_answer"},
		{"arguments without a call", "openai-chat", lines(`{"choices":[{"delta":{"tool_calls":[{"index":4,"function":{"arguments":"{}"}}]}}]}`), "invalid_answer"},
		{"an error in it", "openai-chat", lines(`{"error":{"message":"no","code":"overloaded"}}`), "overloaded"},
		{"a long line", "openai-chat", "data: " + strings.Repeat("x", 1<<17), "invalid_answer"},
		{"a long event", "openai-chat", strings.Repeat("data: "+strings.Repeat("x", 1<<10)+"\n", 100), "invalid_answer"},
		{"an endless stream", "openai-chat", strings.Repeat(": still here\n\n", 1<<17), "invalid_answer"},
		{"a call without a name", "anthropic", lines(msgStart, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a"}}`), "invalid_answer"},
		{"a block before the message", "anthropic", lines(textStart), "invalid_answer"},
		{"one index twice", "anthropic", lines(msgStart, textStart, textStart), "invalid_answer"},
		{"a delta of no block", "anthropic", lines(msgStart, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}`), "invalid_answer"},
		{"a delta of another kind", "anthropic", lines(msgStart, textStart, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a"}}`), "invalid_answer"},
		{"a block that stays open", "anthropic", lines(msgStart, textStart, `{"type":"message_stop"}`), "lost"},
		{"two messages", "anthropic", lines(msgStart, msgStart), "invalid_answer"},
		{"overloaded", "anthropic", lines(msgStart, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`), "overloaded_error"},
		{"no end", "openai-responses", lines(itemAdded), "lost"},
		{"a delta of no item", "openai-responses", lines(`{"type":"response.output_text.delta","output_index":0,"delta":"a"}`), "invalid_answer"},
		{"one index twice", "openai-responses", lines(itemAdded, itemAdded), "invalid_answer"},
		{"arguments of a message", "openai-responses", lines(itemAdded, `{"type":"response.function_call_arguments.delta","output_index":0,"delta":"a"}`), "invalid_answer"},
		{"an end without a response", "openai-responses", lines(`{"type":"response.completed"}`), "invalid_answer"},
		{"a flat error", "openai-responses", lines(`{"type":"error","code":"server_error","message":"no"}`), "server_error"},
		{"failed", "openai-responses", lines(`{"type":"response.failed","response":{"error":{"code":"x","message":"your prompt is too long: 5 tokens > 3"}}}`), "context_length_exceeded"},
	} {
		a, err := streamed(t, c.kind, c.stream)
		e := (*Error)(nil)
		if !errors.As(err, &e) || a != nil || e.Code != c.code || e.Message == "" || e.Lost != (c.code == "lost" || c.code == "invalid_answer") {
			t.Errorf("%s, %s: %+v, %#v", c.kind, c.name, a, err)
		}
	}
}

func TestUnusualStreamsAreRead(t *testing.T) {
	call := func(s string) string { return `{"choices":[{"delta":{"tool_calls":[` + s + `]}}]}` }
	for _, c := range []struct {
		name, kind, stream string
		want               string
	}{
		{"all calls have the index 0", "openai-chat", lines(call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":"}}`), call(`{"index":0,"function":{"arguments":"1}"}}`),
			call(`{"index":0,"id":"b","function":{"name":"g","arguments":""}}`), call(`{"index":0,"function":{"arguments":"[2]"}}`), chatEnd), `a f {"n":1}; b g [2]`},
		{"no index and no id", "openai-chat", lines(call(`{"function":{"name":"f","arguments":{"n":1}}}`), chatEnd), `call_0 f {"n":1}`},
		{"one id twice", "openai-chat", lines(call(`{"index":0,"id":"a","function":{"name":"f"}}`), call(`{"index":1,"id":"a","function":{"name":"f"}}`), chatEnd), `a f {}; call_1 f {}`},
		{"arguments that are not JSON", "openai-chat", lines(call(`{"index":0,"id":"a","function":{"name":"f","arguments":"{n:"}}`), chatEnd), `a f "{n:"`},
		{"line ends of all kinds, comments, unknown fields", "openai-chat", "\xef\xbb\xbf: hi\r\nid: 4\r\ndata: {\"choices\":\rdata:[{\"delta\":{\"content\":\"a\"}}]}\n\r\n" + lines("[DONE]"), "a"},
		{"no end but a reason", "openai-chat", lines(`{"choices":[{"delta":{"content":"a"}}]}`, chatEnd), "a"},
		{"nothing said", "openai-chat", lines(chatEnd), ""},
		{"unknown events", "anthropic", lines(msgStart, `{"type":"ping"}`, `{"type":"later","more":[1]}`, textStart, `{"type":"content_block_delta","index":0,"delta":{"type":"later_delta"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`), "a"},
		{"items in the end only", "openai-responses", lines(`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]}]}}`), "a; b"},
		{"half a character", "openai-chat", lines(`{"choices":[{"delta":{"content":"\ud83d"}}]}`, chatEnd), "\ufffd"},
	} {
		a, err := streamed(t, c.kind, c.stream)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, p := range a.Message.Parts {
			got = append(got, strings.TrimSpace(strings.Join([]string{p.ID, p.Name, p.Content + string(p.Arguments)}, " ")))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, strings.Join(got, "; "), c.want)
		}
	}
}

func TestUsageOfAnthropicIncludesTheCache(t *testing.T) {
	a, err := streamed(t, "anthropic", lines(msgStart, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"cache_creation":{"ephemeral_1h_input_tokens":1}}}`, `{"type":"message_stop"}`))
	if err != nil || *a.Usage != (turns.Usage{InputTokens: 6, OutputTokens: 9, CacheRead: 2, CacheCreation: 1}) || a.Details.CacheHour != 1 {
		t.Errorf("%v %+v", err, a)
	}
}

// silent is a body that gives some bytes, and then waits until it is closed.
type silent struct {
	head io.Reader
	ctx  context.Context
}

func (s silent) Read(p []byte) (int, error) {
	if n, err := s.head.Read(p); err == nil {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestSilenceEndsACall(t *testing.T) {
	for name, c := range map[string]struct {
		l    Limits
		head bool
		want time.Duration
	}{
		"before the reply": {Limits{FirstByte: time.Minute}, false, time.Minute},
		"in the reply":     {Limits{FirstByte: time.Minute, Idle: 2 * time.Minute}, true, 2 * time.Minute},
		"in all":           {Limits{Total: 30 * time.Second}, true, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, calls := time.Now(), 0
				cl := answering(t, "openai-chat", c.l, func(r *http.Request) (io.Reader, error) {
					calls++
					if !c.head {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					return silent{strings.NewReader(lines(`{"choices":[{"delta":{"content":"a"}}]}`)), r.Context()}, nil
				})
				_, err := cl.Generate(t.Context(), &Request{Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "x")}}, func(Event) error { return nil })
				e := (*Error)(nil)
				if !errors.As(err, &e) || e.Code != "timeout" || calls != 1 || time.Since(begun) != c.want || e.Lost != c.head {
					t.Errorf("%#v after %v and %d calls", err, time.Since(begun), calls)
				}
			})
		})
	}
}

func TestARefusedConnectionIsTriedAgainAndABrokenOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		cl := answering(t, "anthropic", Limits{}, func(*http.Request) (io.Reader, error) {
			if calls++; calls < 3 {
				return nil, errors.New("connection refused")
			}
			return strings.NewReader(lines(msgStart, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`)), nil
		})
		r := &Request{Model: "m", Messages: []turns.Message{turns.TextMessage(turns.User, "x")}}
		if _, err := cl.Generate(t.Context(), r, func(Event) error { return nil }); err != nil || calls != 3 {
			t.Errorf("%v after %d calls", err, calls)
		}
		calls = 0
		cl = answering(t, "anthropic", Limits{}, func(r *http.Request) (io.Reader, error) {
			calls++
			httptrace.ContextClientTrace(r.Context()).WroteHeaders() // the request is on its way
			return nil, io.ErrUnexpectedEOF
		})
		_, err := cl.Generate(t.Context(), r, func(Event) error { return nil })
		if e := (*Error)(nil); !errors.As(err, &e) || e.Code != "lost" || !e.Lost || calls != 1 {
			t.Errorf("%#v after %d calls", err, calls)
		}
	})
}

// An answer that is one object has what its stream would have.
func TestAnswersThatAreNoStream(t *testing.T) {
	for kind, body := range map[string]string{
		"openai-chat":      `{"id":"a","model":"x","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","reasoning_content":"hm","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{}"}}]}}],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}}`,
		"anthropic":        `{"id":"a","type":"message","role":"assistant","model":"x","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"read","input":{"p":1}},{"type":"tool_use","id":"c2","name":"read","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":7,"cache_read_input_tokens":2,"output_tokens":4}}`,
		"openai-responses": `{"id":"a","model":"x","status":"completed","output":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"I look."}]},{"type":"function_call","id":"f1","call_id":"c1","name":"read","arguments":"{\"p\":1}"},{"type":"function_call","id":"f2","call_id":"c2","name":"read","arguments":"{}"}],"usage":{"input_tokens":9,"output_tokens":4,"input_tokens_details":{"cached_tokens":2}}}`,
	} {
		a, err := answered(t, kind, body)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		var got []string
		for _, p := range a.Message.Parts {
			got = append(got, string(p.Type)+" "+p.Content+p.ID+p.Name+string(p.Arguments))
		}
		want := `reasoning hm; text I look.; tool_call c1read{"p":1}; tool_call c2read{}`
		if s := strings.Join(got, "; "); s != want || a.Message.FinishReason != "tool_call" || a.ID != "a" || a.Model != "x" {
			t.Errorf("%s: %s, %+v; want %s", kind, s, a, want)
		}
		if a.Usage == nil || *a.Usage != (turns.Usage{InputTokens: 9, OutputTokens: 4, CacheRead: 2}) {
			t.Errorf("%s: usage %+v", kind, a.Usage)
		}
	}
	for kind, body := range map[string]string{
		"openai-chat":      `{"error":{"message":"too many","code":"rate_limit_exceeded"}}`,
		"anthropic":        `{"type":"error","error":{"type":"overloaded_error","message":"later"}}`,
		"openai-responses": `{"status":"failed","error":{"code":"server_error","message":"no"}}`,
	} {
		if a, err := answered(t, kind, body); err == nil {
			t.Errorf("%s: an error is an answer: %+v", kind, a)
		}
	}
}

func FuzzStreams(f *testing.F) {
	for _, kind := range Kinds {
		f.Add(kind, lines(chatEnd))
		f.Add(kind, `{"status":"completed","type":"message","choices":[{"message":{"content":"a","tool_calls":[{"id":"b","function":{"name":"c"}}]}}],"content":[{"type":"text","text":"a"}],"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}`)
		f.Add(kind, lines(msgStart, textStart, `{"type":"content_block_stop","index":0}`, `{"type":"message_stop"}`))
		f.Add(kind, lines(itemAdded, `{"type":"response.output_text.delta","output_index":0,"content_index":1,"delta":"a"}`, `{"type":"response.completed","response":{"output":[]}}`))
		f.Add(kind, lines(`{"type":"response.output_item.done","output_index":-1,"item":{"type":"reasoning","summary":[{"text":"a"}],"encrypted_content":"b"}}`, `{"type":"response.incomplete","response":{}}`))
		f.Add(kind, lines(`{"type":"response.output_item.done","output_index":9,"item":{"type":"custom_tool_call","call_id":"a","name":"b","input":"c"}}`))
	}
	f.Fuzz(func(t *testing.T, kind, stream string) {
		known := false
		for _, k := range Kinds {
			known = known || k == kind
		}
		if !known {
			return
		}
		ask := streamed
		if strings.HasPrefix(stream, "{") {
			ask = answered
		}
		a, err := ask(t, kind, stream)
		if err == nil {
			if err := a.Message.Validate("/answer"); err != nil || len(a.Message.Parts) == 0 {
				t.Errorf("an answer of %d parts: %v", len(a.Message.Parts), err)
			}
			return
		}
		if e := (*Error)(nil); !errors.As(err, &e) || e.Code == "" || e.Message == "" || len(e.Message) > maxMessage+10 {
			t.Errorf("%#v", err)
		}
	})
}
