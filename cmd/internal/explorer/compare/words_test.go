package compare

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCompareWords(t *testing.T) {
	show := func(ps []wordPiece) string {
		var b strings.Builder
		for _, p := range ps {
			if p.Own {
				b.WriteString("[" + p.Text + "]")
			} else {
				b.WriteString(p.Text)
			}
		}
		return b.String()
	}
	for _, tc := range []struct{ a, b, left, right string }{
		{"", "", "", ""},
		{"", "new words", "", "[new words]"},
		{"Use a lock file.", "Use a lock file.", "Use a lock file.", "Use a lock file."},
		{"Use a lock file instead.", "Use one mutex instead.", "Use [a lock file] instead.", "Use [one mutex] instead."},
		{"a b c", "b c d", "[a ]b c", "b c[ d]"},
		{"f(x)", "f(x, y)", "f(x)", "f(x[, y])"},
	} {
		l, r := compareWords(tc.a, tc.b)
		if show(l) != tc.left || show(r) != tc.right {
			t.Errorf("%q, %q: %q, %q; want %q, %q", tc.a, tc.b, show(l), show(r), tc.left, tc.right)
		}
	}
}

// What both sides are said to have is the same on both, whatever the texts, and no word is lost. The
// common words are as many as the slow twin finds, where the bound on edits is not met.
func TestCompareWordsAgainstItsTwin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("a b c d")
	for range 2000 {
		text := func() string {
			var b strings.Builder
			for range rnd.IntN(14) {
				b.WriteString(words[rnd.IntN(len(words))] + ".")
			}
			return b.String()
		}
		a, b := text(), text()
		if rnd.IntN(50) == 0 {
			a, b = strings.Repeat(a, 60), strings.Repeat(b, 70)
		}
		join := func(ps []wordPiece, own bool) string {
			var s strings.Builder
			for _, p := range ps {
				if own || !p.Own {
					s.WriteString(p.Text)
				}
			}
			return s.String()
		}
		l, r := compareWords(a, b)
		if join(l, true) != a || join(r, true) != b {
			t.Fatalf("%q, %q: a word is lost", a, b)
		}
		if join(l, false) != join(r, false) {
			t.Fatalf("%q, %q: %q is not %q", a, b, join(l, false), join(r, false))
		}
		if x, y := splitWords(a), splitWords(b); len(x)+len(y) <= maxEdits {
			if got, want := len(splitWords(join(l, false))), common(x, y); got != want {
				t.Fatalf("%q, %q: %d words in common, the twin finds %d", a, b, got, want)
			}
		}
	}
}

// common is the length of the longest common subsequence, by the table.
func common(x, y []string) int {
	row := make([]int, len(y)+1)
	for i := range x {
		before := 0
		for j := range y {
			was := row[j+1]
			if x[i] == y[j] {
				row[j+1] = before + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			before = was
		}
	}
	return row[len(y)]
}
