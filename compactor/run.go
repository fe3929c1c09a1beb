package compactor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Tier is a summarizer under the name that policies know it by.
type Tier struct {
	Name       string
	Summarizer Summarizer
	Local      bool   // it asks nobody, and is done in the time of a request
	Model      string // the model that it asks; "": none
}

// ForModel is tiers with those of one model: the first of want that a tier has,
// else that of the first tier which asks a model. Tiers without a model stay.
func ForModel(tiers []Tier, want ...string) []Tier {
	model := ""
	for _, w := range want {
		if w != "" && slices.ContainsFunc(tiers, func(t Tier) bool { return t.Model == w }) {
			model = w
			break
		}
	}
	var out []Tier
	for _, t := range tiers {
		if model == "" {
			model = t.Model
		}
		if t.Model == "" || t.Model == model {
			out = append(out, t)
		}
	}
	return out
}

// NoticeTier is the name of the last tier, which is built in and always fits:
// it says that turns were left out, and nothing of what was in them.
const NoticeTier = "notice"

// maxWritten bounds a summary that a model writes, in tokens of approx-1: it is
// paid by the token, and a longer one is read no better. An extract may take
// all that the policy gives it.
const maxWritten = 12_000

// ElideTier is the name of what makes a compaction that only shortens parts.
const ElideTier = "elide"

// Result is a compaction, ready to be committed.
type Result struct {
	Span     turns.Span
	Body     turns.CompactionBody
	Replaced uint64       // tokens of the replacement and the nudge
	Usage    *turns.Usage // of the summarizers, on all tries; nil where none was reported
	Tried    []Attempt    // tiers that failed before, in order
}

// Attempt is a tier that was tried in vain, and why.
type Attempt struct {
	Tier string
	Err  error
}

// Run makes the summary of plan by the first of tiers whose text passes the
// checks, in the policy's order where it names tiers, and the notice where
// none does. Counter must be the one that the path's tokens were counted by.
//
// When ctx's deadline passes, the notice is taken. When ctx is canceled, Run
// returns its error. With an error comes what the tries in vain used. Other
// errors: [ErrNothing] where not even a notice would
// free a token.
func Run(ctx context.Context, plan *Plan, tiers []Tier, counter tokens.Counter) (Result, error) {
	if plan.Quiet {
		return plan.compose(Output{Tier: ElideTier}, nil, nil, counter), nil
	}
	var tried []Attempt
	var usage *turns.Usage
	cost := uint64(0)
	for _, t := range plan.order(tiers) {
		if ctx.Err() != nil {
			break
		}
		in := plan.Input()
		if !t.Local {
			in.MaxTokens = min(in.MaxTokens, maxWritten)
		}
		out, err := t.Summarizer.Summarize(ctx, in)
		usage, cost = turns.AddUsage(usage, out.Usage), cost+out.CostMicros
		if err == nil {
			if out.Tier == "" {
				out.Tier = t.Name
			}
			compose := Compose
			if t.Local { // an extract is what was said
				compose = Accept
			}
			var r Result
			if r, err = compose(plan, plan.withImages(out), counter); err == nil {
				r.Usage, r.Tried, r.Body.CostMicros = usage, tried, cost
				return r, nil
			}
		}
		tried = append(tried, Attempt{t.Name, err})
	}
	spent := Result{Usage: usage, Tried: tried, Body: turns.CompactionBody{CostMicros: cost}}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return spent, fmt.Errorf("summarize through %v: %w", plan.Span.Through, err)
	}
	if plan.Policy.OnFailure == "fail" {
		if len(tried) == 0 {
			return spent, fmt.Errorf("%w: none of the policy's summarizers is there", ErrFailed)
		}
		return spent, fmt.Errorf("%w: %w", ErrFailed, errors.Join(errorsOf(tried)...))
	}
	r, err := Accept(plan, Output{Text: (tokens.Approx{}).Clip(plan.notice(), max(plan.Policy.inApprox(plan.SummaryTokens), 100)), Tier: NoticeTier}, counter)
	if err != nil {
		return spent, nothing("a notice would not be smaller than what it stands for: %v", err)
	}
	r.Usage, r.Tried, r.Body.CostMicros = usage, tried, cost
	return r, nil
}

