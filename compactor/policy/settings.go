package policy

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// Cost has a context compacted before it has to be, where that pays: each call
// reads the whole context from the provider's cache, and a compaction has what it
// leaves written to it anew, once.
//
// Since the last rewrite each call has read more than the first one did. Once
// what was read more costs as much as the next rewrite will, going on costs more
// a call than rewriting now, if the session grows as it did: the cheapest time of
// all, whatever the growth is. Patience moves it, for what is covered is not in
// the context any more.
type Cost struct {
	// Patience is how many times the cost of a rewrite the growth since the last
	// one must have cost. 1 is the cheapest; 0: off. Range [0, 1000].
	Patience float64 `json:"patience,omitzero"`
	// FromRatio is the least share of the budget, like [Policy.TriggerRatio], that
	// a context fills before cost counts.
	FromRatio float64 `json:"from_ratio,omitzero"`
}

func (c Cost) check(check checkFunc, ratio func(field string, v, lo, hi float64)) {
	ratio("cost/patience", c.Patience, 0, 1000)
	ratio("cost/from_ratio", c.FromRatio, 0, 1)
	check(c.Patience > 0 || c.FromRatio == 0, "cost/from_ratio", "%v, though patience is 0", c.FromRatio)
}

// Measure says what counts as the size of a context.
type Measure string

// The measures. A provider's count is valid only for the context that it was
// made on; what was appended since is estimated and added.
const (
	Estimate Measure = ""         // what the policy's counter says
	Reported Measure = "reported" // the provider's last count where there is one
	Higher   Measure = "higher"   // the larger of both
	// Calibrated is what the policy's counter says, and limits are taken to be as
	// much smaller as the provider counts more than it, by an exponentially weighted
	// mean of its counts on the path ([tokens.Calibration]), in [1, 2]. Less is not
	// counted on: a limit that is too low costs little, one that is too high is a
	// call refused.
	Calibrated Measure = "calibrated"
)

// Prune is a view: before every call, old tool results are shown shortened.
// It writes nothing and has no state: the same path gives the same view.
// Users' and assistants' messages, images and files are never touched.
type Prune struct {
	// When is "always", or "cache_cold": only in a context whose newest turn is
	// at least the policy's IdleSeconds old, or 300 where it has none. "": never.
	When string `json:"when,omitzero"`
	// KeepAssistants is how many of the newest assistant messages, and all
	// after the oldest of them, nothing is shortened behind.
	KeepAssistants uint64 `json:"keep_last_assistants,omitzero"`
	// A result of more than SoftTrimChars keeps HeadChars and TailChars, and
	// TrimMark between them.
	SoftTrimChars uint64 `json:"soft_trim_chars,omitzero"`
	HeadChars     uint64 `json:"head_chars,omitzero"`
	TailChars     uint64 `json:"tail_chars,omitzero"`
	TrimMark      string `json:"trim_mark,omitzero"`
	// A result behind ClearAfter assistant messages becomes ClearMark, where that
	// is shorter. 0: never.
	ClearAfter uint64 `json:"clear_after_assistants,omitzero"`
	ClearMark  string `json:"clear_mark,omitzero"`
}

type checkFunc func(ok bool, field, format string, args ...any)

func (p Prune) check(check checkFunc) {
	check(p.When == "" || p.When == "always" || p.When == "cache_cold", "prune/when", "%.60q is not one of \"\", always, cache_cold", p.When)
	check(p.When == "" || p.HeadChars+p.TailChars <= p.SoftTrimChars, "prune/soft_trim_chars", "%d is less than head and tail, %d and %d", p.SoftTrimChars, p.HeadChars, p.TailChars)
	check(max(p.KeepAssistants, p.SoftTrimChars, p.HeadChars, p.TailChars, p.ClearAfter) <= MaxTokens, "prune", "a number is over %d", uint64(MaxTokens))
	check(len(p.TrimMark) <= 500 && len(p.ClearMark) <= 500, "prune", "a mark is over 500 bytes")
}

// Cold reports whether a prompt cache is taken to have gone after so long.
func (p Policy) Cold(idle time.Duration) bool {
	after := p.IdleSeconds
	if after == 0 {
		after = cacheSeconds
	}
	return uint64(max(0, idle)/time.Second) >= after
}

// cacheSeconds is how long providers keep a prompt cache that nobody reads:
// five minutes, by Anthropic's and OpenAI's documentation.
const cacheSeconds = 300

