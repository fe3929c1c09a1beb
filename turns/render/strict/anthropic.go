package strict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of Anthropic's Messages API.
const (
	anthropicRequest  = 32 << 20 // bytes. 413 request_too_large, "Request exceeds the maximum size"; API docs, "Errors", request size limits
	anthropicMessages = 100_000  // API docs, "Messages": "a limit of 100,000 messages in a single request"
	anthropicName     = 200      // "tool_use.name: String should have at most 200 characters"
	anthropicCaches   = 4        // "A maximum of 4 blocks with cache_control may be provided. Found 5."
)

// Anthropic checks the system member (nil: none) and the messages of a
// Messages request. The error is a *[Violation].
func Anthropic(system, messages []byte, opts ...Option) error {
	c := anthropicCheck{opts: opts, seen: make(map[string]bool)}
	if n := len(system) + len(messages); n > anthropicRequest {
		return broken(Size, "request", "%d bytes, the maximum is %d", n, anthropicRequest)
	}
	if err := c.system(system); err != nil {
		return err
	}
	var ms []object
	if err := decode("messages", messages, &ms); err != nil {
		return err
	}
	switch n := len(ms); {
	case n == 0: // "messages: at least one message is required"
		return broken(Size, "messages", "at least one message is required")
	case n > anthropicMessages:
		return broken(Size, "messages", "%d messages, the maximum is %d", n, anthropicMessages)
	}
	for i, m := range ms {
		if err := c.message(i, m); err != nil {
			return err
		}
	}
	return c.end(len(ms))
}

type anthropicCheck struct {
	opts   []Option
	seen   map[string]bool // ids of all tool_use blocks
	open   []string        // those of the message before
	role   string          // of the message before
	blocks []object        // of the message before
	loop   object          // first block of the last assistant message, if it called tools
	caches int
}

func (c *anthropicCheck) has(o Option) bool { return slices.Contains(c.opts, o) }

// system: "system: Input should be a valid list" and "system: text content
// blocks must be non-empty".
func (c *anthropicCheck) system(data []byte) error {
	if data == nil {
		return nil
	}
	blocks, err := c.content("system", data)
	if err != nil {
		return err
	}
	for i, b := range blocks {
		at := fmt.Sprintf("system.%d", i)
		if t, _ := b.text("type"); t != "text" {
			return broken(Kind, at, "the system member is text, not %q", t)
		}
		if err := c.text(at, b); err != nil {
			return err
		}
	}
	return nil
}

// content is a string or a list of blocks, as a list.
func (c *anthropicCheck) content(at string, v jsontext.Value) ([]object, error) {
	if v.Kind() == '"' {
		return []object{{"type": jsontext.Value(`"text"`), "text": v}}, nil
	}
	var blocks []object
	if err := decode(at, v, &blocks); err != nil {
		return nil, err
	}
	for i, b := range blocks {
		if b["cache_control"] == nil {
			continue
		}
		if c.caches++; c.caches > anthropicCaches {
			return nil, broken(Size, fmt.Sprintf("%s.%d", at, i), "more than %d blocks with cache_control", anthropicCaches)
		}
	}
	return blocks, nil
}

func (c *anthropicCheck) message(i int, m object) error {
	at := fmt.Sprintf("messages.%d", i)
	if err := m.check(at, "role! content!"); err != nil {
		return err
	}
	role, _ := m.text("role")
	switch {
	// "messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter"
	case role != "user" && role != "assistant":
		return broken(Role, at, "unexpected role %s", m["role"])
	// "messages: first message must use the "user" role"
	case i == 0 && role != "user":
		return broken(First, at, "the first message must use the user role")
	// "messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row"
	case role == c.role:
		return broken(Alternation, at, "two messages of role %s in a row", role)
	}
	blocks, err := c.content(at+".content", m["content"])
	if err != nil {
		return err
	}
	// "messages.3: all messages must have non-empty content except for the
	// optional final assistant message". An empty final one says nothing.
	if len(blocks) == 0 {
		return broken(Empty, at, "no content")
	}
	if role == "user" {
		err = c.user(at, blocks)
	} else {
		err = c.assistant(at, blocks)
	}
	c.role, c.blocks = role, blocks
	return err
}

// text: "messages: text content blocks must be non-empty" and "messages: text
// content blocks must contain non-whitespace text"
// (github.com/anthropics/claude-code/issues/23440).
func (c *anthropicCheck) text(at string, b object) error {
	if err := b.check(at, "type! text! citations cache_control"); err != nil {
		return err
	}
	s, ok := b.text("text")
	if !ok {
		return broken(Form, at+".text", "not a string")
	}
	if blank(s) {
		return broken(Empty, at, "text content blocks must contain non-whitespace text")
	}
	return nil
}

