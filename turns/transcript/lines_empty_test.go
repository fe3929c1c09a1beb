package transcript

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// endless gives n line breaks.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.n)
	for i := range p[:n] {
		p[i] = '\n'
	}
	e.n -= n
	return n, nil
}

// Empty lines are counted, and not read one by one.
func TestEmptyLinesAreSkippedAtOnce(t *testing.T) {
	const empty = 1 << 20
	l := newLineReader(io.MultiReader(&endless{empty}, strings.NewReader("a\n\n\nb")), 100)
	var lines []int
	calls := 0
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if calls++; len(line.b) > 0 {
			lines = append(lines, line.n)
		}
	}
	if len(lines) != 2 || lines[0] != empty+1 || lines[1] != empty+4 {
		t.Errorf("lines %v, want %d and %d", lines, empty+1, empty+4)
	}
	if calls > 100 {
		t.Errorf("%d reads for three lines and a million empty ones", calls)
	}
}
