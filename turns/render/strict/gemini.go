package strict

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of Gemini's generateContent.
const (
	geminiRequest = 20 << 20 // bytes. "Request payload size exceeds the limit: 20971520 bytes."
	geminiName    = 64       // see geminiWord
)

// Gemini checks the systemInstruction member (nil: none) and the contents of a
// generateContent request. The error is a *[Violation].
func Gemini(system, contents []byte, opts ...Option) error {
	c := geminiCheck{opts: opts}
	if n := len(system) + len(contents); n > geminiRequest {
		return broken(Size, "request", "%d bytes, the maximum is %d", n, geminiRequest)
	}
	if system != nil && jsontext.Value(system).Kind() != 'n' { // null is none, as protobuf's JSON reads it
		var s object
		if err := decode("systemInstruction", system, &s); err != nil {
			return err
		}
		parts, err := geminiParts("systemInstruction", s)
		if err != nil {
			return err
		}
		for i, p := range parts {
			if p["text"] == nil { // API reference, systemInstruction: "Currently, text only."
				return broken(Kind, fmt.Sprintf("systemInstruction.parts[%d]", i), "the system instruction is text")
			}
		}
	}
	var list []object
	if err := decode("contents", contents, &list); err != nil {
		return err
	}
	if len(list) == 0 { // "GenerateContentRequest.contents: contents is not specified"
		return broken(Size, "contents", "empty array")
	}
	for i, m := range list {
		if err := c.content(i, m); err != nil {
			return err
		}
	}
	return c.end(len(list))
}

type geminiCheck struct {
	opts     []Option
	role     string
	answers  bool     // the content before holds responses
	open     []object // calls of the content before that wait for a response
	unsigned string   // where the first step of this turn begins without a signature
}

func (c *geminiCheck) content(i int, m object) error {
	at := fmt.Sprintf("contents[%d]", i)
	role, _ := m.text("role")
	switch {
	case role != "user" && role != "model": // "Please use a valid role: user, model."
		return broken(Role, at+".role", "unexpected role %s", m["role"])
	// A call first: "Please ensure that function call turn comes immediately after
	// a user turn or after a function response turn." (gemini-cli#11814)
	case i == 0 && role != "user":
		return broken(First, at, "the first content must be the user's")
	// "Please ensure that multiturn requests alternate between user and model."
	// (autogen#2900, generative-ai-docs#209; newer servers take two of the user's).
	// Responses are a turn of their own, which the user's may follow.
	case role == c.role && !c.answers:
		return broken(Alternation, at, "two contents of role %s in a row", role)
	}
	parts, err := geminiParts(at, m)
	if err != nil {
		return err
	}
	var calls, responses []object
	for j, p := range parts {
		at := fmt.Sprintf("%s.parts[%d]", at, j)
		switch {
		case p["functionCall"] != nil:
			if role != "model" {
				return broken(Kind, at, "a functionCall can't stand in a content of the user's")
			}
			f, err := geminiFunction(at+".functionCall", p["functionCall"], "args", Arguments)
			if err != nil {
				return err
			}
			// "Function call is missing a thought_signature in functionCall parts." API
			// docs, "Thought Signatures": of parallel calls the first alone has one.
			if len(calls) == 0 && p["thoughtSignature"] == nil && c.unsigned == "" {
				c.unsigned = at
			}
			calls = append(calls, f)
		case p["functionResponse"] != nil:
			if role != "user" {
				return broken(Kind, at, "a functionResponse can't stand in a content of the model's")
			}
			f, err := geminiFunction(at+".functionResponse", p["functionResponse"], "response", Result)
			if err != nil {
				return err
			}
			responses = append(responses, f)
		case p["thought"] != nil && role != "model":
			return broken(Kind, at, "a thought can't stand in a content of the user's")
		}
		// "Corrupted thought signature." where one stands on what the model did not
		// make (SillyBunny#647).
		if p["thoughtSignature"] != nil && role != "model" {
			return broken(Reasoning, at, "a thoughtSignature can't stand in a content of the user's")
		}
	}
	// What is beside responses is not what the model waits for: they are alone, in
	// a turn of their own.
	if n := len(responses); n > 0 && n != len(parts) {
		return broken(Order, at, "%d parts are no functionResponse, in a content that answers calls", len(parts)-n)
	}
	if err := c.pair(at, responses); err != nil {
		return err
	}
	if role == "user" && len(responses) == 0 {
		c.unsigned = "" // a new turn: those of the turns before are not looked at
	}
	c.role, c.answers = role, len(responses) > 0
	c.open = append(c.open, calls...)
	return nil
}

