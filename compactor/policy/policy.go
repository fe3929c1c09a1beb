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

// Mode says when a compaction is made.
type Mode string

// The modes.
const (
	BeforeCall Mode = "before_call" // by the request for the context that needs it
	Background Mode = "background"  // early, against an older head; committed by rebase
	Manual     Mode = "manual"      // only when it is asked for
)

// Policy is named, versioned data that decides when a path is compacted, what
// stays, and what stands for the rest. Every size is an upper bound that
// scales down with the window: see [Policy.Budget] and sizes.
//
// The digest of a policy is stored with every compaction, so a published
// version never changes: a change is a new version next to it. A zero field is
// left out of what is digested, so that a field added later, whose zero means
// "as before", keeps the digests of older policies.
type Policy struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"`

	// Counter names the token counter; "" is "approx-1".
	Counter string `json:"counter,omitzero"`
	// Mode is when a compaction is made. Default before_call.
	Mode Mode `json:"mode,omitzero"`

	// ReserveTokens is what stays free of the window for the next turn: a
	// context over window − reserve is due. At most a quarter of the window
	// counts. Default 20000; 0: this trigger is off.
	ReserveTokens uint64 `json:"reserve_tokens,omitzero"`
	// TriggerRatio is the share of the budget that a context may fill before it
	// is due. Overhead is counted apart: it is a share of what overhead leaves.
	// Range [0, 1]; 0: this trigger is off.
	TriggerRatio float64 `json:"trigger_ratio,omitzero"`
	// TargetRatio is the share of the budget, less overhead, that the messages
	// fill at most after a compaction. Range [0.01, 0.9].
	TargetRatio float64 `json:"target_ratio,omitzero"`
	// TargetTokens bounds the same in tokens. 0: no bound but the ratio's.
	TargetTokens uint64 `json:"target_tokens,omitzero"`

	// WholeBudget says that the two ratios are shares of the whole budget,
	// overhead included, and not of what overhead leaves.
	WholeBudget bool `json:"whole_budget,omitzero"`
	// Measure says what counts as the size of a context.
	Measure Measure `json:"measure,omitzero"`
	// RequireWindow: a session that states no context window is never due by size.
	RequireWindow bool `json:"require_window,omitzero"`

	// EveryTurns: due after so many normal turns since the last compaction. 0: off.
	EveryTurns uint64 `json:"every_turns,omitzero"`
	// MaxMessages: due when the context has more messages. 0: off.
	MaxMessages uint64 `json:"max_messages,omitzero"`
	// LargeOutputChars: a newer tool result of more characters is shown
	// shortened before the next call. 0: off.
	LargeOutputChars uint64 `json:"large_output_chars,omitzero"`
	// IdleSeconds and IdleRatio: a context that fills this share of the budget
	// (like TriggerRatio) is due when its newest turn is as old: a prompt cache
	// has gone by then, and a rewrite costs nothing more. 0: off.
	IdleSeconds uint64  `json:"idle_seconds,omitzero"`
	IdleRatio   float64 `json:"idle_ratio,omitzero"`

	// Cost has a context compacted where that pays.
	Cost Cost `json:"cost,omitzero"`

	// KeepTokens is how many of the newest tokens stay verbatim. What the target
	// leaves next to the summary bounds it. Range [1, 2^40]; 0 with KeepTurns.
	KeepTokens uint64 `json:"keep_tokens,omitzero"`
	// KeepTurns keeps the newest responses, with what was sent for them, in
	// place of KeepTokens; the target bounds it as well. 0: KeepTokens counts.
	KeepTurns uint64 `json:"keep_turns,omitzero"`
	// ManualKeepRatio bounds what a manual compaction keeps, as a share of the
	// messages there are, so that on a short session it does something.
	// Range [0, 1]; 0: KeepTokens alone counts.
	ManualKeepRatio float64 `json:"manual_keep_ratio,omitzero"`

	// SummaryMaxRatio and SummaryMaxTokens bound the summary: a share of the
	// budget less overhead, in [0.001, 0.5], and a cap in tokens, 0 for none.
	SummaryMaxRatio  float64 `json:"summary_max_ratio,omitzero"`
	SummaryMaxTokens uint64  `json:"summary_max_tokens,omitzero"`
	// MinReclaimRatio is the least progress: an automatic compaction that frees
	// a smaller share of the messages is not worth the loss. Range [0, 0.9].
	MinReclaimRatio float64 `json:"min_reclaim_ratio,omitzero"`
	// MaxStrikes is how many fruitless tries of one plan pause compaction.
	// Range [1, 10].
	MaxStrikes uint64 `json:"max_strikes,omitzero"`

	// Tiers names the summarizers to try, in order. The notice follows them
	// always. Empty: all that are configured.
	Tiers []string `json:"tiers,omitempty"`
	// ReplacementRole is the role of the message that holds the summary: system
	// or user.
	ReplacementRole turns.Role `json:"replacement_role,omitzero"`
	// ReplacementHeader is the line that names the message as a summary; at most
	// 500 bytes. "%d" in it becomes the number of turns newly covered.
	ReplacementHeader string `json:"replacement_header,omitzero"`
	// KeepFirstRequest quotes the text of the session's first user message in
	// every replacement, whatever the summarizer made of it; a long one is cut.
	KeepFirstRequest bool `json:"keep_first_request,omitzero"`
	// Frame is the text around the summary: {summary} becomes the summary,
	// {covered} the number of turns newly covered, {messages} that of their
	// messages. "": the header above, and the summary between tags. At most 4000 bytes.
	Frame string `json:"frame,omitzero"`
	// Notice is the text of the last tier, which needs no summarizer, with the
	// places {covered} and {messages}. "": one of ours.
	Notice string `json:"notice,omitzero"`
	// OnFailure: "notice" commits the last tier when all summarizers failed,
	// "fail" does not. Default notice.
	OnFailure string `json:"on_failure,omitzero"`
	// SummaryModel is the model that writes the summaries where the operator lets a
	// summarizer ask it; another one else.
	SummaryModel string `json:"summary_model,omitzero"`
	// SummaryBy is SessionModel: the session's own model goes before SummaryModel,
	// under the same condition. "": it does not.
	SummaryBy string `json:"summary_by,omitzero"`
	// Template names the prompt of summarizers that are models. "": ours.
	Template string `json:"template,omitzero"`
	// TemplateText takes the place of the template's text, at most 8000 bytes:
	// what is asked for, in words of the session's owner. The template's shape stays.
	TemplateText string `json:"template_text,omitzero"`
	// ChunkRatio is the share of the summarizer's window that one request takes
	// at most; 0: all that fits.
	ChunkRatio float64 `json:"chunk_ratio,omitzero"`
	// SkipRatio: a half of more than this share of the window is left out, with
	// a note, where the whole could not be summarized. 0: never.
	SkipRatio float64 `json:"skip_ratio,omitzero"`
	// RetrySeconds are the waits between tries of one request. Empty: the
	// summarizer's own.
	RetrySeconds []float64 `json:"retry_seconds,omitempty"`

	// Prune shows old tool results shortened, in every context, without a
	// compaction. Elide shortens parts by one, and keeps them so.
	Prune Prune `json:"prune,omitzero"`
	Elide Elide `json:"elide,omitzero"`

	// Flush asks the agent, before a compaction, to save what it wants to keep.
	Flush Flush `json:"flush,omitzero"`

	// ContextWindow, MaxOutputTokens and SafetyMargin are the limits of a
	// session that states none. Of the defaults for output and margin at most a
	// quarter and a fiftieth of the window count. Window: default 200000, at
	// least 1000.
	ContextWindow   uint64 `json:"context_window,omitzero"`
	MaxOutputTokens uint64 `json:"max_output_tokens,omitzero"`
	SafetyMargin    uint64 `json:"safety_margin,omitzero"`
}

