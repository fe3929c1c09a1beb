package names

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"nexus/cmd/internal/prose"
	"nexus/cmd/ledgerctl/internal/fault"
	"nexus/ledger/api"
	"nexus/turns"
)

// Policy is a policy as a flag names it: by its name, or with settings of its
// own, as balanced{"keep_tokens":8000}.
func Policy(arg string) (*api.Policy, error) {
	name, set, braced := strings.Cut(arg, "{")
	p := &api.Policy{Name: strings.TrimSpace(name)}
	if braced {
		p.Set = turns.Raw("{" + set)
		if !jsontext.Value(p.Set).IsValid() {
			return nil, fault.Usage(fmt.Errorf("policy %s: what follows the name is not a JSON object", arg))
		}
	}
	return p, nil
}

// PolicyVersion is what policy show names: mine, mine@1, mine{"keep_tokens":1}, or the
// digest of a policy.
func PolicyVersion(arg string) (r api.GetPolicy, err error) {
	if strings.HasPrefix(arg, "sha256:") {
		if err := r.Digest.UnmarshalText([]byte(arg)); err != nil {
			return r, fault.Usage(fmt.Errorf("%s is not a digest: %w", arg, err))
		}
		return r, nil
	}
	p, err := Policy(arg)
	if err != nil {
		return r, err
	}
	name, number, numbered := strings.Cut(p.Name, "@")
	r.Name, r.Set = name, p.Set
	if numbered {
		if r.Version, err = strconv.ParseUint(number, 10, 64); err != nil || r.Version == 0 {
			return r, fault.Usage(fmt.Errorf("%s is not NAME@VERSION, with a version from 1 on", p.Name))
		}
	}
	return r, nil
}

// AboutPolicy returns a few words about a policy.
func AboutPolicy(p api.PolicyInfo) string {
	if p.Agent != "" {
		return "put by agent " + prose.Printable(p.Agent)
	}
	return BuiltinPolicies[p.Name]
}

// BuiltinPolicies is a few words on each built-in policy.
var BuiltinPolicies = map[string]string{
	"balanced":   "the default: a long extract, a short tail, in the background",
	"nexus":      "30,000 tokens kept, a summary of the rest",
	"gsv":        "20,000 kept, by what the provider counted, memories",
	"spec-008":   "five turns kept, old tool results pruned at every call",
	"autobyteus": "four turns kept, facts, large outputs shortened",
	"wolffish":   "nothing cut while it fits: large results shortened",
}
