package render

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/transcript/transcripttest"
)

// Nothing that can be read makes a reader or a renderer panic, and what was
// rendered reads back to the same bytes.
func FuzzFromOpenAI(f *testing.F) {
	for _, s := range []string{
		`[{"role":"user","content":"hi"}]`,
		`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}]}]`,
		`[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{\"p\":1}"}}]},{"role":"tool","tool_call_id":"a","content":"x"}]`,
		`[{"role":"developer","content":"d","name":"n"},{"role":"assistant","content":[],"reasoning_content":"r","refusal":"no"}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ms, err := FromOpenAI(data)
		if err != nil {
			return
		}
		for _, render := range []renderer{Anthropic, Gemini, OTel} {
			_, _ = render(nil, nil, ms)
		}
		r, err := OpenAI(nil, nil, ms)
		if err != nil {
			return
		}
		back, err := FromOpenAI(transcripttest.Joined(r.Messages))
		if err != nil {
			t.Fatalf("read back: %v\n%s", err, transcripttest.Joined(r.Messages))
		}
		again, err := OpenAI(nil, nil, back)
		if diff := cmp.Diff(lines(r), lines(again)); diff != "" || err != nil {
			t.Fatalf("rendered again: %v\n%s", err, diff)
		}
	})
}

func FuzzFromAnthropic(f *testing.F) {
	for _, s := range []string{
		`[{"role":"user","content":"hi"}]`,
		`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}},{"type":"document","source":{"type":"url","url":"https://x/y"}}]}]`,
		`[{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"tool_use","id":"a","name":"ls","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}],"is_error":true}]}]`,
	} {
		f.Add([]byte(`[{"type":"text","text":"s"}]`), []byte(s))
	}
	f.Fuzz(func(t *testing.T, system, data []byte) {
		sections, ms, err := FromAnthropic(system, data)
		if err != nil {
			return
		}
		for _, render := range []renderer{OpenAI, Gemini, OTel} {
			_, _ = render(sections, nil, ms)
		}
		r, err := Anthropic(sections, nil, ms)
		if err != nil {
			return
		}
		sections, back, err := FromAnthropic(r.System, transcripttest.Joined(r.Messages))
		if err != nil {
			t.Fatalf("read back: %v\n%s", err, transcripttest.Joined(r.Messages))
		}
		again, err := Anthropic(sections, nil, back)
		if diff := cmp.Diff(lines(r), lines(again)); diff != "" || err != nil || !bytes.Equal(r.System, again.System) {
			t.Fatalf("rendered again: %v\n%s", err, diff)
		}
	})
}

// megabyte is about 1 MB of a coding agent's context: tool loops with results
// of 4 KB.
func megabyte() []turns.Message {
	text := string(bytes.Repeat([]byte("package main // \"héllo\"\n\tif a < b {\n"), 112))
	ms := []turns.Message{turns.TextMessage(turns.System, "summary"), turns.TextMessage(turns.User, "fix the build")}
	for range 240 {
		ms = append(ms,
			msg(turns.Assistant, signed("think", `{"anthropic":{"signature":"c2lnbmF0dXJl"}}`), turns.TextPart("reading"), call("a", `{"path":"main.go"}`)),
			msg(turns.Tool, result("a", string(turns.RawText(text)))))
	}
	return ms
}

func benchmarkRender(b *testing.B, render renderer) {
	ms, n := megabyte(), 0
	b.ReportAllocs()
	for b.Loop() {
		r, err := render(nil, nil, ms)
		if err != nil {
			b.Fatal(err)
		}
		n = 0
		for _, m := range r.Messages {
			n += len(m)
		}
	}
	b.SetBytes(int64(n))
}

func BenchmarkOpenAI(b *testing.B)    { benchmarkRender(b, OpenAI) }
func BenchmarkAnthropic(b *testing.B) { benchmarkRender(b, Anthropic) }
func BenchmarkGemini(b *testing.B)    { benchmarkRender(b, Gemini) }
func BenchmarkOTel(b *testing.B)      { benchmarkRender(b, OTel) }
