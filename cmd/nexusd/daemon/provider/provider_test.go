package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nexus/cmd/nexusd/daemon/provider"
	"nexus/cmd/nexusd/daemon/provider/providertest"
	"nexus/turns"
)

const key = "sk-secret-0123456789"

func client(t *testing.T, kind, url string) provider.Client {
	t.Helper()
	c, err := provider.New(provider.Row{Name: "test", Kind: kind, URL: url + "/v1", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func asked(prompt string, tools ...string) *provider.Request {
	r := &provider.Request{Model: "m", System: []string{"Be brief."}, Messages: []turns.Message{turns.TextMessage(turns.User, prompt)}}
	for _, name := range tools {
		r.Tools = append(r.Tools, provider.Tool{Name: name, Description: "d", Parameters: turns.Raw(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)})
	}
	return r
}

// told is what a client gave: the answer, and the text of each part as its pieces came.
type told struct {
	answer *provider.Answer
	parts  []string
	kinds  string
}

func generate(ctx context.Context, c provider.Client, r *provider.Request) (out told, err error) {
	out.answer, err = c.Generate(ctx, r, func(e provider.Event) error {
		switch e.Kind {
		case provider.Begin:
			if e.Index != len(out.parts) {
				return errors.New("a part begins out of order")
			}
			out.parts = append(out.parts, "")
			out.kinds += "b"
		case provider.End:
			if e.Part == nil {
				return errors.New("an end without its part")
			}
			out.kinds += "e"
		case provider.RefusalDelta:
			out.parts[e.Index] += e.Text
			out.kinds += "r"
		default:
			out.parts[e.Index] += e.Text
		}
		return nil
	})
	return out, err
}

func eachKind(t *testing.T, f func(t *testing.T, kind string, s *providertest.Server)) {
	for _, kind := range provider.Kinds() {
		t.Run(kind, func(t *testing.T) { f(t, kind, providertest.Start(t, nil)) })
	}
}

// The pieces of an answer, put together, are the answer.
func TestPiecesAreTheAnswer(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, s *providertest.Server) {
		c := client(t, kind, s.URL)
		for name, r := range map[string]*provider.Request{
			"text": asked("say exactly: Paris is the capital."), "reasoning": asked("#reason say exactly: yes"), "a call": asked("weather #weather in a city", "weather"),
			"two calls": asked("#both", "weather", "time"), "length": asked("#length #words=40"),
		} {
			got, err := generate(t.Context(), c, r)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			m := got.answer.Message
			if err := m.Validate("/"); err != nil || m.Role != turns.Assistant || len(m.Parts) != len(got.parts) || len(m.Parts) == 0 {
				t.Errorf("%s: %v, %+v, %d parts came", name, err, m, len(got.parts))
				continue
			}
			for i, p := range m.Parts {
				want := p.Content
				if p.Type == turns.ToolCall {
					want = string(p.Arguments)
				}
				if got.parts[i] != want {
					t.Errorf("%s: part %d came as %q, and is %q", name, i, got.parts[i], want)
				}
			}
			if strings.Count(got.kinds, "b") != strings.Count(got.kinds, "e") {
				t.Errorf("%s: parts began and ended: %s", name, got.kinds)
			}
			if u := got.answer.Usage; u == nil || u.InputTokens == 0 || u.OutputTokens == 0 {
				t.Errorf("%s: usage %+v", name, u)
			}
			want := map[string]string{"a call": "tool_call", "two calls": "tool_call", "length": "length"}[name]
			if want == "" {
				want = "stop"
			}
			if m.FinishReason != want {
				t.Errorf("%s: finish reason %q, want %q", name, m.FinishReason, want)
			}
		}
	})
}

// What comes back of a tool goes to the provider in its own form, and it answers.
func TestResultsOfToolsGoBack(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, s *providertest.Server) {
		c := client(t, kind, s.URL)
		r := asked("weather #weather", "weather")
		got, err := generate(t.Context(), c, r)
		if err != nil {
			t.Fatal(err)
		}
		call := got.answer.Message.Parts[len(got.answer.Message.Parts)-1]
		m := got.answer.Message
		m.FinishReason = ""
		r.Messages = append(r.Messages, m, turns.Message{Role: turns.Tool, Parts: []turns.Part{{Type: turns.ToolCallResponse, ID: call.ID, Response: turns.RawText("sunny")}}})
		if got, err = generate(t.Context(), c, r); err != nil {
			t.Fatal(err)
		}
		if text := got.parts[0]; !strings.Contains(text, "sunny") {
			t.Errorf("%q", text)
		}
	})
}

