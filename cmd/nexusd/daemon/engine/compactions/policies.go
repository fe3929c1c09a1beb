package compactions

import (
	"nexus/compactor/policy"
	"nexus/ledger/api"
	"nexus/turns"
)

// Policies is policy.list: the newest version of each policy that a session can use.
func (cm *Compactions) Policies() (*api.PolicyList, error) {
	out := &api.PolicyList{Policies: []api.PolicyInfo{}}
	for _, name := range policy.Names() {
		p, _ := policy.Builtin(name)
		v, err := policyInfo(p)
		if err != nil {
			return nil, err
		}
		v.Settings = nil
		out.Policies = append(out.Policies, *v)
	}
	return out, nil
}

// Policy is policy.get: a policy with all its numbers, by name, with overrides, or
// as a digest pins it.
func (cm *Compactions) Policy(req api.GetPolicy) (*api.PolicyInfo, error) {
	p, err := policy.Resolve(turns.PolicyRef{Name: req.Name, Set: req.Set, Digest: req.Digest})
	if err != nil {
		return nil, err
	}
	return policyInfo(p)
}

// policyInfo returns a policy as the contract shows it.
func policyInfo(p policy.Policy) (*api.PolicyInfo, error) {
	b, err := turns.EncodeJSON(p)
	return &api.PolicyInfo{Name: p.Name, Version: p.Version, Mode: string(p.Mode), Digest: p.Digest(), Settings: b}, err
}
