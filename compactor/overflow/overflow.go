package overflow

import (
	"regexp"
	"strconv"
	"strings"
)

// Kind says what a model provider's error means for a context.
type Kind string

// The kinds of provider errors. A shorter context solves only the first two; see
// [ProviderError.Overflow].
const (
	ContextOverflow Kind = "context_overflow"    // the prompt is longer than the window
	RequestTooLarge Kind = "request_too_large"   // the request has too many bytes
	RateLimit       Kind = "rate_limit"          // too many tokens a minute, or throttled: the caller should wait
	CreditLimit     Kind = "credit_limit"        // the account's credit or quota is used up
	OutputCap       Kind = "output_cap"          // max_tokens exceeds the model's cap: the caller should lower it
	PairingBroken   Kind = "tool_pairing_broken" // a call without its result: the context is wrong
	OtherError      Kind = "other"               // none of these
)

// ProviderError is what a provider's answer says about a context's size.
type ProviderError struct {
	Kind   Kind
	Window uint64 // tokens that the model accepts; 0: not stated
	Tokens uint64 // tokens of the prompt, as the provider counted them; 0: not stated
}

// Overflow reports whether a shorter context solves the error.
func (e ProviderError) Overflow() bool { return e.Kind == ContextOverflow || e.Kind == RequestTooLarge }

// providerRule recognizes one wording. The expression's groups named window, tokens
// and more are numbers; more is added to tokens.
type providerRule struct {
	kind   Kind
	status []int // statuses that the rule applies to; nil: any
	text   *regexp.Regexp
}

// number matches a count as providers write it, but not "128k".
const number = `\d[\d,_]*`

func phrase(expr string) *regexp.Regexp {
	group := func(name string) string { return `(?P<` + name + `>` + number + `)\b` }
	expr = strings.NewReplacer("<window>", group("window"), "<tokens>", group("tokens"), "<more>", group("more"), "<n>", number, " ", `\s+`).Replace(expr)
	return regexp.MustCompile(`(?i)` + expr)
}

