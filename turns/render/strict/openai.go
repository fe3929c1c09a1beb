package strict

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of OpenAI's chat completions API.
const (
	openaiMessages = 2048     // "Invalid 'messages': array too long. Expected an array with maximum length 2048"
	openaiCalls    = 128      // "Invalid 'messages[2].tool_calls': array too long. Expected an array with maximum length 128" (openai-dotnet#317)
	openaiID       = 40       // "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40" (camel#2215)
	openaiName     = 64       // API reference: a function's name, a-z, A-Z, 0-9, _ and -, at most 64
	openaiString   = 10 << 20 // "Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760"
)

// OpenAI checks the messages of a chat completions request. The error is a
// *[Violation].
func OpenAI(messages []byte, opts ...Option) error {
	var ms []object
	if err := decode("messages", messages, &ms); err != nil {
		return err
	}
	switch n := len(ms); {
	case n == 0: // "Invalid 'messages': empty array. Expected an array with minimum length 1"
		return broken(Size, "messages", "empty array")
	case n > openaiMessages:
		return broken(Size, "messages", "%d messages, the maximum is %d", n, openaiMessages)
	}
	var c openaiCheck
	for i, m := range ms {
		if err := c.message(fmt.Sprintf("messages[%d]", i), m); err != nil {
			return err
		}
	}
	if len(c.open) > 0 && !slices.Contains(opts, OpenCalls) {
		return c.unanswered(fmt.Sprintf("messages[%d]", len(ms)-1))
	}
	return nil
}

type openaiCheck struct {
	open     []string // calls that wait for a tool message
	answered []string // of the same run
}

// unanswered: "An assistant message with 'tool_calls' must be followed by tool
// messages responding to each 'tool_call_id'. The following tool_call_ids did
// not have response messages: call_…" (litellm#10083)
func (c *openaiCheck) unanswered(at string) error {
	return broken(Unanswered, at, "call %q has no tool message before this", c.open[0])
}

func (c *openaiCheck) message(at string, m object) error {
	role, _ := m.text("role")
	if role != "tool" {
		if len(c.open) > 0 {
			return c.unanswered(at)
		}
		c.answered = nil
	}
	if m["tool_calls"] != nil && role != "assistant" {
		return broken(Role, at+".tool_calls", "a %s message has none", role)
	}
	if m["tool_call_id"] != nil && role != "tool" {
		return broken(Role, at+".tool_call_id", "a %s message has none", role)
	}
	// "Invalid 'messages[0].name': string does not match pattern. Expected a
	// string that matches the pattern '^[^\s<|\\/>]+$'." Not for tool messages,
	// whose name is ignored.
	if s, ok := m.text("name"); m["name"] != nil && role != "tool" {
		if !ok || s == "" || len(s) > openaiName || strings.ContainsFunc(s, func(r rune) bool { return space(r) || strings.ContainsRune(`<|\/>`, r) }) {
			return broken(Form, at+".name", "name %q", s)
		}
	}
	switch role {
	case "system", "developer", "user":
		return c.said(at, role, m)
	case "assistant":
		return c.assistant(at, m)
	case "tool":
		return c.tool(at, m)
	}
	// "Invalid value: 'x'. Supported values are: 'system', 'assistant', 'user',
	// 'function', 'tool', and 'developer'." Functions are the deprecated form.
	return broken(Role, at, "unexpected role %s", m["role"])
}

func (c *openaiCheck) said(at, role string, m object) error {
	empty, err := openaiContent(at, role, m["content"])
	if err == nil && empty {
		// "Invalid 'messages[1].content': empty array"; an empty string is taken
		// by this server and refused by others of the same protocol.
		return broken(Empty, at, "no content")
	}
	return err
}

func (c *openaiCheck) assistant(at string, m object) error {
	empty := true
	// "Invalid value for 'content': expected a string, got null." unless there
	// are calls. Recorded requests show null, "" and [] beside calls.
	if v := m["content"]; v != nil && v.Kind() != 'n' {
		var err error
		if empty, err = openaiContent(at, "assistant", v); err != nil {
			return err
		}
	}
	refusal, _ := m.text("refusal")
	if m["tool_calls"] == nil {
		if empty && refusal == "" {
			return broken(Empty, at, "neither content nor calls")
		}
		return nil
	}
	var calls []object
	if err := decode(at+".tool_calls", m["tool_calls"], &calls); err != nil {
		return err
	}
	switch n := len(calls); {
	case n == 0: // "[] is too short - 'messages.1.tool_calls'"
		return broken(Empty, at+".tool_calls", "empty array")
	case n > openaiCalls:
		return broken(Size, at+".tool_calls", "%d calls, the maximum is %d", n, openaiCalls)
	}
	for j, call := range calls {
		if err := c.call(fmt.Sprintf("%s.tool_calls[%d]", at, j), call); err != nil {
			return err
		}
	}
	return nil
}

