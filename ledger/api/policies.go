package api

import (
	"nexus/turns"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Policy is a policy by name, or by name with overrides.
type Policy struct {
	Name string    `json:"name"`
	Set  turns.Raw `json:"set,omitzero"`
}

// UnmarshalJSONFrom takes a string for the name alone.
func (p *Policy) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == '"' {
		return json.UnmarshalDecode(d, &p.Name)
	}
	type plain Policy
	return json.UnmarshalDecode(d, (*plain)(p))
}

// PolicyInForce is a policy with the digest of its content.
type PolicyInForce struct {
	Name   string     `json:"name"`
	Set    turns.Raw  `json:"set,omitzero"`
	Digest turns.Hash `json:"digest"`

	Version uint64 `json:"version,omitzero"` // of the policy under its name; 0: the session can't be read
}

// GetPolicy is policy.get. It names a policy, or a digest, or both.
type GetPolicy struct {
	Name    string     `json:"name,omitzero"`
	Set     turns.Raw  `json:"set,omitzero"`     // overrides
	Digest  turns.Hash `json:"digest,omitzero"`  // of a version that is pinned; default: the newest
	Version uint64     `json:"version,omitzero"` // of the name, in place of a digest; default: the newest
}

// ListPolicies is policy.list.
type ListPolicies struct {
	Page
}

// PutPolicy is policy.put.
type PutPolicy struct {
	ID       turns.ID  `json:"id,omitzero"`
	Name     string    `json:"name"`
	Settings turns.Raw `json:"settings"` // an object; a setting that is left out is zero or off, if it may be
}

// PolicyInfo is a policy. A list leaves its settings out.
type PolicyInfo struct {
	Name     string     `json:"name"`
	Version  uint64     `json:"version"`
	Mode     string     `json:"mode"` // before_call, background, manual
	Digest   turns.Hash `json:"digest"`
	Agent    string     `json:"agent,omitempty,omitzero"` // the agent that put it; empty for a built-in policy
	Settings turns.Raw  `json:"settings,omitzero"`        // every setting that is neither zero nor off; each can be overridden by its name

	Duplicate bool `json:"duplicate,omitempty,omitzero"` // of policy.put: nothing was stored, since the newest version has these settings
}

// PolicyList is policy.list's reply.
type PolicyList struct {
	Policies []PolicyInfo `json:"policies"`
	Next     string       `json:"next,omitempty,omitzero"`
}