func (c *anthropicCheck) user(at string, blocks []object) error {
	answered := make(map[string]bool)
	other := false
	for j, b := range blocks {
		at := fmt.Sprintf("%s.content.%d", at, j)
		t, _ := b.text("type")
		var err error
		switch t {
		case "text":
			err = c.text(at, b)
		case "image", "document":
			err = c.media(at, t, b)
		case "tool_result":
			// API docs, "Handle tool calls": in the user message, tool_result
			// blocks come first in the content array, any text after them.
			if other {
				return broken(Order, at, "a tool_result stands after other content")
			}
			err = c.result(at, b, answered)
		default:
			err = broken(Kind, at, "a %q block can't stand in a user message", t)
		}
		if err != nil {
			return err
		}
		other = other || t != "tool_result"
	}
	for _, id := range c.open {
		// "messages.236: `tool_use` ids were found without `tool_result` blocks
		// immediately after: toolu_…. Each `tool_use` block must have a
		// corresponding `tool_result` block in the next message." Recorded from a
		// live session; openclaw#3243, opencode#17065, claude-code#8484.
		if !answered[id] && !(c.has(OpenCalls) && !other) {
			return broken(Unanswered, at, "tool_use %q has no tool_result here", id)
		}
	}
	c.open = slices.DeleteFunc(c.open, func(id string) bool { return answered[id] })
	return nil
}