// providerRules are tried in order: statuses that decide alone; sentences that only
// an overflow has; other errors that use the same words; words that suffice
// otherwise. Each rule comes from an error seen in the field;
// docs/policies/overflow.md lists them.
var providerRules = []providerRule{
	// Whatever the text, these statuses are no overflow.
	{OtherError, []int{401, 403, 404}, phrase(``)},
	{RateLimit, []int{429}, phrase(``)},
	{CreditLimit, []int{402}, phrase(``)},

	// Overflows, recognized by a whole sentence.
	{ContextOverflow, nil, phrase(`maximum context length is <window> tokens?[.,]? however,? you requested <n> tokens? \(<tokens> in (the messages|your prompt)(, <more> in the functions)?`)},
	{ContextOverflow, nil, phrase(`maximum context length is <window> tokens.{0,80}prompt contains at least <tokens>`)},
	{ContextOverflow, nil, phrase(`maximum context length is <window> tokens\. however, your request has <tokens> input tokens`)},
	{ContextOverflow, nil, phrase(`maximum context length of <window> tokens.{0,80}: <tokens> tokens from the input`)},
	{ContextOverflow, nil, phrase(`maximum context length is <window> tokens.{0,60}\(<tokens> of text input(, <more> of tool input)?`)},
	{ContextOverflow, nil, phrase(`maximum context length is <window> tokens.{0,40}(requested( about)?|resulted in) <tokens>`)},
	{ContextOverflow, nil, phrase(`exceed the configured limit of <window> tokens.{0,40}resulted in <tokens>`)},
	{ContextOverflow, nil, phrase(`prompt is too long:? <tokens>( tokens)?\s*(>|, model maximum context length:)\s*<window>`)},
	{ContextOverflow, nil, phrase("input length and `?max_tokens`? exceed context limit: <tokens> \\+ <n> > <window>")},
	{ContextOverflow, nil, phrase(`input token count \(?<tokens>\)? exceeds the maximum number of tokens allowed \(?<window>`)},
	{ContextOverflow, nil, phrase(`input token count exceeds the maximum number of tokens allowed \(?<window>`)},
	{ContextOverflow, nil, phrase(`input token count is <tokens> but (the )?model (only )?supports up to <window>`)},
	{ContextOverflow, nil, phrase(`maximum prompt length is <window> but the request contains <tokens>`)},
	{ContextOverflow, nil, phrase(`prompt contains <tokens> tokens.{0,40}too large for model with <window>`)},
	{ContextOverflow, nil, phrase(`prompt <tokens> > <window> maximum context length`)},
	{ContextOverflow, nil, phrase(`prompt \(length <tokens>\) is longer than the maximum model length of <window>`)},
	{ContextOverflow, nil, phrase(`input prompt \(<tokens> tokens\) is too long and exceeds limit of <window>`)},
	{ContextOverflow, nil, phrase(`prompt length \(<tokens>\) exceeds maximum input length \(<window>`)},
	{ContextOverflow, nil, phrase(`you passed <tokens> input tokens.{0,80}context length is only <window> tokens`)},
	{ContextOverflow, nil, phrase(`current length is <tokens> while limit is <window>`)},
	{ContextOverflow, nil, phrase(`input \(<tokens> tokens\) is longer than the model's context length \(<window>`)},
	{ContextOverflow, nil, phrase("must be <= <window>. given: <tokens> `?inputs`? tokens")},
	{ContextOverflow, nil, phrase("`?inputs`? must have less than <window> tokens. given: <tokens>")},
	{ContextOverflow, nil, phrase(`prompt token count of <tokens> exceeds the limit of <window>`)},
	{ContextOverflow, nil, phrase(`max input tokens: <window>, request input token count: <tokens>`)},
	{ContextOverflow, nil, phrase(`number of input tokens <tokens> cannot exceed the total tokens limit <window>`)},
	{ContextOverflow, nil, phrase(`length of prompt_tokens \(<tokens>\) must be less than max_seq_len \(<window>`)},
	{ContextOverflow, nil, phrase(`exceeded model token limit\s*: <window>( \(requested: <tokens>)?`)},
	{ContextOverflow, nil, phrase(`input and maximum output tokens \(<n>\) exceeded this model context window limit \(<window>`)},
	{ContextOverflow, nil, phrase(`request body too large for .{0,60}max size: <window> tokens`)},
	{ContextOverflow, nil, phrase(`range of input length should be \[\d+,\s*<window>\]`)},
	{ContextOverflow, nil, phrase(`tokens in the prompt cannot exceed <window> - received <tokens>`)},
	{ContextOverflow, nil, phrase(`too many tokens: size limit exceeded by <n> tokens.{0,40}limit for this model is <window>`)},
	{ContextOverflow, nil, phrase(`input length \(?<tokens>\)? exceeds (the maximum allowed input length of|(the )?model's maximum context length) \(?<window>`)},
	{ContextOverflow, nil, phrase(`total tokens <tokens> exceeds context window <window>`)},
	{ContextOverflow, nil, phrase(`request \(<tokens> tokens\) exceeds the available context size \(<window>`)},
	{ContextOverflow, nil, phrase(`n_keep: <tokens> >= n_ctx: <window>`)},
	{ContextOverflow, nil, phrase(`"?n_prompt_tokens"?:\s*<tokens>,\s*"?n_ctx"?:\s*<window>`)},
	{ContextOverflow, nil, phrase(`context length of only <window> tokens`)},
	{ContextOverflow, nil, phrase(`\bmax tokens of <window> exceeded`)},
	{ContextOverflow, nil, phrase(`total tokens of image and text exceed max message tokens`)},
	{ContextOverflow, nil, phrase(`number of input tokens exceeds maximum length`)},

	// Other errors, which use words of an overflow.
	{RateLimit, nil, phrase(`throttlingexception|too many requests|rate.?limit|resource.?exhausted|tokens per (min|minute)|\bTPM\b|requests per`)},
	{CreditLimit, nil, phrase(`insufficient.?(quota|credit|balance)`)},
	{OutputCap, nil, phrase("max_(completion_)?tokens['\"`]?( is too large)?: <n> > <n>, which is the maximum allowed number of output")},
	{OutputCap, nil, phrase(`maximum tokens you requested exceeds the model limit|max_(completion_)?tokens.{0,20} too large|invalid value for max_(completion_)?tokens|max_(completion_|output_)?tokens\W{0,2}( \(\d+\))? (exceeds|must be less)`)},
	{PairingBroken, nil, phrase("`?tool_(use|result|call|call_id)s?`?.{0,60}(without|must (be followed|have)|did not have)")},
	{OtherError, nil, phrase(`string too long|physical batch size|images? (is )?too large|image_too_large|\btools[.\[]\d+|\bflagged\b|content.?(filter|policy)|content management policy`)},

	// Overflows, recognized by words that other errors use too.
	{ContextOverflow, nil, phrase(`maximum context length (is|of) <window>`)},
	{ContextOverflow, nil, phrase(`context length is only <window>`)},
	{ContextOverflow, nil, phrase(`context_length_exceeded|model_context_window_exceeded|model_max_prompt_tokens_exceeded|exceed_context_size_error`)},
	{ContextOverflow, nil, phrase(`exceeds? (the |this )?(model's )?(context window|available context size)|input is too long for requested model|prompt is too long`)},
	{ContextOverflow, nil, phrase(`context window exceeds limit|prompt exceeds max length|exceeded (max )?context length|input length exceeds the context length|maximum context length is \d`)},
	{ContextOverflow, nil, phrase(`prompt has too many tokens|input token length too long|greater than the context length|context size has been exceeded`)},
	{ContextOverflow, nil, phrase(`please reduce the length of (the|your) (messages|prompt|input)`)},
	{ContextOverflow, nil, phrase(`上下文.{0,8}(超出|超过|过长)|context.?(length|window).?(is )?exceeded`)},

	{RequestTooLarge, nil, phrase(`request_too_large|request entity too large|request exceeds the maximum size|payload too large|payload size exceeds the limit|total message size <n> exceeds`)},
	{RequestTooLarge, []int{413}, phrase(``)},
	{ContextOverflow, []int{400}, phrase(`^\s*$`)},                                                     // Cerebras reports an overflow with an empty body
	{ContextOverflow, []int{0, 400}, phrase(`^\W*(\w+:\s*)?(400|413) (status code )?\(no body\)\s*$`)}, // the SDKs report an empty body in these words
}

