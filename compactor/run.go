package compactor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"nexus/compactor/facts"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/lineage"
	"nexus/turns"
	"nexus/turns/tokens"
)

// ErrFailed means that no summarizer made a summary and that the policy forbids the
// notice.
var ErrFailed = errors.New("no summary was made")

// Resize adapts a result to a rebased plan. res was made for an older plan; the
// returned result has the cut and the sizes of pl, the rebased plan. It keeps the
// digest of the older plan, since only that plan's work is done. A new plan for the
// turns that arrived since may have more to do.
func Resize(pl *plan.Plan, res Result) Result {
	res.Span, res.Body.Elided = pl.Span, pl.Elided
	res.Body.TokensBefore, res.Body.TokensAfter = pl.TokensBefore, pl.TokensKept+res.Replaced
	return res
}

// Apply returns p, the plan's path, as it would be after res. Nothing is committed,
// so the compaction in the returned path has no id.
func Apply(pl *plan.Plan, p view.Path, res Result, c tokens.Counter) view.Path {
	p.InForce = &view.InForce{
		Node: lineage.Node{
			Kind: turns.KindCompaction, Depth: p.Head.Depth + 1, Parent: p.Head.Ref, Cut: pl.Cut,
			Previous: res.Span.Previous, Replaced: res.Replaced, Saved: p.Saves(res.Span, &res.Body, c), Call: res.Span.Call,
		},
		Span: res.Span, Body: res.Body,
	}
	p.Halves = pl.Kept
	return p.Settled(c, false)
}

// Tier is a summarizer and the name that policies use for it.
type Tier struct {
	Name       string
	Summarizer summary.Summarizer
	Local      bool   // it asks no service and returns within the time of a request
	Version    string // of what it writes, if it asks no model: it changes when the same turns give another summary
	Model      string // the model that it asks; "": none
}

// SummaryVersion says whose text the summary of a result by tier is, so that the same can be
// asked for again; "" if it has no summary.
func SummaryVersion(tiers []Tier, tier string) string {
	if tier == plan.ElideTier {
		return ""
	}
	if i := slices.IndexFunc(tiers, func(t Tier) bool { return t.Name == tier }); i >= 0 && tiers[i].Version != "" {
		return tier + "-" + tiers[i].Version
	}
	return tier
}

// ForModel returns the tiers that ask one model, and all tiers without a model. The
// model is the first of want that some tier asks; if no tier asks any of them, it is
// the model of the first tier that has one.
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

// Result is a compaction, ready to be committed.
type Result struct {
	Span     turns.Span
	Body     turns.CompactionBody
	Replaced uint64       // tokens of the replacement and the nudge
	Usage    *turns.Usage // the sum over all tries of all summarizers; nil: none reported any
	Tried    []Attempt    // the tiers that failed before, in order
}

// Attempt is a tier that made no summary, and why.
type Attempt struct {
	Tier string
	Err  error
}

// Run asks tiers in order until the text of one passes the checks. A policy that
// names tiers sets their order. If every tier fails, Run uses the notice. counter
// must be the one that counted the path's tokens. A summarizer that works in parts
// reports each part to progress, unless that is nil.
//
// When ctx's deadline passes, Run uses the notice. When ctx is canceled, Run returns
// ctx's error. A result that comes with an error holds the usage of the failed
// tries. Other errors: [ErrFailed]; [plan.ErrNothing] if not even a notice frees a
// token.
func Run(ctx context.Context, pl *plan.Plan, tiers []Tier, counter tokens.Counter, progress func(done, all int)) (Result, error) {
	if pl.Kind == plan.Shorten {
		return compose(pl, summary.Output{Tier: plan.ElideTier}, nil, nil, counter), nil
	}
	var tried []Attempt
	var usage *turns.Usage
	cost := uint64(0)
	for _, t := range order(pl.Policy.Tiers, tiers) {
		if ctx.Err() != nil {
			break
		}
		in := pl.Input()
		in.Progress = progress
		if !t.Local {
			in.MaxTokens = min(in.MaxTokens, plan.MaxWritten)
		}
		out, err := t.Summarizer.Summarize(ctx, in)
		usage, cost = turns.AddUsage(usage, out.Usage), cost+out.CostMicros
		if err == nil {
			if out.Tier == "" {
				out.Tier = t.Name
			}
			compose := Compose
			if t.Local { // an extractive summary quotes the turns, so it needs no check of its substance
				compose = Accept
			}
			var r Result
			if r, err = compose(pl, pl.WithImages(out), counter); err == nil {
				r.Usage, r.Tried, r.Body.CostMicros = usage, tried, cost
				return r, nil
			}
		}
		tried = append(tried, Attempt{t.Name, err})
	}
	spent := Result{Usage: usage, Tried: tried, Body: turns.CompactionBody{CostMicros: cost}}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return spent, fmt.Errorf("summarize through %v: %w", pl.Span.Through, err)
	}
	if pl.Policy.OnFailure == "fail" {
		if len(tried) == 0 {
			return spent, fmt.Errorf("%w: none of the policy's summarizers is there, or none that answers without a model where the request does not wait for one (wait_ms)", ErrFailed)
		}
		return spent, fmt.Errorf("%w: %w", ErrFailed, errors.Join(errorsOf(tried)...))
	}
	r, err := Accept(pl, summary.Output{Text: (tokens.Approx{}).Clip(pl.Notice(), max(pl.Policy.InApprox(pl.SummaryTokens), 100)), Tier: plan.NoticeTier}, counter)
	if size := (*noSmallerError)(nil); errors.As(err, &size) {
		return spent, plan.NothingError("the turns are too short: with the shortest summary in their place the context would have %d tokens, now it has %d", size.after, size.before)
	}
	if err != nil {
		return spent, plan.NothingError("%v", err)
	}
	r.Usage, r.Tried, r.Body.CostMicros = usage, tried, cost
	return r, nil
}

