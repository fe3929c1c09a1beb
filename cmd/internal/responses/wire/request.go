package wire

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// CreateRequest is the body of POST /v1/responses. Members that are not known are
// ignored: clients send those of other servers.
type CreateRequest struct {
	Model              string          `json:"model"`
	Input              turns.Raw       `json:"input"`
	PreviousResponseID *string         `json:"previous_response_id"`
	Conversation       turns.Raw       `json:"conversation"`
	Instructions       *string         `json:"instructions"`
	Include            []string        `json:"include"`
	Tools              []turns.Raw     `json:"tools"`
	ToolChoice         turns.Raw       `json:"tool_choice"`
	Metadata           turns.Raw       `json:"metadata"`
	Text               *textParam      `json:"text"`
	Temperature        *float64        `json:"temperature"`
	TopP               *float64        `json:"top_p"`
	PresencePenalty    *float64        `json:"presence_penalty"`
	FrequencyPenalty   *float64        `json:"frequency_penalty"`
	TopLogprobs        *int            `json:"top_logprobs"`
	ParallelToolCalls  *bool           `json:"parallel_tool_calls"`
	Stream             *bool           `json:"stream"`
	Background         *bool           `json:"background"`
	MaxOutputTokens    *uint64         `json:"max_output_tokens"`
	MaxToolCalls       *uint64         `json:"max_tool_calls"`
	Reasoning          *reasoningParam `json:"reasoning"`
	SafetyIdentifier   *string         `json:"safety_identifier"`
	PromptCacheKey     *string         `json:"prompt_cache_key"`
	User               *string         `json:"user"`
	Truncation         *string         `json:"truncation"`
	Store              *bool           `json:"store"`
	ServiceTier        *string         `json:"service_tier"`
	ContextManagement  turns.Raw       `json:"context_management"`

	// What is not in the body.

	Session   string `json:"-"` // the header x-nexus-session: id or label of the session to append to
	InputMode string `json:"-"` // the header x-nexus-input: whole, new; "" is for the server to find
	Work      Work   `json:"-"` // where its client works
	Key       string `json:"-"` // the header Idempotency-Key
	Digest    string `json:"-"` // of the request, for Key
	Done      func() `json:"-"` // gives back the memory that the request takes; nil: nothing
	// history are messages before Input that no session has: those of an unstored
	// response that the same WebSocket continues.
	History []turns.Message `json:"-"`
	// after is the answer in Session that the same WebSocket continues, of an unstored response
	// that was recorded.
	After turns.ID `json:"-"`
	// session is the session that the request goes on in, of a conversation; zero: none.
	SessionID turns.ID `json:"-"`
	// compacts says that context_management asks for a compaction, of a context of more than
	// compactAt tokens; 0: of one that the model's window does not hold.
	Compacts  bool   `json:"-"`
	compactAt uint64 `json:"-"`
}

type textParam struct {
	Format *struct {
		Type        string    `json:"type"`
		Name        string    `json:"name"`
		Description *string   `json:"description"`
		Schema      turns.Raw `json:"schema"`
		Strict      *bool     `json:"strict"`
	} `json:"format"`
	Verbosity *string `json:"verbosity"`
}

type reasoningParam struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

// Stored reports whether the response can be retrieved. It is so unless the request says no.
func (r *CreateRequest) Stored() bool { return r.Store == nil || *r.Store }

// Recorded reports whether the request becomes turns.
func (r *CreateRequest) Recorded() bool {
	return r.Stored() || r.Session != "" || !r.SessionID.IsZero() || !IsNull(r.Conversation)
}

func (r *CreateRequest) Streams() bool      { return r.Stream != nil && *r.Stream }
func (r *CreateRequest) InBackground() bool { return r.Background != nil && *r.Background }

// MayDrop reports whether the window is the policy's business: compactions keep the context
// within it. Else a context that is too long is refused.
func (r *CreateRequest) MayDrop() bool {
	return r.Truncation != nil && *r.Truncation == "auto" || !r.SessionID.IsZero()
}

func (r *CreateRequest) Includes(what string) bool { return Contains(r.Include, what) }

func Contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// ParseCreate reads the body of a request and checks what does not need the ledger.
func ParseCreate(body []byte) (*CreateRequest, error) {
	r := new(CreateRequest)
	if err := ReadJSON(body, r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	d, err := digestOf(body)
	r.Digest = d
	return r, err
}

// ReadJSON reads a body. One that nests deeper than the ledger allows is refused here: what
// is repeated of it stands deeper in a turn or an event, where the encoder would fail.
func ReadJSON(body []byte, to any) error {
	if err := json.Unmarshal(body, to); err != nil {
		return bodyFault(err)
	}
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ { // which is valid JSON
		switch c := body[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > turns.MaxNesting {
				return WithCode("invalid_json", Invalid("", "The body is nested deeper than %d levels.", turns.MaxNesting))
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// bodyFault is the refusal of a body that can't be read. It quotes nothing of it but the
// name of a member.
func bodyFault(err error) *Error {
	param := ""
	var s *json.SemanticError
	if asSemantic(err, &s) {
		param = strings.ReplaceAll(strings.TrimPrefix(string(s.JSONPointer), "/"), "/", ".")
		return WithCode("invalid_type", Invalid(Clip(param), "The member '%s' has another type than a %v.", Clip(param), s.GoType))
	}
	return WithCode("invalid_json", Invalid("", "The body is not a JSON object, or has a member twice."))
}

// digestOf is the hash of what a request asks for; whether it is streamed does not count.
func digestOf(body []byte) (string, error) {
	var m map[string]turns.Raw
	if err := json.Unmarshal(body, &m); err != nil {
		return "", bodyFault(err)
	}
	delete(m, "stream")
	delete(m, "stream_options")
	b, err := turns.EncodeJSON(m)
	if err == nil {
		b, err = turns.CanonicalJSON(b)
	}
	if err != nil {
		return "", bodyFault(err)
	}
	return HashOf(b), nil
}

// Limits of members.
const (
	maxMetadata    = 16
	maxMetaKey     = 64
	maxMetaValue   = 512
	maxTools       = 1024
	MaxIdentifier  = 64
	maxTopLogprobs = 20
	MaxKey         = 255 // bytes of an Idempotency-Key
)

func (r *CreateRequest) check() error {
	if r.Model == "" {
		return WithCode("missing_required_parameter", Invalid("model", "The member 'model' is missing."))
	}
	if len(r.Model) > turns.MaxName {
		return Invalid("model", "The name of a model has at most %d bytes.", turns.MaxName)
	}
	if r.PreviousResponseID != nil && r.Conversation.Kind() != 0 && r.Conversation.Kind() != 'n' {
		return WithCode("mutually_exclusive_parameters", Invalid("previous_response_id", "previous_response_id and conversation can't be given together."))
	}
	for _, b := range []struct {
		name     string
		v        *float64
		min, max float64
	}{{"temperature", r.Temperature, 0, 2}, {"top_p", r.TopP, 0, 1}, {"presence_penalty", r.PresencePenalty, -2, 2}, {"frequency_penalty", r.FrequencyPenalty, -2, 2}} {
		if b.v != nil && !(*b.v >= b.min && *b.v <= b.max) {
			return Invalid(b.name, "%s is from %v to %v.", b.name, b.min, b.max)
		}
	}
	if n := r.TopLogprobs; n != nil && (*n < 0 || *n > maxTopLogprobs) {
		return Invalid("top_logprobs", "top_logprobs is from 0 to %d.", maxTopLogprobs)
	}
	for _, w := range []struct {
		name string
		v    *string
		ok   []string
	}{{"truncation", r.Truncation, []string{"auto", "disabled"}}, {"service_tier", r.ServiceTier, []string{"auto", "default", "flex", "priority", "scale"}}} {
		if w.v != nil && !Contains(w.ok, *w.v) {
			return Invalid(w.name, "%s is one of %s.", w.name, strings.Join(w.ok, ", "))
		}
	}
	for name, v := range map[string]*string{"safety_identifier": r.SafetyIdentifier, "prompt_cache_key": r.PromptCacheKey} {
		if v != nil && len(*v) > MaxIdentifier {
			return Invalid(name, "%s has at most %d bytes.", name, MaxIdentifier)
		}
	}
	if r.InBackground() && !r.Stored() {
		return Invalid("background", "A background response needs store: true.")
	}
	if len(r.Tools) > maxTools {
		return Invalid("tools", "There are at most %d tools.", maxTools)
	}
	if _, err := r.tools(); err != nil {
		return err
	}
	if _, err := r.toolChoice(); err != nil {
		return err
	}
	if r.Text != nil && r.Text.Format != nil && !Contains([]string{"text", "json_object", "json_schema"}, r.Text.Format.Type) {
		return Invalid("text.format.type", "text.format.type is text, json_object or json_schema.")
	}
	if err := r.readContextManagement(); err != nil {
		return err
	}
	return r.CheckMetadata()
}

func (r *CreateRequest) CheckMetadata() error {
	switch r.Metadata.Kind() {
	case 0, 'n':
		return nil
	}
	var m map[string]string
	if json.Unmarshal(r.Metadata, &m) != nil || len(m) > maxMetadata {
		return Invalid("metadata", "metadata is an object of at most %d members, each a string.", maxMetadata)
	}
	for k, v := range m {
		if len(k) > maxMetaKey || len(v) > maxMetaValue {
			return Invalid("metadata", "A name in metadata has at most %d bytes, a value %d.", maxMetaKey, maxMetaValue)
		}
	}
	return nil
}

// Response is a response with its 30 members, and what this server adds.
type Response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	CompletedAt        *int64             `json:"completed_at"`
	Status             string             `json:"status"`
	IncompleteDetails  *IncompleteDetails `json:"incomplete_details"`
	Model              string             `json:"model"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Instructions       *string            `json:"instructions"`
	Output             []Item             `json:"output"`
	Error              *ResponseError     `json:"error"`
	Tools              []turns.Raw        `json:"tools"`
	ToolChoice         turns.Raw          `json:"tool_choice"`
	Truncation         string             `json:"truncation"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	Text               turns.Raw          `json:"text"`
	TopP               float64            `json:"top_p"`
	PresencePenalty    float64            `json:"presence_penalty"`
	FrequencyPenalty   float64            `json:"frequency_penalty"`
	TopLogprobs        int                `json:"top_logprobs"`
	Temperature        float64            `json:"temperature"`
	Reasoning          turns.Raw          `json:"reasoning"`
	Usage              *Usage             `json:"usage"`
	MaxOutputTokens    *uint64            `json:"max_output_tokens"`
	MaxToolCalls       *uint64            `json:"max_tool_calls"`
	Store              bool               `json:"store"`
	Background         bool               `json:"background"`
	ServiceTier        string             `json:"service_tier"`
	Metadata           turns.Raw          `json:"metadata"`
	SafetyIdentifier   *string            `json:"safety_identifier"`
	PromptCacheKey     *string            `json:"prompt_cache_key"`
	Conversation       *ConversationRef   `json:"conversation,omitzero"`
	User               *string            `json:"user,omitzero"`
	Nexus              *Nexus             `json:"nexus,omitzero"`
}

type ConversationRef struct {
	ID string `json:"id"`
}

type IncompleteDetails struct {
	Reason string `json:"reason"`
}

type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Nexus says where a response is in the ledger. Turn is that of the answer, while there is
// none that of the request.
type Nexus struct {
	Session     turns.ID `json:"session"`
	Turn        turns.ID `json:"turn"`
	Depth       uint64   `json:"depth"`
	ForkedFrom  *Place   `json:"forked_from,omitzero"`
	Compaction  turns.ID `json:"compaction,omitzero"` // in force in the context of the call
	LostAnswers int      `json:"lost_answers,omitzero"`
}

type Place struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
}

type Usage struct {
	InputTokens  uint64 `json:"input_tokens"`
	InputDetails struct {
		Cached uint64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  uint64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning uint64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens uint64 `json:"total_tokens"`
}

func UsageOf(u *turns.Usage, d turns.UsageDetails) *Usage {
	if u == nil {
		return nil
	}
	out := &Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	out.InputDetails.Cached, out.OutputDetails.Reasoning = u.CacheRead, d.Reasoning
	return out
}

// The states of a response.
const (
	Queued     = "queued"
	InProgress = "in_progress"
	Completed  = "completed"
	Incomplete = "incomplete"
	Failed     = "failed"
	Cancelled  = "cancelled"
)

const (
	ResponsePrefix = "resp_"
	idLength       = 26
)

// ResponseID is the id of the response whose request is the turn of r.
func ResponseID(r turns.Ref) string { return ResponsePrefix + r.Session.String() + r.Turn.String() }

// ParseResponseID is the inverse of [ResponseID].
func ParseResponseID(id string) (r turns.Ref, ok bool) {
	rest, ok := strings.CutPrefix(id, ResponsePrefix)
	if !ok || len(rest) != 2*idLength {
		return r, false
	}
	var err1, err2 error
	r.Session, err1 = turns.ParseID(rest[:idLength])
	r.Turn, err2 = turns.ParseID(rest[idLength:])
	return r, err1 == nil && err2 == nil && !r.Session.IsZero() && !r.Turn.IsZero()
}

// AnswerID is the id of the turn that answers the request of a turn. Whoever stores the
// answer, and however often, it is stored once.
func AnswerID(request turns.ID) turns.ID {
	return turns.DeriveID(request.Time(), "responses answer", request.String())
}

// KeyIDs are the ids that a request with an Idempotency-Key always has: of its session, if
// it begins one, of the fork that it may make, of its turn, and of the event that holds what it asks for.
type KeyIDs struct{ Session, Fork, Turn, Claim turns.ID }

func DeriveKeyIDs(tenant, agent, key string) KeyIDs {
	of := func(what string) turns.ID {
		return turns.DeriveID(time.Unix(0, 0), "responses "+what, tenant, agent, key)
	}
	return KeyIDs{of("session"), of("fork"), of("turn"), of("claim")}
}

// Echo returns the members that a response repeats of its request.
func (r *CreateRequest) Echo(id string, now time.Time) *Response {
	out := &Response{
		ID: id, Object: "response", CreatedAt: now.Unix(), Status: InProgress, Model: r.Model, PreviousResponseID: r.PreviousResponseID, Instructions: r.Instructions,
		Output: []Item{}, Tools: []turns.Raw{}, ToolChoice: turns.Raw(`"auto"`), Truncation: "disabled", ParallelToolCalls: true, Text: turns.Raw(`{"format":{"type":"text"}}`),
		TopP: 1, Temperature: 1, Reasoning: turns.Raw(`{"effort":null,"summary":null}`), MaxOutputTokens: r.MaxOutputTokens, MaxToolCalls: r.MaxToolCalls,
		Store: r.Stored(), Background: r.InBackground(), ServiceTier: "default", Metadata: turns.Raw(`{}`), SafetyIdentifier: r.SafetyIdentifier, PromptCacheKey: r.PromptCacheKey, User: r.User,
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, EchoTool(t))
	}
	if c, err := r.toolChoice(); err == nil && c.echo != nil {
		out.ToolChoice = c.echo
	}
	fill(&out.Truncation, r.Truncation)
	fill(&out.ParallelToolCalls, r.ParallelToolCalls)
	fill(&out.TopP, r.TopP)
	fill(&out.Temperature, r.Temperature)
	fill(&out.PresencePenalty, r.PresencePenalty)
	fill(&out.FrequencyPenalty, r.FrequencyPenalty)
	fill(&out.TopLogprobs, r.TopLogprobs)
	if r.ServiceTier != nil && *r.ServiceTier != "auto" {
		out.ServiceTier = *r.ServiceTier
	}
	if r.Metadata.Kind() == '{' {
		out.Metadata = r.Metadata
	}
	if r.Reasoning != nil {
		out.Reasoning = Encode(map[string]any{"effort": r.Reasoning.Effort, "summary": r.Reasoning.Summary})
	}
	if r.Text != nil {
		out.Text = r.Text.echo()
	}
	return out
}

func (t *textParam) echo() turns.Raw {
	format := map[string]any{"type": "text"}
	if f := t.Format; f != nil {
		format["type"] = f.Type
		if f.Type == "json_schema" {
			strict := f.Strict != nil && *f.Strict
			format["name"], format["description"], format["schema"], format["strict"] = f.Name, f.Description, f.Schema, strict
		}
	}
	m := map[string]any{"format": format}
	if t.Verbosity != nil {
		m["verbosity"] = *t.Verbosity
	}
	return Encode(m)
}

// fill sets what a request states.
func fill[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// Encode is the JSON of what this package makes; it can't fail.
func Encode(v any) turns.Raw {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

// IsNull reports whether v is absent or null.
func IsNull(v turns.Raw) bool { return len(v) == 0 || bytes.Equal(v, []byte("null")) }

// minThreshold is the least compact_threshold.
const minThreshold = 1000

// readContextManagement reads context_management.
func (r *CreateRequest) readContextManagement() error {
	const name = "context_management"
	if IsNull(r.ContextManagement) {
		return nil
	}
	var entries []turns.Raw
	if r.ContextManagement.Kind() != '[' || json.Unmarshal(r.ContextManagement, &entries) != nil {
		return WithCode("invalid_type", Invalid(name, "context_management is a list."))
	}
	if len(entries) == 0 {
		return nil
	}
	if len(entries) > 1 {
		return Invalid(name, "context_management has at most one entry.")
	}
	var entry struct {
		Type      turns.Raw `json:"type"`
		Threshold turns.Raw `json:"compact_threshold"`
	}
	if entries[0].Kind() != '{' || json.Unmarshal(entries[0], &entry) != nil {
		return WithCode("invalid_type", Invalid(name+"[0]", "An entry of context_management is an object."))
	}
	kind, isText := entry.Type.Text()
	switch {
	case IsNull(entry.Type):
		return WithCode("missing_required_parameter", Invalid(name+"[0].type", "The member 'type' is missing."))
	case !isText:
		return WithCode("invalid_type", Invalid(name+"[0].type", "type is a text."))
	case kind != "compaction":
		return Invalid(name+"[0].type", "The type '%s' is not supported; compaction is.", Clip(kind))
	}
	if r.Compacts = true; IsNull(entry.Threshold) {
		return nil
	}
	var n float64
	if entry.Threshold.Kind() != '0' || json.Unmarshal(entry.Threshold, &n) != nil {
		return WithCode("invalid_type", Invalid(name+"[0].compact_threshold", "compact_threshold is a number of tokens."))
	}
	if n < minThreshold || n != math.Trunc(n) {
		return Invalid(name+"[0].compact_threshold", "compact_threshold is a whole number of at least %d.", minThreshold)
	}
	r.compactAt = uint64(min(n, 1<<53))
	return nil
}

// Threshold is how many tokens a context may have before it is compacted. Without one of the
// request it is what the model holds.
func (r *CreateRequest) Threshold(budget uint64, known bool) uint64 {
	switch {
	case r.compactAt > 0:
		return r.compactAt
	case known:
		return budget
	}
	return math.MaxUint64
}

const ConversationPrefix = "conv_"

// ReadHeader reads what the header says of the session.
func (r *CreateRequest) ReadHeader(h http.Header) error {
	r.Session, r.InputMode = h.Get("X-Nexus-Session"), h.Get("X-Nexus-Input")
	if r.InputMode != "" && r.InputMode != inputWhole && r.InputMode != inputNew {
		return Invalid("x-nexus-input", "The header x-nexus-input is %s or %s.", inputWhole, inputNew)
	}
	var err error
	r.Work, err = readWork(h)
	return err
}

// How a request gives its input to a session that it names: the header x-nexus-input.
const (
	inputWhole = "whole" // all that the model shall read
	inputNew   = "new"   // what comes after the session's head
)

// SendsWhole reports whether the input is the whole conversation. Where the request does not
// say so, one that stores nothing and repeats answers means it (sure); else only an input that
// begins with what the session has, answers too, is taken for it.
func (r *CreateRequest) SendsWhole(in *Input) (whole, sure bool) {
	if r.InputMode != "" && r.After.IsZero() {
		return r.InputMode == inputWhole, true
	}
	answers := slices.ContainsFunc(in.Messages, func(m turns.Message) bool { return m.Role == turns.Assistant })
	return answers || !r.After.IsZero(), answers && !r.Stored() || !r.After.IsZero()
}
