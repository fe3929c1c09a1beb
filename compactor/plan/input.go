package plan

import (
	"slices"
	"strings"

	"nexus/compactor/summary"
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
		Task: plan.Task, Previous: plan.Previous, Halves: plan.Reads, MaxTokens: max(1, room), Focus: plan.Focus,
		Quoted:         strings.TrimPrefix(plan.First+plan.Quoted().Text(), "\n"),
		QuotedMessages: strings.Join(slices.Concat([]string{plan.First}, plan.Pins, plan.Rules), "\n"),
		Template:       plan.Policy.Template, Text: plan.Policy.TemplateText, Style: plan.Policy.Style(), Known: plan.Known,
	}
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