// AsksModel reports whether a policy has a tier that asks a model, of these tiers.
func AsksModel(p policy.Policy, tiers []Tier) bool {
	return slices.ContainsFunc(order(p.Tiers, tiers), func(t Tier) bool { return !t.Local })
}

// HasRules reports whether a policy has a tier that asks no model, of these tiers.
func HasRules(p policy.Policy, tiers []Tier) bool {
	return slices.ContainsFunc(order(p.Tiers, tiers), func(t Tier) bool { return t.Local })
}

// ByRules reports whether a tier of a stored compaction asked no model: one of these tiers,
// the notice, or none where parts were only shortened.
func ByRules(tier string, tiers []Tier) bool {
	return tier == plan.NoticeTier || tier == plan.ElideTier || slices.ContainsFunc(tiers, func(t Tier) bool { return t.Name == tier && t.Local })
}

// order returns the tiers of these names, in their order, or all if there are no names.
func order(names []string, tiers []Tier) []Tier {
	if len(names) == 0 {
		return tiers
	}
	var out []Tier
	for _, name := range names {
		if i := slices.IndexFunc(tiers, func(t Tier) bool { return t.Name == name }); i >= 0 {
			out = append(out, tiers[i])
		}
	}
	return out
}

func errorsOf(tried []Attempt) (out []error) {
	for _, t := range tried {
		out = append(out, t.Err)
	}
	return out
}

// Compose returns the compaction of pl with out, which a model wrote. It checks
// shape, size and substance.
//
// Errors: [summary.ErrRefused] for text that is empty, is not UTF-8, is longer than
// the plan allows, frees nothing, or says almost nothing about what it replaces (see
// [facts.Thin]). The counter approx-1 overestimates most scripts. Compose accepts
// a text that only approx-1 finds too long, if there is room for it.
func Compose(pl *plan.Plan, out summary.Output, c tokens.Counter) (Result, error) {
	if strings.TrimSpace(out.Text) != "" && pl.Kind != plan.Shorten {
		if err := facts.Thin(pl.Input(), out); err != nil {
			return Result{}, err
		}
	}
	return Accept(pl, out, c)
}

// Accept returns the compaction of pl with out. It checks shape and size, whoever
// wrote the text.
func Accept(pl *plan.Plan, out summary.Output, c tokens.Counter) (Result, error) {
	out.Text = strings.TrimSpace(out.Text)
	refuse := func(format string, args ...any) (Result, error) {
		return Result{}, fmt.Errorf("%w: by %s: %s", summary.ErrRefused, out.Tier, fmt.Sprintf(format, args...))
	}
	if pl.Kind == plan.Shorten {
		return refuse("the plan only shortens, it has no summary")
	}
	if out.Text == "" || !utf8.ValidString(out.Text) {
		return refuse("empty, or not UTF-8")
	}
	message := pl.Frame(out)
	r := compose(pl, out, []turns.Message{message}, nil, c)
	if pl.Kind == plan.Nudge {
		r = compose(pl, out, nil, []turns.Message{message}, c)
	}
	n, bound := c.Text(summary.Data(out.Text)), pl.OutputBound()+16
	tooLong := (n > pl.SummaryTokens || r.Replaced > bound) && out.Tier != plan.NoticeTier
	if tooLong && (!pl.IsShort(out.Text) || !pl.LeavesRoom(r.Body.TokensAfter)) {
		return refuse("%d tokens, and %d with all around it; the plan allows %d and %d", n, r.Replaced, pl.SummaryTokens, bound)
	}
	if b := &r.Body; b.TokensAfter >= b.TokensBefore && (len(pl.Covered) > 0 || !pl.FromOriginals) {
		return Result{}, fmt.Errorf("%w: by %s: %w", summary.ErrRefused, out.Tier, &noSmallerError{b.TokensAfter, b.TokensBefore})
	}
	return r, nil
}

