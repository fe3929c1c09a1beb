package responses

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// inputItem has the members of all kinds of input items.
type inputItem struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Status    string    `json:"status"`
	Role      string    `json:"role"`
	Content   turns.Raw `json:"content"`
	Phase     string    `json:"phase"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments turns.Raw `json:"arguments"`
	Output    turns.Raw `json:"output"`
	Summary   turns.Raw `json:"summary"`
	Encrypted *string   `json:"encrypted_content"`
}

type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	Refusal  string    `json:"refusal"`
	ImageURL turns.Raw `json:"image_url"`
	Detail   string    `json:"detail"`
	FileID   string    `json:"file_id"`
	FileData string    `json:"file_data"`
	FileURL  string    `json:"file_url"`
	Filename string    `json:"filename"`
}

// resolver finds what an input item stands for.
type resolver struct {
	item func(id string) (Item, error) // of an item_reference
	// compaction reads a compaction item. alone says that it stands for all that is before it.
	compaction func(sealed string) (ms []turns.Message, alone bool, err error)
}

// input is the new input of a request: its items, and the messages that they are.
type input struct {
	items    []item
	messages []turns.Message
}

// item is an item of an input: one message of its own, or those that a compaction item
// stands for.
type item struct {
	mark     mark
	messages []turns.Message
}

func (in *input) marks() []mark {
	out := make([]mark, len(in.items))
	for i := range in.items {
		out[i] = in.items[i].mark
	}
	return out
}

// from is the input without its first n items.
func (in *input) from(n int) *input {
	out := new(input)
	for _, it := range in.items[n:] {
		out.appendItem(it)
	}
	return out
}

// parseInput reads the member input: a text, or items.
func parseInput(raw turns.Raw, r resolver) (*input, error) {
	in := new(input)
	if isNull(raw) {
		return in, nil
	}
	if text, ok := raw.Text(); ok {
		in.add(turns.User, mark{Type: "message"}, turns.TextPart(text))
		return in, nil
	}
	var items []turns.Raw
	if raw.Kind() != '[' || json.Unmarshal(raw, &items) != nil {
		return nil, withCode("invalid_type", invalid("input", "input is a text or a list of items."))
	}
	for i, item := range items {
		if err := in.item(fmt.Sprintf("input[%d]", i), item, r); err != nil {
			return nil, err
		}
	}
	return in, turns.ValidateMessages("/input", in.messages)
}

// add adds an item of one message.
func (in *input) add(role turns.Role, m mark, parts ...turns.Part) {
	if len(parts) != 1 {
		m.Parts = len(parts)
	}
	in.appendItem(item{m, []turns.Message{{Role: role, Parts: parts}}})
}

// appendItem adds an item. Items of the assistant that follow each other are one message, since
// parallel calls belong together; so are outputs of calls.
func (in *input) appendItem(it item) {
	in.items = append(in.items, it)
	if it.mark.Type == "compaction" {
		in.messages = append(in.messages, it.messages...)
		return
	}
	role, parts := it.messages[0].Role, it.messages[0].Parts
	if n := len(in.messages); n > 0 && in.messages[n-1].Role == role && (role == turns.Assistant || role == turns.Tool) {
		if role != turns.Tool || !hasResponse(in.messages[n-1].Parts, parts[0].ID) {
			in.messages[n-1].Parts = append(in.messages[n-1].Parts, parts...)
			return
		}
	}
	in.messages = append(in.messages, turns.Message{Role: role, Parts: slices.Clone(parts)})
}

// instructions are the items of in that a summary may not replace.
func (in *input) instructions() *input {
	out := new(input)
	for _, it := range in.items {
		if it.mark.Type == "message" && it.messages[0].Role == turns.System {
			out.appendItem(it)
		}
	}
	return out
}

func hasResponse(parts []turns.Part, id string) bool {
	for i := range parts {
		if parts[i].ID == id {
			return true
		}
	}
	return false
}

func (in *input) item(at string, raw turns.Raw, r resolver) error {
	var it inputItem
	if raw.Kind() != '{' {
		return withCode("invalid_type", invalid(at, "An item is an object."))
	}
	if json.Unmarshal(raw, &it) != nil {
		return withCode("invalid_type", invalid(at, "The item has a member of another type."))
	}
	if it.Type == "" {
		switch {
		case it.Role != "":
			it.Type = "message"
		case it.ID != "":
			it.Type = "item_reference"
		}
	}
	switch it.Type {
	case "message":
		return in.message(at, &it)
	case "function_call":
		return in.call(at, &it)
	case "function_call_output":
		return in.output(at, &it)
	case "reasoning":
		return in.reasoning(at, raw, &it)
	case "item_reference":
		if r.item == nil {
			return invalid(at, "An item_reference can't be resolved here.")
		}
		found, err := r.item(it.ID)
		if err != nil {
			return withCode("item_not_found", invalid(at, "Item with id '%s' not found.", clip(it.ID)))
		}
		return in.item(at, found, resolver{compaction: r.compaction})
	case "compaction", "compaction_summary":
		if r.compaction == nil || it.Encrypted == nil {
			return invalid(at, "The compaction item can't be read here.")
		}
		ms, alone, err := r.compaction(*it.Encrypted)
		if err != nil {
			return err
		}
		if alone {
			*in = *in.instructions()
		}
		parts := 0
		for _, m := range ms {
			parts += len(m.Parts)
		}
		in.appendItem(item{mark{Type: "compaction", Parts: parts, ID: it.ID, Said: it.Encrypted}, ms})
		return nil
	}
	return withCode("unsupported_item", invalid(at, "Items of the type '%s' are not supported.", clip(it.Type)))
}

func (in *input) message(at string, it *inputItem) error {
	m := mark{Type: "message", ID: it.ID, Phase: it.Phase, Status: statusMark(it.Status)}
	role := turns.Role(it.Role)
	switch it.Role {
	case "developer":
		role, m.Role = turns.System, "developer"
	case "user", "system", "assistant":
	default:
		return invalid(at+".role", "The role of a message is user, assistant, system or developer.")
	}
	if text, ok := it.Content.Text(); ok {
		in.add(role, m, withPhase(turns.TextPart(text), it.Phase))
		return nil
	}
	var list []contentPart
	if it.Content.Kind() != '[' || json.Unmarshal(it.Content, &list) != nil {
		return withCode("invalid_type", invalid(at+".content", "content is a text or a list of parts."))
	}
	if len(list) == 0 {
		list = []contentPart{{Type: "input_text"}}
	}
	parts := make([]turns.Part, 0, len(list))
	for i := range list {
		p, err := list[i].part(fmt.Sprintf("%s.content[%d]", at, i))
		if err != nil {
			return err
		}
		if list[i].Type == "refusal" {
			m.Kind = "refusal"
		}
		parts = append(parts, withPhase(p, it.Phase))
	}
	in.add(role, m, parts...)
	return nil
}

// withPhase keeps the phase of an assistant's message for the provider that knows it.
func withPhase(p turns.Part, phase string) turns.Part {
	if phase != "" && p.Ext == nil {
		p.Ext = encode(map[string]any{"openai": map[string]string{"phase": phase}})
	}
	return p
}

func statusMark(s string) string {
	if s == incomplete {
		return s
	}
	return ""
}

func (c *contentPart) part(at string) (turns.Part, error) {
	switch c.Type {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		return turns.TextPart(c.Text), nil
	case "refusal":
		return turns.TextPart(c.Refusal), nil
	case "input_image":
		url, ok := c.ImageURL.Text()
		if !ok {
			var o struct {
				URL string `json:"url"`
			}
			if c.ImageURL.Kind() == '{' && json.Unmarshal(c.ImageURL, &o) == nil {
				url = o.URL
			}
		}
		return c.data(at, "image", "image_url", url)
	case "input_file", "input_video":
		if c.FileData != "" {
			return c.data(at, "document", "file_data", c.FileData)
		}
		return c.data(at, "document", "file_url", c.FileURL)
	}
	return turns.Part{}, withCode("unsupported_content", invalid(at, "Content of the type '%s' is not supported.", clip(c.Type)))
}

// data is an attachment: its bytes where it has them, else where they are.
func (c *contentPart) data(at, modality, member, url string) (p turns.Part, err error) {
	p = turns.Part{Modality: modality}
	hints := make(map[string]string)
	if c.Detail != "" {
		hints["detail"] = c.Detail
	}
	if c.Filename != "" {
		hints["filename"] = c.Filename
	}
	if len(hints) > 0 {
		p.Ext = encode(map[string]any{"openai": hints})
	}
	rest, inline := strings.CutPrefix(url, "data:")
	switch {
	case url == "" && c.FileID != "":
		p.Type, p.Content = turns.File, c.FileID
	case url == "":
		return p, invalid(at+"."+member, "The content has neither a URL nor data.")
	case inline:
		head, data, ok := strings.Cut(rest, ",")
		mime, coded := strings.CutSuffix(head, ";base64")
		if !ok || !coded {
			return p, invalid(at+"."+member, "A data URL is data:TYPE;base64,DATA.")
		}
		if p.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
			return p, invalid(at+"."+member, "The data is not base64.")
		}
		p.Type, p.MimeType = turns.Blob, mime
	case member == "file_data": // without a prefix: base64 alone
		if p.Data, err = base64.StdEncoding.DecodeString(url); err != nil {
			return p, invalid(at+"."+member, "The data is not base64.")
		}
		p.Type, p.MimeType = turns.Blob, "application/pdf"
	default:
		p.Type, p.Content = turns.URI, url
	}
	return p, nil
}

func (in *input) call(at string, it *inputItem) error {
	if it.CallID == "" || it.Name == "" {
		return invalid(at, "A function_call has a call_id and a name.")
	}
	p := turns.Part{Type: turns.ToolCall, ID: it.CallID, Name: it.Name, Arguments: turns.Raw(`{}`)}
	m := mark{Type: "function_call", ID: it.ID, Status: statusMark(it.Status)}
	if text, ok := it.Arguments.Text(); ok && text != "" {
		p.Arguments = argumentsOf(text)
	}
	in.add(turns.Assistant, m, p)
	return nil
}

// argumentsOf is the arguments of a call as JSON: text that is none is a string.
func argumentsOf(text string) turns.Raw {
	if b, err := withoutSpace([]byte(text)); err == nil {
		return b
	}
	return turns.RawText(text)
}

func (in *input) output(at string, it *inputItem) error {
	if it.CallID == "" {
		return invalid(at+".call_id", "A function_call_output has a call_id.")
	}
	switch it.Output.Kind() {
	case '"', '[':
	default:
		return invalid(at+".output", "output is a text or a list of parts.")
	}
	in.add(turns.Tool, mark{Type: "function_call_output", ID: it.ID, Status: statusMark(it.Status)}, turns.Part{Type: turns.ToolCallResponse, ID: it.CallID, Response: it.Output})
	return nil
}

// reasoning keeps the item whole for the provider that made it: what it holds is opaque.
func (in *input) reasoning(at string, raw turns.Raw, it *inputItem) error {
	read := func(v turns.Raw) (texts []string) {
		var list []contentPart
		if v.Kind() == '[' && json.Unmarshal(v, &list) == nil {
			for _, c := range list {
				texts = append(texts, c.Text)
			}
		}
		return texts
	}
	p := turns.Part{Type: turns.Reasoning, Content: strings.Join(read(it.Content), "\n")}
	summaries := read(it.Summary)
	if p.Content == "" {
		p.Content = strings.Join(summaries, "\n\n")
	}
	if it.Encrypted != nil {
		if ext, ok := openExt(*it.Encrypted); ok {
			p.Ext = ext
		} else {
			p.Ext = encode(map[string]any{"openai": map[string]any{"item": raw}})
		}
	}
	in.add(turns.Assistant, mark{Type: "reasoning", ID: it.ID, Sum: summaries}, p)
	return nil
}

// itemsOf is an input as a list of items.
func itemsOf(input turns.Raw) (items []turns.Raw, err error) {
	switch {
	case isNull(input):
		return nil, nil
	case input.Kind() == '"':
		return []turns.Raw{encode(map[string]any{"type": "message", "role": "user", "content": input})}, nil
	case input.Kind() != '[' || json.Unmarshal(input, &items) != nil:
		return nil, withCode("invalid_type", invalid("input", "input is a text or a list of items."))
	}
	return items, nil
}

// sizeOf is about how many bytes messages take.
func sizeOf(ms []turns.Message) (n int64) {
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			n += int64(len(p.Content) + len(p.Data) + len(p.Arguments) + len(p.Response) + len(p.Ext))
		}
	}
	return n
}