// pair checks that responses answer the calls of the content before: "Please
// ensure that function response turn comes immediately after a function call
// turn." (langchain#27799), "Please ensure that the number of function response
// parts is equal to the number of function call parts of the function call
// turn." (gemini-cli#4217). API reference, FunctionResponse: its name is the
// call's; its id, where both have one, is too.
func (c *geminiCheck) pair(at string, responses []object) error {
	switch {
	case len(responses) == 0 && len(c.open) == 0:
		return nil
	case len(responses) == 0 || c.answers: // open ones stay so to the end
		name, _ := c.open[0].text("name")
		return broken(Unanswered, at, "the call of %q before this has no functionResponse", name)
	case len(c.open) == 0:
		return broken(Stray, at, "a functionResponse without a call in the content before")
	case len(responses) > len(c.open):
		return broken(Duplicate, at, "%d responses to %d calls", len(responses), len(c.open))
	}
	next := 0
	for i, r := range responses {
		call := next
		// With open calls allowed those given are in the order of the calls too.
		for slices.Contains(c.opts, OpenCalls) && call < len(c.open)-1 && !geminiAnswers(r, c.open[call]) {
			call++
		}
		if call >= len(c.open) || !geminiAnswers(r, c.open[call]) {
			name, _ := r.text("name")
			return broken(Stray, at, "response %d, of %q, is not of call %d", i, name, next)
		}
		next = call + 1
	}
	c.open = c.open[len(responses):]
	if len(c.open) > 0 && !slices.Contains(c.opts, OpenCalls) {
		return broken(Unanswered, at, "%d calls have no functionResponse", len(c.open))
	}
	return nil
}

func geminiAnswers(response, call object) bool {
	name, _ := response.text("name")
	called, _ := call.text("name")
	id, answered := response.text("id")
	calledID, has := call.text("id")
	return name == called && (!answered || !has || id == calledID)
}

func (c *geminiCheck) end(n int) error {
	at := fmt.Sprintf("contents[%d]", n-1)
	if len(c.open) > 0 && !slices.Contains(c.opts, OpenCalls) {
		return broken(Unanswered, at, "%d calls have no functionResponse", len(c.open))
	}
	if c.unsigned != "" && slices.Contains(c.opts, Thinking) {
		return broken(Reasoning, c.unsigned, "the first functionCall of a step has no thoughtSignature")
	}
	// "Please ensure that multiturn requests ends with a user role or a function
	// response." (one-api#836)
	if c.role == "model" && slices.Contains(c.opts, NoPrefill) {
		return broken(Last, at, "the last content must be the user's")
	}
	return nil
}

