package interchange

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/iotest"

	"nexus/turns"
)

var errCut = errors.New("the file goes on")

// claudeSettled is the steps that are given before the end of a file is known.
func claudeSettled(t testing.TB, b []byte) (steps []Step) {
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

// longer is the steps of a longer copy, to hold those of shorter ones against.
type longer map[turns.ID]longerStep

type longerStep struct {
	Step
	text []byte
}

func newLonger(steps []Step) longer {
	l := make(longer, len(steps))
	for _, s := range steps {
		l[s.ID()] = longerStep{s, stepText(s)}
	}
	return l
}

// grown checks the steps of a shorter copy of a file against those of a longer one:
// each is there too, after the same parent and with the same content. Only the last
// response of a session may have fewer parts.
func grown(short, long []Step) error { return newLonger(long).grew(short) }

func (l longer) grew(short []Step) error {
	last := make(map[turns.ID]turns.ID)
	for _, s := range short {
		if s.Append != nil {
			last[s.Append.Session] = s.Append.ID
		}
	}
	for i, s := range short {
		w, ok := l[s.ID()]
		switch {
		case !ok:
			return fmt.Errorf("step %d, %s, is not among the steps of the longer copy", i, s.ID())
		case bytes.Equal(stepText(s), w.text):
		case s.Append == nil || w.Append == nil || last[s.Append.Session] != s.Append.ID:
			return fmt.Errorf("step %d, %s, differs in the longer copy", i, s.ID())
		default:
			if err := grownTurn(*s.Append, *w.Append); err != nil {
				return fmt.Errorf("step %d, %s: %w", i, s.ID(), err)
			}
		}
	}
	return nil
}

func grownTurn(short, long Append) error {
	if short.Response == nil || long.Response == nil || len(short.Response.Parts) > len(long.Response.Parts) {
		return errors.New("its response has no part of before")
	}
	before, after := *short.Response, *long.Response
	before.FinishReason, after.FinishReason = "", ""
	after.Parts = after.Parts[:len(before.Parts)]
	short.Response, long.Response = &before, &after
	short.Usage, short.Meta, short.Model = long.Usage, long.Meta, long.Model
	if !bytes.Equal(stepText(Step{Append: &short}), stepText(Step{Append: &long})) {
		return errors.New("more than the end of its response differs")
	}
	return nil
}

// stepText is a step as JSON; nil for one that can't be, which is no other's equal.
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
	call := `{"timestamp":"2026-04-11T14:53:08Z","type":"response_item","payload":{"type":"function_call","arguments":{}}}`
	_, claude := readClaude(t, []byte(line+"\nx"+line+"\nx\n"), true)
	_, codex := readCodex(t, head+"\n"+call+"\n", Options{})
	var got []string
	for _, l := range append(claude, codex...) {
		got = append(got, l.Reason)
	}
	for _, want := range []string{
		"1 byte is torn, before another object on the line",
		"1 byte is no JSON object (torn or broken)",
		"a record that can't be read: malformed: /arguments is an object here",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no loss says %q: %q", want, got)
		}
	}
}
