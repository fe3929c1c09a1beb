package chat

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/turns"
	"nexus/turns/internal/values"
	"nexus/turns/render"
	"nexus/turns/transcript"
	"nexus/turns/transcript/otlp"
)

// conversation is one entry of a chat file.
type conversation struct {
	id       string
	task     bool // the id is a task's
	created  time.Time
	began    time.Time // created, where that is stated for good
	stated   []chatMessage
	usage    *turns.Usage // of the conversation as a whole
	details  turns.UsageDetails
	model    string
	system   turns.Raw
	tools    []turns.Raw
	messages turns.Raw
	rest     map[string]turns.Raw
	loss     []transcript.Loss
}

func newConversation(raw turns.Raw) (*conversation, error) {
	v := new(conversation)
	if raw.Kind() == '[' {
		v.messages = raw
		return v, nil
	}
	if raw.Kind() != '{' {
		return nil, fmt.Errorf("%w: a conversation is a list of messages or an object, not %s", turns.ErrMalformed, jsontext.Kind(raw.Kind()))
	}
	var members map[string]turns.Raw
	if err := turns.DecodeJSON(raw, &members); err != nil {
		return nil, err
	}
	take := func(names ...string) (out turns.Raw) {
		for _, n := range names {
			if m, ok := members[n]; ok && m.Kind() != 'n' && out == nil {
				out = m
				delete(members, n)
			}
		}
		return out
	}
	v.messages = values.Unquoted(take("messages", "traj"))
	if v.messages.Kind() != '[' {
		return nil, fmt.Errorf("%w: an object without messages", turns.ErrMalformed)
	}
	v.addResponse(members)
	v.system = values.Unquoted(take("system"))
	if t := values.Unquoted(take("tools")); t != nil {
		if err := turns.DecodeJSON(t, &v.tools); err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
	}
	v.model = values.Text(take("model"))
	v.began = values.ParseTime(take("created", "created_at"))
	if v.created = v.began; v.began.IsZero() {
		v.created = values.ParseTime(take("timestamp", "time")) // may be that of the last message
	}
	v.usage, v.details = chatUsage(firstMember(members, "usage", "usage_metadata", "usageMetadata"))
	for _, n := range []string{"id", "conversation_id", "session_id"} {
		if m, ok := members[n]; ok && v.id == "" && m.Kind() != 'n' {
			v.id = values.Text(m)
		}
	}
	if m, ok := members["task_id"]; ok && v.id == "" {
		v.task = true
		v.id = "task " + values.Text(m) + " trial " + values.Text(members["trial"])
	}
	v.rest = members
	return v, nil
}

// addResponse adds the message of the response to a request, as a log of calls has it beside
// the request's messages, unless they end with an answer. It takes the message from members.
func (v *conversation) addResponse(members map[string]turns.Raw) {
	response := values.Unquoted(members["response"])
	var r map[string]turns.Raw
	var list, choices []map[string]turns.Raw
	if response.Kind() != '{' || values.Decode(response, &r) != nil || values.Decode(v.messages, &list) != nil || len(list) == 0 || values.Text(list[len(list)-1]["role"]) == "assistant" {
		return
	}
	var m map[string]turns.Raw
	switch {
	case r["choices"] != nil && values.Decode(r["choices"], &choices) == nil && len(choices) > 0:
		if values.Decode(choices[0]["message"], &m) != nil || len(m) == 0 {
			return
		}
		if n := len(choices) - 1; n > 0 {
			v.loss = append(v.loss, transcript.Loss{Kind: "skipped", Reason: "further choices of a response", Count: n, Record: v.id})
		}
		delete(r, "choices")
	case values.Text(r["role"]) == "assistant" && r["content"] != nil:
		m = map[string]turns.Raw{"content": r["content"]}
		delete(r, "content")
	default:
		return
	}
	m["role"] = turns.RawText("assistant")
	for _, name := range []string{"id", "model", "created", "usage"} {
		if x := r[name]; x != nil && m[name] == nil {
			m[name] = x
			delete(r, name)
		}
	}
	for name, x := range m {
		if x.Kind() == 'n' && name != "content" {
			delete(m, name)
		}
	}
	v.messages = values.Encoded(append(list, m))
	members["response"] = values.Encoded(r)
}

