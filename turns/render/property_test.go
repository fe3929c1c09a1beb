package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/turns"
	"nexus/turns/internal/plain"
	"nexus/turns/render/strict"
	"nexus/turns/transcript/transcripttest"
)

// drawHistory draws a context as a context builder hands it over: pairs are
// closed (or open at the end, if open), everything else as odd as the model
// allows. Ids repeat from run to run and come from many providers.
func drawHistory(t *rapid.T, open bool) []turns.Message {
	var ms []turns.Message
	for range rapid.IntRange(0, 2).Draw(t, "leading") {
		ms = append(ms, turns.TextMessage(turns.System, drawText(t)))
	}
	for range rapid.IntRange(0, 8).Draw(t, "messages") {
		switch rapid.SampledFrom([]string{"user", "user", "assistant", "run", "run", "system"}).Draw(t, "kind") {
		case "user":
			ms = append(ms, msg(turns.User, rapid.SliceOfN(rapid.Custom(drawUserPart), 0, 3).Draw(t, "parts")...))
		case "system":
			ms = append(ms, turns.TextMessage(turns.System, drawText(t)))
		case "assistant":
			ms = append(ms, msg(turns.Assistant, rapid.SliceOfN(rapid.Custom(drawAssistantPart), 0, 3).Draw(t, "reply")...))
		case "run":
			ms = append(ms, drawRun(t)...)
		}
	}
	if open {
		run := drawRun(t)
		run = run[:1+rapid.IntRange(0, len(run)-2).Draw(t, "answered")]
		for i := range run[1:] { // nothing but results while calls are open
			run[1+i].Parts = slices.DeleteFunc(run[1+i].Parts, func(p turns.Part) bool { return p.Type != turns.ToolCallResponse })
		}
		ms = append(ms, run...)
	}
	return ms
}

// drawRun is an assistant message with calls and its results, spread over
// messages in any order.
func drawRun(t *rapid.T) []turns.Message {
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "toolu_01", "functions.ls:301", "call|fc_1", "é", strings.Repeat("i", 60), strings.Repeat("i", 61)}), 1, 4, rapid.ID[string]).Draw(t, "ids")
	var parts []turns.Part
	for _, id := range ids {
		parts = append(parts, rapid.SliceOfN(rapid.Custom(drawAssistantPart), 0, 2).Draw(t, "before")...)
		parts = append(parts, turns.Part{Type: turns.ToolCall, ID: id,
			Name:      rapid.SampledFrom([]string{"ls", "fs.ls", "mcp__x__y", "1st", "-x", ".y", "", strings.Repeat("n", 250), strings.Repeat("9", 64), "名"}).Draw(t, "name"),
			Ext:       turns.Raw(rapid.SampledFrom([]string{"", "", `{"gemini":{"thoughtSignature":"Y2FsbA=="}}`, `{"gemini":{"thoughtSignature":"*"}}`}).Draw(t, "ext")),
			Arguments: turns.Raw(rapid.SampledFrom([]string{`{}`, `{"p": "\u00e9", "n": 12345678901234567890}`, `"{\"cut"`, `[1]`, `null`}).Draw(t, "arguments"))})
	}
	parts = append(parts, rapid.SliceOfN(rapid.Custom(drawAssistantPart), 0, 1).Draw(t, "after")...)
	ms := []turns.Message{msg(turns.Assistant, parts...)}
	for _, id := range rapid.Permutation(ids).Draw(t, "answers") {
		p := result(id, drawResponse(t))
		p.IsError = rapid.Bool().Draw(t, "failed")
		if last := &ms[len(ms)-1]; last.Role != turns.Assistant && rapid.Bool().Draw(t, "together") {
			last.Parts = append(last.Parts, p)
			continue
		}
		if rapid.IntRange(0, 3).Draw(t, "user") == 0 {
			ms = append(ms, msg(turns.User, p, rapid.Custom(drawUserPart).Draw(t, "beside")))
		} else {
			ms = append(ms, msg(turns.Tool, p))
		}
	}
	return ms
}

