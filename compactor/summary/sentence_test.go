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

func FuzzSentencesAreTheLine(f *testing.F) {
	f.Add("I ran `go run ... ` examples. ` They pass ...")
	f.Fuzz(func(t *testing.T, line string) {
		var b strings.Builder
		EachSentence(line, func(s string) { b.WriteString(s) })
		if b.String() != line {
			t.Errorf("%q, want %q", b.String(), line)
		}
	})
}
