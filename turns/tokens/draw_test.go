package tokens

import (
	"pgregory.net/rapid"

	"nexus/turns"
)

// counters are all that [Named] knows.
func counters() []Counter {
	var cs []Counter
	for _, name := range []string{"approx-1", "gsv-1", "spec008-1", "wolffish-1", "o200k-1"} {
		c, ok := Named(name)
		if !ok {
			panic(name)
		}
		cs = append(cs, c)
	}
	return cs
}

func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringMatching(`[ -~\n]{0,80}`),
		rapid.StringOf(rapid.RuneFrom([]rune("a \"\\\n\x01é漢ß😀𝒳"))),
		rapid.String(),
	).Draw(t, label)
}

// drawMessage draws a message that has JSON; moved says whether parts of it
// may have been moved to blobs.
func drawMessage(t *rapid.T, moved bool) *turns.Message {
	m := &turns.Message{Role: rapid.SampledFrom([]turns.Role{turns.System, turns.User, turns.Assistant, turns.Tool}).Draw(t, "role"),
		Name: rapid.SampledFrom([]string{"", "ann", "Zoë"}).Draw(t, "name"), FinishReason: rapid.SampledFrom([]string{"", "stop"}).Draw(t, "finish")}
	for range rapid.IntRange(0, 6).Draw(t, "parts") {
		m.Parts = append(m.Parts, drawPart(t, moved))
	}
	return m
}

func drawPart(t *rapid.T, moved bool) turns.Part {
	p := turns.Part{Type: rapid.SampledFrom([]turns.PartType{turns.Text, turns.ToolCall, turns.ToolCallResponse, turns.Reasoning, turns.Blob, turns.URI,
		turns.File}).Draw(t, "type")}
	switch p.Type {
	case turns.Text:
		p.Content = drawText(t, "text")
	case turns.Reasoning:
		p.Content, p.Ext = drawText(t, "thought"), turns.Raw(`{"anthropic": {"signature": "c2ln"}}`)
	case turns.ToolCall:
		p.ID, p.Name, p.Arguments = "call_1", "read_file", turns.RawText(drawText(t, "arguments"))
	case turns.ToolCallResponse:
		p.ID, p.Response, p.IsError = "call_1", turns.RawText(drawText(t, "response")), rapid.Bool().Draw(t, "error")
	case turns.Blob:
		p.Modality, p.MimeType, p.Data = "image", "image/png", []byte(drawText(t, "data"))
	case turns.URI, turns.File:
		p.Modality, p.Content = "image", drawText(t, "content")
	}
	if moved && rapid.Bool().Draw(t, "moved") {
		p.Ref = &turns.BlobRef{Size: rapid.Uint64Range(0, turns.MaxBody).Draw(t, "size"), MimeType: "text/plain", Preview: "…"}
		p.Content, p.Arguments, p.Response, p.Data = "", nil, nil, nil
	}
	return p
}
