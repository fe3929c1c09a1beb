package render

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"nexus/turns"
	"nexus/turns/internal/values"
)

// What only the model that made it can read goes, for every provider; the rest of the message
// stays.
func TestForeignSignaturesGo(t *testing.T) {
	part := func(kind turns.PartType, content, ext string) turns.Part {
		p := turns.Part{Type: kind, Content: content}
		if ext != "" {
			p.Ext = turns.Raw(ext)
		}
		return p
	}
	made := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		part(turns.Reasoning, "hm", `{"anthropic":{"signature":"S"}}`),
		part(turns.Reasoning, "", `{"anthropic":{"signature":"S"}}`),
		part(turns.Reasoning, "", `{"anthropic":{"data":"D"}}`),
		part(turns.Reasoning, "", `{"openai":{"item":{"type":"reasoning","encrypted_content":"E"},"from":"row"}}`),
		part(turns.Reasoning, "so", `{"gemini":{"thoughtSignature":"VA=="},"claude-code":{"x":1}}`),
		part(turns.Reasoning, "plain", ""),
		part(turns.Text, "said", `{"gemini":{"thoughtSignature":"VA=="},"openai":{"phase":"final"}}`),
		part(turns.Text, "pi", `{"openai":{"textSignature":"x"}}`),
		{Type: turns.ToolCall, ID: "c", Name: "run", Arguments: turns.Raw(`{}`), Ext: turns.Raw(`{"gemini":{"thoughtSignature":"VA=="}}`)},
		part(turns.Reasoning, "", `{"openai":{"item":{"type":"compaction","encrypted_content":"E"}}}`),
	}}
	want := turns.Message{Role: turns.Assistant, Parts: []turns.Part{
		part(turns.Reasoning, "hm", ""),
		part(turns.Reasoning, "", `{"openai":{"from":"row"}}`),
		part(turns.Reasoning, "so", `{"claude-code":{"x":1}}`),
		part(turns.Reasoning, "plain", ""),
		part(turns.Text, "said", `{"openai":{"phase":"final"}}`),
		part(turns.Text, "pi", ""),
		{Type: turns.ToolCall, ID: "c", Name: "run", Arguments: turns.Raw(`{}`)},
		made.Parts[9],
	}}
	was := string(values.Encoded(made))
	if d := gocmp.Diff(want, WithoutForeignSignatures(made, "claude-opus-4-7", "claude-opus-4-8")); d != "" {
		t.Error(d)
	}
	for _, names := range [][2]string{{"claude-opus-4-7", "claude-opus-4-7"}, {"claude-opus-4-7-20260115", "claude-opus-4-7"}, {"", "claude-opus-4-8"}, {"claude-opus-4-7", ""}} {
		if d := gocmp.Diff(made, WithoutForeignSignatures(made, names[0], names[1])); d != "" {
			t.Errorf("%q: %s", names, d)
		}
	}
	if string(values.Encoded(made)) != was {
		t.Error("the message was changed")
	}
	user := turns.Message{Role: turns.User, Parts: made.Parts}
	if d := gocmp.Diff(user, WithoutForeignSignatures(user, "a", "b")); d != "" {
		t.Errorf("a message of the user's was changed: %s", d)
	}
}