// geminiParts are the parts of a content, each checked by itself.
func geminiParts(at string, m object) ([]object, error) {
	if err := m.check(at, "role parts"); err != nil { // "Invalid JSON payload received. Unknown name"
		return nil, err
	}
	var parts []object
	if m["parts"] != nil {
		if err := decode(at+".parts", m["parts"], &parts); err != nil {
			return nil, err
		}
	}
	// "GenerateContentRequest.contents[1].parts: contents.parts must not be
	// empty." (vercel/ai#3775)
	if len(parts) == 0 {
		return nil, broken(Empty, at+".parts", "contents.parts must not be empty")
	}
	for j, p := range parts {
		if err := geminiPart(fmt.Sprintf("%s.parts[%d]", at, j), p); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func geminiPart(at string, p object) error {
	if err := p.check(at, "text inlineData fileData functionCall functionResponse thought thoughtSignature"); err != nil {
		return err
	}
	data := 0
	for _, name := range []string{"text", "inlineData", "fileData", "functionCall", "functionResponse"} {
		if p[name] != nil {
			data++
		}
	}
	switch {
	case data == 0: // "contents[1].parts[0].data: required oneof field 'data' must have one initialized field" (CLIProxyAPI#1292)
		return broken(Empty, at+".data", "required oneof field 'data' must have one initialized field")
	case data > 1: // "oneof field 'data' is already set"
		return broken(Form, at+".data", "oneof field 'data' is set %d times", data)
	}
	if v := p["thought"]; v != nil && v.Kind() != 't' && v.Kind() != 'f' {
		return broken(Form, at+".thought", "not a boolean")
	}
	// A bytes field: "Base64 decoding failed". protobuf's JSON takes either
	// alphabet, padded or not. Empty ones are refused too (hermes-agent#111314).
	if v := p["thoughtSignature"]; v != nil {
		if s, _ := p.text("thoughtSignature"); s == "" || !anyBase64(s) {
			return broken(Reasoning, at+".thoughtSignature", "not base64")
		}
	}
	if v := p["text"]; v != nil {
		s, ok := p.text("text")
		if !ok {
			return broken(Form, at+".text", "not a string")
		}
		// "Unable to submit request because it has an empty text parameter."
		// (deprecated-generative-ai-python#697). API docs, "Thought Signatures": a
		// signature may come in a part with an empty text, and is sent back in it.
		if s == "" && p["thoughtSignature"] == nil {
			return broken(Empty, at+".text", "empty text")
		}
	}
	for _, name := range []string{"inlineData", "fileData"} {
		if p[name] != nil {
			return geminiMedia(at+"."+name, name, p[name])
		}
	}
	return nil
}

// geminiMedia: API docs, "Image understanding", supported formats (PNG, JPEG,
// WEBP, HEIC, HEIF; "Unsupported MIME type: image/gif"). Vertex AI's reference:
// mimeType is required beside data and beside fileUri.
func geminiMedia(at, name string, v jsontext.Value) error {
	var d object
	if err := decode(at, v, &d); err != nil {
		return err
	}
	members := "mimeType! data!"
	if name == "fileData" {
		members = "mimeType! fileUri!"
	}
	if err := d.check(at, members); err != nil {
		return err
	}
	mime, _ := d.text("mimeType")
	if kind, form, ok := strings.Cut(mime, "/"); !ok || kind == "image" && !slices.Contains([]string{"png", "jpeg", "webp", "heic", "heif"}, form) {
		return broken(Media, at+".mimeType", "unsupported MIME type: %q", mime)
	}
	if s, ok := d.text("data"); name == "inlineData" && (!ok || s == "" || !anyBase64(s)) {
		return broken(Media, at+".data", "not base64")
	}
	if u, _ := d.text("fileUri"); name == "fileData" && !strings.Contains(u, "://") {
		return broken(Media, at+".fileUri", "not a URI")
	}
	return nil
}

// geminiFunction checks a call or a response, whose payload is the member of
// that name: a Struct, so an object ("Proto field is not repeating, cannot start
// list", "Invalid value (type.googleapis.com/google.protobuf.Struct)").
func geminiFunction(at string, v jsontext.Value, payload string, rule Rule) (object, error) {
	var f object
	if err := decode(at, v, &f); err != nil {
		return nil, err
	}
	members := "id name " + payload
	if payload == "response" {
		members = "id name response! willContinue scheduling parts"
	}
	if err := f.check(at, members); err != nil {
		return nil, err
	}
	if name, _ := f.text("name"); !geminiWord(name) {
		return nil, broken(CallName, at+".name", "name %q", name)
	}
	if p := f[payload]; p != nil && p.Kind() != '{' {
		return nil, broken(rule, at+"."+payload, "not an object")
	}
	return f, nil
}

// geminiWord: "Invalid function name. Must start with a letter or an
// underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.) or
// dashes (-), with a maximum length of 64." (gemini-cli#2966; newer servers take
// colons too).
func geminiWord(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '.' && (s[0] < '0' || s[0] > '9') && word(strings.ReplaceAll(s, ".", "_"), geminiName)
}

// anyBase64 reports whether s is base64 as protobuf's JSON reads it.
func anyBase64(s string) bool {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	_, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil && !strings.ContainsAny(s, "\r\n")
}
