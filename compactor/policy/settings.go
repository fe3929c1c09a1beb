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

// Cost compacts a context before it is full if that pays. Each call reads the whole
// context from the provider's cache. A compaction shortens that, but writes what it
// leaves to the cache anew, once.
//
// Since the last rewrite, every call has read more than the first one did. When that
// surplus costs as much as the next rewrite, waiting becomes dearer a call than
// rewriting now: this is the cheapest moment, at any steady growth. Patience delays
// it, because covered turns leave the context.
type Cost struct {
	// Patience is by what factor the surplus must cost more than a rewrite. 1 is the
	// cheapest; 0: off. Range [0, 1000].
	Patience float64 `json:"patience,omitzero"`
	// FromRatio is the share of the budget, measured like [Policy.TriggerRatio],
	// below which cost never triggers.
	FromRatio float64 `json:"from_ratio,omitzero"`
}

func (c Cost) check(check checkFunc, ratio func(field string, v, lo, hi float64)) {
	ratio("cost/patience", c.Patience, 0, 1000)
	ratio("cost/from_ratio", c.FromRatio, 0, 1)
	check(c.Patience > 0 || c.FromRatio == 0, "cost/from_ratio", "%v, though patience is 0", c.FromRatio)
}

// Measure says how the size of a context is measured.
type Measure string

// The measures. A provider's count holds only for the context that it counted. What
// was appended since is estimated and added.
const (
	Estimate Measure = ""         // the policy's counter
	Reported Measure = "reported" // the provider's last count, if there is one
	Higher   Measure = "higher"   // the larger of the two
	// Calibrated uses the policy's counter and lowers the limits by the ratio of the
	// provider's counts to it: an exponentially weighted mean over the path
	// ([tokens.Calibration]), bounded to [1, 2]. A ratio below 1 is not used: a
	// limit that is too low costs little, one that is too high makes the provider
	// refuse a call.
	Calibrated Measure = "calibrated"
)

// Prune is a view: it shows old tool results shortened before every call. It writes
// nothing and has no state, so equal paths give equal views. It never touches
// messages of users and assistants, images or files.
type Prune struct {
	// When is "always" or "cache_cold"; the latter prunes only a context whose
	// newest turn is at least the policy's IdleSeconds old (300 if that is 0). "":
	// never.
	When string `json:"when,omitzero"`
	// KeepAssistants protects this many of the newest assistant messages and all
	// that follows the oldest of them.
	KeepAssistants uint64 `json:"keep_last_assistants,omitzero"`
	// A result with more than SoftTrimChars keeps its first HeadChars and last
	// TailChars, with TrimMark between them.
	SoftTrimChars uint64 `json:"soft_trim_chars,omitzero"`
	HeadChars     uint64 `json:"head_chars,omitzero"`
	TailChars     uint64 `json:"tail_chars,omitzero"`
	TrimMark      string `json:"trim_mark,omitzero"`
	// A result followed by ClearAfter assistant messages becomes ClearMark, if that
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

// Cold reports whether a prompt cache has expired after idle.
func (p Policy) Cold(idle time.Duration) bool {
	after := p.IdleSeconds
	if after == 0 {
		after = cacheSeconds
	}
	return uint64(max(0, idle)/time.Second) >= after
}

// cacheSeconds is how long providers keep a prompt cache that nobody reads: five
// minutes, according to the documentation of Anthropic and OpenAI.
const cacheSeconds = 300

// Elide shortens parts of kept messages by a compaction that covers nothing. It
// takes tool results first, largest first; then texts of assistants and of users,
// oldest first; until the expected saving reaches the target. The user's first
// message, errors, and the newest messages of each role stay whole.
type Elide struct {
	// Tools, Assistants and Users say which messages are shortened. None: off.
	Tools      bool `json:"tools,omitzero"`
	Assistants bool `json:"assistants,omitzero"`
	Users      bool `json:"users,omitzero"`
	// ProtectRecent is how many of the newest messages of each role stay whole.
	ProtectRecent uint64 `json:"protect_recent,omitzero"`
	// MinChars is the least length of a part that is shortened.
	MinChars uint64 `json:"min_chars,omitzero"`
	// Retain is the share of a part that the choice expects to stay.
	Retain float64 `json:"retain_ratio,omitzero"`
	// Each end keeps min(share of the length, cap).
	HeadRatio float64 `json:"head_ratio,omitzero"`
	HeadCap   uint64  `json:"head_cap,omitzero"`
	TailRatio float64 `json:"tail_ratio,omitzero"`
	TailCap   uint64  `json:"tail_cap,omitzero"`
	// Mark is the text between the ends. It may hold {chars}, {omitted}, {head} and
	// {tail}.
	Mark string `json:"mark,omitzero"`
	// ImageMark, if set, replaces the images of every tool result.
	ImageMark string `json:"image_mark,omitzero"`
	// ClearReasoning also removes the reasoning from shortened assistant messages.
	ClearReasoning bool `json:"clear_reasoning,omitzero"`
	// Nudge, if set, is shown after the newest message; {summary} in it becomes a
	// summary of what was shortened. NudgeNotice replaces it if no summarizer made a
	// summary.
	Nudge       string `json:"nudge,omitzero"`
	NudgeNotice string `json:"nudge_notice,omitzero"`
	// ForCall: the elisions and the nudge end with the next turn that holds text of
	// the user.
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

// InApprox converts n tokens of the policy's counter to tokens of approx-1, which
// measures the cutting of texts and the length of summaries. The result never
// exceeds n, whichever of the two counts higher.
func (p Policy) InApprox(n uint64) uint64 {
	if f := tokens.Scale(p.Counter); f > 1 {
		return uint64(float64(n) / f)
	}
	return n
}

// CounterOf returns the policy's token counter.
func (p Policy) CounterOf() tokens.Counter {
	c, ok := tokens.Named(p.Counter)
	if !ok {
		panic(fmt.Sprintf("compactor: policy %s has the counter %q", p.Name, p.Counter)) // Validate refuses it
	}
	return c
}

// Style returns how the policy wants a model asked; the template decides what it
// leaves open. nil: the policy wants nothing.
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

// Unlimited reports whether the policy has no budget for a session with these
// limits: it requires a window and the session states none. Then only a budget that
// the caller requests can be exceeded.
func (p Policy) Unlimited(limits turns.Limits) bool {
	return p.RequireWindow && limits.ContextWindow == 0
}
