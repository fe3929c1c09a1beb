package responses

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
	Key       string `json:"-"` // the header Idempotency-Key
	digest    string // of the request, for Key
	done      func() // gives back the memory that the request takes; nil: nothing
	// history are messages before Input that no session has: those of an unstored
	// response that the same WebSocket continues.
	history []turns.Message
	// after is the answer in Session that the same WebSocket continues, of an unstored response
	// that was recorded.
	after turns.ID
	// session is the session that the request goes on in, of a conversation; zero: none.
	session turns.ID
	// compacts says that context_management asks for a compaction, of a context of more than
	// compactAt tokens; 0: of one that the model's window does not hold.
	compacts  bool
	compactAt uint64
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

// stored reports whether the response can be retrieved. It is so unless the request says no.
func (r *CreateRequest) stored() bool { return r.Store == nil || *r.Store }

// recorded reports whether the request becomes turns.
func (r *CreateRequest) recorded() bool {
	return r.stored() || r.Session != "" || !r.session.IsZero() || !isNull(r.Conversation)
}

func (r *CreateRequest) streams() bool      { return r.Stream != nil && *r.Stream }
func (r *CreateRequest) inBackground() bool { return r.Background != nil && *r.Background }

// mayDrop reports whether the window is the policy's business: compactions keep the context
// within it. Else a context that is too long is refused.
func (r *CreateRequest) mayDrop() bool {
	return r.Truncation != nil && *r.Truncation == "auto" || !r.session.IsZero()
}

func (r *CreateRequest) includes(what string) bool { return contains(r.Include, what) }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// parseCreate reads the body of a request and checks what does not need the ledger.
func parseCreate(body []byte) (*CreateRequest, error) {
	r := new(CreateRequest)
	if err := readJSON(body, r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	d, err := digestOf(body)
	r.digest = d
	return r, err
}

// readJSON reads a body. One that nests deeper than the ledger allows is refused here: what
// is repeated of it stands deeper in a turn or an event, where the encoder would fail.
func readJSON(body []byte, to any) error {
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
				return withCode("invalid_json", invalid("", "The body is nested deeper than %d levels.", turns.MaxNesting))
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
		return withCode("invalid_type", invalid(clip(param), "The member '%s' has another type than a %v.", clip(param), s.GoType))
	}
	return withCode("invalid_json", invalid("", "The body is not a JSON object, or has a member twice."))
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
	return hashOf(b), nil
}

// Limits of members.
const (
	maxMetadata    = 16
	maxMetaKey     = 64
	maxMetaValue   = 512
	maxTools       = 1024
	maxIdentifier  = 64
	maxTopLogprobs = 20
	maxKey         = 255 // bytes of an Idempotency-Key
)

func (r *CreateRequest) check() error {
	if r.Model == "" {
		return withCode("missing_required_parameter", invalid("model", "The member 'model' is missing."))
	}
	if len(r.Model) > turns.MaxName {
		return invalid("model", "The name of a model has at most %d bytes.", turns.MaxName)
	}
	if r.PreviousResponseID != nil && r.Conversation.Kind() != 0 && r.Conversation.Kind() != 'n' {
		return withCode("mutually_exclusive_parameters", invalid("previous_response_id", "previous_response_id and conversation can't be given together."))
	}
	for _, b := range []struct {
		name     string
		v        *float64
		min, max float64
	}{{"temperature", r.Temperature, 0, 2}, {"top_p", r.TopP, 0, 1}, {"presence_penalty", r.PresencePenalty, -2, 2}, {"frequency_penalty", r.FrequencyPenalty, -2, 2}} {
		if b.v != nil && !(*b.v >= b.min && *b.v <= b.max) {
			return invalid(b.name, "%s is from %v to %v.", b.name, b.min, b.max)
		}
	}
	if n := r.TopLogprobs; n != nil && (*n < 0 || *n > maxTopLogprobs) {
		return invalid("top_logprobs", "top_logprobs is from 0 to %d.", maxTopLogprobs)
	}
	for _, w := range []struct {
		name string
		v    *string
		ok   []string
	}{{"truncation", r.Truncation, []string{"auto", "disabled"}}, {"service_tier", r.ServiceTier, []string{"auto", "default", "flex", "priority", "scale"}}} {
		if w.v != nil && !contains(w.ok, *w.v) {
			return invalid(w.name, "%s is one of %s.", w.name, strings.Join(w.ok, ", "))
		}
	}
	for name, v := range map[string]*string{"safety_identifier": r.SafetyIdentifier, "prompt_cache_key": r.PromptCacheKey} {
		if v != nil && len(*v) > maxIdentifier {
			return invalid(name, "%s has at most %d bytes.", name, maxIdentifier)
		}
	}
	if r.inBackground() && !r.stored() {
		return invalid("background", "A background response needs store: true.")
	}
	if len(r.Tools) > maxTools {
		return invalid("tools", "There are at most %d tools.", maxTools)
	}
	if _, err := r.tools(); err != nil {
		return err
	}
	if _, err := r.toolChoice(); err != nil {
		return err
	}
	if r.Text != nil && r.Text.Format != nil && !contains([]string{"text", "json_object", "json_schema"}, r.Text.Format.Type) {
		return invalid("text.format.type", "text.format.type is text, json_object or json_schema.")
	}
	if err := r.readContextManagement(); err != nil {
		return err
	}
	return r.checkMetadata()
}

