package responses

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// Item is an item as a client reads it.
type Item = turns.Raw

// mark is what a part of a turn's message does not say of the item that it is of. Marks
// stand in the meta of the turn.
type mark struct {
	Type   string   `json:"t"`             // message, function_call, function_call_output, reasoning, compaction
	Parts  int      `json:"n,omitzero"`    // how many parts it has; 0: one
	ID     string   `json:"id,omitzero"`   // that a client gave; "": derived from the turn
	Role   string   `json:"r,omitzero"`    // of a message, where it is not that of the message: developer
	Phase  string   `json:"ph,omitzero"`   // of an assistant's message
	Status string   `json:"st,omitzero"`   // "": completed
	Kind   string   `json:"k,omitzero"`    // refusal
	Sum    []string `json:"sum,omitzero"`  // of reasoning: its summaries
	Said   *string  `json:"said,omitzero"` // what was streamed, where it is not what is stored
}

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
	item       func(id string) (Item, error)                // of an item_reference
	compaction func(sealed string) ([]turns.Message, error) // of a compaction item
}

// input is the new input of a request: messages, and what they do not say of its items.
type input struct {
	messages []turns.Message
	marks    []mark
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

// add adds the parts of an item. Items of the assistant that follow each other are one
// message, since parallel calls belong together; so are outputs of calls.
func (in *input) add(role turns.Role, m mark, parts ...turns.Part) {
	if len(parts) != 1 {
		m.Parts = len(parts)
	}
	in.marks = append(in.marks, m)
	if n := len(in.messages); n > 0 && in.messages[n-1].Role == role && (role == turns.Assistant || role == turns.Tool) {
		if role != turns.Tool || !hasResponse(in.messages[n-1].Parts, parts[0].ID) {
			in.messages[n-1].Parts = append(in.messages[n-1].Parts, parts...)
			return
		}
	}
	in.messages = append(in.messages, turns.Message{Role: role, Parts: parts})
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
		ms, err := r.compaction(*it.Encrypted)
		if err != nil {
			return err
		}
		parts := 0
		for _, m := range ms {
			in.messages = append(in.messages, m)
			parts += len(m.Parts)
		}
		in.marks = append(in.marks, mark{Type: "compaction", Parts: parts, ID: it.ID, Said: it.Encrypted})
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
	if b, err := compact([]byte(text)); err == nil {
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

// extPrefix begins the encrypted_content of reasoning whose provider is not OpenAI: the
// part's ext, which goes to that provider alone.
const extPrefix = "nexus1."

func openExt(s string) (turns.Raw, bool) {
	coded, ok := strings.CutPrefix(s, extPrefix)
	if !ok {
		return nil, false
	}
	b, err := base64.RawURLEncoding.DecodeString(coded)
	if err != nil || turns.Raw(b).Kind() != '{' {
		return nil, false
	}
	var m map[string]turns.Raw
	return b, json.Unmarshal(b, &m) == nil
}

// encryptedOf is the encrypted_content of a reasoning part; "": it has none.
func encryptedOf(ext turns.Raw) string {
	if ext == nil {
		return ""
	}
	var o struct {
		OpenAI *struct {
			Encrypted string `json:"encrypted_content"`
			Item      *struct {
				Encrypted string `json:"encrypted_content"`
			} `json:"item"`
		} `json:"openai"`
	}
	if json.Unmarshal(ext, &o) == nil && o.OpenAI != nil {
		if o.OpenAI.Item != nil && o.OpenAI.Item.Encrypted != "" {
			return o.OpenAI.Item.Encrypted
		}
		return o.OpenAI.Encrypted
	}
	return extPrefix + base64.RawURLEncoding.EncodeToString(ext)
}

// textPart is a part of a message as a client reads it.
type textPart struct {
	Type        string      `json:"type"`
	Text        *string     `json:"text,omitzero"`
	Refusal     *string     `json:"refusal,omitzero"`
	Annotations []turns.Raw `json:"annotations,omitzero"`
	Logprobs    []turns.Raw `json:"logprobs,omitzero"`
}

func outputText(s string) textPart {
	return textPart{Type: "output_text", Text: &s, Annotations: []turns.Raw{}, Logprobs: []turns.Raw{}}
}
func refusalPart(s string) textPart { return textPart{Type: "refusal", Refusal: &s} }

type messageItem struct {
	Type    string      `json:"type"`
	ID      string      `json:"id"`
	Status  string      `json:"status"`
	Role    string      `json:"role"`
	Content []turns.Raw `json:"content"`
	Phase   string      `json:"phase,omitzero"`
}

type callItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
}

type outputItem struct {
	Type   string    `json:"type"`
	ID     string    `json:"id"`
	CallID string    `json:"call_id"`
	Output turns.Raw `json:"output"`
	Status string    `json:"status"`
}

type reasoningItem struct {
	Type      string     `json:"type"`
	ID        string     `json:"id"`
	Summary   []textPart `json:"summary"`
	Content   []textPart `json:"content,omitzero"`
	Encrypted string     `json:"encrypted_content,omitzero"`
}

// itemPrefixes begin the ids of items.
var itemPrefixes = map[string]string{"message": "msg_", "function_call": "fc_", "function_call_output": "fco_", "reasoning": "rs_", "compaction": "cmp_"}

// itemID is the id of an item that nobody named: of which response, and which one.
func itemID(kind string, r turns.Ref, half string, i int) string {
	return fmt.Sprintf("%s%s%s%s%d", itemPrefixes[kind], r.Session, r.Turn, half, i)
}

// Halves of the ids of items.
const (
	inputHalf  = "i"
	outputHalf = "o"
)

// parseItemID returns the response that an item is of. ok is false for ids of clients.
func parseItemID(id string) (r turns.Ref, ok bool) {
	_, rest, found := strings.Cut(id, "_")
	if !found || len(rest) < 2*idLength+2 {
		return r, false
	}
	return parseResponseID(responsePrefix + rest[:2*idLength])
}

// outputItems are the items of an answer, one for each part of its message.
func outputItems(ref turns.Ref, m *turns.Message, marks []mark, encrypted bool) []Item {
	out := make([]Item, 0, len(m.Parts))
	for i := range m.Parts {
		k := mark{}
		if i < len(marks) {
			k = marks[i]
		}
		out = append(out, outputItemOf(ref, i, &m.Parts[i], k, encrypted))
	}
	return out
}

func orCompleted(s string) string {
	if s == "" {
		return completed
	}
	return s
}

func outputItemOf(ref turns.Ref, i int, p *turns.Part, k mark, encrypted bool) Item {
	switch p.Type {
	case turns.ToolCall:
		return encode(callItem{"function_call", itemID("function_call", ref, outputHalf, i), p.ID, p.Name, argumentText(p), orCompleted(k.Status)})
	case turns.Reasoning:
		it := reasoningItem{Type: "reasoning", ID: itemID("reasoning", ref, outputHalf, i), Summary: []textPart{}}
		for _, s := range k.Sum {
			it.Summary = append(it.Summary, textPart{Type: "summary_text", Text: &s})
		}
		if text := p.Content; text != "" && len(k.Sum) == 0 {
			it.Content = []textPart{{Type: "reasoning_text", Text: &text}}
		}
		if encrypted {
			it.Encrypted = encryptedOf(p.Ext)
		}
		return encode(it)
	}
	content := outputText(p.Content)
	if k.Kind == "refusal" {
		content = refusalPart(p.Content)
	}
	return encode(messageItem{Type: "message", ID: itemID("message", ref, outputHalf, i), Status: orCompleted(k.Status), Role: "assistant", Content: []turns.Raw{encode(content)}, Phase: phaseOf(p.Ext)})
}

func phaseOf(ext turns.Raw) string {
	var o struct {
		OpenAI struct {
			Phase string `json:"phase"`
		} `json:"openai"`
	}
	if ext == nil || json.Unmarshal(ext, &o) != nil || o.OpenAI.Phase != "commentary" && o.OpenAI.Phase != "final_answer" {
		return ""
	}
	return o.OpenAI.Phase
}

// argumentText is the arguments of a call as a client reads them.
func argumentText(p *turns.Part) string {
	if text, ok := p.Arguments.Text(); ok { // the model wrote no JSON
		return text
	}
	return string(p.Arguments)
}

// inputItems are the items of a request, by the marks of its turn.
func inputItems(ref turns.Ref, ms []turns.Message, marks []mark) (out []Item) {
	at, part := 0, 0
	take := func(n int) (role turns.Role, parts []turns.Part) {
		for n > 0 && at < len(ms) {
			left := ms[at].Parts[part:]
			if len(left) == 0 {
				at, part = at+1, 0
				continue
			}
			k := min(n, len(left))
			role, parts, part, n = ms[at].Role, append(parts, left[:k]...), part+k, n-k
		}
		return role, parts
	}
	for i, k := range marks {
		n := k.Parts
		if n == 0 && k.Type != "compaction" {
			n = 1
		}
		role, parts := take(n)
		id := k.ID
		if id == "" {
			id = itemID(k.Type, ref, inputHalf, i)
		}
		if it := inputItemOf(id, role, parts, k); it != nil {
			out = append(out, it)
		}
	}
	return out
}

func inputItemOf(id string, role turns.Role, parts []turns.Part, k mark) Item {
	if k.Type == "compaction" {
		sealed := ""
		if k.Said != nil {
			sealed = *k.Said
		}
		return encode(struct {
			Type      string `json:"type"`
			ID        string `json:"id"`
			Encrypted string `json:"encrypted_content"`
		}{"compaction", id, sealed})
	}
	if len(parts) == 0 {
		return nil
	}
	p := &parts[0]
	switch k.Type {
	case "function_call":
		return encode(callItem{"function_call", id, p.ID, p.Name, argumentText(p), orCompleted(k.Status)})
	case "function_call_output":
		return encode(outputItem{"function_call_output", id, p.ID, p.Response, orCompleted(k.Status)})
	case "reasoning":
		it := reasoningItem{Type: "reasoning", ID: id, Summary: []textPart{}, Encrypted: encryptedOf(p.Ext)}
		for _, s := range k.Sum {
			it.Summary = append(it.Summary, textPart{Type: "summary_text", Text: &s})
		}
		return encode(it)
	}
	it := messageItem{Type: "message", ID: id, Status: orCompleted(k.Status), Role: string(role), Content: []turns.Raw{}, Phase: k.Phase}
	if k.Role != "" {
		it.Role = k.Role
	}
	for i := range parts {
		it.Content = append(it.Content, contentOf(role, &parts[i], k.Kind == "refusal"))
	}
	return encode(it)
}

func contentOf(role turns.Role, p *turns.Part, refused bool) turns.Raw {
	var hints struct {
		OpenAI struct {
			Detail   string `json:"detail"`
			Filename string `json:"filename"`
		} `json:"openai"`
	}
	if p.Ext != nil {
		_ = json.Unmarshal(p.Ext, &hints)
	}
	url := p.Content
	if p.Type == turns.Blob {
		url = "data:" + p.MimeType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
	}
	switch {
	case p.Type == turns.Text && refused:
		return encode(refusalPart(p.Content))
	case p.Type == turns.Text && role == turns.Assistant:
		return encode(outputText(p.Content))
	case p.Type == turns.Text:
		return encode(map[string]string{"type": "input_text", "text": p.Content})
	case p.Modality == "image":
		m := map[string]any{"type": "input_image", "image_url": url, "detail": "auto"}
		if hints.OpenAI.Detail != "" {
			m["detail"] = hints.OpenAI.Detail
		}
		if p.Type == turns.File {
			m["image_url"], m["file_id"] = nil, p.Content
		}
		return encode(m)
	}
	m := map[string]any{"type": "input_file"}
	if hints.OpenAI.Filename != "" {
		m["filename"] = hints.OpenAI.Filename
	}
	switch p.Type {
	case turns.Blob:
		m["file_data"] = url
	case turns.File:
		m["file_id"] = p.Content
	default:
		m["file_url"] = url
	}
	return encode(m)
}
