package plan

import (
	"strings"

	"nexus/compactor/summary"
	"nexus/turns/tokens"
)

// NoticeTier is the name of the last tier, which is built in and always fits:
// it says that turns were left out, and nothing of what was in them.
const NoticeTier = "notice"

// MaxWritten bounds a summary that a model writes, in tokens of approx-1: it is
// paid by the token, and a longer one is read no better. An extractive summary may
// take all that the policy gives it.
const MaxWritten = 12_000

// ElideTier is the name of what makes a compaction that only shortens parts.
const ElideTier = "elide"

// Input is what a summarizer of plan may see. What it may write leaves room for
// the note on images that is added to it.
func (plan *Plan) Input() summary.Input {
	room := tokens.Sub(plan.Policy.InApprox(plan.SummaryTokens), (tokens.Approx{}).Text(plan.imagesNote()))
	return summary.Input{
		Previous: plan.Previous, Halves: plan.Reads, MaxTokens: max(1, room), Focus: plan.Focus,
		Template: plan.Policy.Template, Text: plan.Policy.TemplateText, Style: plan.Policy.Style(), Known: plan.Known,
	}
}

// imagesNote is what a summary under GSV's template ends with where images stood
// in what it is of: how many. "" for none. Package llm writes it too, within the
// answer's bound.
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

// WithImages is out with the note on images, if it does not end with it already.
func (plan *Plan) WithImages(out summary.Output) summary.Output {
	note := plan.imagesNote()
	if text := strings.TrimSpace(out.Text); text != "" && !strings.HasSuffix(text, strings.TrimSpace(note)) {
		out.Text = text + note
	}
	return out
}

// Answer is what an agent wrote for the plan's prompt, read as its template
// says, with the images that stood in what it is of counted. A text without any of
// the marks that the template asks for is a summary as it is. Error: [summary.ErrRefused].
func (plan *Plan) Answer(text string) (summary.Output, error) {
	t, _ := summary.FindTemplate(plan.Policy.Template)
	text = strings.TrimSpace(text)
	if t.Shape == summary.Blocks && !strings.Contains(text, "<summary>") || t.Shape == summary.Facts && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "```") {
		return plan.WithImages(summary.Output{Text: text}), nil
	}
	out, err := t.Parse(text, plan.Reads)
	return plan.WithImages(out), err
}
