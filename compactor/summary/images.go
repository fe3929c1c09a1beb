package summary

import (
	"fmt"
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
