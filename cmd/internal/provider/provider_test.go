package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nexus/cmd/internal/provider"
	"nexus/cmd/internal/provider/providertest"
	"nexus/turns"
)

const key = "test-key-0123456789abcdef"

// client asks s in a dialect.
func client(t *testing.T, s *providertest.Server, kind string, limits provider.Limits) provider.Client {
	t.Helper()
	set, err := provider.New([]provider.Row{{Name: "scripted", Kind: kind, URL: s.URL + "/v1", KeyEnv: "KEY", Models: []any{"*"}}},
		provider.Options{Getenv: func(string) string { return key }, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	c, upstream, err := set.For("m")
	if err != nil || upstream != "m" {
		t.Fatalf("%q, %v", upstream, err)
	}
	return c
}

func ask(text string) *provider.Request {
	return &provider.Request{Model: "m", System: []string{"Be brief."}, Messages: []turns.Message{turns.TextMessage(turns.User, text)}}
}

// recorder checks the order of events, and joins what they say.
type recorder struct {
	t    *testing.T
	text map[int]string
	ends map[int]*turns.Part
}

func (r *recorder) emit(e provider.Event) error {
	if r.text == nil {
		r.text, r.ends = make(map[int]string), make(map[int]*turns.Part)
	}
	_, begun := r.text[e.Index]
	switch {
	case e.Kind == provider.Begin && begun, e.Kind != provider.Begin && !begun, r.ends[e.Index] != nil:
		r.t.Errorf("event %+v out of order", e)
	case e.Kind == provider.End:
		r.ends[e.Index] = e.Part
	}
	r.text[e.Index] += e.Text
	return nil
}

func generate(t *testing.T, c provider.Client, r *provider.Request) (*provider.Answer, error) {
	t.Helper()
	rec := &recorder{t: t}
	a, err := c.Generate(t.Context(), r, rec.emit)
	if err != nil {
		return a, err
	}
	for i := range a.Message.Parts {
		if d := cmp.Diff(&a.Message.Parts[i], rec.ends[i]); d != "" {
			t.Errorf("the end of part %d is not the part of the answer:\n%s", i, d)
		}
	}
	if len(rec.ends) != len(a.Message.Parts) {
		t.Errorf("%d parts ended, the answer has %d", len(rec.ends), len(a.Message.Parts))
	}
	return a, a.Message.Validate("/answer")
}

func eachKind(t *testing.T, test func(t *testing.T, kind string)) {
	for _, k := range providertest.Kinds() {
		t.Run(k, func(t *testing.T) { test(t, k) })
	}
}

var weather = provider.Tool{Name: "get_weather", Description: "The weather of a place.", Parameters: turns.Raw(`{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}`)}

func TestAnswerOfEachKindIsTheSame(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := providertest.Start(t, nil)
		c := client(t, s, kind, provider.Limits{})
		a, err := generate(t, c, ask("exactly: Good morning to you"))
		if err != nil {
			t.Fatal(err)
		}
		want := turns.Message{Role: turns.Assistant, FinishReason: "stop", Parts: []turns.Part{turns.TextPart("Good morning to you")}}
		if d := cmp.Diff(want, a.Message); d != "" {
			t.Error(d)
		}
		call := s.Calls()[0]
		in := uint64(len(call.Body)/4 + 1)
		if d := cmp.Diff(&turns.Usage{InputTokens: in, OutputTokens: 4, CacheRead: in / 2}, a.Usage); d != "" {
			t.Error(d)
		}
		if a.ID == "" || a.Model != "m" || call.Key != key || call.System != "Be brief." || !call.Stream {
			t.Errorf("answer %q of %q to key %q, system %q, stream %v", a.ID, a.Model, call.Key, call.System, call.Stream)
		}
	})
}

