package summary

import (
	"slices"
	"strings"
	"testing"
)

func TestSentenceDoesNotEndInsideCode(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"It works. So I stop.", []string{"It works. ", "So I stop."}},
		{"I ran `go run ... ` README examples. They pass.", []string{"I ran `go run ... ` README examples. ", "They pass."}},
		{"I also ran go test ./... Protocol v2 works. Done.", []string{"I also ran go test ./... Protocol v2 works. ", "Done."}},
		{"See `a. B. C` first. Then go.", []string{"See `a. B. C` first. ", "Then go."}},
		{"A lone ` is no code. So it ends.", []string{"A lone ` is no code. ", "So it ends."}},
		{"修好了。下一步。", []string{"修好了。", "下一步。"}},
		{"Take one, e.g. Go. Then two.", []string{"Take one, e.g. Go. ", "Then two."}},
		{"", nil},
	} {
		var got []string
		EachSentence(c.line, func(s string) { got = append(got, s) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// The search for the end of a sentence takes the square of a run of brackets: on the whole
// of this line, minutes.
func TestALineOfBracketsIsReadInPieces(t *testing.T) {
	longest, n := 0, 0
	EachSentence("Done."+strings.Repeat(")", 512<<10), func(s string) { longest, n = max(longest, len(s)), n+1 })
	if longest > MaxSentence || n < 512<<10/MaxSentence {
		t.Errorf("%d pieces, the longest has %d bytes", n, longest)
	}
}

func TestALongSentenceIsCutAtCommas(t *testing.T) {
	line := strings.Repeat("then do the next of the many things, ", 60) + "and never push to main, " + strings.Repeat("since others work on it, ", 60)
	var got []string
	EachSentence(line, func(s string) { got = append(got, s) })
	if strings.Join(got, "") != line || len(got) < 3 {
		t.Errorf("%d pieces", len(got))
	}
	for _, s := range got {
		if len(s) > MaxSentence || !strings.HasSuffix(s, ", ") && !strings.HasSuffix(s, ",") {
			t.Errorf("a piece of %d bytes ends as %q", len(s), s[len(s)-9:])
		}
	}
	for _, c := range []struct{ name, line, want string }{
		{"a lone backquote and one far behind", "Take ` first. " + strings.Repeat("It is long. ", 40) + "Then ` too.", "Take ` first. "},
		{"Chinese without an end", strings.Repeat("然后做下一件事", 100), strings.Repeat("然后做下一件事", 100)[:999]},
	} {
		var got []string
		EachSentence(c.line, func(s string) { got = append(got, s) })
		if got[0] != c.want {
			t.Errorf("%s: begins with %q", c.name, got[0])
		}
	}
}

func FuzzSentencesAreTheLine(f *testing.F) {
	f.Add("I ran `go run ... ` examples. ` They pass ...")
	f.Fuzz(func(t *testing.T, line string) {
		var b strings.Builder
		EachSentence(line, func(s string) {
			b.WriteString(s)
			if s == "" || len(s) > MaxSentence {
				t.Errorf("a piece of %d bytes", len(s))
			}
		})
		if b.String() != line {
			t.Errorf("%q, want %q", b.String(), line)
		}
	})
}