// A refusal is said in the provider's words; its status and code are kept.
func TestRefusalsAreInTheProvidersWords(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, s *providertest.Server) {
		c := client(t, kind, s.URL)
		_, err := generate(t.Context(), c, asked("#error=422"))
		var e *provider.Error
		if !errors.As(err, &e) || e.Status != http.StatusUnprocessableEntity || !strings.Contains(e.Message, "script fails this call") || e.Lost {
			t.Errorf("%#v", err)
		}
		if n := len(s.Calls()); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// Nothing is asked twice once an answer began; before that, what may pass is tried again.
func TestOnlyWhatDidNotBeginIsTriedAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, s *providertest.Server) {
		c := client(t, kind, s.URL)
		if _, err := generate(t.Context(), c, asked("#error-once=503 say exactly: yes")); err != nil {
			t.Error(err)
		}
		if n := len(s.Calls()); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		for _, prompt := range []string{"#cut=3 #words=9", "#garble=3 #words=9", "#error-late=3 #words=9"} {
			before := len(s.Calls())
			got, err := generate(t.Context(), c, asked(prompt))
			var e *provider.Error
			if !errors.As(err, &e) || !e.Lost {
				t.Errorf("%s: %#v, want an answer that is lost", prompt, err)
			}
			if n := len(s.Calls()) - before; n != 1 {
				t.Errorf("%s: %d calls, want 1", prompt, n)
			}
			if len(got.parts) == 0 {
				t.Errorf("%s: nothing came before it broke", prompt)
			}
		}
	})
}

// No error holds the key, also where the provider says it.
func TestErrorsHoldNoKey(t *testing.T) {
	for _, kind := range provider.Kinds() {
		for _, status := range []int{400, 401, 403, 404} {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				io.WriteString(w, `{"error":{"message":"wrong key `+key+`","code":"`+key+`","param":"`+key+`","type":"`+key+`"}}`)
			}))
			_, err := generate(t.Context(), client(t, kind, s.URL), asked("x"))
			s.Close()
			var e *provider.Error
			if !errors.As(err, &e) || strings.Contains(e.Message+e.Code+e.Param, key) || e.Status != status {
				t.Errorf("%s, %d: %#v", kind, status, err)
			}
		}
	}
}

// A provider that is too long, says nonsense, or never ends, gets an error of its own, and
// nothing panics.
func TestHostileStreams(t *testing.T) {
	long := strings.Repeat("x", 20<<20)
	streams := map[string]string{
		"a line without end": "data: " + long, "nothing": "", "only an end": "data: [DONE]\n\n", "no JSON": "data: {\n\n", "a list": "data: []\n\n", "a number": "data: 7\n\n",
		"negative places":  `data: {"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"x"}}` + "\n\n",
		"wrong types":      `data: {"choices":"x","type":7}` + "\n\n",
		"a call unnamed":   `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"","function":{}}]}}]}` + "\n\n",
		"two of one place": strings.Repeat(`data: {"type":"content_block_start","index":0,"content_block":{"type":"text"}}`+"\n\n", 2),
		"items that lie":   `data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"n"}}` + "\n\n" + `data: {"type":"response.output_text.delta","output_index":0,"delta":"x"}` + "\n\n",
		"summaries ahead":  `data: {"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":9999999,"delta":"x"}` + "\n\n",
	}
	for _, kind := range provider.Kinds() {
		for name, body := range streams {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }))
			_, err := generate(t.Context(), client(t, kind, s.URL), asked("x"))
			s.Close()
			var e *provider.Error
			switch {
			case err == nil && kind == provider.ResponsesKind && name == "only an end":
			case !errors.As(err, &e):
				t.Errorf("%s, %s: %v, want an error of the provider", kind, name, err)
			case len(e.Message) > 1000:
				t.Errorf("%s, %s: an error of %d bytes", kind, name, len(e.Message))
			}
		}
	}
}

// A call that is cancelled ends with the reason, and the provider sees it.
func TestACancelledCallEnds(t *testing.T) {
	wrong := errors.New("cancelled")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	for _, kind := range provider.Kinds() {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		go func() {
			_, err := generate(ctx, client(t, kind, s.URL), asked("x"))
			done <- err
		}()
		cancel(wrong)
		if err := <-done; !errors.Is(err, wrong) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// The first row that has a model serves it; a rename gives the provider's name.
func TestTheFirstRowThatMatchesServes(t *testing.T) {
	a, b := client(t, provider.ChatKind, "http://a"), client(t, provider.AnthropicKind, "http://b")
	var set provider.Set
	set.Add(a, provider.Models{Renames: map[string]string{"small": "qwen3-8b"}})
	set.Add(b, provider.Models{Patterns: []string{"claude-*"}})
	for model, want := range map[string]struct {
		c    provider.Client
		name string
	}{"small": {a, "qwen3-8b"}, "claude-x": {b, "claude-x"}} {
		if c, name, err := set.For(model); err != nil || c != want.c || name != want.name {
			t.Errorf("%s: %v, %q, %v", model, c, name, err)
		}
	}
	var e *provider.Error
	if _, _, err := set.For("gpt"); !errors.As(err, &e) || e.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	if got := set.Models(); len(got) != 1 || got[0] != "small" {
		t.Errorf("%q", got)
	}
}
