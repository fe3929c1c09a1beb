package render

import (
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"

	"nexus/turns"
	"nexus/turns/internal/plain"
)

// geminiToolName is the limit of a function's name, in characters.
const geminiToolName = 64

// skipSignature replaces the signature of calls that another model made
// (API docs, "Thought Signatures", FAQ).
const skipSignature = "skip_thought_signature_validator"

// Gemini renders systemInstruction (as System) and contents (as Messages) of a
// generateContent request.
//
//   - System text is treated as by [Anthropic]: sections and leading system
//     messages in System, a later one a marked user text, first content the
//     user's.
//   - Calls are functionCall parts; their results are functionResponse parts in
//     the order of the calls, alone in the content that follows, since the API
//     wants as many responses there as calls. Ids are left out: not every
//     endpoint knows them, and the order pairs.
//   - args that are no object are {"value": …}. A response that is an object
//     stands as it is; any other is {"output": …}, of a failed call {"error": …}.
//   - Images are inlineData or fileData, those of results in a user content
//     after the responses. A GIF, and an address whose type is not known, is a
//     placeholder.
//   - ext.gemini.thoughtSignature of a part of the model stands next to it, byte
//     for byte; one that is not base64 is left out, as is reasoning without one.
//     The first call of a content gets a value of Google's if it has none, since
//     another model made it: Gemini 3 refuses it otherwise.
//   - Characters that a function's name can't have become _.
//
// Errors: as [OpenAI].
func Gemini(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	return (*Memo)(nil).Gemini(system, tools, ms)
}

// Gemini is [Gemini] after the rendering of e.
func (e *Memo) Gemini(system []turns.Section, tools []turns.Raw, ms []turns.Message) (Rendered, error) {
	r, c, err := e.render("gemini", new(geminiWriter), tools, ms, func(contents []any) []any {
		if len(contents) == 0 || contents[0].(*geminiContent).Role != "model" {
			return nil
		}
		return []any{&geminiContent{Role: "user", Parts: appendGemini(nil, markContinued)}}
	})
	if err != nil {
		return r, err
	}
	var parts []geminiPart
	for _, s := range system {
		parts = appendGemini(parts, s.Content)
	}
	if parts = append(parts, c.(*geminiWriter).system...); len(parts) > 0 {
		if err := e.encodeSystem(&r, "gemini", &geminiContent{Parts: parts}); err != nil {
			return Rendered{}, fmt.Errorf("render gemini system: %w", err)
		}
	}
	return r, nil
}

