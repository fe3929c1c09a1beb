package compactor

import (
	"nexus/compactor/facts"
	"nexus/compactor/plan"
	"nexus/compactor/policy"
	"nexus/compactor/summary"
	"nexus/compactor/view"
	"nexus/turns"
	"nexus/turns/tokens"
)

// The bounds of what [Amend] adds: a share of the summary's bound, and tokens.
const (
	lateShare = 8
	maxLate   = 1_000
)

// Amend returns res, which a summarizer made for an older head, with what the turns
// that came since use of the covered turns and the context would lack (arXiv
// 2605.08580). pl is the plan rebased to the new head, res is resized to it, and old is
// the plan that res was made for. A section of lines from the covered turns is added
// below the summary; [view.Meta] says how many.
//
// The summary stays within the bound of the plan: lines that do not fit are left out. So
// an extract that fills its bound stays as it is, and no summary is shortened.
//
// Amend changes nothing if the policy is not one of mode background with our own
// template, so the published designs stay as they are.
func Amend(old, pl *plan.Plan, res Result, c tokens.Counter) Result {
	if pl.Kind != plan.Cover || pl.Policy.Mode != policy.Background || pl.Policy.Template != "" || res.Body.Tier == plan.NoticeTier {
		return res
	}
	kept := min(len(old.Kept), len(pl.Kept))
	newer := pl.Kept[kept:]
	if len(newer) == 0 {
		return res
	}
	lines := facts.Missing(pl.Reads, newer, pl.Kept[:kept], res.Body.Replacement)
	if len(lines) == 0 {
		return res
	}
	section, n := lateSection(lines, min(pl.SummaryTokens/lateShare, maxLate), c)
	if n == 0 {
		return res
	}
	text := res.Body.Summary
	for ; n > 0; section, n = lateSection(lines[:n-1], maxLate, c) {
		if r, ok := withText(pl, res, text+section, uint64(n), c); ok {
			return r
		}
	}
	return res
}

// lateSection returns as many of lines as fit room, as a section, and how many these
// are.
func lateSection(lines []string, room uint64, c tokens.Counter) (string, int) {
	text := facts.LateHead
	for i, l := range lines {
		next := text + "\n- " + l
		if c.Text(summary.Data(next)) > room {
			return text, i
		}
		text = next
	}
	return text, len(lines)
}

// withText returns res with another summary, n lines of which were added late; false if
// the plan does not allow it.
func withText(pl *plan.Plan, res Result, text string, n uint64, c tokens.Counter) (Result, bool) {
	message := pl.Frame(summary.Output{Text: text, Tier: res.Body.Tier})
	b := &res.Body
	b.Summary, b.Replacement = text, []turns.Message{message}
	res.Replaced = tokens.Messages(c, b.Replacement)
	b.TokensAfter = pl.TokensKept + res.Replaced
	if c.Text(summary.Data(text)) > pl.SummaryTokens || res.Replaced > pl.OutputBound()+16 || b.TokensAfter >= b.TokensBefore {
		return res, false
	}
	var meta view.Meta
	if b.Meta != nil && turns.DecodeJSON(b.Meta, &meta) != nil {
		return res, false
	}
	meta.Amended = n
	b.Meta = metaJSON(meta)
	b.Survival = facts.Survival(pl.Reads, shownKept(pl), b.Replacement)
	return res, true
}
