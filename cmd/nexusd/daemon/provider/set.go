package provider

import (
	"fmt"
	"net/http"
	"path"
	"slices"
)

// Kinds of providers, as a [[provider]] row names them.
const (
	ChatKind      = "openai-chat"
	ResponsesKind = "openai-responses"
	AnthropicKind = "anthropic"
)

// Kinds lists them.
func Kinds() []string { return []string{ChatKind, ResponsesKind, AnthropicKind} }

// New returns a client of a provider.
func New(r Row) (Client, error) {
	switch r.Kind {
	case ChatKind:
		return chat{r}, nil
	case ResponsesKind:
		return responses{r}, nil
	case AnthropicKind:
		return anthropic{r}, nil
	}
	return nil, fmt.Errorf("provider %s: kind %.40q is none of %v", r.Name, r.Kind, Kinds())
}

// Models says which models a provider has: by patterns (of [path.Match]), or by names of our
// own for names of its own.
type Models struct {
	Patterns []string
	Renames  map[string]string
}

// Set is providers in the order in which they are asked for a model.
type Set struct{ rows []setRow }

type setRow struct {
	client Client
	models Models
}

// Add adds a provider behind the others.
func (s *Set) Add(c Client, m Models) { s.rows = append(s.rows, setRow{c, m}) }

// For returns the first provider that has a model, and what it calls it.
func (s *Set) For(model string) (Client, string, error) {
	for _, r := range s.rows {
		if name, ok := r.models.Renames[model]; ok {
			return r.client, name, nil
		}
		for _, p := range r.models.Patterns {
			if ok, err := path.Match(p, model); err == nil && ok || p == "*" {
				return r.client, model, nil
			}
		}
	}
	message := fmt.Sprintf("no provider has the model %.80q: no [[provider]] row of the configuration matches it", model)
	if len(s.rows) == 0 {
		message = "no provider is configured: a [[provider]] row of nexusd's configuration names one"
	}
	return nil, "", &Error{Status: http.StatusNotFound, Code: "model_not_found", Message: message, Param: "model"}
}

// Models lists the names that the rows state: those without a pattern.
func (s *Set) Models() (names []string) {
	for _, r := range s.rows {
		for n := range r.models.Renames {
			names = append(names, n)
		}
		for _, p := range r.models.Patterns {
			if !hasMeta(p) {
				names = append(names, p)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func hasMeta(p string) bool {
	for _, c := range p {
		if c == '*' || c == '?' || c == '[' || c == '\\' {
			return true
		}
	}
	return false
}
