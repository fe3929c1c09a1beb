package summary

import (
	"context"

	"nexus/turns"
)

// Summarizer writes the summary that stands for the covered part of a path.
// Implementations: packages extractive and llm.
type Summarizer interface {
	// Summarize returns a summary of in, of at most in.MaxTokens tokens by
	// the counter approx-1. It returns ctx's error when ctx ends first.
	Summarize(ctx context.Context, in Input) (Output, error)
}

// Input is what a summarizer may see. It holds no reference to anything that
// comes after the plan's saw_through.
type Input struct {
	Previous  string // the summary in force, "" for none; the new one must include what it says
	Halves    []HalfTurn
	MaxTokens uint64
	Focus     string // what the caller asks to keep in view; may be ""

	// Template names how a model is asked; see [FindTemplate]. "" is [DefaultTemplate].
	Template string
	// Text, if set, takes the place of the template's text; its shape stays.
	Text string
	// Style takes the place of the template's own; nil: the template's.
	Style *Style
	// Known are the notes that are on record already, oldest first, so that they
	// are not written again: one note, or a page of them, an element.
	Known []string
	// Progress, if set, is called with the number of parts that are summarized, and
	// of all that the input was cut into.
	Progress func(done, all int)
}

// ReportProgress calls Progress, if there is one.
func (in *Input) ReportProgress(done, all int) {
	if in.Progress != nil {
		in.Progress(done, all)
	}
}

// Output is a summary and what it took.
type Output struct {
	Text  string
	Tier  string // which summarizer, and which fallback of it, e.g. "extractive"
	Model string // the model that wrote it; "": none
	Usage *turns.Usage

	// Memories are what the template asks for besides the summary, in the order
	// of the answer, none twice and none of Input.Known; nil where it asks for none.
	Memories []Memory
	// CostMicros is what the requests cost, in millionths of a dollar, rounded up;
	// 0 where no price is known.
	CostMicros uint64
}
