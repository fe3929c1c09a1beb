package summary

import (
	"fmt"
	"slices"
	"strings"

	"nexus/turns"
)

// Images counts the images in halves: image parts, images in tool results, and data
// URIs in texts.
func Images(halves []HalfTurn) int {
	n := 0
	for i := range halves {
		for j := range halves[i].Messages {
			n += imagesIn(halves[i].Messages[j].Parts)
		}
	}
	return n
}

// IsImage reports whether a part is an image.
func IsImage(p *turns.Part) bool {
	switch p.Type {
	case turns.Blob, turns.URI, turns.File:
		return p.Modality == "image" || strings.HasPrefix(p.MimeType, "image/")
	}
	return false
}

// WithoutImages returns the text of a tool result without its images, and how many these
// are. A result may be a text with data URIs, an image, a list of parts or of a provider's
// blocks (Anthropic's image, OpenAI's image_url and input_image, MCP's image), or an object
// with such a list as its content.
func WithoutImages(p *turns.Part) (text string, images int) {
	var v any
	switch p.Response.Kind() {
	case '[', '{':
		if err := turns.DecodeJSON(p.Response, &v); err == nil {
			var texts []string
			if images = splitImages(v, &texts); images > 0 {
				return strings.Join(texts, "\n"), images
			}
		}
	}
	return cutImages(ResultText(p))
}

// splitImages adds the texts of a tool result, or of a part of it, and returns how many images
// it has.
func splitImages(v any, texts *[]string) (images int) {
	switch x := v.(type) {
	case string:
		text, n := cutImages(x)
		if *texts = append(*texts, text); n > 0 {
			return n
		}
	case []any:
		for _, one := range x {
			images += splitImages(one, texts)
		}
		return images
	case map[string]any:
		if isImageBlock(x) {
			return 1
		}
		if list, ok := x["content"].([]any); ok {
			return splitImages(list, texts)
		}
		for _, name := range []string{"text", "content"} {
			if text, ok := x[name].(string); ok {
				return splitImages(text, texts)
			}
		}
		if b, err := turns.EncodeJSON(v); err == nil {
			*texts = append(*texts, string(b))
		}
	}
	return 0
}

// isImageBlock reports whether an object is an image, as one of our parts or as a provider's
// block.
func isImageBlock(x map[string]any) bool {
	word := func(of map[string]any, names ...string) string {
		for _, name := range names {
			if s, ok := of[name].(string); ok && s != "" {
				return s
			}
		}
		return ""
	}
	kind := word(x, "type")
	switch kind {
	case "image", "input_image", "image_url":
		for _, name := range []string{"source", "data", "image_url", "file_id", "url", "uri"} {
			if _, ok := x[name]; ok { // else it is a word of the tool's own
				return true
			}
		}
	}
	if word(x, "modality") == "image" && kind != string(turns.Text) {
		return true
	}
	source, _ := x["source"].(map[string]any)
	for _, of := range []map[string]any{x, source} {
		if strings.HasPrefix(word(of, "mime_type", "mimeType", "media_type"), "image/") && word(of, "data", "content", "uri", "url", "file_id", "blob") != "" {
			return true
		}
	}
	return false
}

func imagesIn(parts []turns.Part) int {
	n := 0
	for i := range parts {
		p := &parts[i]
		switch p.Type {
		case turns.Blob, turns.URI, turns.File:
			if IsImage(p) {
				n++
			}
		case turns.Text:
			_, k := cutImages(p.Content)
			n += k
		case turns.ToolCall:
			_, k := cutImages(string(p.Arguments))
			n += k
		case turns.ToolCallResponse:
			if list, ok := ResultParts(p); ok {
				n += imagesIn(list)
			} else {
				_, k := cutImages(ResultText(p))
				n += k
			}
		}
	}
	return n
}

// ImagesNote returns the sentence that says how many images the covered turns held;
// "" for none. Source: GSV, "What Is Lost".
func ImagesNote(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "[1 image stood here, which is not described.]"
	}
	return fmt.Sprintf("[%d images stood here, which are not described.]", n)
}

// cutImages replaces the images in s by notes and counts them. It knows data URIs of
// images, of any size. In the JSON of tools it knows members like "data" with more
// base64 than a name or hash has; they count if the text mentions an image.
func cutImages(s string) (string, int) {
	n := 0
	s = cutURIs(s, &n)
	before := n
	s = cutMembers(s, &n)
	if n > before && !strings.Contains(s, "image") {
		n = before
	}
	return s, n
}

// cutURIs writes "[image TYPE]" in place of each base64 data URI of an image.
func cutURIs(s string, n *int) string {
	const scheme, encoding = "data:image/", ";base64,"
	var b strings.Builder
	for {
		i := strings.Index(s, scheme)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		head := i + len(scheme) + run(s[i+len(scheme):], isParameter) // the type and its parameters
		if at := head - len(encoding) + 1; at <= i || !strings.HasPrefix(s[at:], encoding) {
			b.WriteString(s[:i+len(scheme)])
			s = s[i+len(scheme):]
			continue
		}
		kind, _, _ := strings.Cut(s[i+len("data:"):head], ";")
		b.WriteString(s[:i] + "[image " + kind + "]")
		s = s[head+1:]
		s = s[run(s, isBase64):]
		*n++
	}
}

// base64Members are the names of members that hold blobs in tools' JSON.
var base64Members = [...]string{"data", "content", "image", "base64", "b64_json", "bytes"}

// cutMembers replaces each string of 256 or more base64 characters in such a member
// by its length.
func cutMembers(s string, n *int) string {
	if len(s) < 256 {
		return s
	}
	var b strings.Builder
	done := 0 // s[:done] is written
	for i := 0; ; {
		quote := strings.IndexByte(s[i:], '"')
		if quote < 0 {
			b.WriteString(s[done:])
			return b.String()
		}
		begin := i + quote + 1
		end := begin + run(s[begin:], isBase64)
		i = end
		if end-begin < 256 || end == len(s) || s[end] != '"' || !isBlobMember(s[:begin-1]) {
			continue
		}
		b.WriteString(s[done:begin])
		fmt.Fprintf(&b, "[%d bytes of base64]", end-begin)
		done, i = end, end+1
		*n++
	}
}

// isBlobMember reports whether before ends with the name of such a member and a
// colon.
func isBlobMember(before string) bool {
	before, ok := strings.CutSuffix(strings.TrimRight(before, " \t\r\n"), ":")
	before = strings.TrimRight(before, " \t\r\n")
	return ok && slices.ContainsFunc(base64Members[:], func(name string) bool { return strings.HasSuffix(before, `"`+name+`"`) })
}

// run returns how many bytes at the start of s are in a class.
func run(s string, of func(byte) bool) int {
	for i := range len(s) {
		if !of(s[i]) {
			return i
		}
	}
	return len(s)
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_' || c == '='
}

// isParameter reports whether c may occur between "data:" and the comma before the
// bytes.
func isParameter(c byte) bool { return isBase64(c) || c == '.' || c == ';' }
