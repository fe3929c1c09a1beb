package edits

import (
	"strings"

	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// maxArguments bounds the arguments of a call that is read, in bytes.
const maxArguments = 32 << 20

// decode reads the arguments of a call. It reports whether they could be read.
func decode(c *call, to any) bool {
	return len(c.arguments) > 0 && len(c.arguments) <= maxArguments && json.Unmarshal(c.arguments, to) == nil
}

// unread returns the effects of a call whose arguments can't be read: all may have changed,
// and the file that it names has, if it names one.
func unread(c *call) []effect {
	out := []effect{{kind: runs, why: ReasonTool}}
	var a struct {
		File     turns.Raw `json:"file_path"`
		Absolute turns.Raw `json:"absolute_path"`
		Notebook turns.Raw `json:"notebook_path"`
		Path     turns.Raw `json:"path"`
	}
	if decode(c, &a) {
		for _, p := range []turns.Raw{a.File, a.Absolute, a.Notebook, a.Path} {
			if s, ok := p.Text(); ok && s != "" {
				out = append(out, effect{kind: loses, path: s, why: ReasonUnread})
			}
		}
	}
	return out
}

// textOf returns the text of a result: a JSON string, a list of blocks, or an object with
// the output of a tool.
func textOf(r turns.Raw) string {
	if s, ok := r.Text(); ok {
		return s
	}
	switch r.Kind() {
	case '[':
		var blocks []struct {
			Type    string `json:"type"`
			Text    string `json:"text"`
			Content string `json:"content"`
		}
		if json.Unmarshal(r, &blocks) != nil {
			return ""
		}
		var b strings.Builder
		for _, x := range blocks {
			if x.Type != "text" {
				return "" // an image or a document: no content of a text file
			}
			b.WriteString(x.Text)
			b.WriteString(x.Content)
		}
		return b.String()
	case '{':
		var o struct {
			Output turns.Raw `json:"output"`
			Error  turns.Raw `json:"error"`
		}
		if json.Unmarshal(r, &o) == nil {
			if s, ok := o.Output.Text(); ok {
				return s
			}
			if s, ok := o.Error.Text(); ok {
				return s
			}
		}
	}
	return ""
}

// hasPrefix reports whether a text begins with one of some.
func hasPrefix(s string, some ...string) bool {
	for _, p := range some {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// wrote returns e if the call succeeded, and what is known of its path otherwise.
func wrote(c *call, succeeded bool, e effect) []effect {
	switch {
	case !c.answered:
		return []effect{{kind: loses, path: e.path, why: ReasonUnanswered}}
	case c.failed || !succeeded:
		return []effect{{kind: loses, path: e.path, why: ReasonFailed}}
	}
	return []effect{e}
}