func TestToolsAreCalledAndTheirReasoningComesBack(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := providertest.Start(t, nil)
		c := client(t, s, kind, provider.Limits{})
		r := ask("#reason the weather please #both")
		r.Tools = []provider.Tool{weather, {Name: "get_time"}}
		r.Reasoning = provider.Reasoning{Effort: "high", Encrypted: true}
		a, err := generate(t, c, r)
		if err != nil {
			t.Fatal(err)
		}
		p := a.Message.Parts
		if len(p) != 3 || p[0].Type != turns.Reasoning || p[0].Content != "First I look at what is asked." || p[1].Name != "get_weather" || string(p[1].Arguments) != `{"place":"an example"}` || p[2].Name != "get_time" || a.Message.FinishReason == "length" {
			t.Fatalf("%+v", a.Message)
		}
		r.Messages = append(r.Messages, a.Message, turns.Message{Role: turns.Tool, Parts: []turns.Part{
			{Type: turns.ToolCallResponse, ID: p[1].ID, Response: turns.Raw(`"rain"`)}, {Type: turns.ToolCallResponse, ID: p[2].ID, Response: turns.Raw(`[{"type":"input_text","text":"noon"}]`)}}})
		if a, err = generate(t, c, r); err != nil {
			t.Fatal(err)
		}
		text := a.Message.Parts[len(a.Message.Parts)-1].Content
		if text != "The tools say: rain; noon" {
			t.Errorf("%q", text)
		}
		body := string(s.Calls()[1].Body)
		opaque := map[string]string{providertest.Chat: `"reasoning_content":"First I look at what is asked."`}[kind]
		if opaque == "" {
			opaque = "signature-of-30-bytes"
		}
		if !strings.Contains(body, opaque) {
			t.Errorf("the reasoning did not come back: %s", body)
		}
		// Nothing opaque goes to another provider.
		other := providertest.Start(t, nil)
		set, err := provider.New([]provider.Row{{Name: "other", Kind: kind, URL: other.URL + "/v1", Models: []any{"*"}}}, provider.Options{})
		if err != nil {
			t.Fatal(err)
		}
		oc, _, _ := set.For("m")
		if _, err := generate(t, oc, r); err != nil {
			t.Fatal(err)
		}
		if body := string(other.Calls()[0].Body); strings.Contains(body, opaque) {
			t.Errorf("another provider gets %s", body)
		}
		for _, s := range []*providertest.Server{s, other} {
			if errs := s.Refused(); len(errs) > 0 {
				t.Error(errs)
			}
		}
	})
}

func TestFinishAndRefusal(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := providertest.Start(t, nil)
		c := client(t, s, kind, provider.Limits{})
		a, err := generate(t, c, ask("#length #words=3"))
		if err != nil || a.Message.FinishReason != "length" {
			t.Errorf("%v %+v", err, a)
		}
		a, err = generate(t, c, ask("#refuse"))
		want := "stop"
		if kind == providertest.Messages {
			want = "content_filter"
		}
		if err != nil || a.Message.FinishReason != want || a.Message.Parts[0].Content != "I do not answer this." {
			t.Errorf("%v %+v", err, a)
		}
	})
}

func TestImagesAndToolChoiceReachTheModel(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := providertest.Start(t, nil)
		c := client(t, s, kind, provider.Limits{})
		r := ask("look")
		r.Messages[0].Parts = append(r.Messages[0].Parts, turns.Part{Type: turns.Blob, Modality: "image", MimeType: "image/png", Data: []byte("png")})
		if a, err := generate(t, c, r); err != nil || a.Message.Parts[0].Content != "I see 1 image." {
			t.Fatalf("%v %+v", err, a)
		}
		r = ask("hello")
		r.Tools, r.ToolChoice = []provider.Tool{{Name: "get_time"}, weather}, provider.ToolChoice{Name: "get_weather"}
		if a, err := generate(t, c, r); err != nil || a.Message.Parts[0].Name != "get_weather" {
			t.Fatalf("%v %+v", err, a)
		}
		r.ToolChoice = provider.ToolChoice{Mode: "required", Allowed: []string{"get_weather"}}
		if _, err := generate(t, c, r); err != nil || s.Calls()[2].Choice != "required" {
			t.Fatalf("%v %s", err, s.Calls()[2].Choice)
		}
		if kind != providertest.Responses && len(s.Calls()[2].Tools) != 1 {
			t.Errorf("a subset of tools: %v are offered", s.Calls()[2].Tools)
		}
	})
}

