package strict

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Rule names what a request breaks.
type Rule string

// The rules. Those that have the same name are the same idea with each
// provider; the words of each are beside the check.
const (
	Form        Rule = "form"        // JSON, members and types as documented
	Size        Rule = "size"        // counts and bytes
	Role        Rule = "role"        // a role that the format has, where it may stand
	First       Rule = "first"       // the first message is the user's
	Alternation Rule = "alternation" // user and assistant take turns
	Empty       Rule = "empty"       // no empty message, no blank text
	Kind        Rule = "kind"        // a kind of content, where it may stand
	CallID      Rule = "call_id"     // ids of calls: form, and each once
	CallName    Rule = "call_name"
	Arguments   Rule = "arguments"  // of a call: JSON, of the right kind
	Unanswered  Rule = "unanswered" // a call without its result directly after it
	Stray       Rule = "stray"      // a result without its call directly before it
	Duplicate   Rule = "duplicate"  // two results of one call
	Order       Rule = "order"      // results before anything else
	Result      Rule = "result"     // content of a result
	Reasoning   Rule = "reasoning"  // thinking: signed, the assistant's, not last
	Media       Rule = "media"      // type, form and size of an image or a document
	Last        Rule = "last"       // what a request may end with
)

// Violation is the first rule that a request breaks.
type Violation struct {
	Rule   Rule
	At     string // as the server names it: messages.3.content.0, messages[3].tool_calls[0]
	Reason string
}

func (v *Violation) Error() string { return fmt.Sprintf("%s: %s (rule %q)", v.At, v.Reason, v.Rule) }

func broken(rule Rule, at, format string, args ...any) error {
	return &Violation{Rule: rule, At: at, Reason: fmt.Sprintf(format, args...)}
}

// Option says what is known of the request besides its messages.
type Option uint8

const (
	// OpenCalls: calls at the very end may lack results, some or all. The
	// request is not sent like this; the agent adds them.
	OpenCalls Option = iota + 1
	// Thinking: the request has thinking enabled (Anthropic), the model checks
	// thought signatures, as Gemini 3 does. Not OpenAI.
	Thinking
	// NoPrefill: the model takes no final assistant message. Not OpenAI.
	NoPrefill
)

// object is a JSON object, each member as its bytes.
type object map[string]jsontext.Value

func (o object) text(name string) (string, bool) {
	v, ok := o[name]
	if !ok || v.Kind() != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err == nil
}

// check refuses members that are not named in allowed, and the lack of those
// with a "!": both are a 400 ("Extra inputs are not permitted", "Field
// required").
func (o object) check(at, allowed string) error {
	names := strings.Fields(allowed)
	for _, name := range slices.Sorted(maps.Keys(o)) { // the first fault is the same each time
		if !slices.Contains(names, name) && !slices.Contains(names, name+"!") {
			return broken(Form, at+"."+name, "extra inputs are not permitted")
		}
	}
	for _, n := range names {
		if name, required := strings.CutSuffix(n, "!"); required && o[name] == nil {
			return broken(Form, at+"."+name, "field required")
		}
	}
	return nil
}

func decode(at string, data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return broken(Form, at, "%v", err)
	}
	return nil
}

func blank(s string) bool {
	return strings.TrimFunc(s, space) == ""
}

// space is what the servers, written in Python, strip.
func space(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

// word reports whether s is 1 to max of [a-zA-Z0-9_-].
func word(s string, max int) bool {
	if s == "" || len(s) > max {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
}