type geminiContent struct {
	Role  string       `json:"role,omitzero"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text             *string         `json:"text,omitzero"`
	Thought          bool            `json:"thought,omitzero"`
	InlineData       *geminiData     `json:"inlineData,omitzero"`
	FileData         *geminiData     `json:"fileData,omitzero"`
	FunctionCall     *geminiCall     `json:"functionCall,omitzero"`
	FunctionResponse *geminiResponse `json:"functionResponse,omitzero"`
	ThoughtSignature turns.Raw       `json:"thoughtSignature,omitzero"`
}

type geminiData struct {
	MimeType string `json:"mimeType,omitzero"`
	Data     string `json:"data,omitzero"`
	FileURI  string `json:"fileUri,omitzero"`
}

type geminiCall struct {
	Name string    `json:"name"`
	Args turns.Raw `json:"args"`
}

type geminiResponse struct {
	Name     string    `json:"name"`
	Response turns.Raw `json:"response"`
}

type geminiWriter struct {
	system   []geminiPart // of the system messages that the context begins with
	begun    bool         // something followed them
	contents []*geminiContent
	closed   bool // the last content holds responses: nothing joins it
}

// clone implements [converter]. Later exchanges change the last content.
func (w *geminiWriter) clone() converter {
	c := &geminiWriter{slices.Clip(w.system), w.begun, slices.Clone(w.contents), w.closed}
	if n := len(c.contents); n > 0 {
		c.contents[n-1] = &geminiContent{c.contents[n-1].Role, slices.Clone(c.contents[n-1].Parts)}
	}
	return c
}

func (w *geminiWriter) end() []any { return pointers(w.contents) }

func (w *geminiWriter) addParts(role string, parts []geminiPart) {
	if len(parts) == 0 {
		return
	}
	if n := len(w.contents); n > 0 && w.contents[n-1].Role == role && !w.closed {
		w.contents[n-1].Parts = append(w.contents[n-1].Parts, parts...)
		return
	}
	w.contents = append(w.contents, &geminiContent{role, parts})
	w.closed = false
}

func (w *geminiWriter) exchange(x *exchange) {
	if x.role == turns.System && !w.begun {
		for _, p := range x.parts {
			w.system = appendGemini(w.system, plain.Text(p))
		}
		return
	}
	w.begun = true
	var parts, responses, shown []geminiPart
	for _, p := range x.parts {
		parts = appendGeminiPart(parts, p, x.role)
	}
	if x.role != turns.Assistant {
		w.addParts("user", parts)
		return
	}
	if i := slices.IndexFunc(parts, func(p geminiPart) bool { return p.FunctionCall != nil }); i >= 0 && parts[i].ThoughtSignature == nil {
		parts[i].ThoughtSignature = turns.RawText(skipSignature)
	}
	w.addParts("model", parts)
	for i, r := range x.results {
		if r == nil {
			continue
		}
		v, images := geminiResult(r)
		shown = append(shown, images...)
		responses = append(responses, geminiPart{FunctionResponse: &geminiResponse{geminiName(x.calls[i].Name), v}})
	}
	if len(responses) > 0 {
		w.addParts("user", responses)
		w.closed = true
		if x.missing == 0 {
			w.addParts("user", shown)
		}
	}
}

func appendGemini(to []geminiPart, s string) []geminiPart {
	if plain.IsBlank(s) {
		return to
	}
	return append(to, geminiPart{Text: &s})
}

func appendGeminiPart(to []geminiPart, p *turns.Part, role turns.Role) []geminiPart {
	var ext struct {
		ThoughtSignature turns.Raw `json:"thoughtSignature"`
	}
	plain.Ext(p, "gemini", &ext)
	if s, _ := ext.ThoughtSignature.Text(); !isSignature(s) {
		ext.ThoughtSignature = nil
	}
	signed := ext.ThoughtSignature != nil && p.Ref == nil && role == turns.Assistant
	switch {
	case p.Type == turns.ToolCall:
		g := geminiPart{FunctionCall: &geminiCall{geminiName(p.Name), plain.Object(plain.Arguments(p))}}
		if signed {
			g.ThoughtSignature = ext.ThoughtSignature
		}
		return append(to, g)
	case signed && (p.Type == turns.Text || p.Type == turns.Reasoning):
		return append(to, geminiPart{Text: &p.Content, Thought: p.Type == turns.Reasoning, ThoughtSignature: ext.ThoughtSignature})
	case role == turns.User:
		if pic, ok := geminiPicture(p); ok {
			return append(to, pic)
		}
	case role == turns.System:
		if s := plain.Text(p); !plain.IsBlank(s) {
			return appendGemini(to, markSystem+s)
		}
		return to
	}
	return appendGemini(to, plain.Text(p))
}

// geminiName is a tool's name as Gemini takes it: dots may stand in it, and it
// begins with a letter or with _.
func geminiName(name string) string {
	s := strings.Map(func(r rune) rune {
		if r == '.' || plain.IsIDRune(r) {
			return r
		}
		return '_'
	}, name)
	if s == "" || !plain.IsIDRune(rune(s[0])) || s[0] == '-' || '0' <= s[0] && s[0] <= '9' {
		s = "_" + s
	}
	return s[:min(len(s), geminiToolName)]
}

// isSignature reports whether s can be one: base64 of either alphabet, padded or
// not, as the API reads bytes.
func isSignature(s string) bool {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	_, err := base64.RawStdEncoding.DecodeString(s)
	return err == nil && s != "" && !strings.ContainsAny(s, "\r\n")
}

// geminiPicture returns the image in p. ok is false if Gemini does not accept it.
func geminiPicture(p *turns.Part) (part geminiPart, ok bool) {
	pic, ok := plain.PictureOf(p)
	if pic.MIME == "" { // of an address
		pic.MIME = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}[path.Ext(pic.URL)]
	}
	switch {
	case !ok || !slices.Contains([]string{"image/png", "image/jpeg", "image/webp"}, pic.MIME):
		return geminiPart{}, false
	case pic.URL != "":
		return geminiPart{FileData: &geminiData{MimeType: pic.MIME, FileURI: pic.URL}}, true
	}
	return geminiPart{InlineData: &geminiData{MimeType: pic.MIME, Data: pic.Base64}}, true
}

// geminiResult returns the response object of r and the images in it.
func geminiResult(r *turns.Part) (v turns.Raw, images []geminiPart) {
	if r.Ref == nil && r.Response.Kind() == '{' && !r.IsError {
		return r.Response, nil
	}
	v = r.Response
	if _, list := plain.PartList(r.Response); list || r.Ref != nil {
		var text string
		for _, p := range plain.ResultParts(r) {
			s := plain.Text(&p)
			if pic, ok := geminiPicture(&p); ok {
				images = append(images, pic)
				s = "[image, shown after the tool results]"
			}
			if text != "" && s != "" {
				text += "\n"
			}
			text += s
		}
		v = turns.RawText(text)
	}
	key := `{"output":`
	if r.IsError {
		key = `{"error":`
	}
	return append(append(turns.Raw(key), v...), '}'), images
}
