package plan

import (
	"strings"

	"nexus/compactor/summary"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// NoticeTier names the last tier, which is built in and always fits: it says that
// turns were left out, and nothing about their content.
const NoticeTier = "notice"

// MaxWritten bounds a summary that a model writes, in tokens of approx-1: each token
// costs money, and a longer summary is not read better. An extractive summary may
// use the policy's whole bound.
const MaxWritten = 12_000

// ElideTier is the tier of a compaction that only shortens parts.
const ElideTier = "elide"

// Input returns what a summarizer of plan may see. Its bound leaves room for the
// note on images.
func (plan *Plan) Input() summary.Input {
	room := tokens.Sub(plan.Policy.InApprox(plan.SummaryTokens), (tokens.Approx{}).Text(plan.imagesNote()))
	return summary.Input{
		Previous: plan.Previous, Halves: plan.Reads, MaxTokens: max(1, room), Focus: plan.Focus, Answered: plan.answered(),
		Template: plan.Policy.Template, Text: plan.Policy.TemplateText, Style: plan.Policy.Style(), Known: plan.Known,
	}
}

// answered reports whether text of the user or the agent follows what the summarizer
// reads, within the turns up to saw_through. So it does where the cut parts a turn's
// request from its response. Later turns must not count: a fork at saw_through shows
// the same summary without them.
func (plan *Plan) answered() bool {
	n := len(plan.Reads)
	if n == 0 {
		return false
	}
	last := &plan.Reads[n-1]
	end, through := lineage.CutBefore(last.Depth, last.Half), last.Depth
	for i := range plan.Path.Halves {
		if h := &plan.Path.Halves[i]; h.Ref == plan.Span.SawThrough {
			through = max(through, h.Depth)
		}
	}
	for i := range plan.Path.Halves {
		h := &plan.Path.Halves[i]
		if h.Depth > through || lineage.CutBefore(h.Depth, h.Half) <= end {
			continue
		}
		for j := range h.Messages {
			if m := &h.Messages[j]; (m.Role == turns.User || m.Role == turns.Assistant) && summary.TextOf(m) != "" {
				return true
			}
		}
	}
	return false
}

// imagesNote returns the note that ends a summary under GSV's template if the turns
// it summarizes hold images: how many. "" if they hold none. Package llm writes the
// note too, within the bound of its answer.
func (plan *Plan) imagesNote() string {
	t, _ := summary.FindTemplate(plan.Policy.Template)
	n := 0
	if t.Shape == summary.Blocks {
		n = summary.Images(plan.Reads)
	}
	if n == 0 {
		return ""
	}
	return "\n\n" + summary.ImagesNote(n)
}

// WithImages returns out with the note on images, unless out ends with it.
func (plan *Plan) WithImages(out summary.Output) summary.Output {
	note := plan.imagesNote()
	if text := strings.TrimSpace(out.Text); text != "" && !strings.HasSuffix(text, strings.TrimSpace(note)) {
		out.Text = text + note
	}
	return out
}

// Answer reads what an agent wrote for the plan's prompt, as its template says, and
// adds the note on images. A text without any of the template's marks is the summary
// as a whole. Error: [summary.ErrRefused].
func (plan *Plan) Answer(text string) (summary.Output, error) {
	t, _ := summary.FindTemplate(plan.Policy.Template)
	text = strings.TrimSpace(text)
	if t.Shape == summary.Blocks && !strings.Contains(text, "<summary>") || t.Shape == summary.Facts && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "```") {
		return plan.WithImages(summary.Output{Text: text}), nil
	}
	out, err := t.Parse(text, plan.Reads)
	return plan.WithImages(out), err
}