// headerName matches the name of a response header. An error that is printed with
// its headers contains "rate limit" whatever its cause.
var headerName = regexp.MustCompile(`(?i)\bx-[\w-]+|(\w+-)+rate-?limit[\w-]*|\brate-?limit-(limit|remaining|reset|policy)`)

// unescape decodes the JSON escapes that occur in the rules' words.
var unescape = strings.NewReplacer(`\"`, `"`, `\n`, " ", `\u003e`, ">", `\u003c`, "<", `\u0027`, "'")

// maxErrorText is how many bytes of an error are read.
const maxErrorText = 64 << 10

// Read reads a provider's error: its HTTP status (0 if there is none) and its body
// or message. It returns [OtherError] for what it does not recognize. It never
// guesses an overflow, because a compaction cannot be undone by the next call.
func Read(status int, text string) ProviderError {
	text = text[:min(len(text), maxErrorText)]
	text = headerName.ReplaceAllString(unescape.Replace(text), "")
	for _, r := range providerRules {
		if len(r.status) > 0 && !hasStatus(r.status, status) {
			continue
		}
		m := r.text.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		out := ProviderError{Kind: r.kind}
		if out.Overflow() {
			out.Window, out.Tokens = group(r.text, m, "window"), group(r.text, m, "tokens")+group(r.text, m, "more")
		}
		return out
	}
	return ProviderError{Kind: OtherError}
}

func hasStatus(list []int, status int) bool {
	for _, s := range list {
		if s == status {
			return true
		}
	}
	return false
}

// group returns the number in a group; 0 if the group is empty.
func group(re *regexp.Regexp, m []string, name string) uint64 {
	i := re.SubexpIndex(name)
	if i < 0 {
		return 0
	}
	n, err := strconv.ParseUint(strings.NewReplacer(",", "", "_", "").Replace(m[i]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