func (c *openaiCheck) call(at string, call object) error {
	if t, _ := call.text("type"); t != "function" {
		return broken(Kind, at+".type", "a call of type %s", call["type"])
	}
	id, _ := call.text("id")
	switch {
	case id == "" || len(id) > openaiID:
		return broken(CallID, at+".id", "id %q", id)
	case slices.Contains(c.open, id): // compatible servers: "duplicate tool_call_id" (openclaw#40897)
		return broken(CallID, at+".id", "a second call with the id %q", id)
	}
	var f object
	if err := decode(at+".function", call["function"], &f); err != nil {
		return err
	}
	if name, _ := f.text("name"); !word(name, openaiName) {
		return broken(CallName, at+".function.name", "name %q", name)
	}
	// "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected
	// a string, but got an object instead." What the string holds is read by
	// compatible servers ("invalid function arguments json string"), so it must
	// be JSON.
	args, ok := f.text("arguments")
	if !ok || !jsontext.Value(args).IsValid() {
		return broken(Arguments, at+".function.arguments", "not JSON in a string")
	}
	c.open = append(c.open, id)
	return nil
}

func (c *openaiCheck) tool(at string, m object) error {
	id, _ := m.text("tool_call_id")
	switch i := slices.Index(c.open, id); {
	case i >= 0:
		c.open = slices.Delete(c.open, i, i+1)
		c.answered = append(c.answered, id)
	// "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_…', in
	// messages[7] and messages[8]." (agno#5116)
	case slices.Contains(c.answered, id):
		return broken(Duplicate, at, "a second result of call %q", id)
	// "Invalid parameter: messages with role 'tool' must be a response to a
	// preceeding message with 'tool_calls'."
	default:
		return broken(Stray, at, "result of %q, which the assistant message before did not call", id)
	}
	// May be an empty string: recorded requests have results without output.
	_, err := openaiContent(at, "tool", m["content"])
	return err
}

// openaiContent checks a string or a list of parts; empty reports that there
// is nothing in it.
func openaiContent(at, role string, v jsontext.Value) (empty bool, err error) {
	at += ".content"
	if len(v) > openaiString {
		return false, broken(Size, at, "%d bytes, the maximum is %d", len(v), openaiString)
	}
	switch v.Kind() {
	case '"':
		return len(v) == len(`""`), nil
	case '[':
	default: // "Invalid value for 'content': expected a string, got null."
		return false, broken(Form, at, "neither a string nor a list")
	}
	var parts []object
	if err := decode(at, v, &parts); err != nil {
		return false, err
	}
	for i, p := range parts {
		at := fmt.Sprintf("%s[%d]", at, i)
		switch t, _ := p.text("type"); {
		case t == "text":
			// compatible servers refuse empty text parts ("text content is empty")
			if s, ok := p.text("text"); !ok || s == "" {
				return false, broken(Empty, at, "empty text")
			}
		case t == "refusal" && role == "assistant":
		case t == "image_url" && role == "user":
			if err := openaiImage(at, p); err != nil {
				return false, err
			}
		case (t == "input_audio" || t == "file") && role == "user":
		default:
			// "Invalid 'messages[1]'. Image URLs are only allowed for messages with
			// role 'user', but this message with role 'tool' contains an image URL."
			return false, broken(Kind, at, "a part of type %s can't stand in a %s message", p["type"], role)
		}
	}
	return len(parts) == 0, nil
}

// openaiImage: "Invalid 'messages[0].content[1].image_url.url'. Expected a
// base64-encoded data URL with an image MIME type (e.g.
// 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got …".
func openaiImage(at string, p object) error {
	var img object
	if err := decode(at+".image_url", p["image_url"], &img); err != nil {
		return err
	}
	u, _ := img.text("url")
	if strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://") {
		return nil
	}
	head, data, _ := strings.Cut(u, ";base64,")
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" || !strings.HasPrefix(head, "data:image/") {
		return broken(Media, at+".image_url", "neither a web address nor a data URL of an image")
	}
	return nil
}
