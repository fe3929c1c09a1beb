package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// Item is an item as a client reads it.
type Item = turns.Raw

// Mark is what a part of a turn's message does not say of the item that it is of. Marks
// stand in the meta of the turn.
type Mark struct {
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

// extPrefix begins the encrypted_content of reasoning whose provider is not OpenAI: the
// part's ext, which goes to that provider alone.
const extPrefix = "nexus1."

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

// TextPart is a part of a message as a client reads it.
type TextPart struct {
	Type        string      `json:"type"`
	Text        *string     `json:"text,omitzero"`
	Refusal     *string     `json:"refusal,omitzero"`
	Annotations []turns.Raw `json:"annotations,omitzero"`
	Logprobs    []turns.Raw `json:"logprobs,omitzero"`
}

func OutputText(s string) TextPart {
	return TextPart{Type: "output_text", Text: &s, Annotations: []turns.Raw{}, Logprobs: []turns.Raw{}}
}

func RefusalPart(s string) TextPart { return TextPart{Type: "refusal", Refusal: &s} }

type MessageItem struct {
	Type    string      `json:"type"`
	ID      string      `json:"id"`
	Status  string      `json:"status"`
	Role    string      `json:"role"`
	Content []turns.Raw `json:"content"`
	Phase   string      `json:"phase,omitzero"`
}

type CallItem struct {
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

type ReasoningItem struct {
	Type      string     `json:"type"`
	ID        string     `json:"id"`
	Summary   []TextPart `json:"summary"`
	Content   []TextPart `json:"content,omitzero"`
	Encrypted string     `json:"encrypted_content,omitzero"`
}

// itemPrefixes begin the ids of items.
var itemPrefixes = map[string]string{"message": "msg_", "function_call": "fc_", "function_call_output": "fco_", "reasoning": "rs_", "compaction": "cmp_"}

// ItemID is the id of an item that nobody named: of which response, and which one.
func ItemID(kind string, r turns.Ref, half string, i int) string {
	return fmt.Sprintf("%s%s%s%s%d", itemPrefixes[kind], r.Session, r.Turn, half, i)
}

// Halves of the ids of items.
const (
	inputHalf  = "i"
	OutputHalf = "o"
)

// ParseItemID returns the response that an item is of. ok is false for ids of clients.
func ParseItemID(id string) (r turns.Ref, ok bool) {
	_, rest, found := strings.Cut(id, "_")
	if !found || len(rest) < 2*idLength+2 {
		return r, false
	}
	return ParseResponseID(ResponsePrefix + rest[:2*idLength])
}

// FrontItem is the compaction item of an answer; nil: it has none.
func FrontItem(ref turns.Ref, sealed string) Item {
	if sealed == "" {
		return nil
	}
	return Encode(CompactionItem{"compaction", ItemID("compaction", ref, OutputHalf, 0), sealed})
}

// AnswerItems are the items of an answer, by the meta of its turn, nil if it has none.
func AnswerItems(ref turns.Ref, m *turns.Message, meta *AnswerMeta, encrypted bool) []Item {
	if meta == nil {
		meta = new(AnswerMeta)
	}
	items := outputItems(ref, m, meta.Items, encrypted)
	if front := FrontItem(ref, meta.Sealed); front != nil {
		items = append([]Item{front}, items...)
	}
	return items
}

// outputItems are the items of the model, one for each part of its message.
func outputItems(ref turns.Ref, m *turns.Message, marks []Mark, encrypted bool) []Item {
	out := make([]Item, 0, len(m.Parts))
	for i := range m.Parts {
		k := Mark{}
		if i < len(marks) {
			k = marks[i]
		}
		out = append(out, OutputItemOf(ref, i, &m.Parts[i], k, encrypted))
	}
	return out
}

func orCompleted(s string) string {
	if s == "" {
		return Completed
	}
	return s
}

func OutputItemOf(ref turns.Ref, i int, p *turns.Part, k Mark, encrypted bool) Item {
	switch p.Type {
	case turns.ToolCall:
		return Encode(CallItem{"function_call", ItemID("function_call", ref, OutputHalf, i), p.ID, p.Name, ArgumentText(p), orCompleted(k.Status)})
	case turns.Reasoning:
		it := ReasoningItem{Type: "reasoning", ID: ItemID("reasoning", ref, OutputHalf, i), Summary: []TextPart{}}
		for _, s := range k.Sum {
			it.Summary = append(it.Summary, TextPart{Type: "summary_text", Text: &s})
		}
		if text := p.Content; text != "" && len(k.Sum) == 0 {
			it.Content = []TextPart{{Type: "reasoning_text", Text: &text}}
		}
		if encrypted {
			it.Encrypted = encryptedOf(p.Ext)
		}
		return Encode(it)
	}
	content := OutputText(p.Content)
	if k.Kind == "refusal" {
		content = RefusalPart(p.Content)
	}
	return Encode(MessageItem{Type: "message", ID: ItemID("message", ref, OutputHalf, i), Status: orCompleted(k.Status), Role: "assistant", Content: []turns.Raw{Encode(content)}, Phase: phaseOf(p.Ext)})
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

// ArgumentText is the arguments of a call as a client reads them.
func ArgumentText(p *turns.Part) string {
	if text, ok := p.Arguments.Text(); ok { // the model wrote no JSON
		return text
	}
	return string(p.Arguments)
}

// InputItems are the items of a request, by the marks of its turn.
func InputItems(ref turns.Ref, ms []turns.Message, marks []Mark) (out []Item) {
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
			id = ItemID(k.Type, ref, inputHalf, i)
		}
		if it := inputItemOf(id, role, parts, k); it != nil {
			out = append(out, it)
		}
	}
	return out
}

func inputItemOf(id string, role turns.Role, parts []turns.Part, k Mark) Item {
	if k.Type == "compaction" {
		sealed := ""
		if k.Said != nil {
			sealed = *k.Said
		}
		return Encode(CompactionItem{"compaction", id, sealed})
	}
	if len(parts) == 0 {
		return nil
	}
	p := &parts[0]
	switch k.Type {
	case "function_call":
		return Encode(CallItem{"function_call", id, p.ID, p.Name, ArgumentText(p), orCompleted(k.Status)})
	case "function_call_output":
		return Encode(outputItem{"function_call_output", id, p.ID, p.Response, orCompleted(k.Status)})
	case "reasoning":
		it := ReasoningItem{Type: "reasoning", ID: id, Summary: []TextPart{}, Encrypted: encryptedOf(p.Ext)}
		for _, s := range k.Sum {
			it.Summary = append(it.Summary, TextPart{Type: "summary_text", Text: &s})
		}
		return Encode(it)
	}
	it := MessageItem{Type: "message", ID: id, Status: orCompleted(k.Status), Role: string(role), Content: []turns.Raw{}, Phase: k.Phase}
	if k.Role != "" {
		it.Role = k.Role
	}
	for i := range parts {
		it.Content = append(it.Content, ContentOf(role, &parts[i], k.Kind == "refusal"))
	}
	return Encode(it)
}

func ContentOf(role turns.Role, p *turns.Part, refused bool) turns.Raw {
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
		return Encode(RefusalPart(p.Content))
	case p.Type == turns.Text && role == turns.Assistant:
		return Encode(OutputText(p.Content))
	case p.Type == turns.Text:
		return Encode(map[string]string{"type": "input_text", "text": p.Content})
	case p.Modality == "image":
		m := map[string]any{"type": "input_image", "image_url": url, "detail": "auto"}
		if hints.OpenAI.Detail != "" {
			m["detail"] = hints.OpenAI.Detail
		}
		if p.Type == turns.File {
			m["image_url"], m["file_id"] = nil, p.Content
		}
		return Encode(m)
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
	return Encode(m)
}

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

type CompactionItem struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Encrypted string `json:"encrypted_content"`
}

const CompactionPrefix = "cmp_"

// withoutSpace is b without white space between its values.
func withoutSpace(b []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(b))
	err := v.Compact()
	return v, err
}
