package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nexus/compactor/summary"
	"nexus/turns"
	"nexus/turns/tokens"
)

// ProgressText returns what a client may show while a compaction is made; "": the policy's
// design names no text. Source: SPEC-008, "Future Considerations".
func (p Policy) ProgressText() string {
	if p.Template == "spec-008" {
		return "Organizing conversation..."
	}
	return ""
}

// Mode says when a compaction is made.
type Mode string

// The modes.
const (
	BeforeCall Mode = "before_call" // when a request needs the context
	Background Mode = "background"  // early, against an older head, then committed by rebase
	Manual     Mode = "manual"      // only on request
)

// Policy is named, versioned data that decides when a path is compacted, what stays
// and what replaces the rest. Every size is an upper bound that scales down with the
// window: see [Policy.Budget] and [Policy.Scale].
//
// Every compaction stores the digest of its policy, so a published version never
// changes: a change is a new version next to it. The digest leaves zero fields out,
// so a new field whose zero means "as before" keeps the digests of older policies.
type Policy struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"`

	// Counter names the token counter; "" is "approx-1".
	Counter string `json:"counter,omitzero"`
	// Mode is when a compaction is made. Default before_call.
	Mode Mode `json:"mode,omitzero"`

	// ReserveTokens is how much of the window stays free for the next turn: a
	// context over window − reserve is due. It counts up to a quarter of the window.
	// Default 20000; 0: this trigger is off.
	ReserveTokens uint64 `json:"reserve_tokens,omitzero"`
	// TriggerRatio is the share of the budget, less overhead, that messages may fill
	// before the context is due. Range [0, 1]; 0: this trigger is off.
	TriggerRatio float64 `json:"trigger_ratio,omitzero"`
	// TargetRatio is the largest share of the budget, less overhead, that the
	// messages fill after a compaction. Range [0.01, 0.9].
	TargetRatio float64 `json:"target_ratio,omitzero"`
	// TargetTokens bounds the same in tokens. 0: only the ratio bounds it.
	TargetTokens uint64 `json:"target_tokens,omitzero"`

	// WholeBudget makes the two ratios shares of the whole budget, overhead
	// included.
	WholeBudget bool `json:"whole_budget,omitzero"`
	// Measure says how the size of a context is measured.
	Measure Measure `json:"measure,omitzero"`
	// RequireWindow: a session that states no context window is never due by size.
	RequireWindow bool `json:"require_window,omitzero"`

	// EveryTurns: the context is due after this many normal turns since the last
	// compaction. 0: off.
	EveryTurns uint64 `json:"every_turns,omitzero"`
	// MaxMessages: the context is due when it has more messages. 0: off.
	MaxMessages uint64 `json:"max_messages,omitzero"`
	// LargeOutputChars: a tool result that no response has seen is shortened before
	// the next call if it has more characters. 0: off.
	LargeOutputChars uint64 `json:"large_output_chars,omitzero"`
	// IdleSeconds and IdleRatio: a context over this share of the budget (measured
	// like TriggerRatio) is due when its newest turn is at least this old. The
	// prompt cache has expired by then, so a rewrite costs nothing extra. 0: off.
	IdleSeconds uint64  `json:"idle_seconds,omitzero"`
	IdleRatio   float64 `json:"idle_ratio,omitzero"`

	// Cost compacts a context before it is full if that pays.
	Cost Cost `json:"cost,omitzero"`

	// KeepTokens is how many of the newest tokens stay verbatim. The target, less
	// the summary, bounds it. Range [1, 2^40]; 0 with KeepTurns.
	KeepTokens uint64 `json:"keep_tokens,omitzero"`
	// KeepTurns keeps this many of the newest responses with the messages before
	// them, instead of KeepTokens. The target bounds it too. 0: KeepTokens counts.
	KeepTurns uint64 `json:"keep_turns,omitzero"`
	// ManualKeepRatio bounds what a manual compaction keeps, as a share of the
	// messages on the path, so that it has an effect on a short session. Range [0,
	// 1]; 0: only KeepTokens counts.
	ManualKeepRatio float64 `json:"manual_keep_ratio,omitzero"`

	// SummaryMaxRatio and SummaryMaxTokens bound the summary: a share of the
	// budget less overhead, in [0.001, 0.5], and a cap in tokens, 0 for none.
	SummaryMaxRatio  float64 `json:"summary_max_ratio,omitzero"`
	SummaryMaxTokens uint64  `json:"summary_max_tokens,omitzero"`
	// QuoteMaxRatio and QuoteMaxTokens bound what a replacement quotes of the files
	// that the agent read and wrote last: a share of the budget less overhead, in
	// [0, 0.5], and a cap in tokens, 0 for none. A ratio of 0: it quotes nothing.
	QuoteMaxRatio  float64 `json:"quote_max_ratio,omitzero"`
	QuoteMaxTokens uint64  `json:"quote_max_tokens,omitzero"`
	// MinReclaimRatio is the least progress: an automatic compaction must free this
	// share of the messages. Range [0, 0.9].
	MinReclaimRatio float64 `json:"min_reclaim_ratio,omitzero"`
	// MaxStrikes is how many failed tries of one plan pause compaction. Range [1,
	// 10].
	MaxStrikes uint64 `json:"max_strikes,omitzero"`

	// Tiers names the summarizers to try, in order. The notice always comes last.
	// Empty: all configured ones.
	Tiers []string `json:"tiers,omitempty"`
	// ReplacementRole is the role of the message that holds the summary: system or
	// user.
	ReplacementRole turns.Role `json:"replacement_role,omitzero"`
	// ReplacementHeader is the line that introduces the summary; at most 500 bytes.
	// "%d" in it becomes the number of newly covered turns.
	ReplacementHeader string `json:"replacement_header,omitzero"`
	// KeepFirstRequest quotes the session's first user message in every replacement,
	// whatever the summary says about it. A long one is cut.
	KeepFirstRequest bool `json:"keep_first_request,omitzero"`
	// KeepRules quotes in every replacement, word for word, what users said must or
	// must not be done.
	KeepRules bool `json:"keep_rules,omitzero"`
	// Frame is the text around the summary. {summary} becomes the summary, {covered}
	// the number of newly covered turns, {messages} that of their messages. "": the
	// header above, then the summary between tags. At most 4000 bytes.
	Frame string `json:"frame,omitzero"`
	// Notice is the text of the last tier, which asks no summarizer. {covered} and
	// {messages} are replaced as in Frame. "": the default notice.
	Notice string `json:"notice,omitzero"`
	// OnFailure says what happens when all summarizers failed: "notice" commits the
	// notice, "fail" commits nothing. "" means notice.
	OnFailure string `json:"on_failure,omitzero"`
	// SummaryModel is the model that writes the summaries if the operator configured
	// a summarizer for it. Otherwise another one does.
	SummaryModel string `json:"summary_model,omitzero"`
	// SummaryBy is "" or SessionModel, which prefers the session's own model to
	// SummaryModel, under the same condition.
	SummaryBy string `json:"summary_by,omitzero"`
	// Template names the prompt of summarizers that ask models. "": the default one.
	Template string `json:"template,omitzero"`
	// TemplateText replaces the template's text with the session owner's; at most
	// 8000 bytes. The template still sets the shape of the answer.
	TemplateText string `json:"template_text,omitzero"`
	// ChunkRatio is the largest share of the summarizer's window that one request
	// fills. 0: no bound but the window.
	ChunkRatio float64 `json:"chunk_ratio,omitzero"`
	// SkipRatio: if the whole could not be summarized, a half over this share of the
	// window is skipped, with a note. 0: never.
	SkipRatio float64 `json:"skip_ratio,omitzero"`
	// RetrySeconds are the waits between tries of one request. Empty: the
	// summarizer's default.
	RetrySeconds []float64 `json:"retry_seconds,omitempty"`

	// Prune shortens old tool results in every context, without a compaction. Elide
	// makes a compaction that shortens parts and keeps them shortened.
	Prune Prune `json:"prune,omitzero"`
	Elide Elide `json:"elide,omitzero"`

	// Flush asks the agent to save what it wants to keep, before a compaction.
	Flush Flush `json:"flush,omitzero"`
	// Reset ends a session by time, unless the session has a rule of its own.
	Reset Reset `json:"reset,omitzero"`

	// Files asks for files beside the ledger, in the layout of a published design.
	Files Files `json:"files,omitzero"`

	// Memory says what contexts show of the agent's memories.
	Memory Memory `json:"memory,omitzero"`
	// Runtime is where contexts count the calls of tools.
	Runtime Runtime `json:"runtime,omitzero"`

	// ContextWindow, MaxOutputTokens and SafetyMargin are the limits of a session
	// that states none. Output counts up to a quarter of the window, the margin up
	// to a fiftieth. Window: default 200000, at least 1000.
	ContextWindow   uint64 `json:"context_window,omitzero"`
	MaxOutputTokens uint64 `json:"max_output_tokens,omitzero"`
	SafetyMargin    uint64 `json:"safety_margin,omitzero"`
}

