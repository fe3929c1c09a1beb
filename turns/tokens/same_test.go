package tokens

import "testing"

func TestSameModel(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"claude-opus-4-7", "claude-opus-4-7", true},
		{"claude-opus-4-7", "claude-opus-4-8", false},
		{"claude-opus-4-7", "claude-opus-4-7-20260115", true},
		{"anthropic/claude-opus-4.7", "claude-opus-4-7", true},
		{"us.anthropic.claude-opus-4-7-20260115-v1:0", "claude-opus-4-7", true},
		{"claude-opus-4-7@20260115", "claude-opus-4-7", true},
		{"gpt-5-mini", "gpt-5-mini-2025-08-07", true},
		{"gpt-5", "gpt-5-mini", false},
		{"gpt-5", "gpt-5-codex", false},
		{"claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", true},
		{"claude-opus-4", "claude-opus-4-1", false},
		{"gemini-3-pro-preview", "models/gemini-3-pro-preview", true},
		{"gemini-3-pro-preview", "gemini-2.5-pro", false},
		{"", "gpt-5", false},
		{"", "", false},
		{"20250101", "20250101", true},
		{"openai", "openai", true},
	} {
		if got := SameModel(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
		if got := SameModel(c.b, c.a); got != c.want {
			t.Errorf("%q and %q: %v", c.b, c.a, got)
		}
	}
}