func drawText(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", " ", "\n\t", "\u001f", "\u00a0", "hi", "so \n", "</messages>", "日本\U0001F600", "\x00"}),
		rapid.String(),
	).Draw(t, "text")
}

func drawImage(t *rapid.T) turns.Part {
	return rapid.SampledFrom([]turns.Part{
		pngPart(),
		{Type: turns.Blob, Modality: "image", MimeType: "image/jpg", Data: []byte{0xff, 0xd8}},
		{Type: turns.Blob, Modality: "image", MimeType: "image/tiff", Data: []byte("tiff")},
		{Type: turns.Blob, Modality: "image", MimeType: "image/png"},
		{Type: turns.Blob, Modality: "document", MimeType: "application/pdf", Data: []byte("pdf")},
		{Type: turns.URI, Modality: "image", Content: "https://x/y.png"},
		{Type: turns.URI, Modality: "image", Content: "https://x/y"},
		{Type: turns.URI, Modality: "image", MimeType: "image/gif", Content: "https://x/y"},
		{Type: turns.URI, Modality: "image", Content: "data:image/gif;base64,R0lG"},
		{Type: turns.URI, Modality: "image", Content: "data:image/gif;base64,*"},
		{Type: turns.URI, Modality: "video", Content: "gs://b/v"},
		{Type: turns.File, Modality: "image", Content: "file-1"},
		{Type: turns.Blob, Modality: "image", MimeType: "image/png", Ref: &turns.BlobRef{Digest: turns.Hash{1}, Size: 7}},
	}).Draw(t, "media")
}

func drawUserPart(t *rapid.T) turns.Part {
	if rapid.IntRange(0, 2).Draw(t, "image") == 0 {
		return drawImage(t)
	}
	return turns.TextPart(drawText(t))
}

func drawAssistantPart(t *rapid.T) turns.Part {
	switch rapid.SampledFrom([]string{"text", "text", "signed", "redacted", "unsigned", "foreign", "gemini", "image"}).Draw(t, "reply") {
	case "signed":
		sig, _ := turns.EncodeJSON(map[string]map[string]string{"anthropic": {"signature": "s" + rapid.String().Draw(t, "signature")}})
		return signed(drawText(t), string(sig))
	case "redacted":
		return signed("", `{"anthropic":{"data":"ZGF0YQ=="}}`)
	case "unsigned":
		return turns.Part{Type: turns.Reasoning, Content: drawText(t)}
	case "foreign":
		return signed(drawText(t), `{"openai":{"signature":"s"},"anthropic":{}}`)
	case "gemini":
		ext := rapid.SampledFrom([]string{`{"gemini":{"thoughtSignature":"c2ln"}}`, `{"gemini":{"thoughtSignature":"_-8"}}`, `{"gemini":{"thoughtSignature":"*"}}`, `{"gemini":{"thoughtSignature":""}}`}).Draw(t, "gemini")
		p := signed(drawText(t), ext)
		if ext != `{"gemini":{"thoughtSignature":""}}` && rapid.Bool().Draw(t, "parts") {
			p.Type = turns.Text
		}
		return p
	case "image":
		return drawImage(t)
	}
	return turns.TextPart(drawText(t))
}

func drawResponse(t *rapid.T) string {
	if rapid.Bool().Draw(t, "string") {
		return string(turns.RawText(drawText(t)))
	}
	return rapid.SampledFrom([]string{`{"n": 1}`, `null`, `[]`, `[{"type":"text"}]`, `[{"type":"text","text":"mcp"}]`,
		pngList, `[{"type":"text","content":""}]`, `[{"type":"uri","modality":"image","content":"https://x/y"},{"type":"text","content":" "}]`}).Draw(t, "json")
}

func options(open bool) []strict.Option {
	if open {
		return []strict.Option{strict.OpenCalls}
	}
	return nil
}

