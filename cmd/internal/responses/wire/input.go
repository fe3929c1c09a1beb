package wire

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// rawItem has the members of all kinds of input items.
type rawItem struct {
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

// Resolver finds what an input item stands for.
type Resolver struct {
	Item func(id string) (Item, error) // of an item_reference
	// compaction reads a compaction item. alone says that it stands for all that is before it.
	Compaction func(sealed string) (ms []turns.Message, alone bool, err error)
}

// Input is the new input of a request: its items, and the messages that they are.
type Input struct {
	Items    []InputItem
	Messages []turns.Message
}

// InputItem is an item of an input: one message of its own, or those that a compaction item
// stands for.
type InputItem struct {
	Mark     Mark
	Messages []turns.Message
}

func (in *Input) Marks() []Mark {
	out := make([]Mark, len(in.Items))
	for i := range in.Items {
		out[i] = in.Items[i].Mark
	}
	return out
}

// From is the input without its first n items.
func (in *Input) From(n int) *Input {
	out := new(Input)
	for _, it := range in.Items[n:] {
		out.appendItem(it)
	}
	return out
}

// ParseInput reads the member input: a text, or items.
func ParseInput(raw turns.Raw, r Resolver) (*Input, error) {
	in := new(Input)
	if IsNull(raw) {
		return in, nil
	}
	if text, ok := raw.Text(); ok {
		in.add(turns.User, Mark{Type: "message"}, turns.TextPart(text))
		return in, nil
	}
	var items []turns.Raw
	if raw.Kind() != '[' || json.Unmarshal(raw, &items) != nil {
		return nil, WithCode("invalid_type", Invalid("input", "input is a text or a list of items."))
	}
	for i, item := range items {
		if err := in.item(fmt.Sprintf("input[%d]", i), item, r); err != nil {
			return nil, err
		}
	}
	return in, turns.ValidateMessages("/input", in.Messages)
}

// add adds an item of one message.
func (in *Input) add(role turns.Role, m Mark, parts ...turns.Part) {
	if len(parts) != 1 {
		m.Parts = len(parts)
	}
	in.appendItem(InputItem{m, []turns.Message{{Role: role, Parts: parts}}})
}

// appendItem adds an item. Items of the assistant that follow each other are one message, since
// parallel calls belong together; so are outputs of calls.
func (in *Input) appendItem(it InputItem) {
	in.Items = append(in.Items, it)
	if it.Mark.Type == "compaction" {
		in.Messages = append(in.Messages, it.Messages...)
		return
	}
	role, parts := it.Messages[0].Role, it.Messages[0].Parts
	if n := len(in.Messages); n > 0 && in.Messages[n-1].Role == role && (role == turns.Assistant || role == turns.Tool) {
		if role != turns.Tool || !hasResponse(in.Messages[n-1].Parts, parts[0].ID) {
			in.Messages[n-1].Parts = append(in.Messages[n-1].Parts, parts...)
			return
		}
	}
	in.Messages = append(in.Messages, turns.Message{Role: role, Parts: slices.Clone(parts)})
}

// instructions are the items of in that a summary may not replace.
func (in *Input) instructions() *Input {
	out := new(Input)
	for _, it := range in.Items {
		if it.Mark.Type == "message" && it.Messages[0].Role == turns.System {
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

func (in *Input) item(at string, raw turns.Raw, r Resolver) error {
	var it rawItem
	if raw.Kind() != '{' {
		return WithCode("invalid_type", Invalid(at, "An item is an object."))
	}
	if json.Unmarshal(raw, &it) != nil {
		return WithCode("invalid_type", Invalid(at, "The item has a member of another type."))
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
		if r.Item == nil {
			return Invalid(at, "An item_reference can't be resolved here.")
		}
		found, err := r.Item(it.ID)
		if err != nil {
			return WithCode("item_not_found", Invalid(at, "Item with id '%s' not found.", Clip(it.ID)))
		}
		return in.item(at, found, Resolver{Compaction: r.Compaction})
	case "compaction", "compaction_summary":
		if r.Compaction == nil || it.Encrypted == nil {
			return Invalid(at, "The compaction item can't be read here.")
		}
		ms, alone, err := r.Compaction(*it.Encrypted)
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
		in.appendItem(InputItem{Mark{Type: "compaction", Parts: parts, ID: it.ID, Said: it.Encrypted}, ms})
		return nil
	}
	return WithCode("unsupported_item", Invalid(at, "Items of the type '%s' are not supported.", Clip(it.Type)))
}

func (in *Input) message(at string, it *rawItem) error {
	m := Mark{Type: "message", ID: it.ID, Phase: it.Phase, Status: statusMark(it.Status)}
	role := turns.Role(it.Role)
	switch it.Role {
	case "developer":
		role, m.Role = turns.System, "developer"
	case "user", "system", "assistant":
	default:
		return Invalid(at+".role", "The role of a message is user, assistant, system or developer.")
	}
	if text, ok := it.Content.Text(); ok {
		in.add(role, m, withPhase(turns.TextPart(text), it.Phase))
		return nil
	}
	var list []contentPart
	if it.Content.Kind() != '[' || json.Unmarshal(it.Content, &list) != nil {
		return WithCode("invalid_type", Invalid(at+".content", "content is a text or a list of parts."))
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
		p.Ext = Encode(map[string]any{"openai": map[string]string{"phase": phase}})
	}
	return p
}

func statusMark(s string) string {
	if s == Incomplete {
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
	return turns.Part{}, WithCode("unsupported_content", Invalid(at, "Content of the type '%s' is not supported.", Clip(c.Type)))
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
		p.Ext = Encode(map[string]any{"openai": hints})
	}
	rest, inline := strings.CutPrefix(url, "data:")
	switch {
	case url == "" && c.FileID != "":
		p.Type, p.Content = turns.File, c.FileID
	case url == "":
		return p, Invalid(at+"."+member, "The content has neither a URL nor data.")
	case inline:
		head, data, ok := strings.Cut(rest, ",")
		mime, coded := strings.CutSuffix(head, ";base64")
		if !ok || !coded {
			return p, Invalid(at+"."+member, "A data URL is data:TYPE;base64,DATA.")
		}
		if p.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
			return p, Invalid(at+"."+member, "The data is not base64.")
		}
		p.Type, p.MimeType = turns.Blob, mime
	case member == "file_data": // without a prefix: base64 alone
		if p.Data, err = base64.StdEncoding.DecodeString(url); err != nil {
			return p, Invalid(at+"."+member, "The data is not base64.")
		}
		p.Type, p.MimeType = turns.Blob, "application/pdf"
	default:
		p.Type, p.Content = turns.URI, url
	}
	return p, nil
}

func (in *Input) call(at string, it *rawItem) error {
	if it.CallID == "" || it.Name == "" {
		return Invalid(at, "A function_call has a call_id and a name.")
	}
	p := turns.Part{Type: turns.ToolCall, ID: it.CallID, Name: it.Name, Arguments: turns.Raw(`{}`)}
	m := Mark{Type: "function_call", ID: it.ID, Status: statusMark(it.Status)}
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

func (in *Input) output(at string, it *rawItem) error {
	if it.CallID == "" {
		return Invalid(at+".call_id", "A function_call_output has a call_id.")
	}
	switch it.Output.Kind() {
	case '"', '[':
	default:
		return Invalid(at+".output", "output is a text or a list of parts.")
	}
	in.add(turns.Tool, Mark{Type: "function_call_output", ID: it.ID, Status: statusMark(it.Status)}, turns.Part{Type: turns.ToolCallResponse, ID: it.CallID, Response: it.Output})
	return nil
}

// reasoning keeps the item whole for the provider that made it: what it holds is opaque.
func (in *Input) reasoning(at string, raw turns.Raw, it *rawItem) error {
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
			p.Ext = Encode(map[string]any{"openai": map[string]any{"item": raw}})
		}
	}
	in.add(turns.Assistant, Mark{Type: "reasoning", ID: it.ID, Sum: summaries}, p)
	return nil
}

// ItemsOf is an input as a list of items.
func ItemsOf(input turns.Raw) (items []turns.Raw, err error) {
	switch {
	case IsNull(input):
		return nil, nil
	case input.Kind() == '"':
		return []turns.Raw{Encode(map[string]any{"type": "message", "role": "user", "content": input})}, nil
	case input.Kind() != '[' || json.Unmarshal(input, &items) != nil:
		return nil, WithCode("invalid_type", Invalid("input", "input is a text or a list of items."))
	}
	return items, nil
}

// SizeOf is about how many bytes messages take.
func SizeOf(ms []turns.Message) (n int64) {
	for i := range ms {
		for j := range ms[i].Parts {
			p := &ms[i].Parts[j]
			n += int64(len(p.Content) + len(p.Data) + len(p.Arguments) + len(p.Response) + len(p.Ext))
		}
	}
	return n
}