// noSmallerError means that a summary makes the context no smaller. It has the tokens
// of the context with the summary and without it.
type noSmallerError struct{ after, before uint64 }

func (e *noSmallerError) Error() string {
	return fmt.Sprintf("%d tokens after, %d before", e.after, e.before)
}

// compose builds the result of pl. If pl covers turns, replacement takes their
// place. If it covers none, the replacement in force stays, and a nudge may follow.
func compose(pl *plan.Plan, out summary.Output, replacement, nudge []turns.Message, c tokens.Counter) Result {
	text, meta := out.Text, pl.Carries
	if pl.Kind != plan.Cover {
		meta = view.Meta{}
		if f := pl.Path.InForce; f != nil {
			replacement, meta = f.Body.Replacement, f.ReadMeta()
			if pl.Kind == plan.Shorten {
				text, nudge = f.Body.Summary, f.Body.Nudge
			} else {
				meta.Carried = pl.Path.PreviousSummary()
			}
		}
	}
	if pl.Policy.Measure == policy.Calibrated {
		meta.Calibration = pl.Path.Calibrate()
	}
	r := Result{Span: pl.Span, Usage: out.Usage, Replaced: tokens.Messages(c, replacement) + tokens.Messages(c, nudge)}
	r.Body = turns.CompactionBody{
		Policy: pl.PolicyRef, Trigger: pl.Trigger, Mode: string(mode(pl)), Tier: out.Tier, Model: out.Model, Plan: pl.Digest,
		Replacement: replacement, Nudge: nudge, Summary: text, Elided: pl.Elided, Meta: metaJSON(meta),
		TokensBefore: pl.TokensBefore, TokensAfter: pl.TokensKept + r.Replaced,
		Survival: facts.Survival(pl.Reads, shownKept(pl), slices.Concat(replacement, nudge)),
		Focus:    pl.Focus, FromOriginals: pl.FromOriginals, Memories: memoriesJSON(out.Memories),
	}
	return r
}

// visible returns s without characters that nobody sees, but for line feeds and tabs, and
// with one form of each character (NFC). A model copies both from what it reads, and a memory
// is in contexts for long: what was withdrawn would come back in another form.
func visible(s string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && turns.IsHidden(r) {
			return -1
		}
		return r
	}, s))
}

// memoriesJSON encodes memories as a compaction stores them; nil for none. What is too long
// for a memory is left out.
func memoriesJSON(ms []summary.Memory) turns.Raw {
	if len(ms) == 0 {
		return nil
	}
	type memory struct {
		Kind   string          `json:"kind,omitzero"`
		Text   string          `json:"text"`
		Source []view.TurnName `json:"source,omitempty"`
	}
	var out []memory
	for _, m := range ms {
		x := memory{Kind: m.Kind, Text: visible(m.Text)}
		if x.Text == "" || len(x.Text) > turns.MaxMemory {
			continue
		}
		for _, ref := range m.Source {
			x.Source = append(x.Source, view.NameOf(ref))
		}
		out = append(out, x)
	}
	if len(out) == 0 {
		return nil
	}
	b, err := turns.EncodeJSON(out)
	if err != nil {
		return nil
	}
	return b
}

func metaJSON(m view.Meta) turns.Raw {
	if m.Empty() {
		return nil
	}
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return nil
	}
	return b
}

// shownKept returns the kept halves with the plan's elisions applied.
func shownKept(pl *plan.Plan) []summary.HalfTurn {
	if len(pl.Shortens) == 0 {
		return pl.Kept
	}
	p := pl.Path
	p.Halves = pl.Kept
	p.InForce = &view.InForce{Span: pl.Span, Body: turns.CompactionBody{Elided: pl.Elided}}
	shown, err := p.ShownHalves()
	if err != nil {
		return pl.Kept
	}
	out := make([]summary.HalfTurn, len(shown))
	for i := range shown {
		out[i] = shown[i].HalfTurn
	}
	return out
}

func mode(pl *plan.Plan) policy.Mode {
	if pl.Trigger.Kind == plan.TriggerManual {
		return policy.Manual
	}
	return pl.Policy.Mode
}
