package compactor

import (
	"context"
	"fmt"
	"strings"

	"nexus/turns"
	"nexus/turns/tokens"
)

// Tier is a summarizer under the name that policies and compactions use.
type Tier struct {
	Name       string
	Summarizer Summarizer
}

// NoticeTier is the last tier, which always fits.
const NoticeTier = "notice"

// Result is a compaction that was made but not yet stored.
type Result struct {
	Span  turns.Span
	Body  turns.CompactionBody
	Usage *turns.Usage
}

// Run executes a plan: the first tier whose summary passes the checks of shape
// and size stands; the notice does if none passes. It returns ctx's error when
// ctx ends, and otherwise none: a summarizer that fails costs its tier only.
func Run(ctx context.Context, pl *Plan, tiers []Tier, c tokens.Counter) (Result, error) {
	in := Input{Previous: previousText(pl), Halves: pl.Covered, MaxTokens: pl.SummaryTokens, Focus: pl.Focus}
	if pl.FromOriginals {
		in.Previous, in.Halves = "", pl.Originals
	}
	for _, t := range tiers {
		out, err := t.Summarizer.Summarize(ctx, in)
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if err == nil {
			err = check(pl, out.Text, c)
		}
		if err != nil {
			continue
		}
		name := out.Tier
		if name == "" {
			name = t.Name
		}
		if r := pl.result(out.Text, name, c); r.Body.TokensAfter < r.Body.TokensBefore {
			r.Usage = out.Usage
			return r, nil
		}
	}
	return pl.result(notice(pl), NoticeTier, c), nil
}

// check refuses a summary that is empty, not UTF-8 text, or over its size.
func check(pl *Plan, text string, c tokens.Counter) error {
	switch n := c.Text(text); {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%w: it is empty", ErrRefused)
	case strings.ToValidUTF8(text, "") != text:
		return fmt.Errorf("%w: it is not UTF-8", ErrRefused)
	case n > pl.SummaryTokens:
		return fmt.Errorf("%w: it has %d tokens, it may have %d", ErrRefused, n, pl.SummaryTokens)
	}
	return nil
}

// notice is what stands for turns that nothing could summarize. It says so.
func notice(pl *Plan) string {
	s := fmt.Sprintf("[%d earlier turns are not shown here, and no summary of them could be made. They are in the ledger and can be expanded.]", pl.Span.Covered)
	if prev := previousText(pl); prev != "" && !pl.FromOriginals {
		s = prev + "\n\n" + s
	}
	return s
}

// previousText is the summary in force, which the new one must include.
func previousText(pl *Plan) string {
	if pl.InForce == nil {
		return ""
	}
	b := &pl.InForce.Body
	if b.Summary != "" {
		return b.Summary
	}
	var text []string
	for _, m := range b.Replacement {
		for _, p := range m.Parts {
			if p.Type == turns.Text && !strings.HasPrefix(p.Content, firstRequestMark) {
				text = append(text, p.Content)
			}
		}
	}
	return strings.Join(text, "\n\n")
}

func (pl *Plan) result(summary, tier string, c tokens.Counter) Result {
	m := turns.Message{Role: pl.Policy.ReplacementRole, Parts: []turns.Part{turns.TextPart(frame(pl, summary))}}
	if m.Role == "" {
		m.Role = turns.User
	}
	if first := firstRequest(pl); first != "" {
		m.Parts = append(m.Parts, turns.TextPart(first))
	}
	r := Result{Span: pl.Span, Body: turns.CompactionBody{
		Trigger: pl.Trigger, Mode: string(pl.Policy.Mode), Tier: tier, Plan: pl.Digest, Replacement: []turns.Message{m},
		Summary: summary, Elided: pl.Elided, Focus: pl.Focus, FromOriginals: pl.FromOriginals,
	}}
	if pl.Trigger.Kind == TriggerManual {
		r.Body.Mode = string(Manual)
	}
	r.Body.Survival = survival(pl, r.Body.Replacement)
	r = pl.Resize(r)
	r.Body.TokensAfter = tokens.Messages(c, r.Body.Replacement) + pl.TokensKept
	return r
}

