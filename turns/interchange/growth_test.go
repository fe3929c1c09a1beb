package interchange

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nexus/turns"
)

var errCut = errors.New("the file goes on")

// stepsBeforeEnd returns the steps that are emitted before the end of the file is read.
func stepsBeforeEnd(t rapid.TB, b []byte) (steps []Step) {
	t.Helper()
	for s, err := range ClaudeCode(&cutReader{bytes.NewReader(b)}, Options{}).Steps() {
		if errors.Is(err, errCut) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps
}

// cutReader gives errCut where its bytes end.
type cutReader struct{ r *bytes.Reader }

func (c *cutReader) Read(p []byte) (int, error) {
	if c.r.Len() == 0 {
		return iotest.ErrReader(errCut).Read(p)
	}
	return c.r.Read(p)
}

// stepIndex holds the steps of a transcript by id, to compare those of shorter copies
// with them.
type stepIndex map[turns.ID]indexedStep

type indexedStep struct {
	Step
	text []byte
}

func newStepIndex(steps []Step) stepIndex {
	x := make(stepIndex, len(steps))
	for _, s := range steps {
		x[s.ID()] = indexedStep{s, stepText(s)}
	}
	return x
}

// contains returns an error that names the first of steps which the index lacks, or
// has with other content.
func (x stepIndex) contains(steps []Step) error {
	for i, s := range steps {
		w, ok := x[s.ID()]
		if !ok {
			return fmt.Errorf("step %d, %s, is no step of the whole", i, s.ID())
		}
		if !bytes.Equal(stepText(s), w.text) {
			return fmt.Errorf("step %d, %s (-whole +copy):\n%s", i, s.ID(), clipped(cmp.Diff(w.Step, s), 2000))
		}
	}
	return nil
}

// stepText returns a step as JSON, nil if it can not be encoded.
func stepText(s Step) []byte {
	b, err := turns.EncodeJSON(s)
	if err != nil {
		return nil
	}
	return b
}

// Losses count with the right word, and name what can't be read without the words
// of a parser.
func TestLossesReadAsSentences(t *testing.T) {
	line := `{"type":"user","uuid":"u","parentUuid":null,"sessionId":"S","message":{"content":"p"}}`
	head := `{"timestamp":"2026-04-11T14:53:07.700Z","type":"session_meta","payload":{"id":"c","timestamp":"2026-04-11T14:53:07.660Z"}}`
	call := `{"timestamp":"2026-04-11T14:53:08Z","type":"response_item","payload":{"type":"function_call","name":{}}}`
	_, claude := readClaude(t, []byte(line+"\nx"+line+"\nx\n"), true)
	_, codex := readCodex(t, head+"\n"+call+"\n", Options{})
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