// knownMembers are the members of a message, in any form, that a turn's message holds.
var knownMembers = []string{"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "refusal", "parts", "finish_reason"}

// dropped returns how often members occur that a turn's message does not hold.
func (v *conversation) dropped() []transcript.Loss {
	var ms []map[string]turns.Raw
	if values.Decode(v.messages, &ms) != nil {
		return nil
	}
	count := make(map[string]int)
	for _, m := range ms {
		for k, x := range m {
			if x.Kind() != 'n' && !slices.Contains(knownMembers, k) && !slices.Contains(turnMembers, k) {
				count[k]++
			}
		}
	}
	var out []transcript.Loss
	for _, k := range slices.Sorted(maps.Keys(count)) {
		out = append(out, transcript.Loss{Kind: "skipped", Reason: "a member of messages that has no place: " + strconv.Quote(k), Count: count[k], Record: v.id})
	}
	if size := v.restSize(); size > values.MaxMeta {
		out = append(out, transcript.Loss{Kind: "skipped", Reason: values.Plural(size, "byte") + " beside the messages, more than meta holds", Record: v.id})
	}
	return out
}

func (v *conversation) restSize() (n int) {
	for k, x := range v.rest {
		n += len(k) + len(x)
	}
	return n
}

// meta returns the session's meta: the other members of the conversation's object.
func (v *conversation) meta() turns.Raw {
	m := map[string]turns.Raw{"source": turns.RawText("chat")}
	if len(v.rest) > 0 && v.restSize() <= values.MaxMeta {
		if b, err := turns.EncodeJSON(v.rest); err == nil {
			m["record"] = b
		}
	}
	return values.Encoded(m)
}

// read returns the system part and the messages.
func (v *conversation) read(form Form) (system []turns.Section, ms []turns.Message, err error) {
	if form == "" {
		form = chatForm(v.messages)
	}
	switch form {
	case Anthropic:
		return v.withoutUnknown(Anthropic, func(messages turns.Raw) ([]turns.Section, []turns.Message, error) {
			return render.FromAnthropic(v.system, messages)
		})
	case OTel:
		return v.readOTel()
	}
	if v.system != nil {
		if system, err = sections(v.system); err != nil {
			return nil, nil, err
		}
	}
	if v.messages, err = v.knownRoles(); err != nil {
		return nil, nil, err
	}
	_, ms, err = v.withoutUnknown(OpenAI, func(messages turns.Raw) ([]turns.Section, []turns.Message, error) {
		ms, err := render.FromOpenAI(messages)
		return nil, ms, err
	})
	return system, ms, err
}

// knownRoles returns the messages without those of unknown roles, which are notes of a
// program.
func (v *conversation) knownRoles() (turns.Raw, error) {
	var all, out []turns.Raw
	if err := turns.DecodeJSON(v.messages, &all); err != nil {
		return nil, err
	}
	for _, raw := range all {
		var m struct {
			Role string `json:"role"`
		}
		if err := values.Decode(raw, &m); err == nil && m.Role != "" && !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role) {
			v.loss = append(v.loss, transcript.Loss{Kind: "skipped", Reason: "a message of role " + strconv.Quote(m.Role), Record: v.id})
			continue
		}
		out = append(out, raw)
	}
	if len(out) == len(all) {
		return v.messages, nil
	}
	return turns.EncodeJSON(out)
}

func (v *conversation) readOTel() (system []turns.Section, ms []turns.Message, err error) {
	if v.system != nil {
		if system, err = sections(v.system); err != nil {
			return nil, nil, err
		}
	}
	if ms, err = otlp.Messages(v.messages); err != nil {
		return nil, nil, fmt.Errorf("read otel messages: %w", err)
	}
	return system, ms, nil
}

// sections is a system part: a text, or a list of objects with content or text.
func sections(raw turns.Raw) (out []turns.Section, err error) {
	if s, ok := raw.Text(); ok {
		return []turns.Section{{Content: s}}, nil
	}
	var list []struct {
		Name    string `json:"name"`
		Content string `json:"content"`
		Text    string `json:"text"`
	}
	if err := values.Decode(raw, &list); err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	for _, s := range list {
		out = append(out, turns.Section{Name: s.Name, Content: s.Content + s.Text})
	}
	return out, nil
}