// fault is the *Error of a call.
func fault(t *testing.T, c provider.Client, text string) *provider.Error {
	t.Helper()
	_, err := generate(t, c, ask(text))
	e := (*provider.Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func TestErrorsAreRetriedOnlyBeforeTheAnswer(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := providertest.Start(t, nil)
		c := client(t, s, kind, provider.Limits{})
		if a, err := generate(t, c, ask("again #error-once=500")); err != nil || len(a.Message.Parts) == 0 || s.Count("again") != 2 {
			t.Errorf("%v after %d calls", err, s.Count("again"))
		}
		for text, want := range map[string]provider.Error{
			"one #error=400 #x":           {Status: 400},
			"two #words=9 #cut=3":         {Code: "lost", Lost: true},
			"three #words=9 #garble=3":    {Code: "invalid_answer", Lost: true},
			"four #words=9 #error-late=3": {Code: "server_error"},
		} {
			e := fault(t, c, text)
			if e.Lost != want.Lost || e.Status != want.Status || want.Code != "" && e.Code != want.Code || s.Count(text) != 1 {
				t.Errorf("%s: %+v after %d calls", text, e, s.Count(text))
			}
		}
	})
}

func TestRetryAfterIsHonouredAndBounded(t *testing.T) {
	for after, calls := range map[string]int{"0.001": 3, "3600": 1} {
		s := providertest.Start(t, func(providertest.Call) providertest.Answer {
			return providertest.Answer{Failure: &providertest.Failure{Status: 429, Code: "rate_limit_error", Message: "slow down", RetryAfter: after}}
		})
		e := fault(t, client(t, s, providertest.Chat, provider.Limits{}), "x")
		if e.Code != "rate_limit_exceeded" || e.Message != "slow down" || len(s.Calls()) != calls || (after == "3600") != (e.RetryAfter == time.Hour) {
			t.Errorf("Retry-After %s: %+v after %d calls", after, e, len(s.Calls()))
		}
	}
}

func TestNoErrorHoldsTheKey(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		for _, late := range []int{0, 1} {
			s := providertest.Start(t, func(c providertest.Call) providertest.Answer {
				return providertest.Answer{Text: []string{"a"}, Failure: &providertest.Failure{Status: 401, Code: "bad_" + c.Key, Late: late,
					Message: fmt.Sprintf("Authorization: Bearer %s is wrong, %s… too. %s", c.Key, c.Key[:20], strings.Repeat("x", 5000))}}
			})
			e := fault(t, client(t, s, kind, provider.Limits{}), "x")
			if all := fmt.Sprintf("%+v", *e); strings.Contains(all, key[5:16]) || !strings.Contains(e.Message, "is wrong") || len(e.Message) > 1100 {
				t.Error(all)
			}
		}
	})
}

func TestOverflowIsRecognized(t *testing.T) {
	s := providertest.Start(t, func(providertest.Call) providertest.Answer {
		return providertest.Fail(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
	})
	eachKind(t, func(t *testing.T, kind string) {
		if e := fault(t, client(t, s, kind, provider.Limits{}), "x"); e.Code != "context_length_exceeded" || e.Status != 400 {
			t.Errorf("%+v", e)
		}
	})
}

func TestAnswersAreBounded(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := providertest.Start(t, func(providertest.Call) providertest.Answer {
			return providertest.Answer{Text: slicesOf("word ", 20_000)}
		})
		if e := fault(t, client(t, s, kind, provider.Limits{Answer: 100_000}), "x"); e.Code != "invalid_answer" || !e.Lost {
			t.Errorf("an endless answer: %+v", e)
		}
		long := providertest.Start(t, func(providertest.Call) providertest.Answer {
			return providertest.Answer{Text: []string{strings.Repeat("x", 10<<20)}}
		})
		if e := fault(t, client(t, long, kind, provider.Limits{}), "x"); e.Code != "invalid_answer" || !strings.Contains(e.Message, "too long") {
			t.Errorf("a long event: %+v", e)
		}
	})
}

func slicesOf(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestCancelledCallEndsWithItsCause(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string) {
		s := providertest.Start(t, nil)
		s.Hold("wait")
		c := client(t, s, kind, provider.Limits{})
		cause := errors.New("the caller is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := c.Generate(ctx, ask("wait"), func(provider.Event) error { return nil })
			got <- err
		}()
		s.Wait(t, "the call comes", func() bool { return s.Count("wait") == 1 })
		cancel(cause)
		if err := <-got; !errors.Is(err, cause) {
			t.Error(err)
		}
		stop := errors.New("enough")
		if _, err := c.Generate(t.Context(), ask("go on"), func(provider.Event) error { return stop }); err != stop {
			t.Errorf("an error of emit becomes %v", err)
		}
	})
}
