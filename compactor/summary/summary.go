package summary

import (
	"context"

	"nexus/turns"
)

// Summarizer writes the summary that replaces the covered part of a path. Packages
// extractive and llm implement it.
type Summarizer interface {
	// Summarize returns a summary of in with at most in.MaxTokens tokens by the
	// counter approx-1. When ctx ends first, it returns ctx's error.
	Summarize(ctx context.Context, in Input) (Output, error)
}

// Input is what a summarizer may see. It holds nothing from after the plan's
// saw_through.
type Input struct {
	Previous  string // the summary in force, whose content the new one must include; "" for none
	Halves    []HalfTurn
	Task      string // what the user asked for first, where Halves may not have it; at most 2,000 UTF-16 units
	MaxTokens uint64
	Focus     string // what the caller wants kept; may be ""
	Quoted    string // what stands beside the summary word for word, and need not be in it; may be ""
	// QuotedMessages is what of Quoted is of messages: the rest is lines of files. Each
	// text, and each rule, begins on a line of its own, unescaped.
	QuotedMessages string

	// Template names the prompt for a model; see [FindTemplate]. "" is
	// "nexus".
	Template string
	// Text, if set, replaces the template's text. The template still sets the shape.
	Text string
	// Style replaces the template's own; nil: the template's.
	Style *Style
	// Known are notes already on record, oldest first, which a summarizer should not
	// repeat. An element holds one note or a page of them.
	Known []string
	// Progress, if set, is called with the number of parts summarized so far, and
	// the number of all parts.
	Progress func(done, all int)
}

// ReportProgress calls Progress, if it is set.
func (in *Input) ReportProgress(done, all int) {
	if in.Progress != nil {
		in.Progress(done, all)
	}
}

// Output is a summary and what it cost.
type Output struct {
	Text  string
	Tier  string // the summarizer and its fallback, e.g. "extractive"
	Model string // the model that wrote it; "": none
	Usage *turns.Usage

	// Memories are what the template asks for besides the summary, in the answer's
	// order, without repetitions and without any of Input.Known. nil if the template
	// asks for none.
	Memories []Memory
	// CostMicros is the price of the requests in millionths of a dollar, rounded up;
	// 0 if no price is known.
	CostMicros uint64
}

// Memory is a fact that a summarizer found worth keeping beyond the session.
type Memory struct {
	Kind   string      // its type in the template: lower-case letters, digits and "_"; "" if it has none
	Text   string      // one line, without any of our tags
	Source []turns.Ref // the turns that it comes from, in path order; nil if none are named
}