// SessionModel is the value of [Policy.SummaryBy] that prefers the session's model.
const SessionModel = "session_model"

// SummaryModels returns the models that should write summaries for a session of the
// given model, best first. An element "" names no model.
func (p Policy) SummaryModels(session string) []string {
	if p.SummaryBy == SessionModel {
		return []string{session, p.SummaryModel}
	}
	return []string{p.SummaryModel}
}

// Names returns the names of the built-in policies, sorted.
func Names() []string {
	var names []string
	for _, p := range builtins() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// Builtin returns a built-in policy.
func Builtin(name string) (Policy, bool) {
	for _, p := range builtins() {
		if p.Name == name {
			return p, true
		}
	}
	return Policy{}, false
}

// Resolve returns the built-in policy that ref names, with ref's overrides. If ref
// pins a digest, it is that of the result.
//
// Errors: [turns.FieldError] under /policy for an unknown name or an invalid
// override; [turns.ErrUnsupported] for a digest that the policy of this build has not.
func Resolve(ref turns.PolicyRef) (Policy, error) {
	builtin, ok := Builtin(ref.Name)
	if !ok {
		return Policy{}, &turns.FieldError{
			Field: "/policy/name", Reason: fmt.Sprintf("%.60q is not one of %s", ref.Name, strings.Join(Names(), ", ")), Kind: turns.ErrMalformed,
		}
	}
	if ref.Digest.IsZero() {
		return builtin.With(ref.Set)
	}
	if with, err := builtin.With(ref.Set); err == nil && with.Digest() == ref.Digest {
		return with, nil
	}
	return Policy{}, fmt.Errorf("%w: policy %s with digest %v: the policy of this build has another", turns.ErrUnsupported, ref.Name, ref.Digest)
}

// With returns p with its fields replaced by the members of set, a JSON object of
// the fields' JSON names. nil changes nothing; name and version never change. The
// error holds a [turns.FieldError] for each fault, with a pointer /policy/set/….
func (p Policy) With(set turns.Raw) (Policy, error) {
	if set == nil {
		return p, nil
	}
	if set.Kind() != '{' {
		return Policy{}, overrideError("", "not a JSON object")
	}
	name, version := p.Name, p.Version
	p.Name, p.Version, p.Tiers, p.RetrySeconds = "", 0, slices.Clone(p.Tiers), slices.Clone(p.RetrySeconds)
	if err := turns.DecodeJSON(set, &p); err != nil {
		if fe := (*turns.FieldError)(nil); errors.As(err, &fe) {
			return Policy{}, &turns.FieldError{Field: setPointer + fe.Field, Reason: fe.Reason, Kind: fe.Kind}
		}
		return Policy{}, overrideError("", err.Error())
	}
	if p.Name != "" || p.Version != 0 {
		return Policy{}, overrideError("/name", "name and version can't be overridden")
	}
	p.Name, p.Version = name, version
	if err := p.Validate(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

const setPointer = "/policy/set"

func overrideError(field, reason string) error {
	return &turns.FieldError{Field: setPointer + field, Reason: reason, Kind: turns.ErrMalformed}
}

// Validate returns every fault, joined: each a [turns.FieldError] whose pointer is
// /policy/set/ and the field's JSON name.
func (p Policy) Validate() error { return p.validate(setPointer) }

// validate is [Policy.Validate] with pointers below base.
func (p Policy) validate(base string) error {
	var faults []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			faults = append(faults, &turns.FieldError{Field: base + "/" + field, Reason: fmt.Sprintf(format, args...), Kind: turns.ErrMalformed})
		}
	}
	ratio := func(field string, v, lo, hi float64) {
		check(v >= lo && v <= hi, field, "%v is outside [%v, %v]", v, lo, hi) // NaN is outside too
	}
	size := func(field string, v, lo uint64) {
		check(v >= lo && v <= MaxTokens, field, "%d is outside [%d, %d]", v, lo, uint64(MaxTokens))
	}
	check(turns.ValidName(p.Name), "name", "%.60q is not a name", p.Name)
	check(p.Version > 0, "version", "0")
	_, known := tokens.Named(p.Counter)
	check(known, "counter", "%.60q is not a known counter", p.Counter)
	check(slices.Contains([]Measure{Estimate, Reported, Higher, Calibrated}, p.Measure), "measure", "%.60q is not one of \"\", reported, higher, calibrated", p.Measure)
	check(p.Mode == BeforeCall || p.Mode == Background || p.Mode == Manual, "mode", "%.60q is not one of before_call, background, manual", p.Mode)
	size("reserve_tokens", p.ReserveTokens, 0)
	ratio("trigger_ratio", p.TriggerRatio, 0, 1)
	ratio("target_ratio", p.TargetRatio, 0.01, 0.9)
	size("target_tokens", p.TargetTokens, 0)
	size("keep_tokens", p.KeepTokens, min(1, tokens.Sub(1, p.KeepTurns)))
	size("keep_turns", p.KeepTurns, 0)
	size("every_turns", p.EveryTurns, 0)
	size("max_messages", p.MaxMessages, 0)
	size("large_output_chars", p.LargeOutputChars, 0)
	size("idle_seconds", p.IdleSeconds, 0)
	ratio("idle_ratio", p.IdleRatio, 0, 1)
	ratio("chunk_ratio", p.ChunkRatio, 0, 1)
	ratio("skip_ratio", p.SkipRatio, 0, 1)
	check(len(p.RetrySeconds) <= 16, "retry_seconds", "%d waits, the limit is 16", len(p.RetrySeconds))
	for i, s := range p.RetrySeconds {
		ratio(fmt.Sprintf("retry_seconds/%d", i), s, 0, 600)
	}
	p.Prune.check(check)
	p.Elide.check(check, ratio)
	check(p.LargeOutputChars == 0 || strings.TrimSpace(p.Elide.Mark) != "", "elide/mark", "blank, though large outputs are shortened")
	p.Flush.check(check)
	p.Reset.check(check)
	p.Files.check(check)
	p.Memory.check(check)
	p.Runtime.check(check)
	p.Cost.check(check, ratio)
	ratio("manual_keep_ratio", p.ManualKeepRatio, 0, 1)
	ratio("summary_max_ratio", p.SummaryMaxRatio, 0.001, 0.5)
	size("summary_max_tokens", p.SummaryMaxTokens, 0)
	ratio("quote_max_ratio", p.QuoteMaxRatio, 0, 0.5)
	size("quote_max_tokens", p.QuoteMaxTokens, 0)
	ratio("min_reclaim_ratio", p.MinReclaimRatio, 0, 0.9)
	check(p.MaxStrikes >= 1 && p.MaxStrikes <= 10, "max_strikes", "%d is outside [1, 10]", p.MaxStrikes)
	check(len(p.Tiers) <= 16, "tiers", "%d tiers, the limit is 16", len(p.Tiers))
	for i, t := range p.Tiers {
		check(turns.ValidName(t), fmt.Sprintf("tiers/%d", i), "%.60q is not a name", t)
	}
	check(p.ReplacementRole == turns.System || p.ReplacementRole == turns.User, "replacement_role", "%.60q is not one of system, user", p.ReplacementRole)
	check(len(p.Frame) <= 4000, "frame", "%d bytes, the limit is 4000", len(p.Frame))
	check(p.Frame == "" || strings.Count(p.Frame, "{summary}") == 1, "frame", "it has not one {summary}")
	check(p.Notice == "" || strings.TrimSpace(p.Notice) != "", "notice", "blank")
	check(len(p.Notice) <= 4000, "notice", "%d bytes, the limit is 4000", len(p.Notice))
	check(p.OnFailure == "" || p.OnFailure == "notice" || p.OnFailure == "fail", "on_failure", "%.60q is not one of notice, fail", p.OnFailure)
	check(p.SummaryBy == "" || p.SummaryBy == SessionModel, "summary_by", "%.60q is not one of \"\", session_model", p.SummaryBy)
	check(len(p.TemplateText) <= 8000, "template_text", "%d bytes, the limit is 8000", len(p.TemplateText))
	_, known = summary.FindTemplate(p.Template)
	check(known, "template", "%.60q is not a known template", p.Template)
	check(len(p.ReplacementHeader) <= 500, "replacement_header", "%d bytes, the limit is 500", len(p.ReplacementHeader))
	check(p.TriggerRatio == 0 || p.TargetRatio < p.TriggerRatio, "target_ratio", "%v is not below trigger_ratio, %v", p.TargetRatio, p.TriggerRatio)
	check(p.ContextWindow >= 1000 && p.ContextWindow <= MaxTokens, "context_window", "%d is outside [1000, %d]", p.ContextWindow, uint64(MaxTokens))
	size("max_output_tokens", p.MaxOutputTokens, 0)
	size("safety_margin", p.SafetyMargin, 0)
	return errors.Join(faults...)
}

// MaxTokens is larger than any window, and small enough that sums of a few
// sizes can't overflow.
const MaxTokens = 1 << 40