// Elide shortens parts of messages that stay, by a compaction that covers
// nothing: tool results first, the largest first; then assistants' texts and
// users' texts, the oldest first; until what it expects to save reaches the
// target. The first message of the user, errors, and the newest of each role
// are left whole.
type Elide struct {
	// Tools, Assistants, Users say which messages are shortened. None: off.
	Tools      bool `json:"tools,omitzero"`
	Assistants bool `json:"assistants,omitzero"`
	Users      bool `json:"users,omitzero"`
	// ProtectRecent is how many of the newest of each role stay whole.
	ProtectRecent uint64 `json:"protect_recent,omitzero"`
	// MinChars is the least length of a part that is shortened.
	MinChars uint64 `json:"min_chars,omitzero"`
	// Retain is the share of a part that is expected to stay, for the choice.
	Retain float64 `json:"retain_ratio,omitzero"`
	// What stays: min(share of the length, cap) at each end.
	HeadRatio float64 `json:"head_ratio,omitzero"`
	HeadCap   uint64  `json:"head_cap,omitzero"`
	TailRatio float64 `json:"tail_ratio,omitzero"`
	TailCap   uint64  `json:"tail_cap,omitzero"`
	// Mark stands between the ends, with {chars}, {omitted}, {head}, {tail}.
	Mark string `json:"mark,omitzero"`
	// ImageMark, if set, stands for the images of every tool result.
	ImageMark string `json:"image_mark,omitzero"`
	// ClearReasoning takes the reasoning out of assistants' messages that are shortened.
	ClearReasoning bool `json:"clear_reasoning,omitzero"`
	// Nudge, if set, has the originals of what is shortened summarized, and is
	// shown after the newest message, with {summary} in it. NudgeNotice stands in
	// its place where no summarizer made a summary.
	Nudge       string `json:"nudge,omitzero"`
	NudgeNotice string `json:"nudge_notice,omitzero"`
	// ForCall: it all stands only until a turn brings text of the user.
	ForCall bool `json:"for_call,omitzero"`
}

// On reports whether e shortens anything.
func (e Elide) On() bool { return e.Tools || e.Assistants || e.Users }

func (e Elide) check(check checkFunc, ratio func(field string, v, lo, hi float64)) {
	ratio("elide/retain_ratio", e.Retain, 0, 1)
	ratio("elide/head_ratio", e.HeadRatio, 0, 0.5)
	ratio("elide/tail_ratio", e.TailRatio, 0, 0.5)
	check(max(e.ProtectRecent, e.MinChars, e.HeadCap, e.TailCap) <= MaxTokens, "elide", "a number is over %d", uint64(MaxTokens))
	check(len(e.Mark) <= 500 && len(e.ImageMark) <= 500, "elide", "a mark is over 500 bytes")
	check(len(e.Nudge) <= 4000 && len(e.NudgeNotice) <= 4000, "elide", "a text is over 4000 bytes")
	check(e.Nudge == "" || strings.Count(e.Nudge, "{summary}") == 1, "elide/nudge", "it has not one {summary}")
	check(e.NudgeNotice == "" || strings.TrimSpace(e.NudgeNotice) != "", "elide/nudge_notice", "blank")
	check(!e.On() || strings.TrimSpace(e.Mark) != "", "elide/mark", "blank: what is shortened could be nothing but white space")
	check(e.Nudge == "" && !e.ForCall || e.On(), "elide", "nothing is shortened")
}

// InApprox is n tokens of the policy's counter in those of approx-1, by which
// texts are cut and summaries made: no more than n is, whichever counts higher.
func (p Policy) InApprox(n uint64) uint64 {
	if f := tokens.Scale(p.Counter); f > 1 {
		return uint64(float64(n) / f)
	}
	return n
}

// CounterOf is the counter of the policy.
func (p Policy) CounterOf() tokens.Counter {
	c, ok := tokens.Named(p.Counter)
	if !ok {
		panic(fmt.Sprintf("compactor: policy %s has the counter %q", p.Name, p.Counter)) // Validate refuses it
	}
	return c
}

// Style is how the policy has a model asked: by its own numbers, and as its
// template has it where those have no say. nil: nothing is said.
func (p Policy) Style() *summary.Style {
	t, _ := summary.FindTemplate(p.Template)
	s := summary.Style{ChunkRatio: p.ChunkRatio, SkipRatio: p.SkipRatio, Whole: t.Style.Whole, Merge: t.Style.Merge}
	for _, seconds := range p.RetrySeconds {
		s.Retries = append(s.Retries, time.Duration(seconds*float64(time.Second)))
	}
	if s.IsZero() {
		return nil
	}
	return &s
}

// Unlimited reports whether the policy has no budget for a session of such
// limits: it requires a window, and none is stated. Then only a budget that was
// asked for can be passed.
func (p Policy) Unlimited(limits turns.Limits) bool {
	return p.RequireWindow && limits.ContextWindow == 0
}