// SessionModel is a [Policy.SummaryBy].
const SessionModel = "session_model"

// SummaryModels are the models that the policy wants summaries of, for a session
// of the given model, best first; "" among them stands for none.
func (p Policy) SummaryModels(session string) []string {
	if p.SummaryBy == SessionModel {
		return []string{session, p.SummaryModel}
	}
	return []string{p.SummaryModel}
}

// Names are the names of the built-in policies, sorted.
func Names() []string {
	var names []string
	for _, p := range builtins() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Builtin is the newest version of a built-in policy.
func Builtin(name string) (Policy, bool) {
	var found Policy
	for _, p := range builtins() {
		if p.Name == name && p.Version > found.Version {
			found = p
		}
	}
	return found, found.Version > 0
}

// Resolve is the policy that ref names: of the built-in ones, with ref's
// overrides. Where ref pins a digest, it is the version with that digest.
//
// Errors: [turns.FieldError] under /policy for a name or an override that
// can't be; [turns.ErrUnsupported] for a digest that no version here has.
func Resolve(ref turns.PolicyRef) (Policy, error) {
	newest, ok := Builtin(ref.Name)
	if !ok {
		return Policy{}, &turns.FieldError{
			Field: "/policy/name", Reason: fmt.Sprintf("%.60q is not one of %v", ref.Name, Names()), Kind: turns.ErrMalformed,
		}
	}
	if ref.Digest.IsZero() {
		return newest.With(ref.Set)
	}
	for _, p := range builtins() {
		if p.Name != ref.Name {
			continue
		}
		if with, err := p.With(ref.Set); err == nil && with.Digest() == ref.Digest {
			return with, nil
		}
	}
	return Policy{}, fmt.Errorf("%w: policy %s with digest %v: no version in this build has it", turns.ErrUnsupported, ref.Name, ref.Digest)
}

// With is p with the members of set, a JSON object, in place of its fields of
// the same JSON name; nil changes nothing. Name and version stay. The error
// holds a [turns.FieldError] for each fault, with a pointer /policy/set/….
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

// Validate lists every fault, joined: each a [turns.FieldError] whose pointer
// is /policy/set/ and the field's JSON name.
func (p Policy) Validate() error {
	var faults []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			faults = append(faults, overrideError("/"+field, fmt.Sprintf(format, args...)))
		}
	}
	ratio := func(field string, v, lo, hi float64) {
		check(v >= lo && v <= hi, field, "%v is outside [%v, %v]", v, lo, hi) // NaN is outside
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
	p.Cost.check(check, ratio)
	ratio("manual_keep_ratio", p.ManualKeepRatio, 0, 1)
	ratio("summary_max_ratio", p.SummaryMaxRatio, 0.001, 0.5)
	size("summary_max_tokens", p.SummaryMaxTokens, 0)
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