// Whatever the history, the request passes; nothing that the format can hold
// is lost; and reading it back renders to the same bytes.
func TestOpenAIProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		open := rapid.Bool().Draw(t, "open")
		ms := drawHistory(t, open)
		r, err := OpenAI(nil, nil, ms)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Messages) == 0 {
			return
		}
		if err := strict.OpenAI(transcripttest.Joined(r.Messages), options(open)...); err != nil {
			t.Fatalf("%v\n%s", err, transcripttest.Joined(r.Messages))
		}
		back, err := FromOpenAI(transcripttest.Joined(r.Messages))
		if err != nil {
			t.Fatal(err)
		}
		again, err := OpenAI(nil, nil, back)
		if diff := cmp.Diff(lines(r), lines(again)); diff != "" || err != nil {
			t.Fatalf("read back and rendered: %v\n%s", err, diff)
		}
		want := contentOf(ms, func(s string) bool { return s == "" })
		got := contentOf(back, func(s string) bool { return s == "" })
		want.signed = nil // chat completions takes no reasoning
		if diff := cmp.Diff(want.comparable(), got.comparable()); diff != "" {
			t.Fatalf("content (-want +got):\n%s", diff)
		}
	})
}

func TestAnthropicProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		open := rapid.Bool().Draw(t, "open")
		ms := drawHistory(t, open)
		r, err := Anthropic([]turns.Section{{Content: "be kind"}}, nil, ms)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Messages) > 0 {
			if err := strict.Anthropic(r.System, transcripttest.Joined(r.Messages), options(open)...); err != nil {
				t.Fatalf("%v\n%s", err, transcripttest.Joined(r.Messages))
			}
		}
		sections, back, err := FromAnthropic(r.System, transcripttest.Joined(r.Messages))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Anthropic(sections, nil, back)
		if diff := cmp.Diff(lines(r), lines(again)); diff != "" || err != nil || string(r.System) != string(again.System) {
			t.Fatalf("read back and rendered: %v\n%s\n%s", err, again.System, diff)
		}
		want := contentOf(ms, plain.IsBlank)
		for _, s := range sections[1:] {
			back = append([]turns.Message{turns.TextMessage(turns.System, s.Content)}, back...)
		}
		got := contentOf(back, plain.IsBlank)
		if diff := cmp.Diff(want.comparable(), got.comparable()); diff != "" {
			t.Fatalf("content (-want +got):\n%s\n%s", diff, transcripttest.Joined(r.Messages))
		}
	})
}

func TestGeminiProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		open := rapid.Bool().Draw(t, "open")
		ms := drawHistory(t, open)
		r, err := Gemini([]turns.Section{{Content: "be kind"}}, nil, ms)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Messages) == 0 {
			return
		}
		// The strictest model: it looks at the signatures of calls.
		if err := strict.Gemini(r.System, transcripttest.Joined(r.Messages), append(options(open), strict.Thinking)...); err != nil {
			t.Fatalf("%v\n%s", err, transcripttest.Joined(r.Messages))
		}
		// What Gemini signed goes back as it came, nothing else does.
		var want, got []string
		for _, m := range ms {
			for _, p := range m.Parts {
				if s, ok := strings.CutPrefix(string(p.Ext), `{"gemini":{"thoughtSignature":"`); ok && m.Role == turns.Assistant && !strings.HasPrefix(s, "*") && s != `"}}` {
					want = append(want, strings.TrimSuffix(s, `"}}`)+" "+p.Content+string(p.Type))
				}
			}
		}
		for _, m := range r.Messages {
			var c geminiContent
			if err := turns.DecodeJSON(m, &c); err != nil {
				t.Fatal(err)
			}
			for _, p := range c.Parts {
				s, _ := p.ThoughtSignature.Text()
				switch {
				case s == "" || s == skipSignature:
				case p.FunctionCall != nil:
					got = append(got, s+" "+string(turns.ToolCall))
				case p.Thought:
					got = append(got, s+" "+*p.Text+string(turns.Reasoning))
				default:
					got = append(got, s+" "+*p.Text+string(turns.Text))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("signatures (-want +got):\n%s\n%s", diff, transcripttest.Joined(r.Messages))
		}
	})
}

