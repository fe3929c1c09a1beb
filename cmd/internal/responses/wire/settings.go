package wire

import (
	"bytes"
	"nexus/ledger/api"
	"nexus/turns"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Settings are the request's settings of a session.
func (r *CreateRequest) Settings() (s api.SessionSettings) {
	s.Model = &r.Model
	system, list := api.System{}, []turns.Raw{}
	if r.Instructions != nil && *r.Instructions != "" {
		system = api.System{{Content: *r.Instructions}}
	}
	if r.Tools != nil {
		list = r.Tools
	}
	s.System, s.Tools = &system, &list
	if r.keepsInstructions() {
		s.System = nil
	}
	return s
}

// keepsInstructions reports whether the request goes on with the instructions of the session:
// one that names its session and has none. Instructions of a previous response do not carry
// over, by the specification.
func (r *CreateRequest) keepsInstructions() bool {
	return r.PreviousResponseID == nil && r.Instructions == nil
}

// SystemOf is the system part of the call: the request's instructions, and what the session's
// policy adds to them.
func (r *CreateRequest) SystemOf(cx *api.Context) (out []string) {
	sections := sectionsIn(cx)
	if !r.keepsInstructions() {
		if r.Instructions != nil && *r.Instructions != "" {
			out = append(out, *r.Instructions)
		}
		sections = slices.DeleteFunc(sections, func(s turns.Section) bool { return !isAdded(s) })
	}
	for _, s := range sections {
		out = append(out, s.Content)
	}
	return out
}

func sectionsIn(cx *api.Context) (sections []turns.Section) {
	if cx.System.Kind() != '[' || json.Unmarshal(cx.System, &sections) != nil {
		return nil
	}
	return sections
}

// InstructionsIn are the sections of a context that settings have.
func InstructionsIn(cx *api.Context) []turns.Section {
	return slices.DeleteFunc(sectionsIn(cx), isAdded)
}

// isAdded reports whether a section is one that a policy adds to a context: memories, and
// what is told of the session. The names are those of package compactor/view.
func isAdded(s turns.Section) bool {
	return s.Name == "memory_document" || s.Name == "memory" || s.Name == "runtime" || strings.HasPrefix(s.Name, "daily_memory")
}

// SameTools compares tools as JSON.
func SameTools(a, b []turns.Raw) bool {
	return slices.EqualFunc(a, b, func(x, y turns.Raw) bool {
		if bytes.Equal(x, y) {
			return true
		}
		c, err := turns.CanonicalJSON(x)
		if err != nil {
			return false
		}
		d, err := turns.CanonicalJSON(y)
		return err == nil && bytes.Equal(c, d)
	})
}

// Whole is the echo of m with what was cut from it.
func (r *CreateRequest) Whole(m *RequestMeta) *Response {
	out := *m.Echo
	full := r.Echo(out.ID, time.Time{})
	if m.CutTools {
		out.Tools = full.Tools
	}
	if m.CutText {
		out.Instructions = full.Instructions
	}
	return &out
}
