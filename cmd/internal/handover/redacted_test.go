package handover

import (
	"slices"
	"testing"

	"nexus/cmd/internal/engine/erasure/mark"
	"nexus/turns"
	"nexus/turns/transcript"
)

// A session was redacted after an agent went on with it. The agent's file has the text still: what it
// had when it was handed over does not come back, and what was said since does.
func TestWhatWasRedactedDoesNotComeBackWithTheFile(t *testing.T) {
	file := []transcript.WrittenTurn{turnOf(1, "use sync, it is sesame really", "1 sesame", ""), turnOf(2, "sesame", "2", "c1"), answer("c1", turnOf(3, "", "3", "")), turnOf(4, "again", "4", "c2"), answer("c2", turnOf(5, "", "5", "")), turnOf(6, "six", "6", ""), turnOf(7, "sesame?", "7", "")}
	file[1].Response.Parts[1].Arguments = turns.Raw(`{"path":"/a/sesame"}`)
	file[2].Messages[0].Parts[0].Response = turns.RawText("a\nsesame\nb")
	for what, redact := range map[string]func(p *turns.Part){
		"a text": func(p *turns.Part) { mark.NewText("sesame").Part(p) },
		"all":    mark.Part,
	} {
		left := make([]transcript.WrittenTurn, 6)
		for i := range left {
			left[i] = redactedCopy(file[i], redact)
		}
		for _, format := range formatNames() {
			added, own, err := sinceHandover(t, transcriptOf(format, left), transcriptOf(format, file))
			if err != nil || own == 0 || len(added) != 1 {
				t.Errorf("%s of %s: %d added, %d own, %v", what, format, len(added), own, err)
				continue
			}
			if a := added[0].Append; a == nil || a.Session != id(100) || a.Parent != id(6) || a.Messages[0].Parts[0].Content != "sesame?" {
				t.Errorf("%s of %s: %+v", what, format, a)
			}
		}
	}
}

// redactedCopy is a turn whose parts are redacted.
func redactedCopy(t transcript.WrittenTurn, redact func(*turns.Part)) transcript.WrittenTurn {
	of := func(m turns.Message) turns.Message {
		m.Parts = slices.Clone(m.Parts)
		for i := range m.Parts {
			redact(&m.Parts[i])
		}
		return m
	}
	t.Messages = slices.Clone(t.Messages)
	for i := range t.Messages {
		t.Messages[i] = of(t.Messages[i])
	}
	r := of(*t.Response)
	t.Response = &r
	return t
}
