package handover

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"nexus/turns"
	"nexus/turns/transcript"
)

// A text was taken out of a session after an agent went on with it. Its file has the text still: what it
// had when it was handed over does not come back, and what was said since does.
func TestWhatWasTakenOutDoesNotComeBackWithTheFile(t *testing.T) {
	long := []transcript.WrittenTurn{turnOf(1, "use sync, it is sesame really", "1 sesame", ""), turnOf(2, "sesame", "2", "c1"), answer("c1", turnOf(3, "", "3", "")), turnOf(4, "again", "4", "c2"), answer("c2", turnOf(5, "", "5", "")), turnOf(6, "six", "6", ""), turnOf(7, "sesame?", "7", "")}
	long[1].Response.Parts[1].Arguments = turns.Raw(`{"path":"/a/sesame"}`)
	long[2].Messages[0].Parts[0].Response = turns.RawText("a\nsesame\nb")
	left := make([]transcript.WrittenTurn, 6)
	for i := range left {
		left[i] = taken(long[i])
	}
	for _, format := range formatNames() {
		added, own, err := sinceHandover(t, transcriptOf(format, left), transcriptOf(format, long))
		if err != nil || own == 0 || len(added) != 1 {
			t.Errorf("%s: %d added, %d own, %v", format, len(added), own, err)
			continue
		}
		if a := added[0].Append; a == nil || a.Session != id(100) || a.Parent != id(6) || a.Messages[0].Parts[0].Content != "sesame?" {
			t.Errorf("%s: %+v", format, a)
		}
	}
}

// taken is a turn of which a word was taken out.
func taken(t transcript.WrittenTurn) transcript.WrittenTurn {
	of := func(m turns.Message) turns.Message {
		m.Parts = slices.Clone(m.Parts)
		for i := range m.Parts {
			p := &m.Parts[i]
			p.Content = strings.ReplaceAll(p.Content, "sesame", turns.RedactedText)
			p.Arguments, p.Response = turns.Raw(bytes.ReplaceAll(p.Arguments, []byte("sesame"), []byte(turns.RedactedText))), turns.Raw(bytes.ReplaceAll(p.Response, []byte("sesame"), []byte(turns.RedactedText)))
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

func TestFitsTakesAnythingForAMarkerAlone(t *testing.T) {
	for _, x := range []struct {
		was, now string
		want     bool
	}{
		{"abc", "abc", true}, {"abc", "abd", false}, {"a word b", "a [redacted] b", true}, {"a word c", "a [redacted] b", false},
		{"x a y a z", "x [redacted] y [redacted] z", true}, {"x a y", "x [redacted] y [redacted] z", false}, {"anything", "[redacted]", true},
		{"b", "a[redacted]", false}, {"ab", "ab[redacted]b", false}, {"", "", true},
	} {
		if got := fits(x.was, x.now); got != x.want {
			t.Errorf("%q, %q: %v", x.was, x.now, got)
		}
	}
}
