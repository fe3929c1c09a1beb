package contextview

import (
	"github.com/go-json-experiment/json"

	"nexus/compactor/policy"
	"nexus/turns"
)

// DefaultCounter is what tokens are counted by where a policy names nothing else.
const DefaultCounter = "approx-1"

// Counter is what the tokens of a context were counted by.
func Counter(recipe turns.Raw) string {
	var r struct {
		Counter string `json:"counter"`
	}
	if err := json.Unmarshal(recipe, &r); err != nil || r.Counter == "" {
		return DefaultCounter
	}
	return r.Counter
}

// Guessed says of a budget that nobody stated its window.
func Guessed(yes bool) string {
	if yes {
		return ", window guessed"
	}
	return ""
}

// PolicyCounter is what a policy counts the tokens of a context by.
func PolicyCounter(name string, set turns.Raw) string {
	if len(set) == 0 {
		set = nil
	}
	p, err := policy.Resolve(turns.PolicyRef{Name: name, Set: set})
	if err != nil || p.Counter == "" {
		return DefaultCounter // or one of another build's, which is not known here
	}
	return p.Counter
}