// content is what a history says, in the words of no format: the slow twin of
// the renderers. Texts and calls are sorted, since results and messages
// beside them change places.
type content struct {
	texts, calls, results, signed []string
}

func (c content) comparable() map[string][]string {
	out := map[string][]string{"calls": c.calls, "results": c.results, "signed": c.signed}
	var texts []string
	for _, s := range c.texts {
		s = strings.TrimPrefix(s, markSystem)
		if !isMarker(s) {
			texts = append(texts, strings.TrimRightFunc(s, plain.IsSpace)) // a final text loses its end
		}
	}
	slices.Sort(texts)
	slices.Sort(c.results)
	out["texts"] = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	for k, v := range out {
		if len(v) == 0 {
			delete(out, k)
		}
	}
	return out
}

// isMarker reports whether a renderer wrote s in place of content.
func isMarker(s string) bool {
	for _, start := range []string{markContinued, markFailed, "[image", "[video", "[application"} {
		if strings.HasPrefix(s, start) {
			return true
		}
	}
	return false
}

func contentOf(ms []turns.Message, gone func(string) bool) content {
	var c content
	var run []turns.Part // parts of the assistant up to the next message of another role that says something
	flush := func() {
		last := -1
		for i, p := range run {
			if p.Type != turns.Reasoning && (p.Type != turns.Text || !gone(p.Content)) {
				last = i
			}
		}
		for i, p := range run {
			if p.Type == turns.Reasoning && i < last && (strings.Contains(string(p.Ext), `"signature":"s`) && !strings.Contains(string(p.Ext), "openai") || strings.Contains(string(p.Ext), `"data"`)) {
				c.signed = append(c.signed, p.Content+"|"+string(p.Ext))
			}
		}
		run = nil
	}
	system := true
	for _, m := range ms {
		hasContent := false
		for _, p := range m.Parts {
			switch p.Type {
			case turns.Text:
				if !gone(p.Content) {
					c.texts = append(c.texts, p.Content)
					hasContent = true
				}
			case turns.ToolCall:
				args := string(p.Arguments)
				v := jsontext.Value(args)
				if v.Kind() == '{' {
					_ = v.Canonicalize(jsontext.CanonicalizeRawInts(false))
					args = string(v)
				} else {
					args = "?"
				}
				if strings.Contains(args, `"value"`) {
					args = "?"
				}
				c.calls = append(c.calls, plain.ToolName(p.Name, openaiToolName)+args)
				hasContent = true
			case turns.ToolCallResponse:
				var texts []string
				for _, q := range plain.ResultParts(&p) {
					if s := q.Content; q.Type == turns.Text && !gone(s) && !isMarker(s) {
						texts = append(texts, s)
					}
				}
				c.results = append(c.results, fmt.Sprint(len(texts), texts))
				hasContent = true
			case turns.Reasoning:
			default:
				hasContent = true
			}
		}
		system = system && m.Role == turns.System
		if m.Role == turns.Assistant {
			run = append(run, m.Parts...)
		} else if hasContent && !system {
			flush()
		}
	}
	flush()
	return c
}

// A context that grew renders to a list that begins with the same bytes, so
// that a provider's cache of the prefix holds. Anthropic's last message may
// still be joined.
func TestPrefixStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := drawHistory(t, false)
		grown := append(slices.Clone(ms), drawHistory(t, false)...)
		for _, f := range []struct {
			name   string
			render renderer
			last   int
		}{{"openai", OpenAI, 0}, {"anthropic", Anthropic, 1}, {"gemini", Gemini, 1}} {
			short, err := f.render(nil, nil, ms)
			if err != nil {
				t.Fatal(err)
			}
			long, err := f.render(nil, nil, grown)
			if err != nil {
				t.Fatal(err)
			}
			n := max(0, len(short.Messages)-f.last)
			if !slices.Equal(lines(short)[:n], lines(long)[:n]) {
				t.Fatalf("%s (-short +long):\n%s", f.name, cmp.Diff(lines(short)[:n], lines(long)[:n]))
			}
		}
	})
}
