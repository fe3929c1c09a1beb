package compactor

import (
	"context"
	"errors"
	"fmt"

	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/turns"
)

// maxExtractionSummary bounds the summary that a model writes beside the memories of an
// extraction, in tokens of approx-1. Nobody reads it, but chunks pass it on.
const maxExtractionSummary = 4000

// Extractors returns the tiers of a session's model that extract memories under a policy, in the policy's order; none if its template asks for no memories, if it compacts
// only on request, or if no tier asks a model. A tier that asks none finds no memories.
func Extractors(p policy.Policy, tiers []Tier) (out []Tier) {
	t, _ := summary.FindTemplate(p.Template)
	if p.Mode == policy.Manual || t.Shape != summary.Blocks && t.Shape != summary.Facts {
		return nil
	}
	for _, t := range order(p.Tiers, tiers) {
		if !t.Local {
			out = append(out, t)
		}
	}
	return out
}

// Extract asks tiers in order for what is to be remembered of halves, until one answers as
// the policy's template says. previous is the summary of what came before them, known what is
// on record already. A result that comes with an error holds the usage of the failed tries.
//
// Errors: ctx's; [ErrFailed].
func Extract(ctx context.Context, p policy.Policy, previous string, known []string, halves []summary.HalfTurn, tiers []Tier) (out summary.Output, err error) {
	var tried []error
	for _, t := range tiers {
		var got summary.Output
		got, err = t.Summarizer.Summarize(ctx, summary.Input{
			Previous: previous, Known: known, Halves: halves, MaxTokens: maxExtractionSummary,
			Template: p.Template, Text: p.TemplateText, Style: p.Style(),
		})
		got.Usage, got.CostMicros = turns.AddUsage(out.Usage, got.Usage), out.CostMicros+got.CostMicros
		out = got
		if err == nil {
			for i := range out.Memories {
				out.Memories[i].Text = visible(out.Memories[i].Text)
			}
			return out, nil
		}
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		tried = append(tried, fmt.Errorf("%s: %w", t.Name, err))
	}
	return out, fmt.Errorf("%w: %w", ErrFailed, errors.Join(tried...))
}