func (c *anthropicCheck) result(at string, b object, answered map[string]bool) error {
	if err := b.check(at, "type! tool_use_id! content is_error cache_control"); err != nil {
		return err
	}
	id, _ := b.text("tool_use_id")
	// "each tool_use must have a single result. Found multiple `tool_result`
	// blocks with id: toolu_…"
	if answered[id] {
		return broken(Duplicate, at, "a second tool_result of %q", id)
	}
	// "unexpected `tool_use_id` found in `tool_result` blocks: toolu_…. Each
	// `tool_result` block must have a corresponding `tool_use` block in the
	// previous message."
	if !slices.Contains(c.open, id) {
		return broken(Stray, at, "tool_result of %q, which the message before did not call", id)
	}
	answered[id] = true
	failed := false
	if v := b["is_error"]; v != nil {
		if k := v.Kind(); k != 't' && k != 'f' {
			return broken(Form, at+".is_error", "not a boolean")
		}
		failed = v.Kind() == 't'
	}
	var content []object
	if v := b["content"]; v != nil {
		var err error
		if content, err = c.content(at+".content", v); err != nil {
			return err
		}
	}
	// "tool_result: content cannot be empty if `is_error` is true"
	// (github.com/bytedance/trae-agent/issues/230)
	if failed && len(content) == 0 {
		return broken(Result, at, "content cannot be empty if is_error is true")
	}
	for k, p := range content {
		at := fmt.Sprintf("%s.content.%d", at, k)
		t, _ := p.text("type")
		var err error
		switch {
		// "all content must be type `text` if `is_error` is true"
		// (github.com/vellum-ai/vellum-assistant/pull/18387)
		case failed && t != "text":
			err = broken(Result, at, "all content must be text if is_error is true")
		case t == "text":
			err = c.text(at, p)
		case t == "image" || t == "document":
			err = c.media(at, t, p)
		default:
			err = broken(Kind, at, "a %q block can't stand in a tool_result", t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *anthropicCheck) assistant(at string, blocks []object) error {
	if len(c.open) > 0 { // a user message before it left calls open, as the option allows at the end alone
		return broken(Unanswered, at, "tool_use %q has no tool_result before this", c.open[0])
	}
	c.loop = nil
	for j, b := range blocks {
		at := fmt.Sprintf("%s.content.%d", at, j)
		t, _ := b.text("type")
		var err error
		switch t {
		case "text":
			err = c.text(at, b)
		case "tool_use":
			err = c.call(at, b)
			c.loop = blocks[0]
		case "thinking", "redacted_thinking":
			err = thinking(at, t, b, j == len(blocks)-1)
		default:
			// images and results: "messages.1.content.0: … may only be used in user messages"
			err = broken(Kind, at, "a %q block can't stand in an assistant message", t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// call: "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
// "`tool_use` ids must be unique" over the request
// (github.com/trycua/cua/issues/524), "tool_use.name: String should match
// pattern …", "tool_use.input: Input should be a valid dictionary".
func (c *anthropicCheck) call(at string, b object) error {
	if err := b.check(at, "type! id! name! input! cache_control caller"); err != nil {
		return err
	}
	id, _ := b.text("id")
	switch name, _ := b.text("name"); {
	case !word(id, len(id)):
		return broken(CallID, at, "id %q", id)
	case c.seen[id]:
		return broken(CallID, at, "a second tool_use with the id %q", id)
	case !word(name, anthropicName):
		return broken(CallName, at, "name %q", name)
	case b["input"].Kind() != '{':
		return broken(Arguments, at, "input is not an object")
	}
	c.seen[id] = true
	c.open = append(c.open, id)
	return nil
}

// thinking: "thinking.signature: Field required" (langchain#29971), "The final
// block in an assistant message cannot be `thinking`"
// (github.com/tailcallhq/forgecode/issues/2107). Thinking after text or calls
// is taken: answers with interleaved thinking come like that.
func thinking(at, t string, b object, last bool) error {
	members, proof := "type! thinking! signature!", "signature"
	if t == "redacted_thinking" {
		members, proof = "type! data!", "data"
	}
	if b[proof] == nil {
		return broken(Reasoning, at+"."+proof, "field required")
	}
	if err := b.check(at, members); err != nil {
		return err
	}
	if s, ok := b.text(proof); !ok || s == "" {
		return broken(Reasoning, at+"."+proof, "empty")
	}
	if _, ok := b.text("thinking"); !ok && t == "thinking" {
		return broken(Form, at+".thinking", "not a string")
	}
	if last {
		return broken(Reasoning, at, "the final block in an assistant message cannot be thinking")
	}
	return nil
}

// end checks what a request may end with.
func (c *anthropicCheck) end(n int) error {
	at := fmt.Sprintf("messages.%d", n-1)
	if len(c.open) > 0 && !c.has(OpenCalls) { // as in user
		return broken(Unanswered, at, "tool_use %q has no tool_result", c.open[0])
	}
	// "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but
	// found `text`. When `thinking` is enabled, a final `assistant` message must
	// start with a thinking block (preceeding the lastmost set of `tool_use` and
	// `tool_result` blocks)." (zed#33317, langchain#39269)
	results := c.role == "user" && !slices.ContainsFunc(c.blocks, func(b object) bool { t, _ := b.text("type"); return t != "tool_result" })
	start := c.loop
	if c.role == "assistant" {
		start = c.blocks[0]
	}
	if c.has(Thinking) && start != nil && (results || c.role == "assistant") {
		if t, _ := start.text("type"); t != "thinking" && t != "redacted_thinking" {
			return broken(Reasoning, at, "thinking is enabled: the last assistant message must start with a thinking block, not %q", t)
		}
	}
	if c.role != "assistant" {
		return nil
	}
	// "This model does not support assistant message prefill. The conversation
	// must end with a user message."
	if c.has(NoPrefill) {
		return broken(Last, at, "the conversation must end with a user message")
	}
	// "messages: final assistant content cannot end with trailing whitespace"
	// (github.com/tailcallhq/forgecode/issues/1872)
	if s, ok := c.blocks[len(c.blocks)-1].text("text"); ok && strings.TrimRightFunc(s, space) != s {
		return broken(Last, at, "final assistant content cannot end with trailing whitespace")
	}
	return nil
}

// media: "image.source.base64: image exceeds 5 MB maximum: 8259148 bytes >
// 5242880 bytes" (claude-code#19631, counted in base64), "source.media_type:
// Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
// "Only HTTPS URLs are supported" is not enforced by every endpoint.
func (c *anthropicCheck) media(at, t string, b object) error {
	allowed := "type! source! cache_control"
	if t == "document" {
		allowed += " title context citations"
	}
	if err := b.check(at, allowed); err != nil {
		return err
	}
	at += ".source"
	var src object
	if err := decode(at, b["source"], &src); err != nil {
		return err
	}
	switch kind, _ := src.text("type"); kind {
	case "url":
		if u, _ := src.text("url"); !strings.HasPrefix(u, "https://") && !strings.HasPrefix(u, "http://") {
			return broken(Media, at, "not a web address")
		}
		return src.check(at, "type! url!")
	case "file":
		return src.check(at, "type! file_id!")
	case "text", "content":
		if t == "image" {
			return broken(Media, at, "an image can't be %s", kind)
		}
		return nil
	case "base64":
		if err := src.check(at, "type! media_type! data!"); err != nil {
			return err
		}
	default:
		return broken(Media, at, "a source of type %q", kind)
	}
	types := []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
	if t == "document" {
		types = []string{"application/pdf"}
	}
	mime, _ := src.text("media_type")
	var data []byte
	switch {
	case !slices.Contains(types, mime):
		return broken(Media, at, "media type %q", mime)
	case json.Unmarshal(src["data"], &data) != nil || len(data) == 0: // a []byte is base64 (RFC 4648)
		return broken(Media, at, "data is not base64")
	case t == "image" && len(src["data"])-2 > 5<<20:
		return broken(Media, at, "%d bytes of base64, the maximum is %d", len(src["data"])-2, 5<<20)
	}
	return nil
}
