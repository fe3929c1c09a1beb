package provider

import (
	"context"
	"time"

	"nexus/turns"
)

// Request is one call of a model. The zero value of an optional field leaves it to the
// provider.
type Request struct {
	Model    string          // as the provider calls it
	System   []string        // instructions, in order; rendered before the messages
	Messages []turns.Message // each call followed by its responses, as a context has them

	Tools        []Tool
	ToolChoice   ToolChoice
	Parallel     *bool // several calls in one answer
	Format       Format
	Reasoning    Reasoning
	MaxOutput    uint64 // tokens; 0: the provider's, or where it has none, the row's
	Temperature  *float64
	TopP         *float64
	Presence     *float64
	Frequency    *float64
	TopLogprobs  *int
	Verbosity    string // low, medium, high
	CacheKey     string // groups calls with a common beginning
	User         string // a stable name of the end user, for the provider's abuse checks
	ServiceTier  string
	ExtraHeaders map[string]string // set by configuration, never by a client

	// Once says that the caller repeats the call itself.
	Once bool

	// Hold is called before more of the answer is kept, with about how many bytes of memory
	// that takes until the call ends, from the goroutine of emit. Its first error ends the
	// call, as one of emit does. nil: nobody counts.
	Hold func(bytes int) error
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  turns.Raw // JSON Schema; nil: none
	Strict      *bool
	Raw         turns.Raw // a tool that is no function, as OpenAI's responses name it; other dialects leave it out
}

// ToolChoice bounds which tools are called. The zero value is auto.
type ToolChoice struct {
	Mode    string   // "", auto, required or none
	Name    string   // the one function to call
	Allowed []string // with Mode auto or required: only these
}

// Format is the form of the text. The zero value is plain text.
type Format struct {
	Type        string // "", text, json_object or json_schema
	Name        string
	Description string
	Schema      turns.Raw
	Strict      *bool
}

// Reasoning says how much the model thinks, and what of it comes back.
type Reasoning struct {
	Effort    string // minimal, low, medium, high, as providers have it
	Summary   string // auto, concise, detailed
	Encrypted bool   // opaque reasoning comes back in the part's ext
}

// Kind says what an event adds to a part.
type Kind int

// The kinds of events. A part begins with Begin and ends with End; between them its
// deltas come in order. Parts of one answer may overlap only if the provider's do.
const (
	Begin        Kind = iota + 1 // a part begins: Type, and of a call ID and Name
	Delta                        // text of a text or reasoning part, or of a call's arguments
	RefusalDelta                 // text of a refusal: the part is a text
	SummaryDelta                 // text of a reasoning part's summary number Summary
	End                          // the part is whole: Part is final, ext included
)

// Event is a piece of an answer while it comes.
type Event struct {
	Kind    Kind
	Index   int // of the part in the answer's message
	Type    turns.PartType
	ID      string // of a call
	Name    string // of a call
	Text    string // what a delta adds
	Summary int
	Part    *turns.Part // of End
}

// Answer is what a call returned, whole. Its message is valid by [turns.Message.Validate]:
// role assistant, at least one part, a call's arguments JSON.
type Answer struct {
	Message turns.Message // its FinishReason is one of stop, length, content_filter, tool_call
	Usage   *turns.Usage  // nil: the provider counted nothing
	Refused bool          // some of its text is a refusal
	Details turns.UsageDetails
	Model   string // that answered, as the provider says
	ID      string // the provider's own, for its logs
}

// Client asks one provider.
type Client interface {
	// Generate sends r once, or again where the provider has not begun to answer and says
	// that it may be tried. It calls emit for each event, from one goroutine, and returns
	// when the answer is whole; the first error of emit ends it. Its own errors are *[Error].
	// A cancelled ctx ends the call and returns its cause.
	Generate(ctx context.Context, r *Request, emit func(Event) error) (*Answer, error)
}

// Error is why a call failed. Its text holds no key and no content of the request.
type Error struct {
	Status     int    // of the provider's reply; 0: none came
	Code       string // rate_limit_exceeded, context_length_exceeded, invalid_request, server_error, model_not_found, timeout, lost …
	Message    string // in the provider's words, bounded and without keys
	Param      string // of the request, where the provider names it
	RetryAfter time.Duration
	Again      bool // the provider refused it now, and may answer the same request later
	Lost       bool // the request was sent and the answer did not arrive whole: the provider may have billed it
}

func (e *Error) Error() string { return e.Message }