// Input is what a summarizer of plan may see. What it may write leaves room for
// the note on images that is added to it.
func (plan *Plan) Input() Input {
	room := tokens.Sub(plan.Policy.inApprox(plan.SummaryTokens), (tokens.Approx{}).Text(plan.imagesNote()))
	return Input{
		Previous: plan.Previous, Halves: plan.Reads, MaxTokens: max(1, room), Focus: plan.Focus,
		Template: plan.Policy.Template, Text: plan.Policy.TemplateText, Style: plan.Policy.Style(), Known: plan.Known,
		Progress: plan.Progress,
	}
}

// imagesNote is what a summary under GSV's template ends with where images stood
// in what it is of: how many. "" for none. Package llm writes it too, within the
// answer's bound.
func (plan *Plan) imagesNote() string {
	t, _ := FindTemplate(plan.Policy.Template)
	n := 0
	if t.Shape == Blocks {
		n = Images(plan.Reads)
	}
	if n == 0 {
		return ""
	}
	return "\n\n" + ImagesNote(n)
}

// withImages is out with the note on images, if it does not end with it already.
func (plan *Plan) withImages(out Output) Output {
	note := plan.imagesNote()
	if text := strings.TrimSpace(out.Text); text != "" && !strings.HasSuffix(text, strings.TrimSpace(note)) {
		out.Text = text + note
	}
	return out
}

// order is the tiers that the policy names, in its order; all where it names none.
func (plan *Plan) order(tiers []Tier) []Tier {
	if len(plan.Policy.Tiers) == 0 {
		return tiers
	}
	var out []Tier
	for _, name := range plan.Policy.Tiers {
		if i := slices.IndexFunc(tiers, func(t Tier) bool { return t.Name == name }); i >= 0 {
			out = append(out, tiers[i])
		}
	}
	return out
}

// Answer is what an agent wrote for the plan's prompt, read as its template
// says, with the images that stood in what it is of counted. A text without any of
// the marks that the template asks for is a summary as it is. Error: [ErrRefused].
func (plan *Plan) Answer(text string) (Output, error) {
	t, _ := FindTemplate(plan.Policy.Template)
	text = strings.TrimSpace(text)
	if t.Shape == Blocks && !strings.Contains(text, "<summary>") || t.Shape == Facts && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "```") {
		return plan.withImages(Output{Text: text}), nil
	}
	out, err := t.Parse(text, plan.Reads)
	return plan.withImages(out), err
}

func errorsOf(tried []Attempt) (out []error) {
	for _, t := range tried {
		out = append(out, t.Err)
	}
	return out
}

// notice says what is left out, and carries the last summary on, cut to what
// there is room for.
func (plan *Plan) notice() string {
	text := fmt.Sprintf("[%d earlier turns are left out here, without a summary. They are on the ledger.]", max(plan.Span.Covered, 1))
	if plan.Nudge { // what it shortened is still there
		return cmp.Or(plan.Policy.Elide.NudgeNotice, "[Older messages are shown shortened here, without a summary. They are whole on the ledger.]")
	}
	if plan.Policy.Notice != "" {
		text = plan.fill(plan.Policy.Notice, "")
	}
	if previous := plan.Path.previousSummary(); previous != "" {
		room := tokens.Sub(plan.Policy.inApprox(plan.SummaryTokens), (tokens.Approx{}).Text(text)+4)
		if previous = (tokens.Approx{}).Clip(previous, room); previous != "" {
			return previous + "\n\n" + text
		}
	}
	return text
}

// fill is a text of the policy with its places filled.
func (plan *Plan) fill(text, summary string) string {
	messages := 0
	for i := range plan.Covered {
		messages += len(plan.Covered[i].Messages)
	}
	return strings.NewReplacer("{summary}", summary, "{covered}", fmt.Sprint(plan.Span.Covered), "{messages}", fmt.Sprint(messages)).Replace(text)
}

// Compose is the compaction of plan with the summary out, which a model
// wrote. It checks shape, size and substance.
//
// Errors: [ErrRefused] for text that is empty, not UTF-8, longer than the plan
// allows, that frees nothing, or says next to nothing of what it stands for; see
// [Thin]. A text that only approx-1 takes for too long, as it does in most
// scripts, stands where there is room for it.
func Compose(plan *Plan, out Output, c tokens.Counter) (Result, error) {
	if strings.TrimSpace(out.Text) != "" && !plan.Quiet {
		if err := Thin(plan.Input(), out); err != nil {
			return Result{}, err
		}
	}
	return Accept(plan, out, c)
}

