package llm

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"nexus/compactor/overflow"
)

// reportedLimits are a model's limits as its provider's answers report them. They
// only get tighter, and live in memory. They are safe for concurrent use.
type reportedLimits struct {
	log   *slog.Logger
	model string

	mu     sync.Mutex
	window uint64 // tokens of a request
	answer uint64 // tokens of an answer; 0: as many as requested
	thinks bool   // reasoning counts as tokens of the answer
}

// The lowest limits that a provider's report may set, in tokens.
const (
	leastWindow = 2048
	leastAnswer = 256
)

// thoughtShare bounds the reasoning before an answer: one part in this many of the
// window, up to maxThoughts.
const (
	thoughtShare = 8
	maxThoughts  = 16_000
)

// errThought means that a model's reasoning used up the limit of its answer.
var errThought = fmt.Errorf("%w: its thoughts took what the answer may have", ErrAnswer)

func (d *reportedLimits) now() (window, answer uint64, thinks bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer = d.answer
	if answer == 0 {
		answer = math.MaxInt32
	}
	return d.window, answer, d.thinks
}

// smaller reports whether err, of job j, names a limit under which the summary
// should be requested again. It keeps that limit.
func (d *reportedLimits) smaller(j *job, err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var f *Fault
	switch {
	case errors.Is(err, errThought):
		again := !d.thinks
		d.thinks = true
		return again
	case !errors.As(err, &f):
		return false
	case f.Size.Overflow():
		next := f.Size.Window
		if next == 0 || next >= j.window {
			next = j.window / 2
		}
		if next < leastWindow {
			return false
		}
		if next < d.window {
			d.window = next
			d.log.Warn("the model of the summaries takes less than its context window is said to be; give its [[model]] row a smaller context_window", "model", d.model, "window", next)
		}
		return true
	case f.Size.Kind == overflow.OutputCap:
		next := j.limit / 2
		if next < leastAnswer {
			return false
		}
		if d.answer == 0 || next < d.answer {
			d.answer = next
		}
		return true
	}
	return false
}