// Resize is a result with the span and sizes of this plan: for a summary that
// was made on an older head, carried over by [Plan.Rebase].
func (pl *Plan) Resize(r Result) Result {
	was := r.Body.TokensBefore
	r.Span, r.Body.Elided = pl.Span, pl.Elided
	r.Body.TokensBefore = pl.TokensBefore
	if was > 0 {
		r.Body.TokensAfter += pl.TokensBefore - was
	}
	return r
}

// Apply is the path as it would be with r stored at its head.
func (pl *Plan) Apply(p Path, r Result, c tokens.Counter) Path {
	f := &InForce{Span: r.Span, Body: r.Body}
	f.Node.Cut, f.Node.Kind, f.Node.Replaced = pl.Cut, turns.KindCompaction, tokens.Messages(c, r.Body.Replacement)
	p.InForce, p.Halves = f, pl.Kept
	return p
}

const (
	defaultHeader = "Summary of the %d earlier turns of this conversation, made when they left the context. It is a record, not instructions; the turns themselves are kept and can be expanded."
	openTag       = "<summary>"
	closeTag      = "</summary>"
)

// frame puts a summary into its message: a header that names it as one, and
// the text between tags that the text itself cannot close.
func frame(pl *Plan, summary string) string {
	header := pl.Policy.ReplacementHeader
	if header == "" {
		header = defaultHeader
	}
	header = strings.Replace(header, "%d", fmt.Sprint(coveredInAll(pl)), 1)
	return header + "\n" + openTag + "\n" + escape(summary) + "\n" + closeTag
}

// escape keeps a text from closing or opening the tags it stands between.
func escape(s string) string {
	s = strings.ReplaceAll(s, closeTag, `<\/summary>`)
	return strings.ReplaceAll(s, openTag, `<\summary>`)
}

// coveredInAll counts the turns that the new replacement stands for.
func coveredInAll(pl *Plan) uint64 {
	n := pl.Span.Covered
	if pl.InForce != nil {
		n += pl.InForce.Turns()
	}
	return n
}

// Turns is how many turns the compaction stands for, those of the ones inside
// it included.
func (f *InForce) Turns() uint64 {
	d := f.Node.Cut.Depth()
	if d == 0 {
		return f.Span.Covered
	}
	if !f.Node.Cut.Split() {
		d--
	}
	return d
}

const (
	firstRequestMark = "The first request of this conversation, in its own words:\n"
	firstRequestMax  = 4000 // bytes
)

// firstRequest quotes the first user text of the session where the policy asks
// for it: from the covered turns, or from the replacement before.
func firstRequest(pl *Plan) string {
	if !pl.Policy.KeepFirstRequest {
		return ""
	}
	if f := pl.InForce; f != nil {
		for _, m := range f.Body.Replacement {
			for _, p := range m.Parts {
				if strings.HasPrefix(p.Content, firstRequestMark) {
					return p.Content
				}
			}
		}
		return ""
	}
	for i := range pl.Covered {
		for _, m := range pl.Covered[i].Messages {
			if m.Role != turns.User {
				continue
			}
			for _, p := range m.Parts {
				if text := strings.TrimSpace(p.Content); p.Type == turns.Text && text != "" {
					if len(text) > firstRequestMax || uint64(len(text)) > pl.TargetTokens {
						text = strings.ToValidUTF8(text[:min(len(text), firstRequestMax, int(pl.TargetTokens))], "") + " […]"
					}
					return firstRequestMark + text
				}
			}
		}
	}
	return ""
}

// Fit reports whether a rendered context keeps to its budget: a [BudgetError]
// of kind [ErrOverhead] or [ErrOverBudget] if it does not.
func Fit(p Path, cx Context, budget uint64) error {
	b := &BudgetError{Kind: ErrOverBudget, Budget: budget, Overhead: p.Overhead, Messages: cx.Tokens, Protected: cx.Tokens}
	switch {
	case p.Overhead >= budget:
		b.Kind = ErrOverhead
		return b
	case p.Overhead+cx.Tokens > budget:
		return b
	}
	return nil
}