// Accept is the compaction of plan with the summary out, whoever wrote it, where
// its shape and size pass.
func Accept(plan *Plan, out Output, c tokens.Counter) (Result, error) {
	out.Text = strings.TrimSpace(out.Text)
	refuse := func(format string, args ...any) (Result, error) {
		return Result{}, fmt.Errorf("%w: by %s: %s", ErrRefused, out.Tier, fmt.Sprintf(format, args...))
	}
	if plan.Quiet {
		return refuse("the plan only shortens, it has no summary")
	}
	if out.Text == "" || !utf8.ValidString(out.Text) {
		return refuse("empty, or not UTF-8")
	}
	message := plan.frame(out)
	r := plan.compose(out, []turns.Message{message}, nil, c)
	if plan.Nudge {
		r = plan.compose(out, nil, []turns.Message{message}, c)
	}
	n, most := c.Text(data(out.Text)), plan.most()+16
	if long := n > plan.SummaryTokens || r.Replaced > most; long && out.Tier != NoticeTier && (!plan.short(out.Text) || !plan.fits(r.Body.TokensAfter)) {
		return refuse("%d tokens, and %d with all around it; the plan allows %d and %d", n, r.Replaced, plan.SummaryTokens, most)
	}
	if b := &r.Body; b.TokensAfter >= b.TokensBefore && (len(plan.Covered) > 0 || !plan.FromOriginals) {
		return refuse("%d tokens after, %d before", b.TokensAfter, b.TokensBefore)
	}
	return r, nil
}

// compose is the result of plan: a replacement for what is covered, or, for a
// plan that covers nothing, what stands for it already, and a nudge.
func (plan *Plan) compose(out Output, replacement, nudge []turns.Message, c tokens.Counter) Result {
	summary, meta := out.Text, compactionMeta{FirstRequest: plan.keptFirst, Pins: plan.keptPins}
	if plan.Quiet || plan.Nudge {
		meta = compactionMeta{}
		if f := plan.Path.InForce; f != nil {
			replacement, meta = f.Body.Replacement, f.meta()
			if plan.Quiet {
				summary, nudge = f.Body.Summary, f.Body.Nudge
			} else {
				meta.Carried = plan.Path.previousSummary()
			}
		}
	}
	if plan.Policy.Measure == Calibrated {
		meta.Calibration = plan.Path.calibration()
	}
	r := Result{Span: plan.Span, Usage: out.Usage, Replaced: tokens.Messages(c, replacement) + tokens.Messages(c, nudge)}
	r.Body = turns.CompactionBody{
		Policy: plan.PolicyRef, Trigger: plan.Trigger, Mode: string(plan.mode()), Tier: out.Tier, Model: out.Model, Plan: plan.Digest,
		Replacement: replacement, Nudge: nudge, Summary: summary, Elided: plan.Elided, Meta: metaJSON(meta),
		TokensBefore: plan.TokensBefore, TokensAfter: plan.TokensKept + r.Replaced,
		Survival: survival(plan.Reads, plan.shownKept(), slices.Concat(replacement, nudge)),
		Focus:    plan.Focus, FromOriginals: plan.FromOriginals, Memories: memoriesJSON(out.Memories),
	}
	return r
}

// memoriesJSON is memories as a compaction holds them; nil for none.
func memoriesJSON(ms []Memory) turns.Raw {
	if len(ms) == 0 {
		return nil
	}
	type memory struct {
		Kind   string     `json:"kind,omitzero"`
		Text   string     `json:"text"`
		Source []turnName `json:"source,omitempty"`
	}
	out := make([]memory, len(ms))
	for i, m := range ms {
		out[i] = memory{Kind: m.Kind, Text: m.Text}
		for _, ref := range m.Source {
			out[i].Source = append(out[i].Source, named(ref))
		}
	}
	b, err := turns.EncodeJSON(out)
	if err != nil {
		return nil
	}
	return b
}

func metaJSON(m compactionMeta) turns.Raw {
	if m.empty() {
		return nil
	}
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return nil
	}
	return b
}

// shownKept is the kept halves with the plan's elisions applied.
func (plan *Plan) shownKept() []HalfTurn {
	if len(plan.chosen) == 0 {
		return plan.Kept
	}
	p := plan.Path
	p.Halves = plan.Kept
	p.InForce = &InForce{Span: plan.Span, Body: turns.CompactionBody{Elided: plan.Elided}}
	shown, err := p.elide()
	if err != nil {
		return plan.Kept
	}
	out := make([]HalfTurn, len(shown))
	for i := range shown {
		out[i] = shown[i].HalfTurn
	}
	return out
}

func (plan *Plan) mode() Mode {
	if plan.Trigger.Kind == TriggerManual {
		return Manual
	}
	return plan.Policy.Mode
}