func (r *CreateRequest) checkMetadata() error {
	switch r.Metadata.Kind() {
	case 0, 'n':
		return nil
	}
	var m map[string]string
	if json.Unmarshal(r.Metadata, &m) != nil || len(m) > maxMetadata {
		return invalid("metadata", "metadata is an object of at most %d members, each a string.", maxMetadata)
	}
	for k, v := range m {
		if len(k) > maxMetaKey || len(v) > maxMetaValue {
			return invalid("metadata", "A name in metadata has at most %d bytes, a value %d.", maxMetaKey, maxMetaValue)
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
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Model              string             `json:"model"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Instructions       *string            `json:"instructions"`
	Output             []Item             `json:"output"`
	Error              *responseError     `json:"error"`
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
	Usage              *usage             `json:"usage"`
	MaxOutputTokens    *uint64            `json:"max_output_tokens"`
	MaxToolCalls       *uint64            `json:"max_tool_calls"`
	Store              bool               `json:"store"`
	Background         bool               `json:"background"`
	ServiceTier        string             `json:"service_tier"`
	Metadata           turns.Raw          `json:"metadata"`
	SafetyIdentifier   *string            `json:"safety_identifier"`
	PromptCacheKey     *string            `json:"prompt_cache_key"`
	Conversation       *conversationRef   `json:"conversation,omitzero"`
	User               *string            `json:"user,omitzero"`
	Nexus              *Nexus             `json:"nexus,omitzero"`
}

type conversationRef struct {
	ID string `json:"id"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Nexus says where a response is in the ledger. Turn is that of the answer, while there is
// none that of the request.
type Nexus struct {
	Session     turns.ID `json:"session"`
	Turn        turns.ID `json:"turn"`
	Depth       uint64   `json:"depth"`
	ForkedFrom  *place   `json:"forked_from,omitzero"`
	Compaction  turns.ID `json:"compaction,omitzero"` // in force in the context of the call
	LostAnswers int      `json:"lost_answers,omitzero"`
}

type place struct {
	Session turns.ID `json:"session"`
	Turn    turns.ID `json:"turn"`
}

type usage struct {
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

func usageOf(u *turns.Usage, d turns.UsageDetails) *usage {
	if u == nil {
		return nil
	}
	out := &usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	out.InputDetails.Cached, out.OutputDetails.Reasoning = u.CacheRead, d.Reasoning
	return out
}

// The states of a response.
const (
	queued     = "queued"
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
	cancelled  = "cancelled"
)

const (
	responsePrefix = "resp_"
	idLength       = 26
)

// responseID is the id of the response whose request is the turn of r.
func responseID(r turns.Ref) string { return responsePrefix + r.Session.String() + r.Turn.String() }

// parseResponseID is the inverse of [ResponseID].
func parseResponseID(id string) (r turns.Ref, ok bool) {
	rest, ok := strings.CutPrefix(id, responsePrefix)
	if !ok || len(rest) != 2*idLength {
		return r, false
	}
	var err1, err2 error
	r.Session, err1 = turns.ParseID(rest[:idLength])
	r.Turn, err2 = turns.ParseID(rest[idLength:])
	return r, err1 == nil && err2 == nil && !r.Session.IsZero() && !r.Turn.IsZero()
}

// answerID is the id of the turn that answers the request of a turn. Whoever stores the
// answer, and however often, it is stored once.
func answerID(request turns.ID) turns.ID {
	return turns.DeriveID(request.Time(), "responses answer", request.String())
}

// keyIDs are the ids that a request with an Idempotency-Key always has: of its session, if
// it begins one, of the fork that it may make, of its turn, and of the event that holds what it asks for.
type keyIDs struct{ session, fork, turn, claim turns.ID }

func deriveKeyIDs(tenant, agent, key string) keyIDs {
	of := func(what string) turns.ID {
		return turns.DeriveID(time.Unix(0, 0), "responses "+what, tenant, agent, key)
	}
	return keyIDs{of("session"), of("fork"), of("turn"), of("claim")}
}

// echo returns the members that a response repeats of its request.
func (r *CreateRequest) echo(id string, now time.Time) *Response {
	out := &Response{
		ID: id, Object: "response", CreatedAt: now.Unix(), Status: inProgress, Model: r.Model, PreviousResponseID: r.PreviousResponseID, Instructions: r.Instructions,
		Output: []Item{}, Tools: []turns.Raw{}, ToolChoice: turns.Raw(`"auto"`), Truncation: "disabled", ParallelToolCalls: true, Text: turns.Raw(`{"format":{"type":"text"}}`),
		TopP: 1, Temperature: 1, Reasoning: turns.Raw(`{"effort":null,"summary":null}`), MaxOutputTokens: r.MaxOutputTokens, MaxToolCalls: r.MaxToolCalls,
		Store: r.stored(), Background: r.inBackground(), ServiceTier: "default", Metadata: turns.Raw(`{}`), SafetyIdentifier: r.SafetyIdentifier, PromptCacheKey: r.PromptCacheKey, User: r.User,
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, echoTool(t))
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
		out.Reasoning = encode(map[string]any{"effort": r.Reasoning.Effort, "summary": r.Reasoning.Summary})
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
	return encode(m)
}

// fill sets what a request states.
func fill[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

// encode is the JSON of what this package makes; it can't fail.
func encode(v any) turns.Raw {
	b, err := turns.EncodeJSON(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}

// isNull reports whether v is absent or null.
func isNull(v turns.Raw) bool { return len(v) == 0 || bytes.Equal(v, []byte("null")) }

// minThreshold is the least compact_threshold.
const minThreshold = 1000

// readContextManagement reads context_management.
func (r *CreateRequest) readContextManagement() error {
	const name = "context_management"
	if isNull(r.ContextManagement) {
		return nil
	}
	var entries []turns.Raw
	if r.ContextManagement.Kind() != '[' || json.Unmarshal(r.ContextManagement, &entries) != nil {
		return withCode("invalid_type", invalid(name, "context_management is a list."))
	}
	if len(entries) == 0 {
		return nil
	}
	if len(entries) > 1 {
		return invalid(name, "context_management has at most one entry.")
	}
	var entry struct {
		Type      turns.Raw `json:"type"`
		Threshold turns.Raw `json:"compact_threshold"`
	}
	if entries[0].Kind() != '{' || json.Unmarshal(entries[0], &entry) != nil {
		return withCode("invalid_type", invalid(name+"[0]", "An entry of context_management is an object."))
	}
	kind, isText := entry.Type.Text()
	switch {
	case isNull(entry.Type):
		return withCode("missing_required_parameter", invalid(name+"[0].type", "The member 'type' is missing."))
	case !isText:
		return withCode("invalid_type", invalid(name+"[0].type", "type is a text."))
	case kind != "compaction":
		return invalid(name+"[0].type", "The type '%s' is not supported; compaction is.", clip(kind))
	}
	if r.compacts = true; isNull(entry.Threshold) {
		return nil
	}
	var n float64
	if entry.Threshold.Kind() != '0' || json.Unmarshal(entry.Threshold, &n) != nil {
		return withCode("invalid_type", invalid(name+"[0].compact_threshold", "compact_threshold is a number of tokens."))
	}
	if n < minThreshold || n != math.Trunc(n) {
		return invalid(name+"[0].compact_threshold", "compact_threshold is a whole number of at least %d.", minThreshold)
	}
	r.compactAt = uint64(min(n, 1<<53))
	return nil
}

// threshold is how many tokens a context may have before it is compacted. Without one of the
// request it is what the model holds.
func (r *CreateRequest) threshold(budget uint64, known bool) uint64 {
	switch {
	case r.compactAt > 0:
		return r.compactAt
	case known:
		return budget
	}
	return math.MaxUint64
}

const conversationPrefix = "conv_"

// readHeader reads what the header says of the session.
func (r *CreateRequest) readHeader(h http.Header) error {
	r.Session, r.InputMode = h.Get("X-Nexus-Session"), h.Get("X-Nexus-Input")
	if r.InputMode != "" && r.InputMode != inputWhole && r.InputMode != inputNew {
		return invalid("x-nexus-input", "The header x-nexus-input is %s or %s.", inputWhole, inputNew)
	}
	return nil
}

// How a request gives its input to a session that it names: the header x-nexus-input.
const (
	inputWhole = "whole" // all that the model shall read
	inputNew   = "new"   // what comes after the session's head
)

// sendsWhole reports whether the input is the whole conversation. Where the request does not
// say so, one that stores nothing and repeats answers means it (sure); else only an input that
// begins with what the session has, answers too, is taken for it.
func (r *CreateRequest) sendsWhole(in *input) (whole, sure bool) {
	if r.InputMode != "" && r.after.IsZero() {
		return r.InputMode == inputWhole, true
	}
	answers := slices.ContainsFunc(in.messages, func(m turns.Message) bool { return m.Role == turns.Assistant })
	return answers || !r.after.IsZero(), answers && !r.stored() || !r.after.IsZero()
}
