package plan

import (
	"cmp"
	"fmt"
	"strings"

	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Frame returns the message that holds the summary out.
func (plan *Plan) Frame(out summary.Output) turns.Message {
	pol := plan.Policy
	switch {
	case plan.Kind == Nudge && out.Tier == NoticeTier:
		return turns.TextMessage(turns.User, out.Text)
	case plan.Kind == Nudge:
		return turns.TextMessage(turns.User, plan.fill(pol.Elide.Nudge, summary.Data(out.Text)))
	case pol.Frame != "":
		return turns.TextMessage(pol.ReplacementRole, plan.fill(pol.Frame, summary.Data(out.Text))+plan.Quoted().Text())
	}
	return view.Replacement(pol, plan.Span.Covered, plan.Quoted(), out.Text)
}

// nudgeTokens estimates the tokens of a nudge without its summary.
func (plan *Plan) nudgeTokens() uint64 {
	m := turns.TextMessage(turns.User, plan.Policy.Elide.Nudge)
	return plan.Path.CountedBy().Message(&m) + 4
}

// Notice returns the text that replaces a summary: how many turns were left out. It
// repeats the last summary, cut to the room.
func (plan *Plan) Notice() string {
	text := fmt.Sprintf("[%d earlier turns are left out here, without a summary. They are on the ledger.]", max(plan.Span.Covered, 1))
	if plan.Kind == Nudge { // the shortened messages are still there
		return cmp.Or(plan.Policy.Elide.NudgeNotice, "[Older messages are shown shortened here, without a summary. They are whole on the ledger.]")
	}
	if plan.Policy.Notice != "" {
		text = plan.fill(plan.Policy.Notice, "")
	}
	if previous := plan.Path.PreviousSummary(); previous != "" {
		room := tokens.Sub(plan.Policy.InApprox(plan.SummaryTokens), (tokens.Approx{}).Text(text)+4)
		if previous = (tokens.Approx{}).Clip(previous, room); previous != "" {
			return previous + "\n\n" + text
		}
	}
	return text
}

// fill replaces the places in a text of the policy.
func (plan *Plan) fill(text, summary string) string {
	messages := 0
	for i := range plan.Covered {
		messages += len(plan.Covered[i].Messages)
	}
	return strings.NewReplacer("{summary}", summary, "{covered}", fmt.Sprint(plan.Span.Covered), "{messages}", fmt.Sprint(messages)).Replace(text)
}
