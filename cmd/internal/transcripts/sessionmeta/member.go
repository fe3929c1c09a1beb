package sessionmeta

import (
	"github.com/go-json-experiment/json"

	"nexus/turns"
)

// With returns a meta with a member, in place of one of that name. A meta that is no object
// stays as it is.
func With(meta turns.Raw, name string, v turns.Raw) turns.Raw {
	m := make(map[string]turns.Raw)
	if len(meta) > 0 && json.Unmarshal(meta, &m) != nil {
		return meta
	}
	m[name] = v
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return meta
	}
	return b
}

// Members returns the members of a meta, nil if it has none.
func Members(meta turns.Raw) (m map[string]turns.Raw) {
	if len(meta) == 0 || json.Unmarshal(meta, &m) != nil {
		return nil
	}
	return m
}

// OfBranch returns the meta of a branch of a session: what its transcript calls it.
func OfBranch(meta turns.Raw) turns.Raw {
	var m struct {
		Source  turns.Raw `json:"source,omitzero"`
		Session turns.Raw `json:"session_id,omitzero"`
	}
	_ = json.Unmarshal(meta, &m) // a client's meta may be anything
	b, err := turns.EncodeJSON(m)
	if err != nil {
		return nil
	}
	return b
}

// IsStandIn reports whether meta is that of a session whose own transcript was not read,
// only the copy of it that a fork has.
func IsStandIn(meta turns.Raw) bool {
	var m struct {
		StandIn bool `json:"stand_in"`
	}
	return json.Unmarshal(meta, &m) == nil && m.StandIn
}
