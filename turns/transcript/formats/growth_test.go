package formats

import (
	"slices"
	"strings"
	"testing"

	"nexus/turns/transcript"
	"nexus/turns/transcript/claude"
	"nexus/turns/transcript/codex"
	"nexus/turns/transcript/transcripttest"
)

// Losses count with the right word, and name what can't be read without the words
// of a parser.
func TestLossesReadAsSentences(t *testing.T) {
	line := `{"type":"user","uuid":"u","parentUuid":null,"sessionId":"S","message":{"content":"p"}}`
	head := `{"timestamp":"2026-04-11T14:53:07.700Z","type":"session_meta","payload":{"id":"c","timestamp":"2026-04-11T14:53:07.660Z"}}`
	call := `{"timestamp":"2026-04-11T14:53:08Z","type":"response_item","payload":{"type":"function_call","name":{}}}`
	_, claude := transcripttest.ReadAll(t, claude.Read(strings.NewReader(line+"\nx"+line+"\nx\n"), transcript.Options{Final: true}))
	_, codex := transcripttest.ReadAll(t, codex.Read(strings.NewReader(head+"\n"+call+"\n"), transcript.Options{}))
	var got []string
	for _, l := range append(claude, codex...) {
		got = append(got, l.Reason)
	}
	for _, want := range []string{
		"1 byte is torn, before another object on the line",
		"1 byte is no JSON object (torn or broken)",
		"a record that can't be read: malformed: /name is an object here",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no loss says %q: %q", want, got)
		}
	}
}
