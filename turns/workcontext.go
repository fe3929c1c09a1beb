package turns

import (
	"strings"

	"github.com/go-json-experiment/json"
)

// WorkContext says where an agent worked, as importers write it into the meta of sessions,
// and of turns where it changed. An empty field is not stated.
type WorkContext struct {
	Source string // the program, such as claude-code
	Cwd    string // the folder
	Branch string // of git
}

// WorkContextOf returns what a meta states. A meta belongs to the client and may be
// anything; what is no text states nothing.
func WorkContextOf(meta Raw) (w WorkContext) {
	members := func(v Raw) (m map[string]Raw) {
		if v.Kind() == '{' && json.Unmarshal(v, &m) != nil {
			return nil
		}
		return m
	}
	read := func(to *string, v Raw) {
		if s, ok := v.Text(); ok && s != "" {
			*to = s
		}
	}
	all := members(meta)
	read(&w.Source, all["source"])
	read(&w.Cwd, all["cwd"])
	read(&w.Cwd, members(all["turn_context"])["cwd"])
	read(&w.Branch, all["git_branch"])
	read(&w.Branch, members(all["git"])["branch"])
	return w
}

// Or returns w, with the fields of other where w states nothing.
func (w WorkContext) Or(other WorkContext) WorkContext {
	for _, x := range []struct {
		to   *string
		from string
	}{{&w.Source, other.Source}, {&w.Cwd, other.Cwd}, {&w.Branch, other.Branch}} {
		if *x.to == "" {
			*x.to = x.from
		}
	}
	return w
}

// IsComplete reports whether every field is stated.
func (w WorkContext) IsComplete() bool { return w.Source != "" && w.Cwd != "" && w.Branch != "" }

// IsIn reports whether the folder is the one that is named, or one in it. None is in no
// folder.
func (w WorkContext) IsIn(folder string) bool {
	if w.Cwd == "" {
		return false
	}
	folder = strings.TrimRight(folder, "/")
	return w.Cwd == folder || strings.HasPrefix(w.Cwd, folder+"/")
}
